package wire

import (
	"fmt"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
)

const (
	inJSON     = "application/json"
	inProtobuf = "application/vnd.kubernetes.protobuf"
)

// subject is a resource, how client-go reads it, and how it is mirrored.
type subject struct {
	population
	read    func(*world) objects
	mirrors []decoding
}

// decoding is a way to decode a resource.
type decoding struct {
	name   string
	media  string
	mirror func(w *world, p *population, opts ...reflector.Option) mirror
}

// decoded is a way to decode into T, which is compared in a form.
func decoded[T comparableObject](name, media string, form func(T) any, opts ...client.ResourceOption) decoding {
	return decoding{name, media, func(w *world, p *population, own ...reflector.Option) mirror {
		w.Helper()
		return newMirror(w, p, form, opts, own)
	}}
}

func itself[T any](object T) any { return object }

func newSubjects() []*subject {
	return []*subject{
		{population{resource: telescopes, size: 1200, make: newTelescope}, readTelescopes, []decoding{
			decoded("struct", inJSON, func(t *telescope) any { return asRead(t) }),
			decoded("unstructured", inJSON, func(u *unstructured.Unstructured) any { return u.Object }),
		}},
		{population{resource: pods, size: 500, make: newPod}, readPods, []decoding{
			decoded("protobuf", inProtobuf, itself[*corev1.Pod]),
			decoded("protobuf unshared", inProtobuf, itself[*corev1.Pod], client.WithoutInterning()),
		}},
		{population{resource: configMaps, size: 500, make: newConfigMap}, readConfigMaps, []decoding{
			decoded("protobuf", inProtobuf, itself[*corev1.ConfigMap]),
		}},
	}
}

func readTelescopes(w *world) objects {
	w.Helper()
	list, err := w.dynamic.Resource(telescopes).Namespace(w.namespace).List(w.Context(), metav1.ListOptions{})
	require.NoError(w, err)
	all := objects{}
	for i := range list.Items {
		all[store.Key{Namespace: w.namespace, Name: list.Items[i].GetName()}] = list.Items[i].Object
	}
	return all
}

// readPods has to say the kind, which typed clients drop.
func readPods(w *world) objects {
	w.Helper()
	list, err := w.typed.CoreV1().Pods(w.namespace).List(w.Context(), metav1.ListOptions{})
	require.NoError(w, err)
	all := objects{}
	for i := range list.Items {
		object := &list.Items[i]
		object.TypeMeta = podMeta
		all[store.Key{Namespace: w.namespace, Name: object.Name}] = object
	}
	return all
}

func readConfigMaps(w *world) objects {
	w.Helper()
	list, err := w.typed.CoreV1().ConfigMaps(w.namespace).List(w.Context(), metav1.ListOptions{})
	require.NoError(w, err)
	all := objects{}
	for i := range list.Items {
		object := &list.Items[i]
		object.TypeMeta = configMapMeta
		all[store.Key{Namespace: w.namespace, Name: object.Name}] = object
	}
	return all
}

// entrant is a mirror that takes part in the scenario.
type entrant struct {
	mirror
	name    string
	subject *subject
	media   string
	streams bool // its full lists are watches that begin with the state
}

func enter(w *world, subjects []*subject) (entrants []*entrant) {
	for _, s := range subjects {
		for _, d := range s.mirrors {
			name := fmt.Sprintf("%s as %s", s.resource.Resource, d.name)
			entrants = append(entrants,
				&entrant{d.mirror(w, &s.population), name + ", watch-list", s, d.media, true},
				&entrant{d.mirror(w, &s.population, reflector.WithoutWatchList()), name + ", list", s, d.media, false})
		}
	}
	return entrants
}

// requireEqual waits until all mirrors have seen the last write of their resource, and compares
// each with what client-go reads.
func requireEqual(w *world, entrants []*entrant, last map[*subject]string) {
	w.Helper()
	read := map[*subject]objects{}
	for _, e := range entrants {
		if read[e.subject] == nil {
			read[e.subject] = e.subject.read(w)
			require.Greater(w, len(read[e.subject]), e.subject.size/2)
		}
		w.Run(e.name, func(t *testing.T) {
			inner := w.within(t)
			e.await(inner, last[e.subject])
			e.requireEqual(inner, read[e.subject])
		})
	}
}

func TestMirrorsHoldWhatClientGoReads(t *testing.T) {
	w := newWorld(t)
	begin := time.Now()
	install(w)
	subjects := newSubjects()
	last := map[*subject]string{}
	for _, s := range subjects {
		s.fill(w)
		last[s] = s.fence(w)
	}
	took(w, "the writing of all objects", begin)

	entrants := enter(w, subjects)
	begin = time.Now()
	for _, e := range entrants {
		e.start(w)
		t.Cleanup(func() { e.stop() }) // whatever was started last
	}
	t.Run("first state", func(t *testing.T) {
		requireEqual(w.within(t), entrants, last)
		for _, e := range entrants {
			requireFull(w, e, 1)
		}
	})
	took(w, "the first state", begin)

	begin = time.Now()
	t.Run("changes", func(t *testing.T) {
		for _, s := range subjects {
			last[s] = s.change(w)
		}
		requireEqual(w.within(t), entrants, last)
	})
	took(w, "changes", begin)

	begin = time.Now()
	t.Run("relist after the past was compacted", func(t *testing.T) { relist(w.within(t), subjects, entrants, last) })
	took(w, "relist", begin)

	begin = time.Now()
	t.Run("restart of the API server", func(t *testing.T) {
		require.NoError(t, w.server.KillAPIServer())
		require.NoError(t, w.server.StartAPIServer())
		for _, s := range subjects {
			s.fence(w.within(t)) // it serves again
			last[s] = s.change(w.within(t))
		}
		requireEqual(w.within(t), entrants, last)
	})
	took(w, "restart", begin)
	for _, e := range entrants {
		assert.Equal(t, []string{e.media}, e.seen().spoken(), e.name)
	}
}

// relist stops all mirrors, lets them miss changes and makes the server forget these, so that each
// has to list anew.
func relist(w *world, subjects []*subject, entrants []*entrant, last map[*subject]string) {
	for _, e := range entrants {
		e.stop()
		e.remember()
	}
	for _, s := range subjects {
		last[s] = s.change(w)
	}
	require.NoError(w, w.server.Forget(w.Context()))
	for _, e := range entrants {
		e.start(w)
	}
	for _, s := range subjects {
		last[s] = s.fence(w)
	}
	requireEqual(w, entrants, last)
	for _, e := range entrants {
		requireFull(w, e, 2)
		// Not those that were changed, deleted, or deleted and made anew.
		require.GreaterOrEqual(w, e.unchanged(), e.subject.size-6*changed, "%s: what did not change is not decoded again", e.name)
	}
}

// requireFull requires a number of full lists, of the kind that the mirror is to make.
func requireFull(w *world, e *entrant, want int) {
	w.Helper()
	lists, streams := e.seen().full()
	if !e.streams {
		lists, streams = streams, lists
	}
	require.Equal(w, [2]int{0, want}, [2]int{lists, streams}, "full lists of %s", e.name)
}
