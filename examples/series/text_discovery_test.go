package series_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/examples/series"
	"github.com/kubereflector/kubereflector/reflector/mapper"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

var (
	podKind       = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	telescopeKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Telescope"}
	telescopes    = telescopeKind.GroupVersion().WithResource("telescopes")
)

// cluster is a cluster whose definitions change.
type cluster struct{ now http.Handler }

func (c *cluster) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Body = http.NoBody // a server's request has a body, if only an empty one
	answer := httptest.NewRecorder()
	c.now.ServeHTTP(answer, r)
	return answer.Result(), nil
}

func (c *cluster) config() *rest.Config {
	return &rest.Config{Host: "http://cluster.example.com", Transport: c}
}

// install starts the same server with one definition more.
func (c *cluster) install(t *testing.T) {
	c.now = reflectortest.Start(t, reflectortest.WithResource(reflectortest.Resource{
		Group: telescopes.Group, Version: telescopes.Version, Kind: telescopeKind.Kind, Plural: telescopes.Resource,
	}))
}

func TestTextACachedDiscoveryHidesANewKind(t *testing.T) {
	both(t, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := &cluster{now: reflectortest.Start(t)}
			client, err := discovery.NewDiscoveryClientForConfig(c.config())
			require.NoError(t, err)
			cache := series.DiscoveryCache{TTL: 10 * time.Minute, Ask: func() (series.Mapping, error) { return series.Discover(client) }}
			pods, err := cache.ResourceFor(podKind)
			require.NoError(t, err)
			assert.Equal(t, "pods", pods.Resource)

			c.install(t)
			<-time.After(9 * time.Minute)
			_, err = cache.ResourceFor(telescopeKind)
			require.Error(t, err, "it is there")
			<-time.After(time.Minute)
			resource, err := cache.ResourceFor(telescopeKind)
			require.NoError(t, err)
			assert.Equal(t, telescopes, resource)
		})
	}, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := &cluster{now: reflectortest.Start(t)}
			m, err := mapper.InMemory(c.config())
			require.NoError(t, err)
			_, err = m.RESTMappingWithContext(t.Context(), podKind.GroupKind())
			require.NoError(t, err)

			c.install(t)
			mapping, err := m.RESTMappingWithContext(t.Context(), telescopeKind.GroupKind())
			require.NoError(t, err)
			assert.Equal(t, telescopes, mapping.Resource)
		})
	})
}

func TestTextTheAnatomyOfAnEndpoint(t *testing.T) {
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	for want, got := range map[string]string{
		"/apis/apps/v1/namespaces/default/deployments/nginx": series.Endpoint(deployments, "default", "nginx"),
		"/apis/apps/v1/deployments":                          series.Endpoint(deployments, "", ""),
		"/api/v1/nodes/one":                                  series.Endpoint(schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, "", "one"),
	} {
		assert.Equal(t, want, got)
	}
}
