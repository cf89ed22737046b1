package simulate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// A message is on its way between a process and the server. It waits until the driver delivers it.
type message struct {
	class   class
	process *process
	target  target
	verb    string        // of a request or its answer; the type of an event
	seq     int           // of an event in its watch
	tie     string        // the rest of the request, or of that of the watch: goroutines send in no order
	seen    func()        // notes what the process knows once it has this message
	verdict chan *verdict // capacity 1
	id      string        // of a write, as lines name it
}

// class orders the messages that wait at the same time. Events come first, so that the undisturbed run
// has its own writes in its caches when it goes on.
type class int

const (
	event class = iota
	answer
	request
)

// A verdict is what the driver does with a message. The zero value delivers it.
type verdict struct {
	status *metav1.Status // answer with it, or end the watch with it
	lose   bool           // the write is stored, and its answer is lost
	crash  bool           // the process ends when the write is stored
}

// A target is what a request or an event is about.
type target struct {
	gvr             schema.GroupVersionResource
	subresource     string
	namespace, name string
}

func (t target) String() string {
	text := t.gvr.Resource
	if t.subresource != "" {
		text += "/" + t.subresource
	}
	text += " "
	if t.namespace != "" {
		text += t.namespace + "/"
	}
	return text + t.name
}

// object is the target without its subresource.
func (t target) object() target {
	t.subresource = ""
	return t
}

// unscheduled reports whether a target is never held, disturbed or compared. Leases and Events are
// written as time passes, so an operator with an election would never settle.
func (t target) unscheduled() bool {
	switch t.gvr.Group {
	case "", "events.k8s.io", "coordination.k8s.io":
		return t.gvr.Resource == "events" || t.gvr.Resource == "leases"
	}
	return false
}

func (t target) isLease() bool {
	return t.gvr.Group == "coordination.k8s.io" && t.gvr.Resource == "leases"
}

func isWrite(verb string) bool {
	switch verb {
	case "create", "update", "patch", "delete", "deletecollection", call:
		return true
	}
	return false
}

// config is what the operator gets. Its messages are JSON, because the driver reads them.
func (p *process) config() *rest.Config {
	return &rest.Config{
		Host: "http://simulate.invalid", Transport: p, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"},
	}
}

// RoundTrip implements [http.RoundTripper]: it takes a request to the server when the driver says so,
// and its answer back.
func (p *process) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(r.Body)
		if err = cmp.Or(err, r.Body.Close()); err != nil {
			return nil, err
		}
	}
	if p.alive.Err() != nil {
		return nil, p.idle(r.Context())
	}
	parsed := reflectortest.ParseRequest(r)
	r = r.Clone(r.Context())
	r.Header.Set("Accept", withoutProtobuf(r.Header.Get("Accept")))
	if parsed.Verb == "" { // discovery
		return p.serve(r, body)
	}
	t := target{gvr: schema.GroupVersionResource{Group: parsed.Group, Version: parsed.Version, Resource: parsed.Resource}, subresource: parsed.Subresource, namespace: parsed.Namespace, name: parsed.Name}
	if strings.Contains(r.Header.Get("Content-Type"), "protobuf") { // some operators insist on it for built-in kinds
		o, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("simulate: a request in protobuf: %w", err)
		}
		if body, err = json.Marshal(o); err != nil {
			return nil, err
		}
		r.Header.Set("Content-Type", "application/json")
		r.ContentLength = int64(len(body))
	}
	if isWrite(parsed.Verb) && dryRun(parsed, body) {
		parsed.Verb = "dry-run " + parsed.Verb // it writes nothing
	}
	switch {
	case parsed.Verb == "watch":
		return p.watch(r, t)
	case t.isLease():
		return p.lease(r, t, parsed.Verb, body)
	case t.unscheduled():
		return p.serve(r, body)
	case r.Method == http.MethodPost && t.name == "":
		t.name = nameIn(body)
	case parsed.Verb == "list" && p.behind.Load() != 0 && parsed.Query.Get("resourceVersion") == "0":
		r = atVersion(r, p.behind.Load())
	}
	m := &message{class: request, process: p, verb: parsed.Verb, target: t, tie: tieOf(r) + string(body)}
	if isWrite(m.verb) {
		p.world.checkLeader(m)
	}
	v, err := p.world.wait(r.Context(), m)
	if err != nil {
		return nil, err
	}
	switch {
	case v.status != nil && v.crash:
		p.kill()
		return nil, errCrashed
	case v.status != nil:
		return statusResponse(r, v.status), nil
	}
	before := p.world.server.ResourceVersion()
	response, err := p.serve(r, body)
	switch {
	case err != nil && v.crash:
		p.kill()
		return nil, errCrashed
	case err != nil:
		p.world.tell("  the connection breaks: %v", err)
		if p.world.server.ResourceVersion() == before {
			p.world.forget(m)
		}
		return nil, err
	}
	content, _ := io.ReadAll(response.Body) // of a recorder: it cannot fail
	response.Body = io.NopCloser(bytes.NewReader(content))
	if response.StatusCode == http.StatusNotImplemented {
		what := t.gvr.Resource + "/" + t.subresource
		p.world.result.fail("lacks "+what, "the operator needs %s, which the server in memory does not have, so what it does with it is not tested", what)
	}
	writes := isWrite(parsed.Verb)
	if writes && response.StatusCode < 300 {
		p.world.checkWrite(m, r.Header.Get("Content-Type"), before, body, content)
	} else if writes {
		p.world.tell("  refused with %d %s", response.StatusCode, http.StatusText(response.StatusCode))
		p.world.forget(m)
	}
	seen := func() {
		if response.StatusCode < 300 {
			p.knowAnswer(t, parsed, content, !writes || !p.watches[t.gvr])
		}
	}
	switch {
	case v.crash:
		p.kill()
		return nil, errCrashed
	case v.lose:
		seen() // the process has sent it, so it is no other client's
		return statusResponse(r, &metav1.Status{Code: http.StatusGatewayTimeout, Reason: metav1.StatusReasonTimeout, Message: "simulate: the answer was lost"}), nil
	}
	if _, err := p.world.wait(r.Context(), &message{class: answer, process: p, verb: parsed.Verb, target: t, tie: m.tie, seen: seen}); err != nil {
		return nil, err
	}
	return response, nil
}

