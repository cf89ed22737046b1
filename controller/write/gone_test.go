package write

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/kubereflector/kubereflector/internal/ownwrites"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
)

// refusing is a client whose server answers with an error.
type refusing struct{ err error }

func (r refusing) Delete(context.Context, string, metav1.DeleteOptions) error { return r.err }

func (r refusing) Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*corev1.ConfigMap, error) {
	return nil, r.err
}

// denied returns an error as an admission webhook's: the API server keeps everything but the message.
func denied(err *apierrors.StatusError) error {
	err.ErrStatus.Message = `admission webhook "w.example.com" denied the request: ` + err.ErrStatus.Message
	return err
}

func TestObjectIsGoneOnlyIfTheServerSaysSoOfThatObject(t *testing.T) {
	configMaps, policies := schema.GroupResource{Resource: "configmaps"}, schema.GroupResource{Group: "example.com", Resource: "policies"}
	inUse := errors.New("still in use")
	for name, test := range map[string]struct {
		err              error
		deleted, removed bool
	}{
		"the object does not exist":             {apierrors.NewNotFound(configMaps, "c"), true, true},
		"another object has the name":           {apierrors.NewConflict(configMaps, "c", errors.New("the UID in the precondition does not match")), true, false},
		"there is no such path":                 {apierrors.NewGenericServerResponse(http.StatusNotFound, "DELETE", configMaps, "c", "", 0, true), false, false},
		"another object does not exist":         {apierrors.NewNotFound(policies, "p"), false, false},
		"a webhook misses another object":       {denied(apierrors.NewNotFound(policies, "p")), false, false},
		"a webhook misses one of the same name": {denied(apierrors.NewNotFound(policies, "c")), false, false},
		"a webhook answers with a conflict":     {denied(apierrors.NewConflict(configMaps, "c", inUse)), false, false},
		"a conflict of another object":          {apierrors.NewConflict(policies, "p", inUse), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "u", ResourceVersion: "5", Finalizers: []string{finalizer}}}
			var told reports
			ctx := context.WithValue(t.Context(), ownwrites.Key{}, &told)
			check := func(gone bool, err error) {
				t.Helper()
				if gone {
					require.NoError(t, err)
					assert.EqualValues(t, 1, told)
				} else {
					require.ErrorIs(t, err, test.err)
					assert.Zero(t, told)
				}
				told = 0
			}
			check(test.deleted, Delete(ctx, refusing{test.err}, held))
			_, err := RemoveFinalizer(ctx, refusing{test.err}, held, finalizer)
			check(test.removed, err)
		})
	}
}

// A server has no object with a namespace under a path without one, or with another one.
func TestClientOfAnotherNamespaceIsRefused(t *testing.T) {
	w := newWorld(t)
	clientset, err := kubernetes.NewForConfig(w.server.Config())
	require.NoError(t, err)
	held := w.configMap(func(c *corev1.ConfigMap) { c.Finalizers = []string{finalizer} })
	elsewhere := w.resource().In("other")
	metadata := &metav1.PartialObjectMetadata{ObjectMeta: held.ObjectMeta}
	require.Error(t, Delete(t.Context(), w.resource(), metadata))
	require.ErrorIs(t, Delete(t.Context(), elsewhere, metadata), client.ErrOtherObject)
	for name, of := range map[string]interface {
		Patcher[*corev1.ConfigMap]
		Deleter
	}{
		"all namespaces":    clientset.CoreV1().ConfigMaps(""),
		"another namespace": clientset.CoreV1().ConfigMaps("other"),
		"a double":          fake.NewClientset(held).CoreV1().ConfigMaps(""),
		"a Resource":        elsewhere,
	} {
		t.Run(name, func(t *testing.T) {
			w.server.ForgetRequests()
			require.ErrorIs(t, Delete(t.Context(), of, held), client.ErrOtherObject)
			_, err := RemoveFinalizer(t.Context(), of, held, finalizer)
			require.ErrorIs(t, err, client.ErrOtherObject)
			assert.Empty(t, w.server.Requests())
		})
	}
	w.get()
}

// The program was built for a version that the cluster does not serve any more.
func TestResourceThatIsNotServedAnyMoreIsNotADeletion(t *testing.T) {
	w := newWorld(t)
	bucket := &Bucket{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", Finalizers: []string{finalizer}}}
	require.NoError(t, w.server.Create(bucket))
	old, err := client.ForResource[*Bucket](w.server.Config(), buckets.GroupResource().WithVersion("v1beta1"), "")
	require.NoError(t, err)
	require.Error(t, Delete(t.Context(), old, bucket))
	_, err = RemoveFinalizer(t.Context(), old, bucket, finalizer)
	require.Error(t, err)
}
