package wire

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/await"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// patience is how long anything may take before the scenario fails. A back-off alone can be half a minute, and a
// machine with twenty busy programs on two processors takes fifty times as long for everything.
const patience = 5 * time.Minute

// world is a server and client-go's clients of it: what they read is what has to be in the mirrors.
type world struct {
	*testing.T
	server    *apiserver.Server
	dynamic   dynamic.Interface
	typed     kubernetes.Interface // speaks protobuf
	namespace string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, server: shared.Server(t)}
	w.namespace = w.server.Namespace(t)
	config := w.server.Config()
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	// Those of all clients of the server, since their configurations are equal: client-go keeps one transport for them.
	t.Cleanup(client.CloseIdleConnections)
	w.dynamic, err = dynamic.NewForConfigAndClient(config, client)
	require.NoError(t, err)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	w.typed, err = kubernetes.NewForConfigAndClient(config, client)
	require.NoError(t, err)
	return w
}

// within returns the world of a subtest.
func (w *world) within(t *testing.T) *world {
	inner := *w
	inner.T = t
	return &inner
}

// insist does something until the server does not refuse it: one that was just started again may for a moment.
func (w *world) insist(what string, do func() error) {
	w.Helper()
	var last error
	err := wait.PollUntilContextTimeout(w.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		last = do()
		return last == nil, nil
	})
	require.NoError(w, err, "%s: %v", what, last)
}

// population is the objects of one resource, which are written as JSON by client-go's dynamic client.
type population struct {
	resource schema.GroupVersionResource
	size     int
	make     func(i int) any
	next     int // the number of the object that is changed next
	fences   int
}

func (p *population) create(w *world, name string, i int) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{Object: asRead(p.make(i))}
	object.SetName(name)
	return w.dynamic.Resource(p.resource).Namespace(w.namespace).Create(w.Context(), object, metav1.CreateOptions{})
}

// fill makes all objects.
func (p *population) fill(w *world) {
	w.Helper()
	var writes errgroup.Group
	writes.SetLimit(16)
	for i := range p.size {
		writes.Go(func() error {
			_, err := p.create(w, p.name(i), i)
			return err
		})
	}
	require.NoError(w, writes.Wait())
}

func (p *population) name(i int) string { return fmt.Sprintf("%06d", i) }

// changed is how many objects a call of change changes in one of three ways.
const changed = 30

