package reflectortest

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// A RequestFilter picks recorded requests.
type RequestFilter func(Request) bool

// Verb picks the requests of a verb: get, list, watch, create, update, patch,
// delete or deletecollection.
func Verb(verb string) RequestFilter { return func(r Request) bool { return r.Verb == verb } }

// ForResource picks the requests for a resource, such as "pods".
func ForResource(plural string) RequestFilter {
	return func(r Request) bool { return r.Resource == plural }
}

// InNamespace picks the requests in a namespace.
func InNamespace(namespace string) RequestFilter {
	return func(r Request) bool { return r.Namespace == namespace }
}

// Answered picks the requests with a status code as the answer.
func Answered(code int) RequestFilter { return func(r Request) bool { return r.Code == code } }

// Param picks the requests whose query has a parameter with a value.
func Param(name, value string) RequestFilter {
	return func(r Request) bool { return r.Query.Has(name) && r.Query.Get(name) == value }
}

// journal records requests in the order of their arrival.
type journal struct {
	mu      sync.Mutex // protects requests and changed
	entries []*Request
	changed chan struct{} // closed and replaced at each change
}

func (j *journal) init() { j.changed = make(chan struct{}) }

func (j *journal) add(r Request) *Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	entry := &r
	j.entries = append(j.entries, entry)
	j.notify()
	return entry
}

func (j *journal) answer(entry *Request, code int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	entry.Code = code
	j.notify()
}

// notify is called with mu held.
func (j *journal) notify() {
	close(j.changed)
	j.changed = make(chan struct{})
}

func (j *journal) find(filters []RequestFilter) ([]Request, <-chan struct{}) {
	j.mu.Lock()
	all := make([]Request, len(j.entries))
	for i, e := range j.entries {
		all[i] = *e
	}
	changed := j.changed
	j.mu.Unlock()
	// The filters are the caller's code: run them without the lock.
	return slices.DeleteFunc(all, func(r Request) bool {
		return slices.ContainsFunc(filters, func(f RequestFilter) bool { return !f(r) })
	}), changed
}

// Requests returns the recorded requests that pass every filter, oldest first.
func (s *Server) Requests(filters ...RequestFilter) []Request {
	found, _ := s.journal.find(filters)
	return found
}

// WaitForRequests waits until n requests that pass every filter have been recorded, and returns
// them. A request is recorded when it arrives. Use Answered to select requests with an answer.
func (s *Server) WaitForRequests(ctx context.Context, n int, filters ...RequestFilter) ([]Request, error) {
	for {
		found, changed := s.journal.find(filters)
		if len(found) >= n {
			return found, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return found, fmt.Errorf("reflectortest: %d of %d requests came: %w", len(found), n, context.Cause(ctx))
		}
	}
}

// ForgetRequests empties the record.
func (s *Server) ForgetRequests() {
	s.journal.mu.Lock()
	defer s.journal.mu.Unlock()
	s.journal.entries = nil
}
