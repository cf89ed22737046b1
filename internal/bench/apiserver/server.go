package apiserver

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A server has paths of three kinds:
//
//	/prepare/DATASET                       builds a data set, so that no client waits for it
//	/CLIENT/DATASET/MODE/api/...           is the root of an API server that one client has to itself
//	/CLIENT/DATASET/MODE/-/modify?n=N      makes N objects change, and answers when that is under way
//	/CLIENT/DATASET/MODE/-/fail            ends the watch by a failure, and answers when the client has listed and watches again
//
// CLIENT is any word; clients do not affect each other. MODE selects the server's features.
const (
	Lists   = "lists"   // it refuses watches that begin with the state
	Streams = "streams" // it does not
)

// server replays canned objects.
type server struct {
	shelf shelf

	mu      sync.Mutex // protects clients
	clients map[string]*replay
}

// serve serves until the listener is closed.
func serve(l net.Listener, objects int) error {
	s := &server{shelf: shelf{objects: objects}, clients: map[string]*replay{}}
	return (&http.Server{Handler: s}).Serve(l)
}

// runServer is the process of a server: it says where it listens, and ends with its input.
func runServer(objects int, in io.Reader, out io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "http://%s\n", l.Addr())
	ended := make(chan error, 1)
	go func() { ended <- serve(l, objects) }()
	_, err = io.Copy(io.Discard, in)
	l.Close()
	<-ended
	return err
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.SplitN(strings.TrimPrefix(r.URL.Path, "/"), "/", 4)
	if len(parts) == 2 && parts[0] == "prepare" {
		if _, err := s.shelf.get(parts[1]); err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
		}
		return
	}
	if len(parts) < 4 {
		http.NotFound(w, r)
		return
	}
	client, err := s.client(strings.Join(parts[:3], "/"), parts[1], parts[2])
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusNotFound)
	case parts[3] == "-/modify":
		n, err := strconv.Atoi(r.URL.Query().Get("n"))
		if err != nil || !client.tell(order{modify: n}) {
			http.Error(w, "nobody watches, or n is no number", http.StatusConflict)
		}
	case parts[3] == "-/fail":
		opened := client.opened()
		if !client.tell(order{fail: true}) {
			http.Error(w, "nobody watches", http.StatusConflict)
			return
		}
		select {
		case <-opened:
		case <-r.Context().Done():
		}
	case "/"+parts[3] == path(datasets[parts[1]].resource):
		client.answer(w, r)
	default:
		http.NotFound(w, r)
	}
}

// client returns what the server is to a client.
func (s *server) client(name, dataset, mode string) (*replay, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.clients[name]; c != nil {
		return c, nil
	}
	sets, err := s.shelf.get(dataset)
	if err != nil {
		return nil, err
	}
	c := newReplay(sets, mode == Streams)
	s.clients[name] = c
	return c, nil
}

// refuse answers with a Status.
func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", string(InJSON))
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":%q,"reason":%q,"code":%d}`, message, reason, code)
}
