package reflectortest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

// FuzzHandler sends any request: the server answers, and never panics but to
// end a connection.
func FuzzHandler(f *testing.F) {
	f.Add("GET", "/api/v1/namespaces/default/configmaps", "limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0", "", "")
	f.Add("POST", "/api/v1/namespaces/default/pods", "", "application/json", `{"metadata":{"name":"a"}}`)
	f.Add("PUT", "/api/v1/namespaces/default/pods/a/status", "", "application/json", `{"metadata":{"name":"a"}}`)
	f.Add("PATCH", "/apis/library.example.com/v1/namespaces/default/books/a", "", "application/merge-patch+json", `{"pages":{"a":null}}`)
	f.Add("PATCH", "/api/v1/namespaces/default/pods/a", "", "application/json-patch+json", `[{"op":"remove","path":"/metadata"}]`)
	f.Add("PATCH", "/api/v1/namespaces/default/pods/a", "", "application/strategic-merge-patch+json", `{"metadata":{"$patch":"delete"}}`)
	f.Add("PATCH", "/api/v1/namespaces/default/pods/a", "fieldManager=a&force=1", "application/apply-patch+yaml", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"c"}]}}`)
	f.Add("PATCH", "/apis/library.example.com/v1/namespaces/default/books/a/status", "fieldManager=a", "application/apply-patch+yaml", `{"apiVersion":"library.example.com/v1","kind":"Book","metadata":{"name":"a","managedFields":[{}]},"pages":[null]}`)
	f.Add("DELETE", "/api/v1/namespaces/default/pods/a", "propagationPolicy=Orphan", "application/json", `{"gracePeriodSeconds":-1}`)
	f.Add("POST", "/api/v1/namespaces", "", "application/vnd.kubernetes.protobuf", "k8s\x00\x0a\x00\x12\x00")
	f.Add("GET", "/api/v1/watch/pods", "timeoutSeconds=1&resourceVersion=9", "", "")
	f.Add("GET", "/apis//v1/", "watch", "", "")
	s, err := reflectortest.NewServer(reflectortest.WithResource(books), reflectortest.WithHistory(100))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.Close)
	if err := s.Create(&book{}); err == nil {
		f.Fatal("a book without a name was created")
	}
	f.Fuzz(func(t *testing.T, method, target, query, contentType, body string) {
		if strings.Contains(query, "imeoutSeconds") || strings.Contains(query, "%") {
			return // a watch that lasts
		}
		r, err := http.NewRequestWithContext(t.Context(), method, "http://x/", strings.NewReader(body))
		if err != nil {
			return
		}
		r.URL = &url.URL{Path: target, RawQuery: query}
		r.Header.Set("Content-Type", contentType)
		if r.URL.Query().Has("watch") || strings.Contains(target, "/watch") {
			ctx, cancel := cancelled(t)
			defer cancel()
			r = r.WithContext(ctx)
		}
		w := httptest.NewRecorder()
		defer func() {
			if p := recover(); p != nil && p != http.ErrAbortHandler {
				panic(p)
			}
			s.ForgetRequests()
		}()
		s.ServeHTTP(w, r)
		if w.Code < 200 || w.Code > 599 {
			t.Fatalf("answered %d", w.Code)
		}
	})
}

func cancelled(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx, cancel
}
