package mapper

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) {
	// One of them waits by the time of the system, which is not that of a test.
	utilruntime.ErrorHandlers = nil
	goleak.VerifyTestMain(m)
}

var (
	telescopes    = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "telescopes"}
	telescopeKind = schema.GroupKind{Group: "example.com", Kind: "Telescope"}
	podKind       = schema.GroupKind{Kind: "Pod"}
)

type telescope struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

// withTelescopes returns a server that has telescopes.
func withTelescopes(t *testing.T) *reflectortest.Server {
	return reflectortest.Start(t, reflectortest.WithResource(reflectortest.Resource{
		Group: telescopes.Group, Version: telescopes.Version, Kind: telescopeKind.Kind, Plural: telescopes.Resource, Prototype: &telescope{},
	}))
}

// discoveries returns how often a server was asked, since it was last asked this.
func discoveries(server *reflectortest.Server) int {
	defer server.ForgetRequests()
	return len(server.Requests())
}

// at returns the config of a server under the name of another host.
func at(server *reflectortest.Server, host string) *rest.Config {
	config := server.Config()
	config.Host = host
	return config
}

func resourceOf(t *testing.T, m *Mapper, kind schema.GroupKind) string {
	t.Helper()
	mapping, err := m.RESTMappingWithContext(t.Context(), kind)
	if meta.IsNoMatchError(err) {
		return ""
	}
	require.NoError(t, err)
	return mapping.Resource.Resource
}

func onDisk(t *testing.T, config *rest.Config, opts ...Option) *Mapper {
	t.Helper()
	m, err := OnDisk(config, opts...)
	require.NoError(t, err)
	return m
}

func TestServerIsAskedOnceByAllProcessesThatShareADirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, in := reflectortest.Start(t), WithDirectory(t.TempDir())
		first := onDisk(t, server.Config(), in)
		assert.Zero(t, discoveries(server), "nothing is asked before it is needed")
		assert.Equal(t, "pods", resourceOf(t, first, podKind))
		assert.NotZero(t, discoveries(server))
		assert.Equal(t, "pods", resourceOf(t, first, podKind))
		assert.Equal(t, "pods", resourceOf(t, onDisk(t, server.Config(), in), podKind))
		assert.Zero(t, discoveries(server), "another process")
	})
}

func TestWhatIsOlderThanItsLifeIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Files have the time of the system, the rest that of the test.
		server, in := reflectortest.Start(t), t.TempDir()
		age := func(d time.Duration) {
			require.NoError(t, filepath.Walk(in, func(path string, _ os.FileInfo, err error) error {
				require.NoError(t, err)
				return os.Chtimes(path, time.Time{}, time.Now().Add(-d))
			}))
		}
		resourceOf(t, onDisk(t, server.Config(), WithDirectory(in)), podKind)
		discoveries(server)
		age(9 * time.Minute)
		resourceOf(t, onDisk(t, server.Config(), WithDirectory(in)), podKind)
		assert.Zero(t, discoveries(server))
		age(11 * time.Minute)
		resourceOf(t, onDisk(t, server.Config(), WithDirectory(in), WithTTL(time.Hour)), podKind)
		assert.Zero(t, discoveries(server))
		resourceOf(t, onDisk(t, server.Config(), WithDirectory(in)), podKind)
		assert.NotZero(t, discoveries(server))
	})
}

func TestMissingKindHasTheServerAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, in := reflectortest.Start(t), WithDirectory(t.TempDir())
		const host = "http://one.example.com"
		first := onDisk(t, at(before, host), in)
		assert.Equal(t, "pods", resourceOf(t, first, podKind))
		after := withTelescopes(t) // the same server, with a definition that was installed
		second := onDisk(t, at(after, host), in)
		assert.Equal(t, "telescopes", resourceOf(t, second, telescopeKind))

		discoveries(after)
		third := onDisk(t, at(after, host), in)
		assert.Equal(t, "telescopes", resourceOf(t, third, telescopeKind))
		assert.Zero(t, discoveries(after), "it is on disk now")
		assert.Empty(t, resourceOf(t, third, schema.GroupKind{Group: "example.com", Kind: "Nothing"}))
		assert.NotZero(t, discoveries(after))
		third.Reset()
		assert.Equal(t, "telescopes", resourceOf(t, third, telescopeKind))
		assert.NotZero(t, discoveries(after))
	})
}

func TestServersDoNotShareWhatTheyTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two, in := withTelescopes(t), reflectortest.Start(t), WithDirectory(t.TempDir())
		assert.Equal(t, "telescopes", resourceOf(t, onDisk(t, at(one, "http://one:6443"), in), telescopeKind))
		m := onDisk(t, at(two, "http://two:6443"), in)
		assert.Equal(t, "pods", resourceOf(t, m, podKind))
		assert.NotZero(t, discoveries(two))
		assert.Empty(t, resourceOf(t, m, telescopeKind))
	})
}

