package inspect

import (
	"errors"
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/masking"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	hidden  = "cGFzc3dvcmQ="
	applied = masking.Applied
)

var meta = metav1.ObjectMeta{Name: "a", Annotations: map[string]string{applied: "{\"data\":\"" + hidden + "\"}", "meta.helm.sh/release-name": "kept"}}

type credential struct { // a user's type for Secrets
	metav1.ObjectMeta `json:"metadata"`
	Data              map[string]string `json:"data"`
}

func shown[T any](t *testing.T, object T, pointers ...string) string {
	t.Helper()
	p := New(WithMasked(pointers...))
	text, err := yamlOf(object, p.masked)
	require.NoError(t, err)
	return text
}

func TestSecretsAreMaskedWhateverTheirType(t *testing.T) {
	tree := map[string]any{
		"apiVersion": "v1", "kind": "Secret", "data": map[string]any{"p": hidden}, "stringData": map[string]any{"q": hidden},
		"metadata": map[string]any{"annotations": map[string]any{applied: hidden, "meta.helm.sh/release-name": "kept"}},
	}
	for name, text := range map[string]string{
		"typed":        shown(t, &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"p": []byte("password")}, StringData: map[string]string{"q": hidden}}),
		"value":        shown(t, corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"p": []byte("password")}}),
		"unstructured": shown(t, &unstructured.Unstructured{Object: tree}),
		"own":          shown(t, &credential{ObjectMeta: meta, Data: map[string]string{"p": hidden}}),
		"metadata":     shown(t, informer.Metadata[corev1.Secret]{PartialObjectMetadata: &metav1.PartialObjectMetadata{ObjectMeta: meta}}),
	} {
		assert.NotContains(t, text, hidden, name)
		assert.Contains(t, text, mask, name)
		assert.Contains(t, text, "release-name: kept", name)
	}
	require.Equal(t, hidden, tree["data"].(map[string]any)["p"], "the object itself is not touched")
}

type bare struct { // a user's type for Secrets without JSON tags
	Name, Kind  string
	Annotations map[string]string
	Data        map[string][]byte
}

type bundle struct {
	metav1.TypeMeta `json:",inline"`
	Certificate     *corev1.Secret
	Others          []corev1.Secret `json:"others"`
}

type holder struct { // may hold objects of any type
	metav1.TypeMeta `json:",inline"`
	Objects         map[string]any `json:"objects"`
}

type templated struct {
	metav1.TypeMeta `json:",inline"`
	Spec            struct {
		Copies map[string][]secretTemplate `json:"copies"`
	} `json:"spec"`
}

type secretTemplate struct { // a user's type for Secrets within others
	metav1.ObjectMeta `json:"metadata"`
	Data              map[string]string `json:"data"`
}

type recursive struct {
	metav1.TypeMeta `json:",inline"`
	Next            *recursive     `json:"next,omitempty"`
	Hidden          *recursive     `json:"-"`
	Objects         []any          `json:"objects"`
	Data            map[string]any `json:"data"`
}

