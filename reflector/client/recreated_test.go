package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/mapper"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// cluster is an API server whose CustomResourceDefinition is deleted and created again in another
// form: each form is a server of its own, and requests go to the newest one.
type cluster struct {
	*testing.T
	config      *rest.Config
	current     atomic.Pointer[reflectortest.Server]
	discoveries atomic.Int32
	refuses     atomic.Bool // to answer discovery
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{T: t, config: reflectortest.Start(t).Config()}
	c.config.Wrap(func(http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if strings.Count(r.URL.Path, "/") < 4 {
				c.discoveries.Add(1)
				if c.refuses.Load() {
					return reply(r, 503, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503}`), nil
				}
			}
			to, err := rest.TransportFor(c.current.Load().Config())
			if err != nil {
				return nil, err
			}
			return to.RoundTrip(r)
		})
	})
	return c
}

// define replaces the definition. The watches of the last one end.
func (c *cluster) define(kind, plural string, namespaced bool) *reflectortest.Server {
	now := reflectortest.Start(c.T, reflectortest.WithResource(reflectortest.Resource{
		Group: buckets.Group, Version: buckets.Version, Kind: kind, Plural: plural, Namespaced: namespaced,
	}))
	if last := c.current.Swap(now); last != nil {
		last.Close()
	}
	return now
}

// asked returns how often discovery was asked since the last call.
func (c *cluster) asked() int { return int(c.discoveries.Swap(0)) }

// ways are the ways in which a client asks discovery.
func (c *cluster) ways() map[string]func() *client.Resource[*Bucket] {
	open := func(opts ...client.ResourceOption) *client.Resource[*Bucket] {
		all, err := client.For[*Bucket](c.config, append(opts, client.WithKind(bucketKind))...)
		require.NoError(c, err)
		return all
	}
	return map[string]func() *client.Resource[*Bucket]{
		"itself": func() *client.Resource[*Bucket] { return open() },
		"mapper": func() *client.Resource[*Bucket] {
			m, err := mapper.InMemory(c.config)
			require.NoError(c, err)
			return open(client.WithRESTMapper(m))
		},
	}
}

// A list of all namespaces works in both scopes, so nothing but a write shows the new scope.
func TestDefinitionThatComesBackWithAnotherScopeIsWrittenTo(t *testing.T) {
	for way := range (&cluster{}).ways() {
		for _, namespaced := range []bool{true, false} {
			t.Run(fmt.Sprint(way, ", first namespaced: ", namespaced), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t)
					c.define("Bucket", "buckets", namespaced)
					all := c.ways()[way]()
					object := func(namespaced bool) *Bucket {
						if namespaced {
							return named("ns", "b")
						}
						return named("", "b")
					}
					cache := store.New(store.ObjectKey[*Bucket])
					r := reflector.New(all, cache)
					ended := make(chan error, 1)
					go func() { ended <- r.Run(t.Context()) }()
					<-r.Synced()
					_, err := all.Create(t.Context(), object(namespaced), metav1.CreateOptions{})
					require.NoError(t, err)
					<-time.After(10 * time.Second)
					c.asked()
					c.define("Bucket", "buckets", !namespaced)
					_, err = all.Create(t.Context(), object(!namespaced), metav1.CreateOptions{})
					require.NoError(t, err)
					assert.LessOrEqual(t, c.asked(), 2)
					require.NoError(t, all.In(object(!namespaced).Namespace).Delete(t.Context(), "b", metav1.DeleteOptions{}))

					wrong := object(namespaced)
					want := client.ErrClusterScoped
					if !namespaced {
						want = client.ErrNoNamespace
					}
					for range 100 {
						_, err = all.Create(t.Context(), wrong, metav1.CreateOptions{})
						require.ErrorIs(t, err, want)
						<-time.After(100 * time.Millisecond)
					}
					assert.LessOrEqual(t, c.asked(), 4, "each ten seconds")
				})
			})
		}
	}
}

// A lookup that finds nothing may cause a cleanup, so an old answer of discovery does not decide it.
func TestLookupFollowsTheScopeAtOnce(t *testing.T) {
	with := func(c *cluster, m meta.RESTMapper) *client.Resource[*Bucket] {
		all, err := client.For[*Bucket](c.config, client.WithKind(bucketKind), client.WithRESTMapper(m))
		require.NoError(c, err)
		return all
	}
	inMemory := func(c *cluster) meta.RESTMapper {
		m, err := mapper.InMemory(c.config)
		require.NoError(c, err)
		return m
	}
	for way, open := range map[string]func(*cluster) *client.Resource[*Bucket]{
		"itself": func(c *cluster) *client.Resource[*Bucket] { return c.ways()["itself"]() },
		"mapper": func(c *cluster) *client.Resource[*Bucket] { return c.ways()["mapper"]() },
		"mapper that another kind resets": func(c *cluster) *client.Resource[*Bucket] {
			m := inMemory(c)
			missing, err := client.For[*Bucket](c.config, client.WithKind(buckets.GroupVersion().WithKind("Pail")), client.WithRESTMapper(m))
			require.NoError(c, err)
			go func() {
				for c.Context().Err() == nil {
					_, err := missing.List(c.Context(), metav1.ListOptions{})
					assert.Error(c, err)
					select {
					case <-time.After(100 * time.Millisecond):
					case <-c.Context().Done():
					}
				}
			}()
			return with(c, m)
		},
		"mapper without Reset": func(c *cluster) *client.Resource[*Bucket] {
			return with(c, struct{ meta.RESTMapper }{inMemory(c)})
		},
	} {
		for _, namespaced := range []bool{true, false} {
			for _, answers := range []bool{true, false} {
				if !answers && way != "itself" {
					continue // client-go would log and sleep outside of the bubble
				}
				t.Run(fmt.Sprint(way, ", first namespaced: ", namespaced, ", discovery answers: ", answers), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						c := newCluster(t)
						c.define("Bucket", "buckets", namespaced)
						all := open(c)
						later, other := named("ns", "b"), store.Key{Name: "b"}
						if namespaced {
							later, other = named("", "b"), store.Key{Namespace: "ns", Name: "b"}
						}
						_, err := all.List(t.Context(), metav1.ListOptions{})
						require.NoError(t, err)
						<-time.After(time.Minute)
						of := all.Source().(stream.Lookups)
						_, exists, err := of.Lookup(t.Context(), store.Key{Namespace: later.Namespace, Name: "b"})
						require.NoError(t, err)
						assert.False(t, exists)
						<-time.After(5 * time.Second)
						c.define("Bucket", "buckets", !namespaced)
						_, err = c.ways()["itself"]().Create(t.Context(), later, metav1.CreateOptions{})
						require.NoError(t, err)
						c.refuses.Store(!answers)
						for range 300 {
							_, exists, err = of.Lookup(t.Context(), store.Key{Namespace: later.Namespace, Name: "b"})
							assert.True(t, exists || err != nil && !answers, "%v", err)
							<-time.After(100 * time.Millisecond)
						}
						assert.True(t, exists || !answers, "%v", err)
						c.refuses.Store(false)
						<-time.After(10 * time.Second)
						_, _, _ = of.Lookup(t.Context(), other) // fits what an old answer of discovery says
						c.asked()
						for range 100 {
							_, exists, err = of.Lookup(t.Context(), other)
							require.True(t, err == nil || way == "mapper without Reset", "%v", err)
							assert.False(t, exists)
							<-time.After(100 * time.Millisecond)
						}
						assert.LessOrEqual(t, c.asked(), 6)
					})
				})
			}
		}
	}
}

func TestViewOfANamespaceFollowsTheScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.define("Bucket", "buckets", true)
		in := c.ways()["itself"]().In("ns")
		list := func() error { return second(in.List(t.Context(), metav1.ListOptions{})) }
		require.NoError(t, list())
		c.define("Bucket", "buckets", false)
		require.True(t, apierrors.IsNotFound(list()))
		require.ErrorIs(t, list(), client.ErrClusterScoped)
		c.define("Bucket", "buckets", true)
		<-time.After(10 * time.Second)
		require.NoError(t, list())
	})
}

func TestScopeStaysKnownWhileDiscoveryDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.define("Bucket", "buckets", true)
		all := c.ways()["itself"]()
		_, err := all.Create(t.Context(), named("ns", "b"), metav1.CreateOptions{})
		require.NoError(t, err)
		c.refuses.Store(true)
		_, err = all.Create(t.Context(), named("", "b"), metav1.CreateOptions{})
		require.True(t, apierrors.IsServiceUnavailable(err), "%v", err)
		_, err = all.Create(t.Context(), named("", "b"), metav1.CreateOptions{})
		require.ErrorIs(t, err, client.ErrNoNamespace, "until it is asked again")
		_, err = all.In("ns").Get(t.Context(), "b", metav1.GetOptions{})
		require.NoError(t, err)
	})
}

// The plural of a kind may be that of another kind by now, and the kind may have another plural.
func TestDefinitionThatComesBackWithAnotherKindIsAskedFor(t *testing.T) {
	t.Run("the first object says which kind it is", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t)
			seed := func(kind string) {
				u := &unstructured.Unstructured{}
				u.SetGroupVersionKind(buckets.GroupVersion().WithKind(kind))
				u.SetNamespace("ns")
				u.SetName(strings.ToLower(kind))
				require.NoError(t, c.define(kind, "buckets", true).Create(u))
			}
			seed("Bucket")
			of, err := client.ForResource[*unstructured.Unstructured](c.config, buckets, "")
			require.NoError(t, err)
			cache := store.New(store.ObjectKey[*unstructured.Unstructured])
			r := reflector.New(of, cache)
			ended := make(chan error, 1)
			go func() { ended <- r.Run(t.Context()) }()
			<-r.Synced()
			assert.Zero(t, c.asked(), "nobody doubts")
			seed("Pail")
			<-time.After(time.Minute)
			_, ok := cache.Get(store.Key{Namespace: "ns", Name: "pail"})
			assert.True(t, ok, "%v", r.State().Err)
			assert.Equal(t, 1, cache.Len())
			assert.Equal(t, 1, c.asked())
		})
	})
	for way := range (&cluster{}).ways() {
		t.Run("another plural, "+way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				c.define("Bucket", "buckets", true)
				all := c.ways()[way]()
				_, err := all.Create(t.Context(), named("ns", "b"), metav1.CreateOptions{})
				require.NoError(t, err)
				c.define("Pail", "buckets", true)
				<-time.After(10 * time.Second)
				_, err = all.Create(t.Context(), named("ns", "b"), metav1.CreateOptions{})
				require.True(t, apierrors.IsInvalid(err), "a Bucket is no Pail: %v", err)
				_, err = all.Create(t.Context(), named("ns", "b"), metav1.CreateOptions{})
				require.ErrorIs(t, err, reflector.ErrNotServed)
				c.define("Bucket", "pails", true)
				<-time.After(10 * time.Second)
				_, err = all.Create(t.Context(), named("ns", "b"), metav1.CreateOptions{})
				require.NoError(t, err)
			})
		})
	}
}

// The first pauses are short, as definitions are often installed beside the program.
func TestDefinitionThatIsInstalledSoonAfterTheStartIsFoundSoon(t *testing.T) {
	for way := range (&cluster{}).ways() {
		for range 20 {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				c.define("Pail", "pails", true)
				r := reflector.New(c.ways()[way](), store.New(store.ObjectKey[*Bucket]))
				ended := make(chan error, 1)
				go func() { ended <- r.Run(t.Context()) }()
				<-time.After(3 * time.Second)
				c.define("Bucket", "buckets", true)
				installed := time.Now()
				<-r.Synced()
				assert.Less(t, time.Since(installed), 8*time.Second, way)
			})
		}
	}
}

func TestMissingDefinitionIsAskedForSeldomInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.define("Pail", "pails", true)
		r := reflector.New(c.ways()["itself"](), store.New(store.ObjectKey[*Bucket]))
		ended := make(chan error, 1)
		go func() { ended <- r.Run(t.Context()) }()
		<-time.After(time.Minute)
		assert.Less(t, c.asked(), 16)
		<-time.After(time.Hour)
		assert.Less(t, c.asked(), 300, "the back-off grows")
	})
}

// endless is a body without an end, which counts what is read. It ends at a GiB, so that a test without a
// bound fails.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(into []byte) (int, error) {
	if e.read.Load() == 0 {
		n := copy(into, `{"kind":"APIResourceList","groupVersion":"`)
		e.read.Add(int64(n))
		return n, nil
	}
	if e.read.Add(int64(len(into))) > 1<<30 {
		return 0, io.EOF
	}
	for i := range into {
		into[i] = 'a'
	}
	return len(into), nil
}

func (e *endless) Close() error { return nil }

func TestDiscoveryReadsABoundedAnswer(t *testing.T) {
	for _, way := range []string{"itself", "mapper"} {
		body := &endless{}
		config := &rest.Config{Host: "http://apiserver", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			answer := reply(r, http.StatusOK, "")
			answer.Body = body
			return answer, nil
		})}
		opts := []client.ResourceOption{client.WithKind(bucketKind)}
		if way == "mapper" {
			m, err := mapper.InMemory(config)
			require.NoError(t, err)
			opts = append(opts, client.WithRESTMapper(m))
		}
		all, err := client.For[*Bucket](config, opts...)
		require.NoError(t, err)
		_, err = all.List(t.Context(), metav1.ListOptions{})
		assert.ErrorContains(t, err, "size limit", way)
		_, ok := errors.AsType[*client.DiscoveryError](err)
		assert.True(t, ok, "%s: %v", way, err)
		assert.Less(t, body.read.Load(), int64(64<<20), way)
		assert.LessOrEqual(t, len(err.Error()), 1024, way)
	}
}

// A reflector backs off by itself, and shows that.
func TestDiscoveryDoesNotSleepForARetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		config := &rest.Config{Host: "http://apiserver", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			requests++
			answer := reply(r, http.StatusTooManyRequests, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429,"details":{"retryAfterSeconds":3600}}`)
			answer.Header.Set("Retry-After", "3600")
			return answer, nil
		})}
		all, err := client.For[*Bucket](config, client.WithKind(bucketKind))
		require.NoError(t, err)
		began := time.Now()
		_, err = all.List(t.Context(), metav1.ListOptions{})
		require.True(t, apierrors.IsTooManyRequests(err), "%v", err)
		seconds, ok := apierrors.SuggestsClientDelay(err)
		assert.True(t, ok)
		assert.Equal(t, 3600, seconds)
		assert.Zero(t, time.Since(began))
		assert.Equal(t, 1, requests)
	})
}

func TestRefusedDiscoveryNamesTheMissingPermission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuses := func(r *http.Request) (*http.Response, error) {
			return reply(r, 403, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"forbidden: User \"u\" cannot get path \"`+r.URL.Path+`\"`+strings.Repeat("x", 4096)+`"}`), nil
		}
		config := &rest.Config{Host: "http://apiserver", Transport: roundTrip(refuses)}
		m, err := mapper.InMemory(config)
		require.NoError(t, err)
		for path, opts := range map[string][]client.ResourceOption{"/apis/example.com/v1": nil, "/api": {client.WithRESTMapper(m)}} {
			all, err := client.For[*Bucket](config, append(opts, client.WithKind(bucketKind))...)
			require.NoError(t, err)
			_, err = all.List(t.Context(), metav1.ListOptions{})
			require.True(t, apierrors.IsForbidden(err), "%v", err)
			var refused *client.DiscoveryError
			require.ErrorAs(t, err, &refused)
			assert.Equal(t, bucketKind, refused.Kind)
			for _, part := range []string{"Kind=Bucket", `User "u" cannot get`, path, "nonResourceURL", "verb get"} {
				assert.ErrorContains(t, err, part)
			}
			assert.LessOrEqual(t, len(err.Error()), 1024)
		}
	})
}

