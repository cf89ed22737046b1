package reflectortest

import (
	"math"
	"math/rand/v2"
	"net/http"
	"time"

	"fmt"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// A watcher serves a watch. It pulls from the history at its own pace: a slow client delays no
// other client, and the server buffers nothing for it.
type watcher struct {
	call      *call
	selection selection
	bookmarks bool // the client allows them
	interval  time.Duration
	deadline  time.Time
	cursor    uint64          // every change up to this version was sent
	ask       <-chan struct{} // closed when a bookmark is requested
	restored  <-chan struct{} // closed when the state goes back in time
	sent      int             // events
	buf       []byte
}

func (c *call) watch() error {
	opts, err := c.listOptions()
	if err != nil {
		return err
	}
	version, err := parseVersion(opts.ResourceVersion)
	if err != nil {
		return err
	}
	shards, err := c.shardSelector(opts.ShardSelector)
	if err != nil {
		return err
	}
	w := &watcher{
		call:      c,
		selection: c.selection(opts),
		bookmarks: opts.AllowWatchBookmarks,
		interval:  c.server.options.bookmarkInterval,
		deadline:  time.Now().Add(c.server.watchTimeout(opts)),
	}
	w.selection.shards = shards
	c.out.start(http.StatusOK, c.encoding.contentType(true))
	// An empty frame: a fault may act before the first event.
	if err := w.frame(nil, false); err != nil {
		return err
	}
	if err := w.begin(version, opts.SendInitialEvents); err != nil {
		return w.fail(err)
	}
	return w.follow()
}

func (s *Server) watchTimeout(opts *internalversion.ListOptions) time.Duration {
	switch {
	case opts.TimeoutSeconds != nil && *opts.TimeoutSeconds > 0:
		return time.Duration(*opts.TimeoutSeconds) * time.Second
	case s.options.watchTimeout > 0:
		return s.options.watchTimeout
	default:
		return 30*time.Minute + time.Duration(rand.Int64N(int64(30*time.Minute)))
	}
}

// apiFailure is an error that a watch sends to its client in an ERROR event.
type apiFailure struct{ error }

func (e apiFailure) Unwrap() error { return e.error }

// fail ends the watch, with an ERROR event for an apiFailure.
func (w *watcher) fail(err error) error {
	f, ok := err.(apiFailure)
	if !ok {
		return err
	}
	return w.call.out.frame(&frame{number: -1, bytes: w.status(statusOf(f.error))})
}

func errTooOld(version, oldest uint64) error {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", version, oldest))
}

// begin finds where the watch starts and sends the initial events, if any.
func (w *watcher) begin(version uint64, initial *bool) error {
	s, h := w.call.server, w.call.resource.history
	s.mu.Lock()
	current, oldest := s.version, h.oldest
	state := h.current.Copy()
	w.ask, w.restored = s.bookmarks, s.restored
	s.mu.Unlock()
	if initial != nil && *initial {
		if version > current {
			return apiFailure{errVersionTooLarge(version, current)}
		}
		return w.initial(cut(state, current, w.selection, "", 0))
	}
	if version == 0 { // asked for no initial events, at any version
		version = current
	}
	if version < oldest {
		return apiFailure{errTooOld(version, oldest)}
	}
	w.cursor = version
	return nil
}

func (w *watcher) initial(p *page) error {
	for _, rec := range p.records {
		if err := w.event(watch.Added, rec); err != nil {
			return err
		}
	}
	w.cursor = p.version
	if !w.bookmarks {
		return nil
	}
	return w.bookmark(true)
}

// follow sends the changes until the watch times out or breaks.
func (w *watcher) follow() error {
	s := w.call.server
	timeout := time.NewTimer(time.Until(w.deadline))
	defer timeout.Stop()
	next := time.NewTimer(w.untilBookmark())
	defer next.Stop()
	due := false // a bookmark: sent after catching up, because changes of other resources do not wake the watch
	for {
		changed, err := w.catchUp()
		if err != nil {
			return w.fail(err)
		}
		if due {
			due = false
			if err := w.bookmark(false); err != nil {
				return err
			}
		}
		w.call.out.flush()
		select {
		case <-changed:
		case <-next.C:
			due = true
			next.Reset(w.untilBookmark())
		case <-w.ask:
			s.mu.Lock()
			w.ask = s.bookmarks
			s.mu.Unlock()
			due = true
		case <-timeout.C:
			return nil
		case <-w.call.resource.ended:
			if _, err := w.catchUp(); err != nil {
				return w.fail(err)
			}
			return nil
		case <-w.restored:
			return errAbort
		case <-s.closing:
			return errClosed
		case <-w.call.http.Context().Done():
			return w.call.http.Context().Err()
		}
	}
}

// catchUp sends the unsent changes, and returns a channel that is closed when there are more.
func (w *watcher) catchUp() (<-chan struct{}, error) {
	s, h := w.call.server, w.call.resource.history
	s.mu.Lock()
	changes, changed, current, dropped := h.since(w.cursor), h.changed, s.version, h.dropped
	restored := s.restored != w.restored
	s.mu.Unlock()
	if restored { // while the watch was busy: later changes belong to another history
		return nil, errAbort
	}
	if w.cursor < dropped { // it fell behind a compaction
		return nil, apiFailure{errTooOld(w.cursor, dropped)}
	}
	for _, c := range changes {
		if err := w.change(c); err != nil {
			return nil, err
		}
	}
	w.cursor = max(w.cursor, current)
	return changed, nil
}

// change sends a change as the selection sees it. An object that enters the selection is added. An
// object that leaves it is deleted, with its last selected state at the new version.
func (w *watcher) change(c *change) error {
	before := c.prior != nil && w.selection.matches(c.prior)
	after := !c.deleted && w.selection.matches(c.object)
	switch {
	case before && after:
		return w.event(watch.Modified, c.object)
	case after:
		return w.event(watch.Added, c.object)
	case before && c.deleted:
		return w.event(watch.Deleted, c.object)
	case before:
		return w.event(watch.Deleted, c.departed())
	default:
		return nil
	}
}

func (w *watcher) event(t watch.EventType, rec *record) error {
	e := w.call.encoding
	rec = rec.in(w.call.resource)
	w.sent++
	w.buf = e.appendEvent(w.buf[:0], t, func(dst []byte) []byte { return e.appendObject(dst, rec) })
	return w.frame(w.buf, false)
}

func (w *watcher) frame(b []byte, closing bool) error {
	prefix := 0
	if w.call.encoding.protobuf {
		prefix = 4 // the length
	}
	f := &frame{number: w.sent, prefix: prefix, bytes: b, closing: closing, status: w.status}
	return w.call.out.frame(f)
}

// status makes an ERROR event.
func (w *watcher) status(status metav1.Status) []byte {
	e := w.call.encoding
	return e.appendEvent(nil, watch.Error, func(dst []byte) []byte { return e.appendStatus(dst, &status) })
}

// bookmark sends the current version to the client. closing ends the initial events. A watch from a
// future version gets no bookmark until the server has reached that version.
func (w *watcher) bookmark(closing bool) error {
	if !w.bookmarks || w.call.server.ResourceVersion() < w.cursor {
		return nil
	}
	obj := w.call.resource.newObject()
	if closing {
		obj.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	rec, err := newRecord(w.call.resource, obj, w.cursor)
	if err != nil {
		return err
	}
	rec = rec.in(w.call.resource)
	e := w.call.encoding
	w.sent++
	w.buf = e.appendEvent(w.buf[:0], watch.Bookmark, func(dst []byte) []byte { return e.appendObject(dst, rec) })
	return w.frame(w.buf, closing)
}

// untilBookmark is the time until the next bookmark: the interval, or two seconds before the end of
// the watch if that is earlier, as in the real server.
func (w *watcher) untilBookmark() time.Duration {
	if !w.bookmarks || w.interval <= 0 {
		return math.MaxInt64
	}
	if last := time.Until(w.deadline) - 2*time.Second; last > 0 {
		return min(last, w.interval)
	}
	return w.interval
}
