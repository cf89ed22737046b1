package e2e

import (
	"fmt"
	"sync"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
)

// history is a handler's memory: it checks that the events of each key are a legal sequence, and knows the state that they lead to.
type history struct {
	mu      sync.Mutex
	state   map[store.Key]*corev1.ConfigMap
	counts  map[eventqueue.Type]int
	illegal []string

	fence    string // the name of an object that is made last
	sawFence chan struct{}
}

func newHistory(fence string) *history {
	return &history{
		state:    map[store.Key]*corev1.ConfigMap{},
		counts:   map[eventqueue.Type]int{},
		fence:    fence,
		sawFence: make(chan struct{}),
	}
}

func (h *history) note(e eventqueue.Event[*corev1.ConfigMap]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[e.Type]++
	if problem := h.problem(e); problem != "" {
		h.illegal = append(h.illegal, fmt.Sprintf("%v: %s", e, problem))
	}
	if h.state[e.Key] = e.Object; e.Type == eventqueue.Deletion {
		delete(h.state, e.Key)
	}
	if e.Object.Name == h.fence && e.Type == eventqueue.Addition {
		close(h.sawFence)
	}
}

// problem says what is wrong with the next event of a key.
func (h *history) problem(e eventqueue.Event[*corev1.ConfigMap]) string {
	known := h.state[e.Key]
	switch {
	case e.Object.Namespace != e.Key.Namespace || e.Object.Name != e.Key.Name:
		return "its object is another one"
	case e.PriorKnown != (e.Prior != nil):
		return "its prior object is not what it says"
	case e.Type == eventqueue.Addition && known != nil:
		return "the object was there already"
	case e.Type == eventqueue.Modification && known == nil:
		return "the object was not there"
	case e.Type == eventqueue.Deletion && known == nil && !e.Initial:
		return "the object was never there"
	case known != e.Prior:
		return "its prior object is not the one of the event before"
	case e.Type == eventqueue.Modification && e.Prior.UID != e.Object.UID:
		return "the object was created anew in between"
	}
	return ""
}
