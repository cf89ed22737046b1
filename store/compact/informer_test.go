package compact_test

import (
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/compact"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func configMap(colour string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "sky"}, Data: map[string]string{"colour": colour}}
}

func TestReflectorFillsAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clientset, err := kubernetes.NewForConfig(reflectortest.Start(t).Config())
		require.NoError(t, err)
		client := clientset.CoreV1().ConfigMaps("default")
		_, err = client.Create(t.Context(), configMap("blue"), metav1.CreateOptions{})
		require.NoError(t, err)
		s := compact.New(store.ObjectKey[*corev1.ConfigMap])
		r := reflector.New(client, s)
		go func() { _ = r.Run(t.Context()) }()
		<-r.Synced()
		held, ok := s.Get(store.Key{Namespace: "default", Name: "sky"})
		require.True(t, ok)
		assert.Equal(t, "blue", held.Data["colour"])
		_, err = client.Update(t.Context(), configMap("grey"), metav1.UpdateOptions{})
		require.NoError(t, err)
		synctest.Wait()
		held, _ = s.Get(store.Key{Namespace: "default", Name: "sky"})
		assert.Equal(t, "grey", held.Data["colour"])
	})
}

func TestInformerOfPackedObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clientset, err := kubernetes.NewForConfig(reflectortest.Start(t).Config())
		require.NoError(t, err)
		client := clientset.CoreV1().ConfigMaps("default")
		packer := compact.NewPacker(store.ObjectKey[*corev1.ConfigMap])
		inf := informer.NewTransformed(client, packer.Pack, compact.Key)
		colours := make(chan string, 10)
		inf.Handle(informer.HandlerFuncs[*compact.Packed[*corev1.ConfigMap]]{
			OnAdd: func(packed *compact.Packed[*corev1.ConfigMap], _ bool) { colours <- packed.Object().Data["colour"] },
			OnUpdate: func(prior, packed *compact.Packed[*corev1.ConfigMap]) {
				colours <- prior.Object().Data["colour"] + " to " + packed.Object().Data["colour"]
			},
			OnDelete: func(packed *compact.Packed[*corev1.ConfigMap], _ bool) {
				colours <- "no " + packed.Object().Data["colour"]
			},
		})
		go func() { _ = inf.Run(t.Context()) }()
		_, err = client.Create(t.Context(), configMap("blue"), metav1.CreateOptions{})
		require.NoError(t, err)
		assert.Equal(t, "blue", <-colours)
		_, err = client.Update(t.Context(), configMap("grey"), metav1.UpdateOptions{})
		require.NoError(t, err)
		assert.Equal(t, "blue to grey", <-colours)
		require.NoError(t, client.Delete(t.Context(), "sky", metav1.DeleteOptions{}))
		assert.Equal(t, "no grey", <-colours)
	})
}
