package reflectortest

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Request is a recorded request.
type Request struct {
	Verb        string // get, list, watch, create, update, patch, delete, deletecollection; "" if not for a resource
	Group       string
	Version     string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
	Method      string
	Path        string
	Query       url.Values
	Header      http.Header
	Time        time.Time
	// Code is the status code of the answer. It is 0 until there is an answer, and stays 0 if a
	// fault refused or reset the connection before.
	Code int
	// Faults names the faults that were active on the request: see Injection.Hits.
	Faults []string
}

// ParseRequest reads the method and the URL of a request as the real server does. Code and Faults stay empty.
func ParseRequest(r *http.Request) Request {
	req := Request{Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(), Header: r.Header.Clone(), Time: time.Now()}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		req.Version = parts[1]
		parts = parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		req.Group, req.Version = parts[1], parts[2]
		parts = parts[3:]
	default:
		return req
	}
	watching := false
	if parts[0] == "watch" && len(parts) > 1 { // the deprecated /api/v1/watch/...
		watching = true
		parts = parts[1:]
	}
	if parts[0] == "namespaces" && len(parts) > 1 {
		req.Namespace = parts[1]
		// A namespace's own subresources are not resources in it.
		if len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
			parts = parts[2:]
		}
	}
	req.Resource = parts[0]
	if len(parts) > 1 {
		req.Name = parts[1]
	}
	if len(parts) > 2 {
		req.Subresource = strings.Join(parts[2:], "/")
	}
	if req.Resource == "namespaces" {
		req.Namespace = ""
	}
	req.Verb = verb(req, watching)
	return req
}

func verb(req Request, watching bool) string {
	switch req.Method {
	case http.MethodGet:
		switch {
		case watching || (req.Name == "" && boolParam(req.Query, "watch")):
			return "watch"
		case req.Name == "":
			return "list"
		default:
			return "get"
		}
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if req.Name == "" {
			return "deletecollection"
		}
		return "delete"
	default:
		return strings.ToLower(req.Method)
	}
}

// boolParam reads a boolean query parameter as apimachinery does: anything but "0" and "false" is
// true, including the empty value.
func boolParam(query url.Values, name string) bool {
	values, ok := query[name]
	if !ok || len(values) == 0 {
		return false
	}
	return values[0] != "0" && !strings.EqualFold(values[0], "false")
}

// groupVersion returns the group and version of the URL, also if it is not for a resource.
func (r Request) groupVersion() schema.GroupVersion {
	if parts := strings.Split(strings.Trim(r.Path, "/"), "/"); len(parts) >= 3 && parts[0] == "apis" {
		return schema.GroupVersion{Group: parts[1], Version: parts[2]}
	}
	return schema.GroupVersion{}
}

func (r Request) gvr() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
}