// A webhook says 404 of something else than the resource, so discovery need not be asked again.
func TestDenialByAWebhookIsNoMissingResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		namespaces := func(open func(*rest.Config) (*client.Resource[*corev1.Namespace], error)) *client.Resource[*corev1.Namespace] {
			all, err := open(server.Config())
			require.NoError(t, err)
			return all
		}
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		denied := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: `admission webhook "w" denied the request: no policy`}
		for name, all := range map[string]*client.Resource[*corev1.Namespace]{
			"For": namespaces(func(c *rest.Config) (*client.Resource[*corev1.Namespace], error) {
				return client.For[*corev1.Namespace](c)
			}),
			"ForResource": namespaces(func(c *rest.Config) (*client.Resource[*corev1.Namespace], error) {
				return client.ForResource[*corev1.Namespace](c, corev1.SchemeGroupVersion.WithResource("namespaces"), "")
			}),
		} {
			_, err := all.List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			fault := server.Inject(reflectortest.AnswerStatus(denied).On("create", "namespaces").Times(2))
			server.ForgetRequests()
			for range 2 {
				_, err = all.Create(t.Context(), object, metav1.CreateOptions{})
				require.True(t, apierrors.IsNotFound(err), "%s: %v", name, err)
				require.NotErrorIs(t, err, client.ErrNoNamespace, name)
			}
			assert.Len(t, server.Requests(), 2, name)
			fault.Remove()
		}
	})
}

