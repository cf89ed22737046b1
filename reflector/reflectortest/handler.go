package reflectortest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// call is a request while it is served.
type call struct {
	Request
	server   *Server
	http     *http.Request
	resource *resource
	body     []byte
	encoding encoding // once negotiated
	out      *response
	dryRun   bool // once the options are read

	expireContinue bool // a fault: the continue token is too old
}

// ServeHTTP answers one request. Clients use Config or URL. A Server is also a handler, for use
// with an httptest.Server or a mux.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req := ParseRequest(r)
	// Read the body before any answer: on a pipe, a client that is still writing would not see the
	// answer.
	body, err := readBody(w, r)
	acting := s.faults.take(req)
	for _, f := range acting {
		req.Faults = append(req.Faults, f.name)
	}
	entry := s.journal.add(req)
	out := &response{w: w, ctx: r.Context(), closing: s.closing, faults: acting, answered: func(code int) { s.journal.answer(entry, code) }}
	c := &call{Request: req, server: s, http: r, body: body, out: out}
	if err == nil {
		err = c.disturb(acting)
	}
	if err == nil {
		err = c.serve()
	}
	c.finish(err)
}

// serve finds the target of the request and answers it.
func (c *call) serve() error {
	g := c.server.registry()
	if len(g.unavailable) > 0 && slices.Contains(g.unavailable, c.groupVersion()) {
		return errUnavailable
	}
	if c.Verb == "" {
		return c.serveDiscovery()
	}
	c.resource = g.byGVR[c.gvr()]
	if c.resource == nil && !g.hasGroup(c.Group) {
		return errPageNotFound
	}
	if c.resource != nil && c.lacks() {
		return failure(http.StatusNotImplemented, metav1.StatusReasonUnknown,
			fmt.Sprintf("reflectortest does not serve %s/%s, which a real server does: see its doc.go", c.Resource, c.Subresource))
	}
	if c.resource == nil || !c.exists() {
		return errResourceNotFound()
	}
	if !c.allowed() {
		return errMethodNotAllowed()
	}
	var err error
	if c.encoding, err = negotiate(c.http, c.resource, c.Verb == "list" || c.Verb == "deletecollection"); err != nil {
		return err
	}
	switch c.Verb {
	case "create", "update", "patch":
		if err := c.checkWriteOptions(); err != nil {
			return err
		}
	}
	switch c.Verb {
	case "get":
		return c.get()
	case "list":
		return c.list()
	case "watch":
		return c.watch()
	case "create":
		return c.create()
	case "update":
		return c.update()
	case "patch":
		return c.patch()
	case "delete":
		return c.delete()
	default:
		return c.deleteCollection()
	}
}

// lacking are the subresources of built-in kinds that the real server has and this one has not.
var lacking = map[string][]string{
	"certificatesigningrequests": {"approval"},
	"deployments":                {"scale"},
	"nodes":                      {"proxy"},
	"pods":                       {"attach", "binding", "ephemeralcontainers", "eviction", "exec", "log", "portforward", "proxy", "resize"},
	"replicasets":                {"scale"},
	"replicationcontrollers":     {"scale"},
	"serviceaccounts":            {"token"},
	"services":                   {"proxy"},
	"statefulsets":               {"scale"},
}

// lacks reports whether the URL is of a subresource that only the real server has. To answer it with 404 would
// tell a client that drains a node that the pod is gone.
func (c *call) lacks() bool {
	name, _, _ := strings.Cut(c.Subresource, "/") // a proxy has a path of its own
	if !c.resource.typed {
		return name == "scale" && c.resource.scale
	}
	return slices.Contains(lacking[c.Resource], name)
}

// exists reports whether the resource has the URL, for any verb.
func (c *call) exists() bool {
	switch {
	case c.Subresource == "finalize" && c.resource.isNamespaces():
		return true
	case c.Subresource != "" && (c.Subresource != "status" || !c.resource.Status):
		return false
	case c.resource.Namespaced:
		return c.Namespace != "" || c.Name == ""
	default:
		return c.Namespace == ""
	}
}

// allowed reports whether the URL supports the verb.
func (c *call) allowed() bool {
	if c.Subresource == "finalize" {
		return c.Verb == "update"
	}
	everywhere := c.resource.Namespaced && c.Namespace == ""
	switch c.Verb {
	case "list", "watch":
		return c.Subresource == ""
	case "create":
		return c.Name == "" && !everywhere
	case "get", "update", "patch":
		return c.Name != ""
	case "delete":
		return c.Subresource == "" && !everywhere
	case "deletecollection":
		return c.Subresource == "" && !everywhere && !c.resource.isNamespaces()
	default:
		return false
	}
}

// finish writes the answer for an error, or ends the connection if the error requires that.
func (c *call) finish(err error) {
	if err == nil {
		return
	}
	if c.out.end(err) {
		return
	}
	e := c.encoding
	if c.resource == nil { // not negotiated yet
		e, _ = negotiate(c.http, nil, false)
	}
	e.partial = false
	status := statusOf(err)
	if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
		c.out.w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	_ = c.out.document(int(status.Code), e.contentType(false), newline(e, e.appendStatus(nil, &status)))
}

// newline ends a JSON document as the real server does.
func newline(e encoding, doc []byte) []byte {
	if e.protobuf {
		return doc
	}
	return append(doc, '\n')
}

// answer writes a record as the whole response.
func (c *call) answer(code int, rec *record) error {
	rec = rec.in(c.resource)
	return c.out.document(code, c.encoding.contentType(false), newline(c.encoding, c.encoding.appendObject(nil, rec)))
}

// answerStatus writes a Status that is not an error.
func (c *call) answerStatus(status *metav1.Status) error {
	return c.out.document(http.StatusOK, c.encoding.contentType(false), newline(c.encoding, c.encoding.appendStatus(nil, status)))
}

// disturb runs the faults that act before the answer.
func (c *call) disturb(acting []*Fault) error {
	for _, f := range acting {
		if f.before == nil {
			continue
		}
		if err := f.before(c); err != nil {
			return err
		}
	}
	return nil
}
