package reconcile

import (
	"context"
	"sync"
	"testing"

	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// moves is how often the label of an object changes.
const moves = 400

// See reconcile-R11.
func TestNoMoveOfALabelIsADeletion(t *testing.T) {
	_, c, namespace := connect(t)
	maps := c.CoreV1().ConfigMaps(namespace)
	selected := reflector.WithLabelSelector(labels.SelectorFromSet(labels.Set{"app": "mine"}))
	for name, i := range map[string]*informer.Informer[*corev1.ConfigMap]{
		"of-a-namespace": informer.New(maps, informer.WithReflector(selected)),
		"of-all":         informer.New(c.CoreV1().ConfigMaps(""), informer.WithReflector(selected)),
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex // protects calls
			calls := map[bool]int{}
			count := func(held bool) int {
				mu.Lock()
				defer mu.Unlock()
				return calls[held]
			}
			r := reconcile.New("moves", i, func(_ context.Context, key store.Key, object *corev1.ConfigMap) (reconcile.Result, error) {
				mu.Lock()
				defer mu.Unlock()
				if key.Name == name {
					calls[object != nil]++
				}
				return reconcile.Result{}, nil
			})
			ctx, stop := context.WithCancel(context.Background())
			ended := make(chan error, 2)
			go func() { ended <- i.Run(ctx) }()
			go func() { ended <- r.Run(ctx) }()
			defer func() {
				stop()
				assert.NoError(t, <-ended)
				assert.NoError(t, <-ended)
			}()

			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "mine"}}}
			object, err := maps.Create(t.Context(), object, metav1.CreateOptions{})
			require.NoError(t, err)
			for n := range moves {
				object.Labels["app"] = []string{"theirs", "mine"}[n%2]
				object, err = maps.Update(t.Context(), object, metav1.UpdateOptions{})
				require.NoError(t, err)
			}
			eventually(t, "the last state", func() bool {
				held, ok := i.Cache().Get(store.Key{Namespace: namespace, Name: name})
				return ok && held.ResourceVersion == object.ResourceVersion
			})
			assert.Zero(t, count(false), "calls for an object that is gone")
			assert.Positive(t, count(true))

			require.NoError(t, maps.Delete(t.Context(), name, metav1.DeleteOptions{}))
			eventually(t, "the call for the deletion", func() bool { return count(false) == 1 })
			t.Logf("%d moves, %d calls", moves, count(true))
		})
	}
}
