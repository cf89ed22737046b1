package write

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"testing"

	"github.com/kubereflector/kubereflector/internal/ownwrites"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	invalid "k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"
)

// otherStates are what a wanted object may say that is no exact copy of the held one.
var otherStates = map[string]func(d *appsv1.Deployment){
	"none": func(d *appsv1.Deployment) {
		d.ObjectMeta = metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name, Labels: d.Labels}
	},
	"later": func(d *appsv1.Deployment) { d.ResourceVersion = "1000000" },
	"other": func(d *appsv1.Deployment) { d.UID = "other" },
}

// write-W2: the wanted object does not decide which state of which object is patched.
func TestPatchIsOfTheHeldStateWhateverTheWantedObjectSays(t *testing.T) {
	for name, state := range otherStates {
		t.Run(name, func(t *testing.T) {
			server := reflectortest.Start(t)
			clientset, err := kubernetes.NewForConfig(server.Config())
			require.NoError(t, err)
			deployments := clientset.AppsV1().Deployments("ns")
			held := deployment(t, server)

			want := held.DeepCopy()
			state(want)
			server.ForgetRequests()
			if name != "none" { // it has no creationTimestamp either
				got, err := Patch(t.Context(), deployments, held, want)
				require.NoError(t, err)
				assert.Same(t, held, got)
				_, err = Status(t.Context(), deployments, held, want)
				require.NoError(t, err)
				assert.Empty(t, server.Requests(), "nothing differs")
			}

			for _, change := range []func(d *appsv1.Deployment){
				func(d *appsv1.Deployment) { d.Labels = map[string]string{"a": "b"} },
				func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[1].Image = "side:2" },
			} {
				recorded := &recording{Patcher: deployments}
				want := held.DeepCopy()
				change(want)
				state(want)
				current, err := Patch(context.WithValue(t.Context(), ownwrites.Key{}, recorded), recorded, held, want)
				require.NoError(t, err)
				assert.Equal(t, held.ResourceVersion, recorded.replaced)
				for i, path := range recorded.paths {
					assert.Equal(t, i < 2, path == "/metadata/uid" || path == "/metadata/resourceVersion", "%d: %s", i, path)
				}
				_, err = Patch(t.Context(), deployments, held, want)
				assert.True(t, apierrors.IsConflict(err), "another client wrote it since: %v", err)
				held = current
			}

			require.NoError(t, server.Delete(held.DeepCopy()))
			again := deployment(t, server)
			require.NotEqual(t, held.UID, again.UID)
			want = held.DeepCopy()
			want.Spec.Template.Spec.Containers[1].Image = "side:3"
			state(want)
			_, err = Patch(t.Context(), deployments, held, want)
			assert.True(t, apierrors.IsConflict(err), "another object has the name: %v", err)
			require.NoError(t, server.Get(again))
			assert.Equal(t, "side:1", again.Spec.Template.Spec.Containers[1].Image)
		})
	}
}

// recording notes the paths of JSON patches, and the version whose replacement is reported.
type recording struct {
	Patcher[*appsv1.Deployment]
	paths    []string
	replaced string
}

func (r *recording) Record(w ownwrites.Write) { r.replaced = w.Replaced }

func (r *recording) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*appsv1.Deployment, error) {
	if kind == types.JSONPatchType {
		var steps []operation
		if err := json.Unmarshal(data, &steps); err != nil {
			return nil, err
		}
		for _, step := range steps {
			r.paths = append(r.paths, step.Path)
		}
	}
	return r.Patcher.Patch(ctx, name, kind, data, opts, subresources...)
}

// The precondition stays also if the wanted object has no metadata at all.
func TestWantedObjectWithoutMetadataKeepsThePrecondition(t *testing.T) {
	for _, object := range []map[string]any{nil, {"spec": "x"}} {
		held := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a", "uid": "u", "resourceVersion": "5", "labels": map[string]any{"a": "b"}}}}
		d, err := differenceOf(held, &unstructured.Unstructured{Object: object})
		require.NoError(t, err)
		assert.Equal(t, map[string]any{"uid": "u", "resourceVersion": "5", "labels": map[string]any{}}, d.after["metadata"])
	}
}

// rejecting is a generated client whose server refuses the patches of one object.
type rejecting struct {
	held *appsv1.Deployment
	err  error
}

func (r rejecting) Get(context.Context, string, metav1.GetOptions) (*appsv1.Deployment, error) {
	return r.held, nil
}

func (r rejecting) Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*appsv1.Deployment, error) {
	return nil, r.err
}

// A server and its webhooks also answer 422 without a name to a patch that applies.
func TestRefusalOfAPatchThatAppliesIsNotAmbiguous(t *testing.T) {
	held := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u", ResourceVersion: "5"}}
	held.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "a"}, {Key: "a", Value: "b"}}
	want := held.DeepCopy()
	want.Spec.Template.Spec.Tolerations[1].Value = "c"
	for name, test := range map[string]struct {
		err       error
		ambiguous bool
	}{
		"an operation did not apply": {apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", "testing value failed", 0, false), true},
		"the result has no such type": {apierrors.NewInvalid(schema.GroupKind{}, "", invalid.ErrorList{
			invalid.Invalid(invalid.NewPath("patch"), "{}", "cannot unmarshal string into Go struct field"),
		}), false},
		"a webhook": {denied(apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", "", 0, false)), false},
	} {
		_, err := Patch(t.Context(), rejecting{held, test.err}, held, want)
		require.ErrorIs(t, err, test.err, name)
		assert.Equal(t, test.ambiguous, errors.Is(err, ErrAmbiguous), "%s: %v", name, err)
	}
}

// counting counts the operations of each JSON patch, and applies none.
type counting struct {
	*client.Resource[*Watched]
	counts *[]int
}

func (c counting) Patch(_ context.Context, _ string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*Watched, error) {
	var steps []operation
	if err := json.Unmarshal(data, &steps); err != nil {
		return nil, err
	}
	*c.counts = append(*c.counts, len(steps))
	return nil, nil
}

// The server refuses a JSON patch of more than 10,000 operations, however often it is sent.
func TestPatchOfVeryManyItemsHasFewOperations(t *testing.T) {
	conditions := make([]metav1.Condition, 5_000)
	for i := range conditions {
		conditions[i].Type = strconv.Itoa(i)
	}
	content, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}})
	require.NoError(t, err)
	_, all, held := startWatched(t, string(content))
	var counts []int
	of := counting{all.In("ns"), &counts}
	want := Copy(held)
	for i := range want.Status.Conditions {
		want.Status.Conditions[i].Message = "changed"
	}
	_, err = Status(t.Context(), of, held, want)
	require.NoError(t, err)
	assert.Equal(t, []int{5_002}, counts)

	// Without the server's document, or with too many changes, an error says so.
	_, err = Status(t.Context(), patchOnly[*Watched]{of}, held, want)
	require.ErrorIs(t, err, errTooMany)
	for i := range want.Status.Conditions {
		want.Status.Conditions[i].Reason = "changed"
	}
	_, err = Status(t.Context(), of, held, want)
	require.ErrorIs(t, err, errTooMany)
	assert.Len(t, counts, 1, "no request is in vain")
}
