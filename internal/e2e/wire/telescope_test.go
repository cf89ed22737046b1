package wire

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// telescope is all that there is of a custom resource: no generated code and no scheme.
type telescope struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              telescopeSpec   `json:"spec"`
	Status            telescopeStatus `json:"status,omitzero"`
}

// telescopeSpec has a field of every shape that a schema can describe.
type telescopeSpec struct {
	Target   string                `json:"target"`
	Aperture float64               `json:"aperture"`
	Frames   int64                 `json:"frames"`
	Tracking *bool                 `json:"tracking,omitempty"`
	Port     intstr.IntOrString    `json:"port"`
	Storage  resource.Quantity     `json:"storage,omitzero"`
	Exposure metav1.Duration       `json:"exposure,omitzero"`
	Since    *metav1.MicroTime     `json:"since,omitempty"`
	Key      []byte                `json:"key,omitempty"`
	Filters  []string              `json:"filters,omitempty"`
	Notes    map[string]string     `json:"notes,omitempty"`
	Mounts   []mount               `json:"mounts,omitempty"`
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	Priority int32                 `json:"priority"`
	Settings map[string]any        `json:"settings,omitempty"`
}

type mount struct {
	Name    string           `json:"name"`
	Offsets map[string]int32 `json:"offsets,omitempty"`
}

type telescopeStatus struct {
	Pointing   string             `json:"pointing,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

var telescopes = schema.GroupVersionResource{Group: "wire.example.com", Version: "v1", Resource: "telescopes"}

//go:embed testdata/telescopes.json
var definition []byte

// install makes the server know telescopes, and waits until it serves them.
func install(w *world) {
	w.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(w, object.UnmarshalJSON(definition))
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	_, err := w.dynamic.Resource(definitions).Create(w.Context(), object, metav1.CreateOptions{})
	require.NoError(w, err)
	w.insist("the server to serve telescopes", func() error {
		_, err := w.dynamic.Resource(telescopes).List(w.Context(), metav1.ListOptions{})
		return err
	})
}

// newTelescope makes the telescope of a number. Some fields repeat between telescopes, others do not, and some are not there in each.
func newTelescope(i int) any {
	since := metav1.NewMicroTime(time.Date(2025, 1, 2, 3, 4, 5, 678901000, time.UTC).Add(time.Duration(i) * time.Minute))
	seen := metav1.NewTime(since.Truncate(time.Second))
	t := &telescope{
		TypeMeta: metav1.TypeMeta{APIVersion: telescopes.GroupVersion().String(), Kind: "Telescope"},
		ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{"app.kubernetes.io/name": fmt.Sprintf("site-%d", i/20), "tier": "observation"},
			Annotations: map[string]string{"example.com/note": "ünïcode, \"quotes\" and \\ <tags>\n"},
			Finalizers:  nil,
		},
		Spec: telescopeSpec{
			Target: fmt.Sprintf("NGC %d", i), Aperture: 0.25 + float64(i), Frames: 1<<60 + int64(i),
			Port: intstr.FromInt32(8080), Storage: resource.MustParse("500Mi"), Exposure: metav1.Duration{Duration: 90 * time.Second},
			Since: &since, Key: []byte{0, 1, byte(i), 255}, Filters: []string{"red", "green", fmt.Sprint("own-", i)},
			Notes:    map[string]string{"site": fmt.Sprintf("site-%d", i/20)},
			Mounts:   []mount{{Name: "north", Offsets: map[string]int32{"x": int32(i), "y": -1}}, {Name: "south"}},
			Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "In", Values: []string{"a", "b"}}}},
			Priority: int32(i),
			Settings: map[string]any{"deep": map[string]any{"list": []any{int64(1), 1.5, "two", true, nil, map[string]any{}}}, "own": int64(i)},
		},
		Status: telescopeStatus{Conditions: []metav1.Condition{
			{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Focused", Message: "all is well", ObservedGeneration: int64(i), LastTransitionTime: seen},
		}},
	}
	if i%2 == 0 {
		yes := i%4 == 0
		t.Spec.Tracking, t.Spec.Port, t.Spec.Settings = &yes, intstr.FromString("https"), nil
	}
	if i%3 == 0 {
		t.Spec.Mounts, t.Spec.Selector, t.Labels, t.Status = nil, nil, nil, telescopeStatus{}
	}
	return t
}

// asRead returns an object as the dynamic client reads it.
func asRead(object any) map[string]any {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err) // a mistake in the test
	}
	read := &unstructured.Unstructured{}
	if err := read.UnmarshalJSON(text); err != nil {
		panic(err)
	}
	return read.Object
}
