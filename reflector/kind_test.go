package reflector_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

func TestResourceOfAKindIsFoundByDiscovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(paint("a", "red")))
		require.NoError(t, server.Create(paint("b", "red")))
		typed, err := client.For[*corev1.ConfigMap](server.Config())
		require.NoError(t, err)
		typed = typed.In("default")
		assert.Empty(t, server.Requests(), "nothing is asked before it is needed")
		reflects(t, server, typed, func(c *corev1.ConfigMap) string { return c.Data["color"] })
		got, err := typed.Get(t.Context(), "b", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, "green", got.Data["color"])

		given, err := client.For[*Paint](server.Config(), client.WithKind(corev1.SchemeGroupVersion.WithKind("ConfigMap")))
		require.NoError(t, err)
		given = given.In("default")
		list, err := given.List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		assert.Len(t, list.Items, 2)
	})
}

func TestKindThatIsNotKnown(t *testing.T) {
	config := &rest.Config{Host: "http://localhost"}
	_, err := client.For[*Paint](config)
	assert.ErrorIs(t, err, client.ErrNoKind)
	_, err = client.For[*Paint](config, client.WithScheme(scheme.Scheme))
	assert.ErrorIs(t, err, client.ErrNoKind, "it is no runtime.Object")
	_, err = client.For[*unstructured.Unstructured](config, client.WithScheme(runtime.NewScheme()))
	assert.ErrorIs(t, err, client.ErrNoKind)
	_, err = client.For[*corev1.Pod](config, client.WithScheme(runtime.NewScheme()))
	assert.ErrorIs(t, err, client.ErrNoKind)
	twice := runtime.NewScheme()
	twice.AddKnownTypeWithName(schema.GroupVersionKind{Group: "a", Version: "v1", Kind: "Pod"}, &corev1.Pod{})
	twice.AddKnownTypeWithName(schema.GroupVersionKind{Group: "b", Version: "v1", Kind: "Pod"}, &corev1.Pod{})
	_, err = client.For[*corev1.Pod](config, client.WithScheme(twice))
	assert.ErrorIs(t, err, client.ErrNoKind, "nobody knows which")
	for _, part := range []schema.GroupVersionKind{{Kind: "Pod"}, {Group: "apps", Kind: "Pod"}, {Version: "v1"}, {Group: "apps"}} {
		_, err = client.For[*corev1.Pod](config, client.WithKind(part), client.WithScheme(scheme.Scheme))
		assert.ErrorIs(t, err, client.ErrNoKind)
		assert.ErrorContains(t, err, part.String())
	}
	_, err = client.For[metav1.Object](config, client.WithKind(corev1.SchemeGroupVersion.WithKind("Pod")))
	assert.ErrorIs(t, err, client.ErrNoStruct)
	_, err = client.For[*corev1.Pod](&rest.Config{Host: "http://%"})
	assert.Error(t, err)
}

// Telescope is a custom resource.
type Telescope struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Mirror int `json:"mirror"`
	} `json:"spec"`
}

var telescopeKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Telescope"}

func telescope(name string, mirror int) *Telescope {
	o := &Telescope{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	o.Spec.Mirror = mirror
	return o
}

// installable returns the config of a server that does not serve telescopes, and a function
// from whose call on it is one that does, as a resource of that name.
func installable(t *testing.T) (*rest.Config, func(plural string) *reflectortest.Server) {
	var current atomic.Pointer[reflectortest.Server]
	config := reflectortest.Start(t).Config()
	config.Wrap(func(before http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			now := current.Load()
			if now == nil {
				return before.RoundTrip(r)
			}
			after, err := rest.TransportFor(now.Config())
			if err != nil {
				return nil, err
			}
			return after.RoundTrip(r)
		})
	})
	return config, func(plural string) *reflectortest.Server {
		now := reflectortest.Start(t, reflectortest.WithResource(reflectortest.Resource{
			Group: telescopeKind.Group, Version: telescopeKind.Version, Kind: telescopeKind.Kind, Plural: plural, Namespaced: true, Prototype: &Telescope{},
		}))
		current.Store(now)
		return now
	}
}