// learnsScope is what a reconciler uses of the source of a client.
type learnsScope interface {
	LearnScope(ctx context.Context) error
	About() stream.About
}

// scopeClients are clients of Pods that do not know the scope. A reflector uses the one "From a typed client" for
// the questions about a generated client.
func scopeClients(t *testing.T, config *rest.Config) map[string]learnsScope {
	clients, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	typed, err := client.FromTypedClient(clients.CoreV1().Pods(""))
	require.NoError(t, err)
	byResource, err := client.ForResource[*corev1.Pod](config, corev1.SchemeGroupVersion.WithResource("pods"), "")
	require.NoError(t, err)
	byKind, err := client.For[*corev1.Pod](config)
	require.NoError(t, err)
	return map[string]learnsScope{
		"From a typed client": typed.Source().(learnsScope), "ForResource": byResource.Source().(learnsScope), "For": byKind.Source().(learnsScope),
	}
}

// Each key without an object asks.
func TestScopeThatDiscoveryDoesNotSayIsAskedForSeldom(t *testing.T) {
	for name, tc := range map[string]struct {
		code int
		body string
		most int
	}{
		"forbidden":     {403, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`, 2},
		"not available": {503, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503}`, 11},
		"missing":       {200, `{"kind":"APIResourceList","groupVersion":"v1","resources":[]}`, 11},
	} {
		for _, way := range []string{"From a typed client", "ForResource"} {
			t.Run(name+", "+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					requests := 0
					of := scopeClients(t, &rest.Config{Host: "http://apiserver", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
						requests++
						return reply(r, tc.code, tc.body), nil
					})})[way]
					for range 101 {
						err := of.LearnScope(t.Context())
						var status apierrors.APIStatus
						require.Equal(t, tc.code >= 400, errors.As(err, &status), "%v", err)
						if tc.code == 403 && way == "ForResource" {
							require.ErrorContains(t, err, "discovery of v1: get /api/v1: ")
							require.NotContains(t, err.Error(), "ForResource")
						}
						<-time.After(100 * time.Millisecond)
					}
					assert.LessOrEqual(t, requests, tc.most)
				})
			})
		}
	}
}

