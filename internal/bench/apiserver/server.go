package apiserver

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kubereflector/kubereflector/internal/bench/objects"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The features of a server.
const (
	Lists   = "lists"   // it refuses watches that begin with the state
	Streams = "streams" // it accepts them
)

// Servers starts servers, which share the encoded objects.
type Servers struct {
	Objects int // of each data set

	built   map[string]sets
	cluster [][]objects.Object // of objects.ClusterKinds
}

// Start starts a server with a data set for one client.
func (s *Servers) Start(name, features string) (*httptest.Server, error) {
	all, ok := s.built[name]
	if !ok {
		d, known := datasets[name]
		if !known {
			return nil, fmt.Errorf("there is no data set %q", name)
		}
		var err error
		if all, err = d.build(s.Objects); err != nil {
			return nil, fmt.Errorf("data set %s: %w", name, err)
		}
		if s.built == nil {
			s.built = map[string]sets{}
		}
		s.built[name] = all
	}
	return httptest.NewServer(newServer(all, datasets[name].resource, features)), nil
}

// StartCluster starts a server of the kinds of [objects.Cluster] in protobuf, with so many pods, for
// one client. It returns how many objects there are.
func (s *Servers) StartCluster() (server *httptest.Server, count int, err error) {
	if s.cluster == nil {
		s.cluster = objects.Cluster(s.Objects)
	}
	mux := http.NewServeMux()
	for i, kind := range objects.ClusterKinds {
		meta := metav1.TypeMeta{APIVersion: kind.Resource.GroupVersion().String(), Kind: kind.Name}
		all, err := encode(InProtobuf, meta, s.cluster[i], objects.Object.Marshal)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", kind.Name, err)
		}
		mux.Handle(pathOf(kind.Resource), newServer(all, kind.Resource, Streams))
		count += len(s.cluster[i])
	}
	return httptest.NewServer(mux), count, nil
}

// Order has the server of a client do something, as soon as the client watches. "modify?n=N" changes
// N objects. "fail" ends the watch by an error, and Order returns when the client watches again.
func Order(host, what string) error {
	response, err := http.Post(host+"/-/"+what, "", nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		return fmt.Errorf("%s: %s: %s", what, response.Status, text)
	}
	return nil
}

// server has one resource for one client, which has one watch at most.
type server struct {
	sets    sets
	streams bool
	orders  chan order // the watch receives them

	mu       sync.Mutex // protects the fields below
	versions []int      // of the objects
	newest   int        // version
	next     int        // object to be changed
}

// order is the work of a watch; the zero order is no work. A watch that fails is not resumed: clients
// list again. An expired version soon after a list would make the reflector distrust the server.
type order struct {
	modify int
	fail   bool
}

func newServer(all sets, r schema.GroupVersionResource, features string) http.Handler {
	s := &server{sets: all, streams: features == Streams, orders: make(chan order)}
	for i := range all.first().objects {
		s.newest = objects.FirstVersion + i
		s.versions = append(s.versions, s.newest)
	}
	mux := http.NewServeMux()
	mux.HandleFunc(pathOf(r), s.read)
	mux.HandleFunc("/-/modify", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.URL.Query().Get("n"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.order(r, order{modify: n})
	})
	mux.HandleFunc("/-/fail", func(_ http.ResponseWriter, r *http.Request) { s.order(r, order{fail: true}, order{}) })
	return mux
}

// pathOf returns the path of all objects of a resource.
func pathOf(r schema.GroupVersionResource) string {
	if r.Group == "" {
		return "/api/" + r.Version + "/" + r.Resource
	}
	return "/apis/" + r.Group + "/" + r.Version + "/" + r.Resource
}

// order hands orders to the watch, or to the next one.
func (s *server) order(r *http.Request, orders ...order) {
	for _, o := range orders {
		select {
		case s.orders <- o:
		case <-r.Context().Done():
		}
	}
}

// read answers a list or a watch.
func (s *server) read(w http.ResponseWriter, r *http.Request) {
	set := s.sets.first()
	if protobuf := s.sets[InProtobuf]; protobuf != nil && strings.HasPrefix(r.Header.Get("Accept"), string(InProtobuf)) {
		set = protobuf
	}
	contentType := string(set.format)
	query := r.URL.Query()
	initial := query.Get("sendInitialEvents") == "true"
	switch watch := query.Get("watch"); {
	case watch != "true" && watch != "1":
		w.Header().Set("Content-Type", contentType)
		list, err := set.list(s.state())
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(list)
	case initial && !s.streams:
		w.Header().Set("Content-Type", string(InJSON))
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"sendInitialEvents is forbidden for watch","reason":"Invalid","code":422}`)
	default:
		if set.format == InProtobuf {
			contentType += ";stream=watch"
		}
		w.Header().Set("Content-Type", contentType)
		s.watch(&stream{set, bufio.NewWriterSize(w, 64<<10), http.NewResponseController(w)}, initial, r)
	}
}

func (s *server) state() ([]int, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.versions), s.newest
}

func (s *server) watch(out *stream, initial bool, r *http.Request) {
	out.flush() // the header
	var event []byte
	if initial {
		versions, newest := s.state()
		for i, e := range out.objects {
			event = e.appendEvent(event[:0], e.added, versions[i])
			_, _ = out.Write(event)
		}
		out.send("BOOKMARK", out.kind, &metav1.PartialObjectMetadata{TypeMeta: out.kind, ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: strconv.Itoa(newest), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}})
	}
	for {
		select {
		case o := <-s.orders:
			if o.fail {
				s.mu.Lock()
				s.newest++
				s.mu.Unlock()
				kind := metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
				out.send("ERROR", kind, &metav1.Status{
					TypeMeta: kind, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Message: "an object cannot be read any more", Code: http.StatusInternalServerError,
				})
				return
			}
			for range o.modify {
				i, version := s.modify()
				e := out.objects[i]
				event = e.appendEvent(event[:0], e.modified, version)
				_, _ = out.Write(event)
			}
			out.flush()
		case <-r.Context().Done():
			return
		}
	}
}

// Stride is the distance in a list of two objects that change one after the other: changes in a
// cluster come in no order. It is a prime.
const Stride = 7919

// modify changes the next object.
func (s *server) modify() (i, version int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i = s.next % len(s.versions)
	s.next += Stride
	s.newest++
	s.versions[i] = s.newest
	return i, s.newest
}

// stream is the body of a watch. It ignores errors: the client has left, and the request's context
// ends.
type stream struct {
	*set
	*bufio.Writer
	http *http.ResponseController
}

func (s *stream) flush() {
	_ = s.Flush()
	_ = s.http.Flush()
}

// send sends an event with an object that is in no set.
func (s *stream) send(event string, kind metav1.TypeMeta, object message) {
	data, err := s.event(event, kind, object)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = s.Write(data)
	s.flush()
}
