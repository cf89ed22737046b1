package reconcile

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/contrib/controllerruntime"
	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// until runs something until the end of the test.
func until(t *testing.T, run func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	t.Cleanup(func() {
		stop()
		assert.NoError(t, <-ended)
	})
}

// An object that moves between two selectors of owned objects is always there, with its data, and never goes back. See ondemand-D6, cr-R1 and cr-R2.
func TestNoMoveBetweenOwnedSelectorsIsADeletion(t *testing.T) {
	config, c, namespace := connect(t)
	maps := c.CoreV1().ConfigMaps(namespace)
	mine, theirs := labels.SelectorFromSet(labels.Set{"app": "mine"}), labels.SelectorFromSet(labels.Set{"app": "theirs"})
	for name, start := range map[string]func(t *testing.T, config *rest.Config, deleted func()) func(context.Context, string) (*corev1.ConfigMap, error){
		"manager": func(t *testing.T, config *rest.Config, deleted func()) func(context.Context, string) (*corev1.ConfigMap, error) {
			m := manager.New(config)
			from := manager.Selection{Namespace: namespace}
			whole, metas, err := manager.ByReference[*corev1.ConfigMap](m, from, mine.String(), theirs.String())
			require.NoError(t, err)
			t.Cleanup(whole.Close)
			metas.Handle(informer.HandlerFuncs[*metav1.PartialObjectMetadata]{OnDelete: func(*metav1.PartialObjectMetadata, bool) { deleted() }})
			until(t, m.Run)
			require.NoError(t, m.WaitForSync(t.Context()))
			return func(ctx context.Context, name string) (*corev1.ConfigMap, error) {
				return whole.Get(ctx, store.Key{Namespace: namespace, Name: name})
			}
		},
		"controller-runtime": func(t *testing.T, config *rest.Config, deleted func()) func(context.Context, string) (*corev1.ConfigMap, error) {
			var selectors controllerruntime.OwnedSelectors
			require.NoError(t, selectors.Add(theirs))
			all, err := controllerruntime.Options{ByReference: map[client.Object]controllerruntime.Reference{
				&corev1.ConfigMap{}: {Owned: mine, Selectors: &selectors},
			}}.NewCache(config, crcache.Options{DefaultNamespaces: map[string]crcache.Config{namespace: {}}})
			require.NoError(t, err)
			until(t, all.Start)
			i, err := all.GetInformer(t.Context(), &corev1.ConfigMap{})
			require.NoError(t, err)
			_, err = i.AddEventHandler(cache.ResourceEventHandlerFuncs{
				UpdateFunc: func(_, object any) { assert.NotEmpty(t, object.(*corev1.ConfigMap).Data, "data of an event") },
				DeleteFunc: func(any) { deleted() },
			})
			require.NoError(t, err)
			return func(ctx context.Context, name string) (*corev1.ConfigMap, error) {
				object := &corev1.ConfigMap{}
				return object, all.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "mine"}}, Data: map[string]string{"n": "0"}}
			object, err := maps.Create(t.Context(), object, metav1.CreateOptions{})
			require.NoError(t, err)
			get := start(t, config, func() { t.Error("a deletion of an object that exists") })

			moving, reads := make(chan struct{}), make(chan int, 1)
			stop := sync.OnceValue(func() int { close(moving); return <-reads })
			t.Cleanup(func() { stop() }) // before the cache ends
			go func() {
				last, n := 0, 0
				defer func() { reads <- n }()
				for ; ; n++ {
					select {
					case <-moving:
						return
					case <-time.After(time.Millisecond):
					}
					held, err := get(t.Context(), name)
					if !assert.NoError(t, err, "a read") {
						return
					}
					now, err := strconv.Atoi(held.Data["n"])
					if !assert.NoError(t, err, "the data of a read") || !assert.GreaterOrEqual(t, now, last, "a read goes back") {
						return
					}
					last = now
				}
			}()
			for n := range moves {
				object.Labels["app"], object.Data["n"] = []string{"theirs", "mine"}[n%2], strconv.Itoa(n+1)
				object, err = maps.Update(t.Context(), object, metav1.UpdateOptions{})
				if !assert.NoError(t, err) {
					break
				}
			}
			eventually(t, "the last state", func() bool {
				held, err := get(t.Context(), name)
				return assert.NoError(t, err) && held.ResourceVersion == object.ResourceVersion
			})
			t.Logf("%d moves, %d reads", moves, stop())
		})
	}
}