func TestDirectoryThatCannotBeUsedCostsRequestsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, in := reflectortest.Start(t), t.TempDir()
		file := filepath.Join(in, "file")
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		assert.Equal(t, "pods", resourceOf(t, onDisk(t, server.Config(), WithDirectory(file)), podKind))

		assert.Equal(t, "pods", resourceOf(t, onDisk(t, server.Config(), WithDirectory(in)), podKind))
		spoilt := 0
		require.NoError(t, filepath.Walk(in, func(path string, info os.FileInfo, err error) error {
			require.NoError(t, err)
			if info.Mode().IsRegular() {
				spoilt++
				return os.WriteFile(path, []byte("rubbish"), 0o600)
			}
			return nil
		}))
		assert.Greater(t, spoilt, 1)
		assert.Equal(t, "pods", resourceOf(t, onDisk(t, server.Config(), WithDirectory(in)), podKind))
	})
}

func TestWhoWaitsEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		release := make(chan struct{})
		server.Inject(reflectortest.Stall(release))
		m, err := InMemory(server.Config())
		require.NoError(t, err)
		var asking sync.WaitGroup
		ask := func(limit time.Duration) {
			asking.Go(func() {
				over := errors.New("over")
				ctx, cancel := context.WithTimeoutCause(t.Context(), limit, over)
				defer cancel()
				before := time.Now()
				_, err := m.RESTMappingWithContext(ctx, podKind)
				assert.ErrorIs(t, err, over)
				assert.Equal(t, limit, time.Since(before))
			})
		}
		ask(3 * time.Second)
		synctest.Wait() // that one asks the server
		ask(time.Second)
		asking.Wait()
		close(release)
		assert.Equal(t, "pods", resourceOf(t, m, podKind))
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestWhatIsToldToSomebodyWhoseTimeIsOverIsNotTheWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stalls atomic.Bool
		stalls.Store(true)
		config := reflectortest.Start(t).Config()
		config.Wrap(func(of http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				r = r.Clone(r.Context())
				r.Header.Set("Accept", "application/json") // group by group, as old servers do
				if r.URL.Path == "/apis/apps/v1" && stalls.Load() {
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
				return of.RoundTrip(r)
			})
		})
		m, err := InMemory(config)
		require.NoError(t, err)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = m.RESTMappingWithContext(short, podKind)
		require.Error(t, short.Err())
		stalls.Store(false)
		assert.Equal(t, "deployments", resourceOf(t, m, schema.GroupKind{Group: "apps", Kind: "Deployment"}))
	})
}

func TestManyMayAskAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		m := onDisk(t, server.Config(), WithDirectory(t.TempDir()))
		var asking sync.WaitGroup
		for range 20 {
			asking.Go(func() {
				assert.Equal(t, "pods", resourceOf(t, m, podKind))
				m.Reset()
			})
		}
		asking.Wait()
	})
}

func TestMapperServesFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}))
		m := onDisk(t, server.Config(), WithDirectory(t.TempDir()))
		pods, err := client.For[*corev1.Pod](server.Config(), client.WithRESTMapper(m))
		require.NoError(t, err)
		pods = pods.In("ns")
		got, err := pods.Get(t.Context(), "p", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, "p", got.Name)
	})
}

func TestEveryQuestionIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := InMemory(withTelescopes(t).Config())
		require.NoError(t, err)
		partial := schema.GroupVersionResource{Resource: "telescopes"}
		kind := telescopeKind.WithVersion("v1")
		got, err := m.KindFor(partial)
		require.NoError(t, err)
		assert.Equal(t, kind, got)
		all, err := m.KindsFor(partial)
		require.NoError(t, err)
		assert.Equal(t, []schema.GroupVersionKind{kind}, all)
		resource, err := m.ResourceFor(partial)
		require.NoError(t, err)
		assert.Equal(t, telescopes, resource)
		resources, err := m.ResourcesFor(partial)
		require.NoError(t, err)
		assert.Equal(t, []schema.GroupVersionResource{telescopes}, resources)
		mapping, err := m.RESTMapping(telescopeKind, "v1")
		require.NoError(t, err)
		assert.Equal(t, meta.RESTScopeNameRoot, mapping.Scope.Name())
		mappings, err := m.RESTMappings(telescopeKind)
		require.NoError(t, err)
		assert.Len(t, mappings, 1)
		singular, err := m.ResourceSingularizer("telescopes")
		require.NoError(t, err)
		assert.Equal(t, "telescope", singular)
	})
}

func TestDirectoryIsThatOfKubectl(t *testing.T) {
	assert.Equal(t, "127.0.0.1_6443", directoryOf("https://127.0.0.1:6443"))
	assert.Equal(t, "rancher/k8s/clusters/c_m", directoryOf("http://rancher/k8s/clusters/c-m"))
	t.Setenv("KUBECACHEDIR", "/elsewhere")
	assert.Equal(t, "/elsewhere", defaultDirectory())
	t.Setenv("KUBECACHEDIR", "")
	t.Setenv("HOME", "/home/somebody")
	assert.Equal(t, "/home/somebody/.kube/cache", defaultDirectory())
	t.Setenv("HOME", "")
	_, err := OnDisk(&rest.Config{})
	assert.ErrorIs(t, err, ErrNoDirectory)
	_, err = OnDisk(&rest.Config{Host: "http://%"}, WithDirectory(t.TempDir()))
	assert.Error(t, err)
	_, err = InMemory(&rest.Config{Host: "http://%"})
	assert.Error(t, err)
}