func TestSecretsAreMaskedWhereverTheyAre(t *testing.T) {
	secret := corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"p": []byte("password")}, StringData: map[string]string{"q": hidden}}
	item := map[string]any{"data": map[string]any{"p": hidden}, "metadata": map[string]any{"annotations": map[string]any{applied: hidden, "meta.helm.sh/release-name": "kept"}}}
	kind := metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "App"}
	said := map[string]any{"kind": "Secret", "data": map[string]any{"p": hidden}, "metadata": item["metadata"]}
	copies := *meta.DeepCopy()
	copies.Annotations["example.com/original"] = ` {"data":"` + hidden + `"}`
	copies.Annotations["example.com/packed"] = "H4sIAAAA" + hidden
	copies.Annotations["openshift.io/token-secret.value"] = hidden
	for name, text := range map[string]string{
		"fields without tags": shown(t, bare{Name: "a", Kind: "tls", Annotations: meta.Annotations, Data: secret.Data}),
		"in fields":           shown(t, &bundle{Certificate: &secret, Others: []corev1.Secret{secret}}),
		"in fields of a kind": shown(t, &bundle{TypeMeta: kind, Certificate: &secret, Others: []corev1.Secret{secret}}),
		"in an interface":     shown(t, &holder{TypeMeta: kind, Objects: map[string]any{"x": []any{&secret}}}),
		"in an own type":      shown(t, templateOf(kind, secretTemplate{ObjectMeta: meta, Data: map[string]string{"p": hidden}})),
		"only annotations":    shown(t, &bundle{TypeMeta: kind, Certificate: &corev1.Secret{ObjectMeta: copies}}),
		"unstructured fields": shown(t, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "App", "template": map[string]any{"stringData": map[string]any{"p": hidden}, "metadata": item["metadata"]}}}),
		"by its type":         shown(t, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "App", "template": map[string]any{"type": "kubernetes.io/tls", "data": map[string]any{"p": hidden}, "metadata": item["metadata"]}}}),
		"metadata in a list":  shown(t, &metav1.PartialObjectMetadata{ObjectMeta: copies}),
		"list":                shown(t, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "SecretList", "items": []any{item}}}),
		"in another kind":     shown(t, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "List", "items": []any{said}}}),
		"metadata":            shown(t, &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}, ObjectMeta: meta}),
		"other copies":        shown(t, &corev1.Secret{ObjectMeta: copies}),
	} {
		assert.NotContains(t, text, hidden, name)
		assert.Contains(t, text, mask, name)
		assert.Contains(t, text, "release-name: kept", name)
	}
}

func templateOf(kind metav1.TypeMeta, of secretTemplate) *templated {
	o := &templated{TypeMeta: kind}
	o.Spec.Copies = map[string][]secretTemplate{"a": {of}}
	return o
}

func TestOthersAreShown(t *testing.T) {
	kind := metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "App"}
	assert.Contains(t, shown(t, &holder{TypeMeta: kind, Objects: map[string]any{"x": &corev1.ConfigMap{Data: map[string]string{"p": "plain"}}}}), "p: plain")
	refers := &recursive{TypeMeta: kind, Data: map[string]any{"p": "plain"}, Objects: []any{&corev1.Pod{}, nil, 7}}
	refers.Hidden = refers
	assert.Contains(t, shown(t, refers), "p: plain")
	refers.Objects[1] = []corev1.Secret{}
	assert.NotContains(t, shown(t, refers), "p: plain", "it may hold the data of the Secret")
	assert.Contains(t, shown(t, &corev1.ConfigMap{Data: map[string]string{"p": "plain"}}), "p: plain")
	assert.Contains(t, shown(t, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "data": map[string]any{"p": "plain"}}}), "p: plain")
}

func TestAnnotationsOfOthersAreShown(t *testing.T) {
	annotated := metav1.ObjectMeta{Name: "a", Annotations: map[string]string{"network": `{"ip":"10.0.0.1"}`}}
	assert.Contains(t, shown(t, &corev1.Pod{ObjectMeta: annotated}), "10.0.0.1")
	assert.NotContains(t, shown(t, &corev1.Secret{ObjectMeta: annotated}), "10.0.0.1")
}

// TestTypeOfTheObjectDecides serves informers of any kind, whose T is an interface.
func TestTypeOfTheObjectDecides(t *testing.T) {
	annotated := metav1.ObjectMeta{Name: "a", Annotations: map[string]string{"token": hidden}}
	assert.NotContains(t, shown[metav1.Object](t, &corev1.Secret{ObjectMeta: annotated}), hidden)
	assert.Contains(t, shown[metav1.Object](t, &corev1.ConfigMap{ObjectMeta: annotated, Data: map[string]string{"p": "plain"}}), "p: plain")
}

