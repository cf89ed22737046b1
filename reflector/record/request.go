package record

import (
	"cmp"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// request is what a client asks the server for.
type request struct {
	Path  string `json:"path,omitempty"`
	Query string `json:"query,omitempty"`
	// As is the kind into which the server converts the objects, such as PartialObjectMetadata.
	As string `json:"as,omitempty"`

	what     what
	options  url.Values
	resource string // empty for discovery
}

// what says how a request is answered.
type what string

const (
	aRead      what = "a read" // of one object, or of what the server serves
	aList      what = "a list"
	aProbe     what = "a probe" // asks for one object and the server's version: see reflector-R6
	aWatch     what = "a watch"
	aWatchList what = "a watch-list"
)

// requestOf returns what an HTTP request asks for; false if no recording has such requests.
func requestOf(r *http.Request) (request, bool) {
	q := request{Path: r.URL.Path, Query: r.URL.RawQuery}
	for accepted := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		_, parameters, _ := mime.ParseMediaType(accepted)
		q.As = cmp.Or(q.As, strings.TrimSuffix(parameters["as"], "List")) // a watch has objects, a list has their list
	}
	return q, r.Method == http.MethodGet && q.parse()
}

// core finds where the API server's own path begins: a proxy's path may come first.
var core = regexp.MustCompile(`/(api/v1|apis/[^/]+)(/|$)`)

// parse derives the fields that a recording does not have.
func (q *request) parse() bool {
	var err error
	if q.options, err = url.ParseQuery(q.Query); err != nil {
		return false
	}
	q.what = aRead
	start := core.FindStringIndex(q.Path)
	if strings.Contains(q.Path, "/openapi/") {
		return false // it has the paths of discovery within its own
	}
	if start == nil {
		q.Path = "/" + path.Base(q.Path)
		return q.Path == "/api" || q.Path == "/apis" || q.Path == "/version"
	}
	q.Path = strings.TrimRight(q.Path[start[0]:], "/")
	parts := strings.Split(q.Path, "/")[1:] // api v1 …, or apis GROUP VERSION …
	parts = parts[min(len(parts), map[string]int{"api": 2, "apis": 3}[parts[0]]):]
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	if len(parts) > 0 {
		q.resource = parts[0]
	}
	switch {
	case len(parts) != 1:
		return len(parts) < 3
	case q.options.Get("watch") == "true" || q.options.Get("watch") == "1":
		q.what = aWatch
		if q.options.Get("sendInitialEvents") == "true" {
			q.what = aWatchList
		}
	case q.options.Get("limit") == "1" && q.options.Get("resourceVersion") == "" && q.options.Get("continue") == "":
		q.what = aProbe
	default:
		q.what = aList
	}
	return true
}

// conversation identifies the requests that one reflector sends one after the other.
func (q *request) conversation() string {
	fields := q.options.Get("fieldSelector")
	if q.what == aProbe { // a probe adds the name of an object to the selector
		var others []string
		for field := range strings.SplitSeq(fields, ",") {
			if !strings.HasPrefix(field, "metadata.name=") && !strings.HasPrefix(field, "metadata.namespace=") {
				others = append(others, field)
			}
		}
		fields = strings.Join(others, ",")
	}
	return fmt.Sprintf("%s %s %q %q", q.Path, q.As, q.options.Get("labelSelector"), fields)
}

// fits reports whether the answer to a recorded request is one to this request. Page sizes, timeouts
// and bookmarks make no difference, and a list may have asked for another version, since it shows a
// whole state. If the recorded answer has all shards, a client may use a part of them.
func (q *request) fits(recorded *request) bool {
	shards := recorded.options.Get("shardSelector")
	same := q.what == recorded.what
	if q.what == aProbe && recorded.what == aList { // or the first page of a list in pages of one object
		same = recorded.options.Get("limit") == "1" && !q.named()
	}
	return same && q.options.Get("continue") == recorded.options.Get("continue") &&
		(shards == "" || shards == q.options.Get("shardSelector")) &&
		(q.what != aWatch || q.options.Get("resourceVersion") == recorded.options.Get("resourceVersion"))
}

// named reports whether a request asks for an object by its name.
func (q *request) named() bool {
	return strings.Contains(q.options.Get("fieldSelector"), "metadata.name=")
}

// String describes the request.
func (q *request) String() string {
	text := fmt.Sprintf("%s of %s", q.what, q.Path)
	for _, option := range []string{"continue", "resourceVersion", "labelSelector", "fieldSelector", "shardSelector"} {
		if value := q.options.Get(option); value != "" {
			text += fmt.Sprintf(" with %s %q", option, value)
		}
	}
	return text
}
