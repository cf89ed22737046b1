package reflectortest

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Fault disturbs a request. It is a value: a function of this package makes it, its methods scope
// it, and Server.Inject activates it. Without a scope, it acts on every request.
//
// Several faults may act on one request, in the order of their injection: one fault can duplicate a
// frame, and the next one can reset the stream. A fault that always ends the request (Refuse, an
// answer, a Stall without release) is the last one: later faults do not count the request and act
// on their next request.
//
// Where a fault counts events, bookmarks and items of a list count as events too. Three faults
// apply only to watches: ErrorEvent, DuplicateFrame and WithholdClosingBookmark. They let every
// other request pass without counting it.
type Fault struct {
	name      string
	verb      string
	resource  string
	namespace string
	skip      int
	times     int
	match     func(Request) bool // a further condition on requests
	ends      bool               // always ends a request

	before   func(*call) error             // acts before the request is served
	edit     func(*response, *frame) error // acts on each frame of the answer
	limit    int                           // bytes after which the answer is reset,
	hasLimit bool                          // if this is set
}

// On scopes the fault to a verb (get, list, watch, create, update, patch,
// delete, deletecollection) and a resource, such as "pods"; empty means any. Inject
// panics when the server serves no such verb or resource.
func (f Fault) On(verb, resource string) Fault {
	f.verb, f.resource = verb, resource
	return f
}

// In scopes the fault to requests in a namespace.
func (f Fault) In(namespace string) Fault {
	f.namespace = namespace
	return f
}

// After lets the first n requests in the fault's scope pass.
func (f Fault) After(n int) Fault {
	f.skip = n
	return f
}

// Times ends the fault after n requests, counted as by Injection.Hits. Without it, and with 0, the
// fault lasts until it is removed.
func (f Fault) Times(n int) Fault {
	f.times = n
	return f
}

// String names the fault and its scope.
func (f Fault) String() string {
	return fmt.Sprintf("%s on %s %s", f.name, orAny(f.verb), orAny(f.resource))
}

// verbs are the values of Request.Verb.
var verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

// check returns an error for a scope that no request can have.
func (f *Fault) check(g *registry) error {
	if f.verb != "" && !slices.Contains(verbs, f.verb) {
		return fmt.Errorf("reflectortest: %s: there is no verb %q, only %v", f, f.verb, verbs)
	}
	if f.resource != "" && g.owners == nil && !slices.ContainsFunc(g.ordered, func(r *resource) bool { return r.Plural == f.resource }) {
		return fmt.Errorf("reflectortest: %s: no resource %q is served: name its plural, as in URLs, and register it with WithResource if it is not built in", f, f.resource)
	}
	return nil
}

func orAny(s string) string {
	if s == "" {
		return "any"
	}
	return s
}

func (f *Fault) concerns(r Request) bool {
	return (f.verb == "" || f.verb == r.Verb) &&
		(f.resource == "" || f.resource == r.Resource) &&
		(f.namespace == "" || f.namespace == r.Namespace) &&
		(f.match == nil || f.match(r))
}

func onlyWatches(r Request) bool { return r.Verb == "watch" }

// Refuse refuses the connection. On a port the connection is accepted and
// closed without an answer.
func Refuse() Fault {
	return Fault{name: "Refuse", ends: true, before: func(*call) error { return errRefuse }}
}

// ResetAfterEvents resets the connection after the n-th event of a watch, including bookmarks, or
// the n-th item of a list. If n is 0, it does so after the head of the response.
func ResetAfterEvents(n int) Fault {
	return Fault{name: "ResetAfterEvents", edit: func(_ *response, f *frame) error {
		if f.number == n {
			return errAbort
		}
		return nil
	}}
}

// ResetAfterBytes resets the connection after n bytes of the response's body.
func ResetAfterBytes(n int) Fault {
	return Fault{name: "ResetAfterBytes", limit: n, hasLimit: true}
}

// Stall delays the request without an answer until release is closed or the client gives up. A nil
// release never ends the stall.
func Stall(release <-chan struct{}) Fault {
	return Fault{name: "Stall", ends: release == nil, before: func(c *call) error { return c.out.stall(release) }}
}