// A worker waits for ten seconds then, and the keys of others wait for the worker.
func TestDiscoveryThatHangsHoldsUpFewKeys(t *testing.T) {
	for _, of := range []string{"From a typed client", "ForResource"} {
		synctest.Test(t, func(t *testing.T) {
			of := scopeClients(t, &rest.Config{Host: "http://apiserver", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, r.Context().Err()
			})})[of]
			began := time.Now()
			for range 100 {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				require.Error(t, of.LearnScope(ctx))
				cancel()
			}
			assert.Equal(t, 10*time.Second, time.Since(began))
			canceled, cancel := context.WithCancel(t.Context())
			cancel()
			<-time.After(time.Minute)
			require.ErrorIs(t, of.LearnScope(canceled), context.Canceled)
			brief, end := context.WithTimeout(t.Context(), time.Millisecond)
			defer end()
			require.ErrorIs(t, of.LearnScope(brief), context.DeadlineExceeded)
			asked := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			require.ErrorIs(t, of.LearnScope(ctx), context.DeadlineExceeded, "the end of one caller is no answer")
			assert.Equal(t, 10*time.Second, time.Since(asked), "nor is that of a brief one")
		})
	}
}

// A context may end with a cause, such as that of a lost lease, which errors.Is does not know.
func TestCauseOfOneCallersEndIsNoAnswer(t *testing.T) {
	for _, way := range []string{"From a typed client", "ForResource", "For"} {
		synctest.Test(t, func(t *testing.T) {
			lost := errors.New("lease lost")
			answers := false
			of := scopeClients(t, &rest.Config{Host: "http://apiserver", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				if !answers {
					<-r.Context().Done()
					return nil, context.Cause(r.Context())
				}
				return reply(r, 200, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","kind":"Pod","namespaced":true}]}`), nil
			})})[way]
			end := func(after time.Duration) {
				ctx, cancel := context.WithCancelCause(t.Context())
				timer := time.AfterFunc(after, func() { cancel(lost) })
				defer timer.Stop()
				_ = of.LearnScope(ctx)
			}
			end(time.Millisecond) // while the scope is unknown
			answers = true
			require.NoError(t, of.LearnScope(t.Context()), way)
			<-time.After(time.Minute)
			answers = false
			end(time.Millisecond) // while it is known
			answers = true
			require.NoError(t, of.LearnScope(t.Context()), way)
			assert.Equal(t, stream.Namespaced, of.About().Scope)
		})
	}
}

