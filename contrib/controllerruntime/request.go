package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// A cache of controller-runtime calls cache.Options.NewInformer without the namespace and the
// selectors that its options have for the kind: only the ListerWatcher knows them. So the package
// lets the ListerWatcher make a request, looks at the URL, and never sends it.

// request is a watch that controller-runtime would request.
type request struct {
	resource  schema.GroupVersionResource
	namespace string
	labels    labels.Selector
	fields    fields.Selector
}

// name returns a name for logs. A cache may have several informers of a resource: for namespaces,
// and for typed objects, unstructured ones and metadata.
func (r request) name(example runtime.Object) string {
	name := r.resource.GroupResource().String()
	if r.namespace != "" {
		name += " in " + r.namespace
	}
	return fmt.Sprintf("%s (%T)", name, example)
}

// captureKey is the key of a context whose requests are captured. The value is a *url.URL, which the
// request sets.
type captureKey struct{}

var (
	errNotCaptured = errors.New("its ListerWatcher sent no HTTP request")
	errNoBookmarks = errors.New("its options turn bookmarks off")
)

// capturer captures the requests with a captureKey, and sends all others.
type capturer struct{ http.RoundTripper }

func (c capturer) RoundTrip(r *http.Request) (*http.Response, error) {
	to, ok := r.Context().Value(captureKey{}).(*url.URL)
	if !ok {
		return c.RoundTripper.RoundTrip(r)
	}
	*to = *r.URL
	// An empty watch is a success for client-go's metrics, and ends at once.
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {runtime.ContentTypeJSON}}, Body: http.NoBody,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
	}, nil
}

// WrappedRoundTripper lets client-go find the transport below, for example to close its connections.
func (c capturer) WrappedRoundTripper() http.RoundTripper { return c.RoundTripper }

// requested returns what a ListerWatcher over a capturing client requests.
func requested(lw cache.ListerWatcher) (request, error) {
	var target url.URL
	w, err := cache.ToListerWatcherWithContext(lw).WatchWithContext(context.WithValue(context.Background(), captureKey{}, &target), metav1.ListOptions{})
	if w != nil {
		w.Stop()
	}
	switch {
	case target.Path == "" && err != nil:
		return request{}, fmt.Errorf("%w: %w", errNotCaptured, err)
	case target.Path == "":
		return request{}, errNotCaptured
	}
	r, err := parse(target.Path)
	if err != nil {
		return request{}, err
	}
	query := target.Query()
	if query.Get("allowWatchBookmarks") != "true" {
		return request{}, errNoBookmarks
	}
	if r.labels, err = labels.Parse(query.Get("labelSelector")); err != nil {
		return request{}, fmt.Errorf("label selector of its watch: %w", err)
	}
	if r.fields, err = fields.ParseSelector(query.Get("fieldSelector")); err != nil {
		return request{}, fmt.Errorf("field selector of its watch: %w", err)
	}
	return r, nil
}

// parse returns resource and namespace of a path that ends with api/VERSION/RESOURCE or
// apis/GROUP/VERSION/RESOURCE, with namespaces/NAMESPACE before RESOURCE if there is one.
func parse(path string) (r request, err error) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	last := len(parts) - 1
	r.resource.Resource = parts[last]
	head := parts[:last]
	if last >= 2 && parts[last-2] == "namespaces" {
		r.namespace, head = parts[last-1], parts[:last-2]
	}
	switch n := len(head); {
	case n >= 2 && head[n-2] == "api":
		r.resource.Version = head[n-1]
	case n >= 3 && head[n-3] == "apis":
		r.resource.Group, r.resource.Version = head[n-2], head[n-1]
	default:
		return request{}, fmt.Errorf("path of its watch is %q, want one of a resource", path)
	}
	return r, nil
}
