package series

import "context"

// Controller has the three functions of client-go's interface. They say when it runs and how far it
// is, but not what happens in between: that is the real contract, in part03_controller.go.
//
// Library: controller.Controller.
type Controller[T Object] interface {
	Run(ctx context.Context)
	HasSynced() bool
	LastSyncResourceVersion() string
}

// Config is what a Controller is made from. Process gets what was popped from Queue.
type Config[T Object] struct {
	Source  ListerWatcher[T]
	Queue   Queue[T]
	Process func(*EventQueue[T]) error
}