// The timeout of a client is an answer for all, however its error looks.
func TestTimeoutOfAClientIsRemembered(t *testing.T) {
	for _, way := range []string{"ForResource", "For"} {
		synctest.Test(t, func(t *testing.T) {
			requests := 0
			of := scopeClients(t, &rest.Config{Host: "http://apiserver", Timeout: time.Second / 2, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				requests++
				<-r.Context().Done()
				return nil, r.Context().Err()
			})})[way]
			began := time.Now()
			for range 100 {
				require.Error(t, of.LearnScope(t.Context()))
			}
			assert.Less(t, time.Since(began), 2*time.Second, way)
			assert.LessOrEqual(t, requests, 2, way)
		})
	}
}

// A generated client, for example, does not notice that its kind was missing.
func TestScopeIsAskedForAgain(t *testing.T) {
	for _, of := range []string{"From a typed client", "ForResource", "For"} {
		synctest.Test(t, func(t *testing.T) {
			requests, namespaced := 0, false
			of := scopeClients(t, &rest.Config{Host: "http://apiserver", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				requests++
				return reply(r, 200, fmt.Sprintf(`{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","kind":"Pod","namespaced":%t}]}`, namespaced)), nil
			})})[of]
			for _, want := range []stream.Scope{stream.ClusterScoped, stream.Namespaced} {
				for range 100 {
					require.NoError(t, of.LearnScope(t.Context()))
					<-time.After(100 * time.Millisecond)
				}
				assert.Equal(t, want, of.About().Scope)
				namespaced = true
			}
			assert.LessOrEqual(t, requests, 3, "each ten seconds, and the finder asks again about a contradiction")
		})
	}
}