func TestKindThatIsNotServedIsWaitedFor(t *testing.T) {
	for name, opts := range map[string][]reflector.Option{"watch-list": nil, "list": {reflector.WithoutWatchList()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config, install := installable(t)
				resource, err := client.For[*Telescope](config, client.WithKind(telescopeKind))
				require.NoError(t, err)
				resource = resource.In("default")
				s := store.New(store.ObjectKey[*Telescope])
				var mu sync.Mutex
				var errs []error
				r := reflector.New(resource, s, append(opts, reflector.WithErrorHandler(func(_ context.Context, err error) {
					mu.Lock()
					defer mu.Unlock()
					errs = append(errs, err)
				}))...)
				stop := start(t, r)
				<-time.After(time.Minute)
				assert.ErrorIs(t, r.State().Err, reflector.ErrNotServed)
				mu.Lock()
				assert.Less(t, len(errs), 20, "it backs off")
				for _, err := range errs {
					assert.ErrorIs(t, err, reflector.ErrNotServed)
					assert.ErrorContains(t, err, "Telescope")
				}
				mu.Unlock()
				server := install("telescopes")
				require.NoError(t, server.Create(telescope("hale", 5)))
				<-time.After(time.Minute)
				assert.NoError(t, r.State().Err)
				assert.Equal(t, 1, s.Len())
				stop()
			})
		})
	}
}

// Views share discovery, and repeat it at most once in ten seconds.
func TestViewsDoNotRepeatDiscoveryForEachRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config, install := installable(t)
		discoveries := 0
		config.Wrap(func(to http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if r.URL.Path == "/apis/example.com/v1" {
					discoveries++
				}
				return to.RoundTrip(r)
			})
		})
		all, err := client.For[*Telescope](config, client.WithKind(telescopeKind))
		require.NoError(t, err)
		ask := func() (errs []error) {
			for _, namespace := range []string{"a", "b", "c"} {
				for range 3 {
					_, err := all.In(namespace).Get(t.Context(), "hale", metav1.GetOptions{})
					errs = append(errs, err)
				}
			}
			return errs
		}
		for _, err := range ask() {
			require.ErrorIs(t, err, reflector.ErrNotServed)
		}
		assert.Equal(t, 2, discoveries, "the first one, and one renewal")
		install("telescopes")
		<-time.After(10 * time.Second)
		for _, err := range ask() {
			assert.True(t, apierrors.IsNotFound(err), "%v", err)
		}
		assert.Equal(t, 3, discoveries)
	})
}

func TestKindThatBecomesAnotherResourceIsFoundAgain(t *testing.T) {
	for name, request := range map[string]func(context.Context, *client.Resource[*Telescope]) (*Telescope, error){
		"list": func(ctx context.Context, r *client.Resource[*Telescope]) (*Telescope, error) {
			list, err := r.List(ctx, metav1.ListOptions{})
			if err != nil || len(list.Items) != 1 {
				return nil, err
			}
			return list.Items[0], nil
		},
		"get": func(ctx context.Context, r *client.Resource[*Telescope]) (*Telescope, error) {
			return r.Get(ctx, "hale", metav1.GetOptions{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config, install := installable(t)
				install("telescopes")
				all, err := client.For[*Telescope](config, client.WithKind(telescopeKind))
				require.NoError(t, err)
				resource := all.In("default")
				_, err = request(t.Context(), resource)
				if name == "get" {
					require.True(t, apierrors.IsNotFound(err), "%v", err)
				} else {
					require.NoError(t, err)
				}
				require.NoError(t, install("scopes").Create(telescope("hale", 5)))
				_, err = request(t.Context(), resource)
				require.Error(t, err, "the old name")
				got, err := request(t.Context(), resource)
				require.NoError(t, err)
				require.NotNil(t, got)
				assert.Equal(t, 5, got.Spec.Mirror)
			})
		})
	}
}

// mapper is a REST mapper that says one thing, and another one once it was reset.
type mapper struct {
	meta.RESTMapper
	mapping *meta.RESTMapping
	renewed *meta.RESTMapping // nil for the same
	err     error

	asked, resets int
}

func (m *mapper) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	m.asked++
	return m.mapping, m.err
}

func (m *mapper) Reset() {
	if m.resets++; m.renewed != nil {
		m.mapping, m.err = m.renewed, nil
	}
}

var _ meta.ResettableRESTMapper = (*mapper)(nil)

// lockedMapper is a mapper that, as client-go's, has a lock while it waits for the server.
type lockedMapper struct {
	meta.RESTMapper
	lock     chan struct{} // has room for one
	answered chan struct{}
}

func (m *lockedMapper) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	m.lock <- struct{}{}
	defer func() { <-m.lock }()
	<-m.answered
	return &meta.RESTMapping{Resource: configMapResource, Scope: meta.RESTScopeNamespace}, nil
}

func TestWaitingForAnotherToFindAKindEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		m := &lockedMapper{lock: make(chan struct{}, 1), answered: make(chan struct{})}
		resource, err := client.For[*corev1.ConfigMap](server.Config(), client.WithScheme(scheme.Scheme), client.WithRESTMapper(m))
		require.NoError(t, err)
		resource = resource.In("default")
		first := make(chan error, 1)
		go func() {
			_, err := resource.List(t.Context(), metav1.ListOptions{})
			first <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = resource.List(ctx, metav1.ListOptions{})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		close(m.answered)
		assert.NoError(t, <-first)
		_, err = resource.List(t.Context(), metav1.ListOptions{})
		assert.NoError(t, err)
	})
}

// mapping says that ConfigMaps are a resource of another name.
func mapping(plural string) *meta.RESTMapping {
	return &meta.RESTMapping{Resource: corev1.SchemeGroupVersion.WithResource(plural), Scope: meta.RESTScopeNamespace}
}

// ofKind returns a client of ConfigMaps with a mapper.
func ofKind(t *testing.T, server *reflectortest.Server, m meta.RESTMapper, namespace string) *client.Resource[*corev1.ConfigMap] {
	c, err := client.For[*corev1.ConfigMap](server.Config(), client.WithScheme(scheme.Scheme), client.WithRESTMapper(m))
	require.NoError(t, err)
	c = c.In(namespace)
	return c
}

func TestRESTMapperThatIsGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		m := &mapper{mapping: mapping("configmaps")}
		c := ofKind(t, server, m, "default")
		for range 3 {
			_, err := c.List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
		}
		assert.Equal(t, 1, m.asked)
		assert.Len(t, server.Requests(), 3, "lists only")

		m.mapping.Scope = meta.RESTScopeRoot
		_, err := ofKind(t, server, m, "default").List(t.Context(), metav1.ListOptions{})
		assert.ErrorIs(t, err, client.ErrClusterScoped)
		_, err = ofKind(t, server, m, "").List(t.Context(), metav1.ListOptions{})
		assert.NoError(t, err)

		m.err = fmt.Errorf("no network")
		other := ofKind(t, server, m, "")
		_, err = other.List(t.Context(), metav1.ListOptions{})
		assert.ErrorIs(t, err, m.err)
		assert.NotErrorIs(t, err, reflector.ErrNotServed)
		_, err = other.Watch(t.Context(), metav1.ListOptions{})
		assert.ErrorIs(t, err, m.err)
		_, err = other.Get(t.Context(), "a", metav1.GetOptions{})
		assert.ErrorIs(t, err, m.err)
		_, err = c.Get(t.Context(), "a", metav1.GetOptions{})
		assert.True(t, apierrors.IsNotFound(err))
		_, err = c.List(t.Context(), metav1.ListOptions{})
		assert.NoError(t, err, "that there is no such object says nothing of the resource")
		assert.Zero(t, m.resets)
	})
}

func TestRESTMapperIsResetOnlyWhereItHelpsAndSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(paint("a", "red")))
		m := &mapper{mapping: mapping("maps")}
		list := func(c *client.Resource[*corev1.ConfigMap]) error {
			_, err := c.List(t.Context(), metav1.ListOptions{})
			return err
		}
		first, second := ofKind(t, server, m, "default"), ofKind(t, server, m, "default")
		require.True(t, apierrors.IsNotFound(list(first)))
		assert.Zero(t, m.resets, "nobody asked it again")
		require.True(t, apierrors.IsNotFound(list(first)))
		assert.Equal(t, 1, m.resets)
		for range 5 {
			require.True(t, apierrors.IsNotFound(list(first)))
			require.True(t, apierrors.IsNotFound(list(second)))
		}
		assert.Equal(t, 1, m.resets, "all who share it")
		<-time.After(10 * time.Second)
		m.renewed = mapping("configmaps")
		require.NoError(t, list(second))
		assert.Equal(t, 2, m.resets)
		<-time.After(time.Minute)
		require.NoError(t, list(first))
		assert.Equal(t, 2, m.resets, "its answer is another one already")

		m.err, m.renewed = &meta.NoKindMatchError{}, nil
		third := ofKind(t, server, m, "default")
		for range 3 {
			require.ErrorIs(t, list(third), reflector.ErrNotServed)
		}
		assert.Equal(t, 3, m.resets)
	})
}
