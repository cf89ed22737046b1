package reflector

import (
	"context"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// answerTimeout is the timeout of a list request. It is much longer than the minute that API
	// servers allow themselves, because transferring the objects takes time.
	answerTimeout = 10 * time.Minute
	// openTimeout is the timeout for opening a watch and for answering a probe.
	openTimeout = 2 * time.Minute
	// versionTimeout is the timeout of the request for the server's version, which delays the first
	// list.
	versionTimeout = 10 * time.Second
)

// askPage requests a page of a list.
func (r *run[T]) askPage(ctx context.Context, a protocol.Action) protocol.Input {
	switch {
	case r.protocol.Probing():
		return r.askProbe(ctx, a)
	case a.Next == "":
		r.enter(Listing)
		r.observing.beginList(r.name)
		r.noteConsistent(a)
		r.evidence.reset()
	}
	limited, cancel := context.WithTimeoutCause(ctx, answerTimeout, protocol.NoAnswer)
	defer cancel()
	var came objects
	wanted := stream.Wants[T]{Shards: r.shards, Holds: r.holds(), Take: func(i *stream.Item[T]) {
		i.Filter(r.shards)
		came.add(i.Kind == stream.Outside, max(len(i.Keys), i.Count, 1))
		if r.staging.take(i); r.staging.endedBy != nil {
			cancel() // the store ended the list
		}
	}}
	opts := r.pageOptions(a)
	p, err := r.source.List(limited, opts, wanted)
	if r.refusesShards(&opts, err) && came == (objects{}) { // else the list fails
		p, err = r.source.List(limited, opts, wanted)
	}
	if err == nil {
		err = r.learnPage(&p, came)
	}
	if r.staging.endedBy != nil {
		return r.failed(ctx, protocol.OpStore, a.Version, r.staging.endedBy)
	}
	if err != nil {
		return r.failed(ctx, protocol.OpList, a.Version, withCause(limited, err))
	}
	r.status.contact()
	r.logger.Debug("listed", zap.Int("objects", came.inShard), zap.String("resourceVersion", p.Version))
	return protocol.Input{Kind: protocol.Answered, Version: p.Version, Next: p.Continue}
}

// noteConsistent notes whether a list or watch-list will show what the server has now: see CatchUp.
func (r *run[T]) noteConsistent(a protocol.Action) {
	r.consistentSince = time.Time{}
	if a.Version == "" {
		r.consistentSince = time.Now()
	}
}

// pageOptions returns the options of the request for a page.
func (r *run[T]) pageOptions(a protocol.Action) metav1.ListOptions {
	opts := r.listOptions()
	opts.Limit, opts.ResourceVersion, opts.Continue = a.Limit, a.Version, a.Next
	if a.Version != "" && a.Version != "0" {
		// Without this, a list with a limit returns the state at exactly this version, and the
		// reflector may not be able to watch from there.
		opts.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	}
	return opts
}

// holds returns a function that reports whether the store has an object with the same content, so
// that the client need not decode it. It returns nil for a store that is not filled yet.
func (r *run[T]) holds() stream.HoldsFunc {
	if !r.batching || r.protocol.Position() == "" {
		return nil
	}
	return r.store.(store.BatchStore[T]).Has
}

// askVersion asks the client whether its server answers consistent lists in pages from its watch
// cache. Every failure means no, for the next list.
func (r *run[T]) askVersion(ctx context.Context) protocol.Input {
	limited, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	from, ok := r.source.(stream.Versioned)
	in := protocol.Input{Kind: protocol.VersionKnown}
	if ok {
		var err error
		in.Consistent, err = from.ListsConsistently(limited)
		in.Unanswered = err != nil
	}
	r.logger.Debug("asked for the version of Kubernetes", zap.Bool("consistentLists", in.Consistent))
	return in
}

// staging writes a list or a watch-list, while it arrives, to a batch that replaces the store's
// content.
type staging[T Object] struct {
	to      store.Store[T]
	batch   store.Batch[T] // nil before the first write
	endedBy error          // the store's error that ended the list
	// size counts objects for reports only: those added, held or undecodable, minus the deleted.
	size     int
	nameless int    // number of undecodable objects without a name
	newest   latest // of the objects; replace makes it run.latest
	last     latest // the change before the list, unless the list has another state of that object
}

func (s *staging[T]) discard() {
	if s.batch != nil {
		s.batch.Discard()
	}
	*s = staging[T]{to: s.to}
}

// begin returns the batch, and creates it if necessary.
func (s *staging[T]) begin() store.Batch[T] {
	if s.batch == nil {
		s.batch, _ = decorate.BeginList(s.to)
	}
	return s.batch
}

// take stages an item of a list or a watch-list.
func (s *staging[T]) take(i *stream.Item[T]) {
	w := &i.Write
	switch {
	case i.Kind == stream.Unchanged:
		for _, key := range i.Keys {
			s.begin().Keep(key)
			if key == s.last.key {
				s.newest.raise(s.last)
			}
		}
		s.size += len(i.Keys)
		return
	case !i.IsWrite():
		return
	case w.Err != nil && w.Key.Name == "":
		if w.Version.UID == "" && s.nameless >= stream.MaxDetailed {
			return // the store has no key for the object
		}
		s.nameless++
	}
	if i.Kind == stream.Delete || w.Err != nil {
		s.newest, s.last = latest{}, latest{} // the item may be about the same object
	} else {
		if w.Key == s.last.key {
			s.last = latest{}
		}
		s.newest.list(w.Object)
	}
	switch {
	case i.Kind == stream.Delete:
		s.size = max(s.size-1, 0)
	case w.Err != nil || w.Type == store.Addition:
		s.size++
	}
	if err := s.begin().Write(*w); err != nil {
		s.endedBy = err
	}
}

// replace commits the staged list to the store.
func (r *run[T]) replace(version string) protocol.Input {
	objects := r.staging.size
	err := r.staging.begin().Commit(version)
	if r.staging.last.deleted { // the list lacks it, too
		r.staging.newest.raise(r.staging.last)
	}
	r.latest = r.staging.newest
	r.staging.discard()
	r.stored(version, err)
	if err == nil || protocol.Rejected(err) {
		r.status.current(r.consistentSince)
	}
	if r.watch != nil && (err == nil || protocol.Rejected(err)) {
		defer r.enterWatching()
	}
	if err == nil {
		r.rejected = nil
	} else {
		err = r.newError(protocol.OpStore, version, err)
	}
	r.observing.endList(objects, err)
	r.items = nil // handled
	return protocol.Input{Kind: protocol.Stored, Err: err}
}