// resetCounter counts what costs the other users of a mapper their answers.
type resetCounter struct {
	meta.ResettableRESTMapper
	resets int
}

func (m *resetCounter) Reset() {
	m.resets++
	m.ResettableRESTMapper.Reset()
}

func TestKnownScopeIsAskedForAgainWithoutAResetOfTheMapper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.define("Bucket", "buckets", false)
		m, err := mapper.InMemory(c.config)
		require.NoError(t, err)
		counter := &resetCounter{ResettableRESTMapper: m}
		all, err := client.For[*Bucket](c.config, client.WithKind(bucketKind), client.WithRESTMapper(counter))
		require.NoError(t, err)
		of := all.Source().(learnsScope)
		learn := func(want stream.Scope) {
			for range 300 {
				require.NoError(t, of.LearnScope(t.Context()))
				<-time.After(100 * time.Millisecond)
			}
			assert.Equal(t, want, of.About().Scope)
		}
		learn(stream.ClusterScoped)
		assert.Zero(t, counter.resets)
		assert.LessOrEqual(t, c.asked(), 4+2, "each ten seconds, beside those of the mapper")
		c.define("Bucket", "buckets", true)
		learn(stream.Namespaced)
		assert.Equal(t, 1, counter.resets)
	})
}

// Keys whose scope is known need no answer.
func TestKnownScopeStandsWhileDiscoveryFails(t *testing.T) {
	hangs := func(r *http.Request) (*http.Response, error) {
		select {
		case <-r.Context().Done():
			return nil, r.Context().Err()
		case <-time.After(time.Hour):
			return nil, io.EOF
		}
	}
	refuses := func(r *http.Request) (*http.Response, error) {
		return reply(r, 503, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503}`), nil
	}
	for name, fails := range map[string]roundTrip{"hangs": hangs, "refuses": refuses} {
		for _, way := range []string{"From a typed client", "ForResource", "For"} {
			t.Run(name+", "+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					answers := roundTrip(func(r *http.Request) (*http.Response, error) {
						return reply(r, 200, `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","kind":"Pod","namespaced":true}]}`), nil
					})
					requests, answer := 0, answers
					of := scopeClients(t, &rest.Config{Host: "http://apiserver", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
						requests++
						return answer(r)
					})})[way]
					require.NoError(t, of.LearnScope(t.Context()))
					answer = fails
					<-time.After(time.Minute)
					requests = 0
					began := time.Now()
					for range 200 {
						require.NoError(t, of.LearnScope(t.Context()))
						<-time.After(100 * time.Millisecond)
					}
					assert.LessOrEqual(t, time.Since(began), 23*time.Second, "a second of each ten")
					assert.LessOrEqual(t, requests, 3)
					assert.Equal(t, stream.Namespaced, of.About().Scope)
				})
			})
		}
	}
}