// StallAfterEvents stops the stream after the n-th event of a watch, or item of a list. The
// connection stays open until release is closed or the client gives up. A client sees the same when
// a network drops packets.
func StallAfterEvents(n int, release <-chan struct{}) Fault {
	return Fault{name: "StallAfterEvents", edit: func(o *response, f *frame) error {
		if f.number != n {
			return nil
		}
		if err := o.write(f.bytes); err != nil {
			return err
		}
		f.bytes = nil
		return o.stall(release)
	}}
}

// TruncateFrame ends the response in the middle of the n-th event or item, in
// an orderly way, as some proxies do.
func TruncateFrame(n int) Fault {
	return Fault{name: "TruncateFrame", edit: func(_ *response, f *frame) error {
		if f.number != n {
			return nil
		}
		f.bytes = f.bytes[:len(f.bytes)/2]
		return errTruncate
	}}
}

// CorruptFrame makes the n-th event or item undecodable. It does not change its length, nor later
// frames.
func CorruptFrame(n int) Fault {
	return Fault{name: "CorruptFrame", edit: func(_ *response, f *frame) error {
		if f.number == n && f.prefix < len(f.bytes) {
			f.bytes = slices.Clone(f.bytes)
			f.bytes[f.prefix] = 0 // neither JSON nor a protobuf tag
		}
		return nil
	}}
}

// DuplicateFrame sends the n-th event of a watch twice.
func DuplicateFrame(n int) Fault {
	return Fault{name: "DuplicateFrame", match: onlyWatches, edit: func(_ *response, f *frame) error {
		if f.number == n {
			f.bytes = append(slices.Clone(f.bytes), f.bytes...)
		}
		return nil
	}}
}

// WithholdClosingBookmark drops the bookmark that ends the initial events of a watch-list.
func WithholdClosingBookmark() Fault {
	return Fault{name: "WithholdClosingBookmark", match: onlyWatches, edit: func(_ *response, f *frame) error {
		if f.closing {
			f.bytes = nil
		}
		return nil
	}}
}

// Answer answers with an error code and the Status that the real server gives with it; 429 comes
// with Retry-After: 1. Code 0 means 500. Answer panics for any other code outside of 200 to 599,
// because HTTP has no such final answer.
func Answer(code int) Fault {
	code = checkCode(code)
	return Fault{name: fmt.Sprintf("Answer(%d)", code), ends: true, before: func(c *call) error { return errWithCode(code, c.Request) }}
}

// AnswerStatus answers with a Status; its details' retryAfterSeconds become the
// Retry-After header too. Its code is as for Answer.
func AnswerStatus(status metav1.Status) Fault {
	status = *status.DeepCopy()
	status.Code = int32(checkCode(int(status.Code)))
	return Fault{name: fmt.Sprintf("AnswerStatus(%d)", status.Code), ends: true, before: func(*call) error {
		return &apierrors.StatusError{ErrStatus: *status.DeepCopy()}
	}}
}

// AnswerHTML answers with a page of HTML, as a proxy or a login does. The code is
// as for Answer.
func AnswerHTML(code int) Fault {
	code = checkCode(code)
	return Fault{name: fmt.Sprintf("AnswerHTML(%d)", code), ends: true, before: func(c *call) error {
		page := fmt.Sprintf("<html><head><title>%d %s</title></head><body></body></html>\n", code, http.StatusText(code))
		if err := c.out.document(code, "text/html; charset=utf-8", []byte(page)); err != nil {
			return err
		}
		return errTruncate // answered: nothing more to do
	}}
}

// checkCode rejects codes at which net/http panics or that begin no final answer.
func checkCode(code int) int {
	if code == 0 {
		return http.StatusInternalServerError
	}
	if code < 200 || code > 599 {
		panic(fmt.Sprintf("reflectortest: a fault cannot answer with code %d: it is not between 200 and 599", code))
	}
	return code
}

// ErrorEvent ends a watch with an ERROR event after its n-th event.
func ErrorEvent(n int, status metav1.Status) Fault {
	return Fault{name: "ErrorEvent", match: onlyWatches, edit: func(_ *response, f *frame) error {
		if f.number != n || f.status == nil {
			return nil
		}
		f.bytes = append(slices.Clone(f.bytes), f.status(*status.DeepCopy())...)
		return errTruncate
	}}
}