// tieOf tells requests with one target apart, without what differs from run to run.
func tieOf(r *http.Request) string {
	query := r.URL.Query()
	for _, chance := range []string{"timeoutSeconds", "timeout", "resourceVersion"} { // leases take versions, too
		query.Del(chance)
	}
	return r.URL.Path + "?" + query.Encode() + " " + r.Header.Get("Accept") + " "
}

// idle is for a goroutine of a process that has crashed. In production it would be gone. It must not try again
// without time passing.
func (p *process) idle(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
	return errCrashed
}

// lease lets the server answer a request for a lease, unless the process is cut off from its lease.
func (p *process) lease(r *http.Request, t target, verb string, body []byte) (*http.Response, error) {
	if p.cutOff.Load() {
		return statusResponse(r, &metav1.Status{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: "simulate: the lease is lost"}), nil
	}
	response, err := p.serve(r, body)
	if err == nil && isWrite(verb) && response.StatusCode < 300 {
		content, _ := io.ReadAll(response.Body) // of a recorder: it cannot fail
		response.Body = io.NopCloser(bytes.NewReader(content))
		var lease struct {
			Metadata objectMeta
			Spec     struct{ HolderIdentity string }
		}
		if json.Unmarshal(content, &lease) == nil && lease.Spec.HolderIdentity != "" {
			t.name = lease.Metadata.Name
			p.world.got(t.object(), p, lease.Spec.HolderIdentity)
		}
	}
	return response, err
}

// serve lets the server answer at once.
func (p *process) serve(r *http.Request, body []byte) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	recorder := httptest.NewRecorder()
	broken := serve(p.world.server, recorder, r)
	response := recorder.Result()
	response.Request = r
	switch {
	case broken && response.Header.Get("Content-Type") == "": // no head
		return nil, errRefused
	case broken:
		return nil, errReset
	}
	return response, nil
}

// watch opens a watch, each event of which waits until the driver delivers it.
func (p *process) watch(r *http.Request, t target) (*http.Response, error) {
	query := r.URL.Query()
	if p.world.scenario.OldServers && query.Get("sendInitialEvents") == "true" {
		return statusResponse(r, &metav1.Status{Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
			Message: "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"}), nil
	}
	tie := tieOf(r)
	if _, err := p.world.wait(r.Context(), &message{class: request, process: p, verb: "watch", target: t, tie: tie}); err != nil {
		return nil, err
	}
	if !t.unscheduled() {
		p.watches[t.gvr] = true
		if query.Get("sendInitialEvents") == "true" {
			p.relist(t, query)
		}
	}
	// Clients choose a time of minutes at random, which no two runs would share.
	if seconds, err := strconv.Atoi(query.Get("timeoutSeconds")); err != nil || seconds > 60 {
		query.Set("timeoutSeconds", watchSeconds)
		query.Del("timeout")
	}
	ctx, cancel := context.WithCancel(r.Context())
	unlink := context.AfterFunc(p.alive, cancel)
	toClient, fromServer := io.Pipe()
	s := &watchStream{process: p, target: t, tie: tie, ctx: ctx, client: fromServer, header: http.Header{}, head: make(chan int, 1)}
	r = r.Clone(ctx)
	r.URL.RawQuery = query.Encode()
	r.Body = http.NoBody
	context.AfterFunc(ctx, func() { fromServer.CloseWithError(cmp.Or(p.crashed(), context.Canceled)) })
	go func() { // until the client, the process or the server ends the watch
		defer cancel()
		defer unlink()
		broken := serve(p.world.server, s, r)
		if broken {
			s.WriteHeader(0) // no effect after the head
			fromServer.CloseWithError(errReset)
			return
		}
		s.WriteHeader(http.StatusInternalServerError)
		fromServer.Close()
	}()
	var code int
	select {
	case code = <-s.head:
	case <-ctx.Done():
		select {
		case code = <-s.head: // the server has ended the watch just after it
		default:
			return nil, cmp.Or(p.crashed(), context.Cause(ctx))
		}
	}
	if code == 0 {
		return nil, cmp.Or[error](p.crashed(), errRefused)
	}
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: s.header.Clone(), ContentLength: -1, Request: r, Body: &watchBody{ReadCloser: toClient, cancel: cancel},
	}, nil
}