// discovering answers discovery, once it is released, and refuses every other request, as if the definition
// were deleted.
func discovering(t *testing.T, release <-chan struct{}, asked *atomic.Int32) *client.Resource[*Bucket] {
	t.Helper()
	config := &rest.Config{Host: "http://apiserver", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if !strings.HasSuffix(r.URL.Path, "/v1") {
			return reply(r, 404, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"details":{}}`), nil
		}
		asked.Add(1)
		select {
		case <-release:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		return reply(r, 200, `{"kind":"APIResourceList","groupVersion":"example.com/v1","resources":[{"name":"buckets","kind":"Bucket","namespaced":false}]}`), nil
	})}
	all, err := client.ForResource[*Bucket](config, buckets, "")
	require.NoError(t, err)
	return all
}

func TestScopeIsAskedForOnceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, done := make(chan struct{}), make(chan error, 64)
		var asked atomic.Int32
		all := discovering(t, release, &asked)
		of := all.Source().(interface{ LearnScope(context.Context) error })
		for range cap(done) {
			go func() { done <- of.LearnScope(t.Context()) }()
		}
		synctest.Wait()
		limited, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, of.LearnScope(limited), context.DeadlineExceeded)
		close(release)
		for range cap(done) {
			require.NoError(t, <-done)
		}
		assert.EqualValues(t, 1, asked.Load())
		assert.Equal(t, stream.ClusterScoped, all.Source().About().Scope)
	})
}

func TestScopeOfADefinitionThatWasDeletedMeanwhileIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, done := make(chan struct{}), make(chan error)
		var asked atomic.Int32
		all := discovering(t, release, &asked)
		of := all.Source().(interface{ LearnScope(context.Context) error })
		go func() { done <- of.LearnScope(t.Context()) }()
		synctest.Wait()
		_, err := all.List(t.Context(), metav1.ListOptions{})
		require.True(t, apierrors.IsNotFound(err), "%v", err)
		close(release)
		require.NoError(t, <-done)
		assert.Equal(t, stream.UnknownScope, all.Source().About().Scope)
		require.NoError(t, of.LearnScope(t.Context()))
		assert.Equal(t, stream.ClusterScoped, all.Source().About().Scope)
		assert.EqualValues(t, 2, asked.Load())
	})
}
