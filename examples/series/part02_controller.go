package series

import "context"

// Queue is a ReflectorStore with the ability to pop. Library: eventqueue.Collection.
type Queue[T Object] interface {
	ReflectorStore[T]
	Pop(ctx context.Context) (*EventQueue[T], error)
	HasSynced() bool
}

// Config says what a Controller works with. client-go 6.0: controller.go.
type Config[T Object] struct {
	Source  ListerWatcher[T]
	Queue   Queue[T]
	Process func(*EventQueue[T]) error
}

// Controller has the three methods of client-go's interface. They say nothing about what has to
// happen between them: that is part 3. Library: controller.Controller.
type Controller[T Object] interface {
	Run(ctx context.Context)
	HasSynced() bool
	LastSyncResourceVersion() string
}