// watchSeconds is the duration of a watch. Below ten minutes, no client takes it for overdue.
const watchSeconds = "590"

// watchStream is the server's side of a watch: it writes an event to the client when the driver says so.
type watchStream struct {
	process *process
	target  target
	tie     string
	ctx     context.Context
	client  *io.PipeWriter
	header  http.Header
	head    chan int // the status code; 0 if there is none
	headed  bool
	failed  bool // the watch has no events but an answer
	seq     int
}

// Header implements [http.ResponseWriter].
func (s *watchStream) Header() http.Header { return s.header }

// WriteHeader implements [http.ResponseWriter].
func (s *watchStream) WriteHeader(code int) {
	if !s.headed {
		s.headed, s.failed = true, code != http.StatusOK
		s.head <- code
	}
}

// Flush implements [http.Flusher].
func (s *watchStream) Flush() {}

// Write implements [http.ResponseWriter]: it takes one event.
func (s *watchStream) Write(line []byte) (int, error) {
	s.WriteHeader(http.StatusOK)
	switch {
	case len(line) == 0:
		return 0, nil // it only sends the head
	case s.failed:
		return s.client.Write(line)
	}
	var frame struct {
		Type   string
		Object struct{ Metadata objectMeta }
	}
	if err := json.Unmarshal(line, &frame); err != nil {
		panic(fmt.Sprintf("simulate: the server sends no event in %.200q: %v", line, err))
	}
	meta := frame.Object.Metadata
	s.seq++
	t := target{gvr: s.target.gvr, namespace: meta.Namespace, name: meta.Name}
	m := &message{class: event, process: s.process, verb: frame.Type, target: t, seq: s.seq, tie: s.tie}
	if frame.Type == "DELETED" {
		meta.UID = "" // it shows that there is none
	}
	if frame.Type != bookmark && frame.Type != "ERROR" {
		m.seen = func() { s.process.know(t, meta, true) }
	}
	v, err := s.process.world.wait(s.ctx, m)
	if err != nil {
		return 0, err
	}
	if v.status == nil {
		return s.client.Write(line)
	}
	expired, err := json.Marshal(map[string]any{"type": "ERROR", "object": v.status})
	if err == nil {
		_, err = s.client.Write(append(expired, '\n'))
	}
	return 0, cmp.Or(err, io.ErrClosedPipe) // it ends the watch
}

const bookmark = "BOOKMARK"

// watchBody ends the watch when the client closes it.
type watchBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *watchBody) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}

// objectMeta is what the driver reads of an object.
type objectMeta struct {
	Namespace, Name, GenerateName string
	UID                           types.UID
	ResourceVersion               string
	OwnerReferences               []metav1.OwnerReference
	Continue                      string // of a list
}

// dryRun reports whether a write stores nothing. The options of a deletion are in its body, if it has one.
func dryRun(r reflectortest.Request, body []byte) bool {
	if r.Method != http.MethodDelete || len(body) == 0 {
		return r.Query.Has("dryRun")
	}
	var o metav1.DeleteOptions
	return json.Unmarshal(body, &o) == nil && len(o.DryRun) > 0
}

// nameIn returns the name of the object in a body, or its generateName with a star.
func nameIn(body []byte) string {
	var o struct{ Metadata objectMeta }
	if json.Unmarshal(body, &o) != nil || o.Metadata.Name == "" {
		return o.Metadata.GenerateName + "*"
	}
	return o.Metadata.Name
}

// atVersion makes a list show the state of a version.
func atVersion(r *http.Request, version uint64) *http.Request {
	r = r.Clone(r.Context())
	query := r.URL.Query()
	query.Set("resourceVersion", strconv.FormatUint(version, 10))
	query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
	query.Del("limit")
	r.URL.RawQuery = query.Encode()
	return r
}

// withoutProtobuf removes protobuf from an Accept header.
func withoutProtobuf(accept string) string {
	kept := slices.DeleteFunc(strings.Split(accept, ","), func(media string) bool { return media == "" || strings.Contains(media, "protobuf") })
	if len(kept) == 0 {
		return "application/json"
	}
	return strings.Join(kept, ",")
}

func statusResponse(r *http.Request, status *metav1.Status) *http.Response {
	status.TypeMeta, status.Status = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, metav1.StatusFailure
	b, err := json.Marshal(status)
	if err != nil {
		panic("simulate: a Status does not encode: " + err.Error())
	}
	header := http.Header{"Content-Type": {"application/json"}}
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		header.Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	return &http.Response{
		StatusCode: int(status.Code), Status: http.StatusText(int(status.Code)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: io.NopCloser(bytes.NewReader(b)), ContentLength: int64(len(b)), Request: r,
	}
}
