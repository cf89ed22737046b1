package clientgo

import (
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// hiding shows only the methods of a reflector's client.
type hiding struct {
	reflector.Client[*configMap, *client.ResourceList[*configMap]]
}

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
			var hidden reflector.Client[*configMap, *client.ResourceList[*configMap]] = hiding{from}
			return transformed(t, NewTyped(hidden), editing)
		},
		"a ListWatch of such a wrapper": func(t *testing.T, server *reflectortest.Server) reader {
			from, err := client.ForResource[*configMap](server.Config(), gvr, "")
			require.NoError(t, err)
			return transformed(t, NewTyped(client.ListWatch[*configMap](hiding{from})), editing)
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

// A transform gets a copy, and what it leaves as it was is shared again. One that only sets fields may say
// so, and costs no copy.
func TestTransformedObjectsShareWhatIsEqual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		for _, name := range []string{"a", "b", "c"} {
			c := named(name)
			c.Labels = map[string]string{"app": "web"}
			create(t, server, c)
		}
		for _, shallow := range []bool{false, true} {
			from, err := client.ForResource[*configMap](server.Config(), corev1.SchemeGroupVersion.WithResource("configmaps"), "")
			require.NoError(t, err)
			var opts []Option
			if shallow {
				opts = append(opts, WithShallowTransform())
			}
			given := map[string]*configMap{}
			s := transformed(t, NewTyped(from, opts...), func(object any) (any, error) {
				c := object.(*configMap)
				given[c.Name] = c
				c.ManagedFields = nil
				return c, nil
			})
			stop := run(t, s)
			synctest.Wait()
			all := s.GetStore().List()
			require.Len(t, all, 3)
			a, b := all[1].(*configMap), all[2].(*configMap) // values are kept when they come for the second time
			assert.Equal(t, map[string]string{"app": "web"}, a.Labels)
			assert.Equal(t, shallow, a == given[a.Name], "whether the transform gets the object itself")
			given[a.Name].Labels["edited"] = "yes"
			assert.Equal(t, shallow, a.Labels["edited"] == "yes")
			a.Labels["edited"] = "yes"
			assert.Contains(t, b.Labels, "edited", "the objects share their labels")
			stop()
		}
	})
}
