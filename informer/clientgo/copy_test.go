package clientgo

import (
	"math/big"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

// plain is a custom resource without generated code, or a ConfigMap as its owner sees it.
type plain struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Data              map[string]string `json:"data"`
}

// wrapper is a client of another package that embeds one of ours.
type wrapper struct{ *client.Resource[*configMap] }

// A transform of client-go may edit what it gets.
func TestTransformMayEditWhatObjectsShare(t *testing.T) {
	editing := func(object any) (any, error) {
		o := object.(metav1.Object)
		o.GetLabels()["name"] = o.GetName()
		o.GetAnnotations()["name"] = o.GetName()
		o.GetOwnerReferences()[0].Name = o.GetName()
		return o, nil
	}
	isEdited := func(t *testing.T, s reader, count int) {
		objects := s.GetStore().List()
		require.Len(t, objects, count)
		for _, object := range objects {
			o := object.(metav1.Object)
			assert.Equal(t, o.GetName(), o.GetLabels()["name"])
			assert.Equal(t, o.GetName(), o.GetAnnotations()["name"])
			assert.Equal(t, o.GetName(), o.GetOwnerReferences()[0].Name)
		}
	}
	gvr := corev1.SchemeGroupVersion.WithResource("configmaps")
	for name, of := range map[string]func(*testing.T, *reflectortest.Server) reader{
		"a Resource": func(t *testing.T, server *reflectortest.Server) reader {
			return transforming(t, server, editing)
		},
		"a Resource without interning": func(t *testing.T, server *reflectortest.Server) reader {
			return transforming(t, server, editing, client.WithoutInterning())
		},
		"a wrapper of a Resource": func(t *testing.T, server *reflectortest.Server) reader {
			from, err := client.ForResource[*configMap](server.Config(), gvr, "")
			require.NoError(t, err)
			return transformed(t, NewTyped(wrapper{from}), editing)
		},
		"a wrapper that hides the methods of a Resource": func(t *testing.T, server *reflectortest.Server) reader {
			from, err := client.ForResource[*configMap](server.Config(), gvr, "")
			require.NoError(t, err)
			var hidden reflector.Client[*configMap, *client.ResourceList[*configMap]] = struct {
				reflector.Client[*configMap, *client.ResourceList[*configMap]]
			}{from}
			return transformed(t, NewTyped(hidden), editing)
		},
		"a ListWatch of a Resource": func(t *testing.T, server *reflectortest.Server) reader {
			from, err := client.ForResource[*configMap](server.Config(), gvr, "")
			require.NoError(t, err)
			return transformed(t, NewTyped(client.ListWatch[*configMap](from)), editing)
		},
		"a type without generated code": func(t *testing.T, server *reflectortest.Server) reader {
			from, err := client.ForResource[*plain](server.Config(), gvr, "")
			require.NoError(t, err)
			return transformed(t, NewTyped(from), editing)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t)
				const count = 300
				for range count {
					c := named("")
					c.GenerateName = "web-"
					c.Labels, c.Annotations = map[string]string{"app": "web"}, map[string]string{"app": "web"}
					c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web", UID: "u"}}
					create(t, server, c)
				}
				s := of(t, server)
				run(t, s)
				synctest.Wait()
				isEdited(t, s, count)
			})
		})
	}
}

// reader is an informer of any type.
type reader interface {
	runner
	GetStore() cache.Store
}

func transforming(t *testing.T, server *reflectortest.Server, edit func(any) (any, error), opts ...client.ResourceOption) *shared {
	from, err := client.ForResource[*configMap](server.Config(), corev1.SchemeGroupVersion.WithResource("configmaps"), "", opts...)
	require.NoError(t, err)
	return transformed(t, NewTyped(from), edit)
}

func transformed[T reflector.Object](t *testing.T, s *SharedIndexInformer[T], edit func(any) (any, error)) *SharedIndexInformer[T] {
	require.NoError(t, s.SetTransform(edit))
	return s
}

// A transform that only sets fields may say so, and costs no copy.
func TestShallowTransformGetsTheObjectItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		for _, name := range []string{"a", "b"} {
			c := named(name)
			c.Labels = map[string]string{"app": "web"}
			create(t, server, c)
		}
		from, err := client.ForResource[*configMap](server.Config(), corev1.SchemeGroupVersion.WithResource("configmaps"), "")
		require.NoError(t, err)
		labels := map[bool]map[string]string{}
		for _, shallow := range []bool{false, true} {
			var opts []Option
			if shallow {
				opts = append(opts, WithShallowTransform())
			}
			s := transformed(t, NewTyped(from, opts...), func(object any) (any, error) {
				object.(*configMap).ManagedFields = nil
				return object, nil
			})
			stop := run(t, s)
			synctest.Wait()
			all := s.GetStore().List()
			require.Len(t, all, 2)
			a, b := all[0].(*configMap).Labels, all[1].(*configMap).Labels
			a["edited"] = "yes"
			labels[shallow] = b
			stop()
		}
		assert.NotContains(t, labels[false], "edited")
		assert.Contains(t, labels[true], "edited", "the objects share their labels")
	})
}

func TestDeepCopySharesNothing(t *testing.T) {
	type inner struct {
		List  []map[string]*int
		Any   any
		Fixed [2]*string
		big   *big.Int
	}
	type outer struct {
		metav1.ObjectMeta
		Quantity resource.Quantity
		Inner    *inner
		None     *inner
		Empty    []string
		Nil      map[string]string
		Nothing  any
	}
	number, text := 1, "x"
	make := func() *outer {
		return &outer{
			ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"a": "b"}},
			Quantity:   resource.MustParse("123456789012345678901234567890"),
			Inner:      &inner{List: []map[string]*int{{"one": &number}}, Any: []string{"y"}, Fixed: [2]*string{&text}, big: big.NewInt(1)},
			Empty:      []string{},
		}
	}
	from := make()
	to := deepCopy(from)
	assert.Equal(t, from, to)
	to.Labels["a"], *to.Inner.List[0]["one"], to.Inner.Any.([]string)[0], *to.Inner.Fixed[0] = "c", 2, "z", "z"
	to.Inner.List[0]["two"] = nil
	to.Quantity.Add(resource.MustParse("1"))
	assert.Equal(t, make(), from)
	assert.Equal(t, 1, number)

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}
	deepCopy(pod).Labels["a"] = "c"
	assert.Equal(t, "b", pod.Labels["a"])
	type embedding struct {
		*corev1.Pod
		More []string
	}
	e := &embedding{pod, []string{"x"}}
	c := deepCopy(e)
	c.Labels["a"], c.More[0] = "c", "y"
	assert.Equal(t, "b", pod.Labels["a"])
	assert.Equal(t, "x", e.More[0])
}

// hidden is embedded by types whose decoders fill its exported fields.
type hidden struct{ Labels map[string]string }

// whole is an interface that a type has by embedding another one that copies itself.
type whole interface{ apiruntime.Object }

func TestDeepCopyKeepsTheTypeAndWhatIsEmbedded(t *testing.T) {
	type more struct {
		corev1.Pod
		hidden
		Extra map[string]string
	}
	from := &more{corev1.Pod{}, hidden{map[string]string{"a": "b"}}, map[string]string{"c": "d"}}
	to, ok := deepCopy[whole](from).(*more)
	require.True(t, ok, "Pod's DeepCopyObject returns a Pod")
	to.hidden.Labels["a"], to.Extra["c"] = "x", "y"
	assert.Equal(t, "b", from.hidden.Labels["a"])
	assert.Equal(t, "d", from.Extra["c"])
}
