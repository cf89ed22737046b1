package reflector_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
)

func TestGeneratedClientsAreClientsAsTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clientset kubernetes.Interface = fake.NewClientset(
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "old"}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "not mine"}})
		client := clientset.CoreV1().ConfigMaps("default")
		s := store.New(store.ObjectKey[*corev1.ConfigMap])
		r := reflector.New(client, s)
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- r.Run(ctx) }()

		<-r.Synced()
		assert.Equal(t, []string{"old"}, names(s))
		synctest.Wait() // until it watches: the fake forgets deletions before
		fresh := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "new"}}
		_, err := client.Create(ctx, fresh, metav1.CreateOptions{})
		require.NoError(t, err)
		fresh = fresh.DeepCopy()
		fresh.Data = map[string]string{"a": "b"}
		_, err = client.Update(ctx, fresh, metav1.UpdateOptions{})
		require.NoError(t, err)
		require.NoError(t, client.Delete(ctx, "old", metav1.DeleteOptions{}))
		synctest.Wait()
		assert.Equal(t, []string{"new"}, names(s))
		got, _ := s.Get(store.Key{Namespace: "default", Name: "new"})
		assert.Equal(t, "b", got.Data["a"])

		cancel()
		require.NoError(t, <-result)
	})
}

func names(s store.Reader[*corev1.ConfigMap]) (names []string) {
	for key := range s.All() {
		names = append(names, key.Name)
	}
	return names
}

// TestClientAndStoreOfDifferentTypesDoNotCompile builds two programs that differ in one word. The
// go command starts once for both: it reports errors of the second one only.
func TestClientAndStoreOfDifferentTypesDoNotCompile(t *testing.T) {
	build := exec.CommandContext(t.Context(), "go", "build", "./testdata/match", "./testdata/mismatch")
	build.Env = append(os.Environ(), "GOWORK=off")
	built, err := build.CombinedOutput()
	out := string(built)
	require.Error(t, err)
	assert.Contains(t, out, "mismatch/main.go:16:", "the line of the call")
	assert.Contains(t, out, `type *store.Cache[*"k8s.io/api/core/v1".Pod]`)
	assert.Contains(t, out, `does not match inferred type store.Store[*"k8s.io/api/apps/v1".Deployment]`)
	assert.Equal(t, 1, strings.Count(out, "main.go:"), "nothing else is wrong: %s", out)
}
