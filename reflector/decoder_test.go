package reflector_test

import (
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// PointsToMeta has methods that panic unless an object has metadata, Unmarshal among them.
type PointsToMeta struct {
	*metav1.ObjectMeta `json:"metadata"`
}

// PointsToBoth has also a kind only if an object says one.
type PointsToBoth struct {
	*metav1.TypeMeta   `json:",inline"`
	*metav1.ObjectMeta `json:"metadata"`
}

// Unkinded has a GetObjectKind that always panics.
type Unkinded struct {
	runtime.Object    `json:"-"`
	metav1.ObjectMeta `json:"metadata"`
}

// read lists objects and watches them, as T, and returns the errors of both.
func read[T reflector.Object](t *testing.T, object string) (list, event error) {
	var opts []client.ResourceOption
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			server := &scripted{
				lists:   []scriptedAnswer{jsonList("7", object), jsonList("7")},
				watches: []scriptedAnswer{{body: jsonEvent(watch.Added, object), open: true}},
			}
			resource, err := client.ForResource[T](localhost(server), configMapResource, "default", opts...)
			require.NoError(t, err)
			_, list = resource.List(t.Context(), metav1.ListOptions{})
			r := reflector.New(resource, store.New(store.ObjectKey[T]), reflector.WithoutWatchList())
			stop := start(t, r)
			event = r.State().Err
			stop()
		})
		opts = append(opts, client.WithUnknownFields(func(*client.DecodeError) {}))
	}
	return list, event
}

func TestObjectWhoseMethodsPanicIsUndecodable(t *testing.T) {
	const named, nameless = `{"metadata":{"namespace":"default","name":"a","uid":"u","resourceVersion":"8"},"more":1}`, `{"kind":"x","more":1}`
	for name, tc := range map[string]struct {
		read func(*testing.T, string) (error, error)
		of   string
		bad  bool
	}{
		"no metadata":            {read[*PointsToMeta], nameless, true},
		"no metadata, but kind":  {read[*PointsToBoth], nameless, true},
		"metadata":               {read[*PointsToMeta], named, false},
		"metadata, but no kind":  {read[*PointsToBoth], named, false},
		"a kind that panics":     {read[*Unkinded], named, true},
		"metadata that is there": {read[*Placed], named, false},
	} {
		t.Run(name, func(t *testing.T) {
			list, event := tc.read(t, tc.of)
			if !tc.bad {
				assert.NoError(t, list)
				assert.NoError(t, event)
				return
			}
			for _, err := range []error{list, event} {
				var failure *client.DecodeError
				require.ErrorAs(t, err, &failure)
				assert.ErrorIs(t, err, store.ErrPanic)
			}
		})
	}
}
