package apiserver

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// replay is an API server with one resource for one client, which has one watch at most.
type replay struct {
	sets    map[Format]*set
	streams bool

	mu       sync.Mutex    // protects the fields below
	versions []int         // of the objects
	newest   int           // version
	next     int           // object to be changed
	orders   chan order    // to the watch that is open; nil if none is
	watched  chan struct{} // closed when the next watch is open
}

// order is what a watch has to do. One that fails is not resumed: clients list again. One that expired would do as well, but if that happens soon after a
// list, ours suspects the server, and takes no object that it lists for the one that is held.
type order struct {
	modify int
	fail   bool
}

func newReplay(sets map[Format]*set, streams bool) *replay {
	r := &replay{sets: sets, streams: streams, watched: make(chan struct{})}
	for i := range sets[InJSON].objects {
		r.newest = FirstVersion + i
		r.versions = append(r.versions, r.newest)
	}
	return r
}

// tell gives an order to the watch, and reports whether there is one.
func (r *replay) tell(o order) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.orders == nil {
		return false
	}
	if o.fail {
		r.newest++
	}
	r.orders <- o // there is room: clients wait for the outcome of an order
	if o.fail {
		r.orders = nil
	}
	return true
}

// open makes a watch the one that gets orders.
func (r *replay) open(orders chan order) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.orders = orders
	close(r.watched)
	r.watched = make(chan struct{})
}

// opened returns a channel that is closed when the next watch is open.
func (r *replay) opened() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.watched
}

// answer answers a list or a watch.
func (r *replay) answer(w http.ResponseWriter, request *http.Request) {
	set := r.sets[InJSON]
	if accept := request.Header.Get("Accept"); strings.HasPrefix(accept, string(InProtobuf)) && r.sets[InProtobuf] != nil {
		set = r.sets[InProtobuf]
	}
	query := request.URL.Query()
	initial := query.Get("sendInitialEvents") == "true"
	watch := query.Get("watch") == "true" || query.Get("watch") == "1"
	if initial && !r.streams {
		refuse(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "sendInitialEvents is forbidden for watch")
		return
	}
	contentType := string(set.format)
	if watch && set.format == InProtobuf {
		contentType += ";stream=watch"
	}
	w.Header().Set("Content-Type", contentType)
	out := &output{w: w, flusher: http.NewResponseController(w)}
	if !watch {
		r.list(out, set)
		return
	}
	r.watch(out, set, initial, request)
}

func (r *replay) state() ([]int, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.versions), r.newest
}

func (r *replay) list(out *output, s *set) {
	versions, newest := r.state()
	out.buf = append(out.buf, s.listHead(newest)...)
	for i := range s.objects {
		out.buf = s.appendItem(out.buf, i, versions[i])
		out.full()
	}
	out.buf = append(out.buf, s.listEnd()...)
	out.flush()
}

func (r *replay) watch(out *output, s *set, initial bool, request *http.Request) {
	orders := make(chan order, 1)
	out.flush() // the header
	if initial {
		versions, newest := r.state()
		for i := range s.objects {
			out.buf = s.appendEvent(out.buf, "ADDED", i, versions[i])
			out.full()
		}
		out.other(s, "BOOKMARK", s.kind, &metav1.PartialObjectMetadata{TypeMeta: s.kind, ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: strconv.Itoa(newest), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}})
	}
	r.open(orders)
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.orders == orders {
			r.orders = nil
		}
	}()
	for {
		select {
		case o := <-orders:
			if o.fail {
				kind := metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
				out.other(s, "ERROR", kind, &metav1.Status{
					TypeMeta: kind, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Message: "an object cannot be read any more", Code: http.StatusInternalServerError,
				})
				return
			}
			r.modify(out, s, o.modify)
		case <-request.Context().Done():
			return
		}
	}
}

// Stride is how far apart in a list two objects are that change one after the other: what changes in a cluster comes in no order. It is a prime.
const Stride = 7919

func (r *replay) modify(out *output, s *set, n int) {
	for range n {
		r.mu.Lock()
		i := r.next % len(r.versions)
		r.next += Stride
		r.newest++
		r.versions[i] = r.newest
		version := r.newest
		r.mu.Unlock()
		out.buf = s.appendEvent(out.buf, "MODIFIED", i, version)
		out.full()
	}
	out.flush()
}

// output is a body that is being written. Errors are not looked at: the client went away, as its request's context says.
type output struct {
	w       http.ResponseWriter
	flusher *http.ResponseController
	buf     []byte
}

const outputSize = 64 << 10

// full writes what there is, if that is enough.
func (o *output) full() {
	if len(o.buf) >= outputSize {
		_, _ = o.w.Write(o.buf)
		o.buf = o.buf[:0]
	}
}

func (o *output) flush() {
	_, _ = o.w.Write(o.buf)
	o.buf = o.buf[:0]
	_ = o.flusher.Flush()
}

func (o *output) other(s *set, event string, kind metav1.TypeMeta, object message) {
	buf, err := s.appendOther(o.buf, event, kind, object)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	o.buf = buf
	o.flush()
}
