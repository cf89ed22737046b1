package inspect_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/inspect"
	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
)

// TestPageIsServedOnlyForKnownHosts is about inspect-N5.
func TestPageIsServedOnlyForKnownHosts(t *testing.T) {
	for _, c := range []struct {
		option inspect.Option
		served []string
		not    []string
	}{{
		option: inspect.WithHosts(),
		served: []string{"127.0.0.1", "127.0.0.1:8080", "10.1.2.3:80", "[::1]", "[::1]:8080", "[fe80::1%25eth0]:80", "localhost", "LOCALHOST:8080", "localhost.", "127.0.0.1."},
		not: []string{
			"", ":80", "evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "notlocalhost",
			"evil.example:127.0.0.1", "127.0.0.1:80:evil.example", "[evil.example]", "127.1", "0x7f000001", strings.Repeat("a", 5000),
		},
	}, {
		option: inspect.WithHosts("Debug.example.com", "other.example.com:8080"),
		served: []string{"debug.example.com", "debug.example.COM:443", "debug.example.com.", "other.example.com", "127.0.0.1"},
		not:    []string{"example.com", "a.debug.example.com", "evil.example"},
	}, {
		option: inspect.WithHosts("*"),
		served: []string{"evil.example", "debug.example.com:80", ""},
	}} {
		p := inspect.New(c.option)
		inspect.Add(p, informer.New[*corev1.ConfigMap, *corev1.ConfigMapList](nil, informer.WithName("maps")))
		p.Close() // a stream ends after its first event
		for _, path := range []string{"/", "/state.json", "/objects?informer=maps", "/stream", "/page.js", "/nothing", ""} {
			for _, host := range c.served {
				assert.NotEqual(t, http.StatusMisdirectedRequest, asks(p, host, path).Code, "%q %q", host, path)
			}
			for _, host := range c.not {
				w := asks(p, host, path)
				assert.Equal(t, http.StatusMisdirectedRequest, w.Code, "%q %q", host, path)
				assert.Contains(t, w.Body.String(), "inspect.WithHosts(", host)
				assert.Less(t, w.Body.Len(), 1024)
				assert.NotContains(t, w.Body.String(), "maps")
			}
		}
	}
}

func asks(p *inspect.Page, host, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil)
	r.Host = host
	p.ServeHTTP(w, r)
	return w
}