func TestMaskedFields(t *testing.T) {
	tree := &unstructured.Unstructured{Object: map[string]any{
		"kind": "Thing",
		"spec": map[string]any{
			"password": "hush", "a/b~c": "hush", "port": int64(5432),
			"users": []any{map[string]any{"name": "ann", "token": "hush"}, map[string]any{"name": "bob", "token": "hush"}},
			"keys":  map[string]any{"one": "hush", "two": []any{"hush", int64(7)}},
		},
	}}
	text := shown(t, tree, "/spec/password", "/spec/a~1b~0c", "/spec/users/token", "/spec/keys", "/spec/none/there")
	assert.NotContains(t, text, "hush")
	assert.NotContains(t, text, "7\n")
	assert.Contains(t, text, "port: 5432")
	assert.Contains(t, text, "name: bob")
}

func TestMaskedElementsOfLists(t *testing.T) {
	tree := &unstructured.Unstructured{Object: map[string]any{
		"kind": "Thing",
		"spec": map[string]any{
			"users": []any{map[string]any{"name": "ann", "token": "hush"}, map[string]any{"name": "bob", "token": "hush"}},
			"lists": []any{[]any{"hush", "hush"}, []any{map[string]any{"0": "hush", "name": "cid"}}},
		},
	}}
	text := shown(t, tree, "/spec/users/0/token", "/spec/lists/1/-/0", "/spec/lists/0/1")
	assert.NotContains(t, text, "hush")
	assert.Contains(t, text, "name: bob")

	text = shown(t, tree, "")
	assert.NotContains(t, text, "hush")
	assert.NotContains(t, text, "bob", "the pointer of the whole object")
}

func TestWhatIsNoJSONObjectIsAnError(t *testing.T) {
	_, err := yamlOf(7, nil)
	assert.ErrorContains(t, err, "no JSON object")
	_, err = yamlOf(make(chan int), nil)
	assert.Error(t, err)
}

// vault is an object whose own method does not encode it, and quotes why.
type vault struct{}

var errSecret = errors.New("bad password hush")

func (*vault) MarshalJSON() ([]byte, error) { return nil, errSecret }

func TestErrorOfAnObjectThatDoesNotEncodeQuotesNoValue(t *testing.T) {
	_, err := yamlOf(&vault{}, nil)
	require.ErrorIs(t, err, errSecret)
	assert.NotContains(t, err.Error(), "hush")
}

func TestDifferencesOfTwoVersions(t *testing.T) {
	before := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: "1", Labels: map[string]string{"old": "x"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "one"}}},
	}
	after := before.DeepCopy()
	after.ResourceVersion, after.Labels, after.ManagedFields[0].Manager = "2", nil, "n"
	after.Spec.Containers[0].Image = "two"
	after.Spec.Containers = append(after.Spec.Containers, corev1.Container{Name: "d"})
	fields, ok := differences(before, after, nil)
	require.True(t, ok)
	assert.Equal(t, []FieldChange{
		{"metadata.labels", `{"old":"x"}`, ""},
		{"metadata.resourceVersion", `"1"`, `"2"`},
		{"spec.containers[0].image", `"one"`, `"two"`},
		{"spec.containers[1]", "", `{"name":"d","resources":{}}`},
	}, fields)

	fields, ok = differences(before, before, nil)
	assert.True(t, ok)
	assert.Empty(t, fields)
	_, ok = differences(1, 2, nil)
	assert.False(t, ok)
}

func TestDifferencesAreMaskedAndBounded(t *testing.T) {
	secret := func(value string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: value}, Data: map[string][]byte{"p": []byte(value)}}
	}
	fields, ok := differences(secret("hush"), secret("hushed"), nil)
	require.True(t, ok)
	assert.Equal(t, []FieldChange{{"metadata.name", `"hush"`, `"hushed"`}}, fields)

	thing := func(text string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"kind": "Thing", "spec": map[string]any{"text": text, "token": text}}}
	}
	fields, ok = differences(thing(""), thing(strings.Repeat("é", 1000)), [][]string{{"spec", "token"}})
	require.True(t, ok)
	require.Len(t, fields, 1)
	assert.Equal(t, "spec.text", fields[0].Path)
	assert.Len(t, []rune(fields[0].After), shownValue+1)
}