// ExpireContinue answers 410 to a list with a continue token, as if a compaction had made the token
// too old.
func ExpireContinue() Fault {
	return Fault{
		name:   "ExpireContinue",
		match:  func(r Request) bool { return r.Query.Get("continue") != "" },
		before: func(c *call) error { c.expireContinue = true; return nil },
	}
}

// LoseHistory forgets every change when the request arrives, before it is served. A watch from any
// version but the current one is 410 Expired, and so is a list at such a version.
func LoseHistory() Fault {
	return Fault{name: "LoseHistory", before: func(c *call) error { c.server.loseHistory(); return nil }}
}

// GoBackTo restores an older version when the request arrives, before it is served. See
// Server.Restore.
func GoBackTo(version uint64) Fault {
	return Fault{name: "GoBackTo", before: func(c *call) error { return c.server.Restore(version) }}
}

// errWithCode makes the error of a code.
func errWithCode(code int, r Request) error {
	cause := errors.New("injected by reflectortest")
	gr := schema.GroupResource{Group: r.Group, Resource: r.Resource}
	switch code {
	case http.StatusUnauthorized:
		return apierrors.NewUnauthorized("Unauthorized")
	case http.StatusForbidden:
		return apierrors.NewForbidden(gr, r.Name, cause)
	case http.StatusNotFound:
		return apierrors.NewNotFound(gr, r.Name)
	case http.StatusConflict:
		return apierrors.NewConflict(gr, r.Name, cause)
	case http.StatusGone:
		return apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	case http.StatusUnprocessableEntity:
		return apierrors.NewInvalid(schema.GroupKind{Group: r.Group, Kind: r.Resource}, r.Name, nil)
	case http.StatusTooManyRequests:
		return apierrors.NewTooManyRequests("Too many requests, please try again later.", 1)
	case http.StatusInternalServerError:
		return apierrors.NewInternalError(cause)
	case http.StatusServiceUnavailable:
		return apierrors.NewServiceUnavailable(cause.Error())
	case http.StatusGatewayTimeout:
		return apierrors.NewTimeoutError(cause.Error(), 0)
	default:
		return failure(int32(code), metav1.StatusReasonUnknown, http.StatusText(code))
	}
}

// faults are the injected faults.
type faults struct {
	mu     sync.Mutex // protects active and the counts in it
	active []*Injection
}

// An Injection is an active fault.
type Injection struct {
	faults *faults
	fault  Fault
	seen   int // requests in its scope
	hits   int // requests that it acted on
}

// Inject activates a fault. It panics if the fault's scope has an unknown verb or a resource that
// the server does not serve: with such a typing error, the test would test nothing. A scope without
// effect for the fault, such as DuplicateFrame on lists, is allowed.
func (s *Server) Inject(f Fault) *Injection {
	if err := f.check(s.registry()); err != nil {
		panic(err)
	}
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	inj := &Injection{faults: &s.faults, fault: f}
	s.faults.active = append(s.faults.active, inj)
	return inj
}

// ClearFaults removes every fault. It does not release a request on which a fault already acts,
// such as a stalled one.
func (s *Server) ClearFaults() {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.active = nil
}

// Hits is the number of requests on which the fault was active: those in its scope, without the
// first ones that After let pass. The server counts a request when it arrives. At that time it is
// unknown whether the stream reaches the event or byte at which the fault acts. Request.Faults
// names the faults of the same requests.
func (i *Injection) Hits() int {
	i.faults.mu.Lock()
	defer i.faults.mu.Unlock()
	return i.hits
}

// Remove deactivates the fault for later requests.
func (i *Injection) Remove() {
	i.faults.mu.Lock()
	defer i.faults.mu.Unlock()
	i.faults.active = slices.DeleteFunc(i.faults.active, func(o *Injection) bool { return o == i })
}

// take counts a request and returns the faults that act on it, up to the first one that always ends
// the request.
func (fs *faults) take(r Request) []*Fault {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	var acting []*Fault
	for _, i := range fs.active {
		if !i.fault.concerns(r) {
			continue
		}
		i.seen++
		if i.seen <= i.fault.skip || (i.fault.times > 0 && i.hits >= i.fault.times) {
			continue
		}
		i.hits++
		acting = append(acting, &i.fault)
		if i.fault.ends {
			break
		}
	}
	return acting
}
