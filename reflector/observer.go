package reflector

import (
	"context"
	"slices"
	"time"
)

// Observer is told what the requests of a reflector cost, and what came of them: for
// metrics and traces. Its methods are called by the goroutine of Run, one at a time, and
// must be quick. Who observes several reflectors, such as those of an informer with
// scopes, is called by all of them at once, and tells them apart by their names.
type Observer interface {
	// Listed is called when a list, all its pages, or the beginning of a watch-list has
	// ended, unless Run's end broke it off.
	Listed(List)
	// Watched is called when a watch has ended, by itself or with Run.
	Watched(Watch)
}

// List is a list that has ended.
type List struct {
	// Reflector is the reflector's name: see [WithName].
	Reflector string
	// Began is when the first request was made, and Took how long it was until the store
	// had all of it, or it failed.
	Began time.Time
	Took  time.Duration
	// Objects is how many objects came, those included that the store had already. 0 if
	// it failed.
	Objects int
	// Streamed is true for a watch-list.
	Streamed bool
	// Err is why it failed; nil if it did not.
	Err error
}

// Watch is a watch that has ended.
type Watch struct {
	// Reflector is the reflector's name: see [WithName].
	Reflector string
	// Began is when the server accepted it, and Lasted how long it was.
	Began  time.Time
	Lasted time.Duration
	// Events is how many events came, bookmarks and those of a watch-list's beginning
	// included. Of a watch that is shared by [ForShards], those of objects of other shards
	// may be missing.
	Events int
	// Err is why it broke; nil if it ended in the ordinary way, or Run ended.
	Err error
}

// WithObserver sets who is told of lists and watches. The default is nobody, and costs
// nothing; a nil observer is nobody. Given more than once, all are told.
func WithObserver(observer Observer) Option {
	return optionFunc(func(o *options) {
		if !isNil(observer) {
			o.observer = withObserver(o.observer, observer)
		}
	})
}

// observing is what is noted for an observer. Its methods do nothing without one.
type observing struct {
	observer Observer
	list     List
	watch    Watch
	listing  bool
	watching bool
	ended    error // why the watch did
}

func (o *observing) beginList(name string, streamed bool) {
	if o.observer != nil {
		o.list, o.listing = List{Reflector: name, Began: time.Now(), Streamed: streamed}, true
	}
}

// failList notes that a request for a list failed, unless that is because Run ended: a request
// that is given up, or that somebody else stops, is cancelled as well, so the error does not tell.
func (o *observing) failList(run context.Context, err error) {
	if run.Err() == nil {
		o.endList(0, err)
	}
}

func (o *observing) endList(objects int, err error) {
	if !o.listing {
		return
	}
	o.listing = false
	o.list.Objects, o.list.Err, o.list.Took = objects, err, time.Since(o.list.Began)
	o.observer.Listed(o.list)
}

func (o *observing) beginWatch(name string) {
	if o.observer != nil {
		o.watch, o.watching, o.ended = Watch{Reflector: name, Began: time.Now()}, true, nil
	}
}

// received notes what a watch brought.
func received[T Object](o *observing, in input, events []event[T]) {
	switch in.kind {
	case failed, ended:
		o.ended = in.err
	case changed, marked:
		for i := range events {
			o.watch.Events += max(len(events[i].unchanged), events[i].foreign, 1)
		}
	}
}

// decided notes why a watch is going to be closed, or a list given up, if that is not what came
// last: that may have been nothing, or of no use. wrap makes the error that others see.
func (o *observing) decided(todo []action, wrap func(action) error) {
	if o.observer == nil {
		return
	}
	why := slices.IndexFunc(todo, func(a action) bool { return a.err != nil })
	if why < 0 {
		return
	}
	closes := slices.ContainsFunc(todo, func(a action) bool { return a.do == stopWatch })
	switch {
	case o.watching && closes && o.ended == nil:
		o.ended = wrap(todo[why])
	case o.listing && !o.watching && todo[why].do == wait:
		o.endList(0, wrap(todo[why]))
	}
}

func (o *observing) endWatch() {
	if o.ended != nil {
		o.endList(0, o.ended) // a watch-list that did not come to an end
	}
	o.listing = false
	if o.watching {
		o.watching = false
		o.watch.Err, o.watch.Lasted = o.ended, time.Since(o.watch.Began)
		o.observer.Watched(o.watch)
	}
}