// change lets a few objects have each fate: changed, deleted, deleted and made anew with other content, and new. They are others at each call. It
// returns the version of the last write.
func (p *population) change(w *world) string {
	w.Helper()
	client := w.dynamic.Resource(p.resource).Namespace(w.namespace)
	var writes errgroup.Group
	writes.SetLimit(8)
	for range changed {
		i := p.next
		p.next += 3
		writes.Go(func() error {
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{"changed":"%d"},"annotations":{"example.com/note":null}}}`, i)
			_, err := client.Patch(w.Context(), p.name(i), types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		})
		writes.Go(func() error { return p.remove(w, p.name(i+1)) })
		writes.Go(func() error {
			if err := p.remove(w, p.name(i+2)); err != nil {
				return err
			}
			_, err := p.create(w, p.name(i+2), p.size+i)
			return err
		})
		writes.Go(func() error {
			_, err := p.create(w, fmt.Sprintf("new-%06d", i), 2*p.size+i)
			return err
		})
	}
	require.NoError(w, writes.Wait())
	return p.fence(w)
}

func (p *population) remove(w *world, name string) error {
	now := int64(0)
	return w.dynamic.Resource(p.resource).Namespace(w.namespace).Delete(w.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &now})
}

// fence writes one more object and returns its version: whoever has it has everything before it.
func (p *population) fence(w *world) (version string) {
	w.Helper()
	p.fences++
	name := fmt.Sprintf("fence-%d", p.fences)
	w.insist("a write", func() error {
		object, err := p.create(w, name, 0)
		if apierrors.IsAlreadyExists(err) {
			object, err = w.dynamic.Resource(p.resource).Namespace(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
		}
		if err == nil {
			version = object.GetResourceVersion()
		}
		return err
	})
	return version
}

var shared apiserver.Shared

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Tests(m)) }

// traffic is what the answers to a mirror's requests were. It is a wrapper of a transport.
type traffic struct {
	mu      sync.Mutex // protects what is below
	lists   int        // full ones, which were lists
	streams int        // full ones, which were watches that begin with the state
	media   map[string]int
}

func (t *traffic) wrap(next http.RoundTripper) http.RoundTripper { return transport{t, next} }

type transport struct {
	traffic *traffic
	next    http.RoundTripper
}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	// Which list comes first depends on the server's version: that answer has no objects.
	if err == nil && response.StatusCode == http.StatusOK && r.URL.Path != "/version" {
		t.traffic.note(r, response)
	}
	return response, err
}

func (t *traffic) note(r *http.Request, response *http.Response) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.media == nil {
		t.media = map[string]int{}
	}
	media, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	t.media[media]++
	switch query := r.URL.Query(); {
	case query.Get("sendInitialEvents") == "true":
		t.streams++
	case query.Get("watch") == "" && query.Get("continue") == "" && query.Get("limit") != "1" && query.Get("fieldSelector") == "":
		t.lists++ // and no probe after a watch that broke, which is for one object
	}
}

// full returns how often the server gave the whole state as a list, and as a watch.
func (t *traffic) full() (lists, streams int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lists, t.streams
}

// spoken returns the content types of all answers.
func (t *traffic) spoken() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []string
	for media := range t.media {
		all = append(all, media)
	}
	return all
}

// objects is what a resource holds, in a form that can be compared.
type objects map[store.Key]any

// mirror is a store and the reflector that keeps it equal to the server.
type mirror interface {
	// start lets the reflector run until stop is called.
	start(w *world)
	stop()
	// await waits until the store is as new as a version.
	await(w *world, version string)
	// requireEqual requires that the store holds what client-go read.
	requireEqual(w *world, want objects)
	// remember notes which objects there are, for unchanged.
	remember()
	// unchanged counts the objects that are the same pointers as those remembered.
	unchanged() int
	seen() *traffic
}

type comparableObject interface {
	comparable
	reflector.Object
}

type mirrorOf[T comparableObject] struct {
	cache     *store.Cache[T]
	form      func(T) any // that client-go's objects are compared in
	reflector *reflector.KubernetesResourceReflector[T]
	traffic   *traffic
	known     map[store.Key]T

	mu   sync.Mutex // protects errs
	errs []error
	end  func()
}

// newMirror makes a mirror of a resource as it is decoded from the wire.
func newMirror[T comparableObject](w *world, p *population, form func(T) any, decoding []client.ResourceOption, opts []reflector.Option) mirror {
	w.Helper()
	m := &mirrorOf[T]{cache: store.New(store.ObjectKey[T]), form: form, traffic: &traffic{}}
	config := rest.CopyConfig(w.server.Config())
	config.Wrap(m.traffic.wrap)
	api, err := client.ForResource[T](config, p.resource, w.namespace, decoding...)
	require.NoError(w, err)
	note := reflector.WithErrorHandler(func(_ context.Context, err error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.errs = append(m.errs, err)
	})
	m.reflector = reflector.New(api, m.cache, append([]reflector.Option{note}, opts...)...)
	return m
}

func (m *mirrorOf[T]) start(w *world) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.reflector.Run(ctx) }()
	m.end = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.Error(err)
		}
	})
}

func (m *mirrorOf[T]) stop() { m.end() }

func (m *mirrorOf[T]) await(w *world, version string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	err := await.Version(ctx, m.cache, version)
	m.mu.Lock()
	defer m.mu.Unlock()
	require.NoError(w, err, "the reflector: %+v; its errors: %v", m.reflector.State(), m.errs)
}

func (m *mirrorOf[T]) requireEqual(w *world, want objects) {
	w.Helper()
	got := maps.Collect(m.cache.All())
	require.Equal(w, len(want), len(got), "number of objects") // require.Len prints all of them
	for key, object := range want {
		held, ok := got[key]
		require.True(w, ok, "%s is missing", key)
		if formed := m.form(held); !reflect.DeepEqual(object, formed) { // require.Equal takes seconds for thousands
			require.Equal(w, object, formed, key)
			require.Fail(w, "objects differ in what is not shown", key)
		}
	}
}

func (m *mirrorOf[T]) remember() { m.known = maps.Collect(m.cache.All()) }

func (m *mirrorOf[T]) unchanged() (n int) {
	for key, object := range m.cache.All() {
		if m.known[key] == object {
			n++
		}
	}
	return n
}

func (m *mirrorOf[T]) seen() *traffic { return m.traffic }

// took logs how long a part of the scenario took.
func took(w *world, what string, begin time.Time) {
	w.Logf("%s: %v", what, time.Since(begin).Round(time.Millisecond))
}
