package reflector

import "time"

// Observer receives the cost and the outcome of a reflector's requests, for metrics and traces. The
// goroutine of Run calls its methods one at a time, so they must be quick. If several reflectors
// share an Observer, such as those of an informer with scopes, they may call it at the same time.
// The Observer distinguishes them by their names.
type Observer interface {
	// Listed is called when a list with all its pages, or the beginning of a watch-list, has ended.
	// It is not called if the end of Run interrupted the list.
	Listed(ListDone)
	// Watched is called when a watch has ended, by itself or with Run.
	Watched(WatchDone)
}

// ListDone describes a list that has ended.
type ListDone struct {
	// Reflector is the reflector's name: see [WithName].
	Reflector string
	// Began is the time of the first request. Took is the time until the store had all objects, or
	// until the list failed.
	Began time.Time
	Took  time.Duration
	// Objects is the number of received objects, including those that the store already had. It is
	// 0 if the list failed.
	Objects int
	// Streamed is true for a watch-list.
	Streamed bool
	// Err is the error of a failed list; nil after success.
	Err error
}

// WatchDone describes a watch that has ended.
type WatchDone struct {
	// Reflector is the reflector's name: see [WithName].
	Reflector string
	// Began is the time at which the server accepted the watch, and Lasted its duration.
	Began  time.Time
	Lasted time.Duration
	// Events is the number of received events, including bookmarks and the beginning of a
	// watch-list.
	Events int
	// Err is the error that broke the watch. It is nil if the watch ended in the ordinary way, or
	// if Run ended.
	Err error
}

// WithObserver adds an observer of lists and watches. If the option is given more than once, all
// observers are called. The default is none and costs nothing. nil adds none, but a nil pointer in
// the interface does not count as nil.
func WithObserver(observer Observer) Option {
	return optionFunc(func(o *options) {
		if observer != nil {
			o.observers = append(o.observers, observer)
		}
	})
}

// observing collects data for the observers. Its methods do nothing without one.
type observing struct {
	observers []Observer
	list      *ListDone  // the current list; nil without one
	watch     *WatchDone // the current watch; nil without one
	ended     error      // the error that ended the watch
}

func (o *observing) beginList(name string) {
	if len(o.observers) > 0 {
		o.list = &ListDone{Reflector: name, Began: time.Now()}
	}
}

func (o *observing) beginWatchList(name string) {
	if o.beginList(name); o.list != nil {
		o.list.Streamed = true
	}
}

func (o *observing) endList(objects int, err error) {
	list := o.list
	if list == nil {
		return
	}
	o.list = nil
	list.Objects, list.Err, list.Took = objects, err, time.Since(list.Began)
	for _, observer := range o.observers {
		observer.Listed(*list)
	}
}

func (o *observing) beginWatch(name string) {
	if len(o.observers) > 0 {
		o.watch, o.ended = &WatchDone{Reflector: name, Began: time.Now()}, nil
	}
}

func (o *observing) endWatch() {
	if o.ended != nil {
		o.endList(0, o.ended) // an incomplete watch-list
	}
	o.list = nil
	if watch := o.watch; watch != nil {
		o.watch = nil
		watch.Err, watch.Lasted = o.ended, time.Since(watch.Began)
		for _, observer := range o.observers {
			observer.Watched(*watch)
		}
	}
}
