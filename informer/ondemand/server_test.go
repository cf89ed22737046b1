package ondemand_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/ondemand"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
)

func secret(name, value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string][]byte{"token": []byte(value)}}
}

// serveSecrets starts a server with the Secrets a and b, and an informer of their metadata.
func serveSecrets(t *testing.T) (server *reflectortest.Server, whole *ondemand.Objects[*corev1.Secret], stop func()) {
	server = reflectortest.Start(t)
	require.NoError(t, server.Create(secret("a", "1")))
	require.NoError(t, server.Create(secret("b", "1")))
	clients, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	metas, err := metadata.NewForConfig(server.Config())
	require.NoError(t, err)
	inf := informer.NewMetadata[corev1.Secret](metas.Resource(corev1.SchemeGroupVersion.WithResource("secrets")))
	whole, err = ondemand.New(clients.CoreV1().Secrets, inf.Cache())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- inf.Run(ctx) }()
	require.NoError(t, inf.WaitForSync(ctx))
	return server, whole, func() {
		cancel()
		require.NoError(t, <-ended)
		whole.Close()
	}
}

// The whole way: a metadata informer and a clientset against a server, which counts.
func TestSecretsOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, whole, stop := serveSecrets(t)
		defer stop()
		gets := func() int {
			return len(server.Requests(reflectortest.Verb("get"), reflectortest.ForResource("secrets")))
		}
		key := store.Key{Namespace: "default", Name: "a"}
		read := func() string {
			got, err := whole.Get(t.Context(), key)
			require.NoError(t, err)
			return string(got.Data["token"])
		}
		assert.Zero(t, gets())
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { assert.Equal(t, "1", read()) })
		}
		all.Wait()
		assert.Equal(t, 1, gets(), "twenty callers, one request")

		require.NoError(t, server.Update(secret("b", "2")))
		synctest.Wait()
		assert.Equal(t, "1", read())
		assert.Equal(t, 1, gets(), "another one changed")

		require.NoError(t, server.Update(secret("a", "2")))
		synctest.Wait()
		assert.Equal(t, "2", read())
		assert.Equal(t, 2, gets())

		require.NoError(t, server.Delete(secret("a", "")))
		synctest.Wait()
		_, err := whole.Get(t.Context(), key)
		_, ok := errors.AsType[*ondemand.NotFoundError](err)
		assert.True(t, ok)
		require.NoError(t, server.Create(secret("a", "3")))
		synctest.Wait()
		assert.Equal(t, "3", read())
		assert.Equal(t, 3, gets())
	})
}

// The definition of a resource changes: the metadata stays, and the server shows the rest
// differently.
func TestObjectsAreFetchedAgainAfterARelist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, whole, stop := serveSecrets(t)
		defer stop()
		read := func(name string) string {
			got, err := whole.Get(t.Context(), store.Key{Namespace: "default", Name: name})
			require.NoError(t, err)
			return string(got.Data["token"])
		}
		assert.Equal(t, "1", read("a"))
		assert.Equal(t, "1", read("b"))
		require.NoError(t, server.Convert("secrets", func(object metav1.Object) {
			object.(*corev1.Secret).Data["token"] = []byte("2")
		}))
		<-time.After(2 * time.Minute)
		synctest.Wait()
		server.ForgetRequests()
		assert.Equal(t, "2", read("a"))
		assert.Equal(t, "2", read("a"))
		assert.Len(t, server.Requests(reflectortest.Verb("get")), 1, "an object is fetched when it is used")
		assert.Equal(t, "2", read("b"))
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
