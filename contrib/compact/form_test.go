package compact_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/contrib/compact"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/storetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// again packs an object, and returns the decoded one.
func again[T metav1.Object](t *testing.T, object T) T {
	t.Helper()
	packed, err := compact.NewPacker(store.ObjectKey[T], compact.WithRecent(0)).Pack(object)
	require.NoError(t, err)
	decoded, err := packed.Decode()
	require.NoError(t, err)
	assert.NotSame(t, any(object), any(decoded))
	return decoded
}

func pod(name string) *corev1.Pod {
	yes := true
	at := metav1.NewTime(time.Unix(1_750_000_000, 0))
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: "uid of " + "pod", ResourceVersion: "7", CreationTimestamp: at,
			Labels: map[string]string{"app": "till", "<&>": "ü"}, Finalizers: []string{"example.com/a"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "till", UID: "x", Controller: &yes}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "kubelet", Operation: "Update", Time: &at, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:status":{}}`)}},
		},
		Spec: corev1.PodSpec{
			NodeName: "node-1", Volumes: []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			Containers: []corev1.Container{{
				Name: "main", Image: "till:1",
				Resources:      corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("1Gi")}},
				ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("http")}}},
			}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &at},
	}
}

func TestGeneratedTypesComeBackWhole(t *testing.T) {
	kindless := pod("a")
	kindless.TypeMeta = metav1.TypeMeta{}
	for _, object := range []*corev1.Pod{pod("a"), kindless} {
		assert.True(t, equality.Semantic.DeepEqual(object, again(t, object)))
		assert.Equal(t, object.TypeMeta, again(t, object).TypeMeta)
	}
	replicas := int32(3)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: appsv1.DeploymentSpec{Replicas: &replicas}}
	assert.True(t, equality.Semantic.DeepEqual(deployment, again(t, deployment)))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"key": {0, 255, 1}}}
	assert.Equal(t, secret, again(t, secret))
}

// telescope is a custom resource without generated code.
type telescope struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Target string           `json:"target"`
		Mirror *mirror          `json:"mirror,omitempty"`
		Notes  map[string]any   `json:"notes,omitempty"`
		Sizes  []float64        `json:"sizes,omitempty"`
		Until  metav1.MicroTime `json:"until,omitzero"`
	} `json:"spec"`
	cached int
}

type mirror struct{}

func TestTypesWithoutGeneratedMethodsComeBackAsJSONHasThem(t *testing.T) {
	scope := &telescope{TypeMeta: metav1.TypeMeta{Kind: "Telescope", APIVersion: "example.com/v1"}, ObjectMeta: metav1.ObjectMeta{Name: "hale"}, cached: 1}
	scope.Spec.Target, scope.Spec.Mirror, scope.Spec.Sizes = "<Vega & Deneb>", &mirror{}, []float64{0.5, 200}
	scope.Spec.Notes = map[string]any{"n": int64(1), "list": []any{"a", nil, true}}
	want := *scope
	want.cached = 0
	assert.Equal(t, &want, again(t, scope), "all that has a name in JSON, and nothing else")
}

// extended is a generated type and more.
type extended struct {
	corev1.Pod
	Extra string `json:"extra"`
}

// described is metadata and more: the metadata's methods are promoted.
type described struct {
	metav1.ObjectMeta `json:"metadata"`
	Extra             string `json:"extra"`
}

// pointed is extended by a pointer.
type pointed struct {
	*corev1.Pod
	Extra string `json:"extra"`
}

func TestMethodsOfAnEmbeddedTypeAreNotThoseOfTheWhole(t *testing.T) {
	type message interface{ Unmarshal([]byte) error }
	require.Implements(t, (*message)(nil), &extended{})
	require.Implements(t, (*message)(nil), &described{})
	require.Implements(t, (*message)(nil), &pointed{})
	assert.Equal(t, "more", again(t, &extended{*pod("a"), "more"}).Extra)
	assert.Equal(t, "till", again(t, &extended{*pod("a"), "more"}).Labels["app"])
	assert.Equal(t, &described{metav1.ObjectMeta{Name: "a"}, "more"}, again(t, &described{metav1.ObjectMeta{Name: "a"}, "more"}))
	assert.Equal(t, "more", again(t, &pointed{pod("a"), "more"}).Extra)
}

func TestUntypedObjectsKeepAllFields(t *testing.T) {
	for _, object := range []map[string]any{
		{"kind": "Thing", "apiVersion": "example.com/v1", "metadata": map[string]any{"name": "a"}, "spec": map[string]any{
			"whole": int64(math.MaxInt64), "part": 0.5, "list": []any{int64(1), map[string]any{}}, "nothing": nil, "empty": []any{}, "text": "<\u2028>"}},
		{"metadata": map[string]any{"name": "without a kind"}},
	} {
		assert.Equal(t, object, again(t, &unstructured.Unstructured{Object: object}).Object)
	}
}

// crooked cannot be read the way it is written.
type crooked struct {
	metav1.ObjectMeta `json:"metadata"`
	Text              crookedText `json:"text"`
}

type crookedText string

func (crookedText) MarshalText() ([]byte, error) { return []byte("written"), nil }

var errCrooked = errors.New("crooked s3")

func (*crookedText) UnmarshalText([]byte) error { return errCrooked }

func TestObjectThatCannotBeDecodedAgainIsRejected(t *testing.T) {
	s := compact.New(store.ObjectKey[*crooked])
	err := s.Add(&crooked{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "n"}})
	rejected, ok := errors.AsType[*store.RejectedError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, store.Key{Namespace: "n", Name: "a"}, rejected.Rejections[0].Key)
	failed, ok := errors.AsType[*compact.DecodeError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, store.Key{Namespace: "n", Name: "a"}, failed.Key)
	assert.ErrorIs(t, err, errCrooked)
	assert.Contains(t, failed.Error(), `"n/a"`)
	assert.NotContains(t, err.Error(), "s3", "a method may quote a value of the object")
	assert.Zero(t, s.Len())
}

// unwritable has a number that JSON does not.
type unwritable struct {
	metav1.ObjectMeta `json:"metadata"`
	Number            float64 `json:"number"`
}

func TestObjectThatCannotBeEncodedIsRejected(t *testing.T) {
	s := compact.New(store.ObjectKey[*unwritable])
	require.NoError(t, s.Add(&unwritable{metav1.ObjectMeta{Name: "a"}, 1}))
	err := s.Update(&unwritable{metav1.ObjectMeta{Name: "a"}, math.NaN()})
	_, ok := errors.AsType[*store.RejectedError](err)
	require.True(t, ok, "%v", err)
	held, _ := s.Get(store.Key{Name: "a"})
	assert.Equal(t, 1.0, held.Number, "what was held stays")

	panicking := pod("a")
	panicking.Spec.Containers = nil
	p := compact.NewPacker(func(*corev1.Pod) (store.Key, error) { panic("no key today") })
	_, err = p.Pack(panicking)
	assert.ErrorIs(t, err, store.ErrPanic)
	assert.ErrorContains(t, err, "(form_test.go:")
	assert.NotContains(t, err.Error(), "no key today", "it may be the value of a Secret")
}

// broken is generated, and its methods do not fit each other.
type broken struct {
	metav1.ObjectMeta `json:"metadata"`
}

func (b *broken) Size() int                                   { return len(b.Name) }
func (b *broken) MarshalToSizedBuffer(to []byte) (int, error) { return copy(to, b.Name), nil }
func (b *broken) Unmarshal(data []byte) error {
	if strings.HasPrefix(string(data), "bad") {
		return errCrooked
	}
	b.Name = string(data)
	return nil
}

func TestGeneratedMethodsThatDoNotFitAreNotSilent(t *testing.T) {
	s := compact.New(store.ObjectKey[*broken], compact.WithRecent(0))
	require.NoError(t, s.Add(&broken{ObjectMeta: metav1.ObjectMeta{Name: "good"}}))
	require.NoError(t, s.Add(&broken{ObjectMeta: metav1.ObjectMeta{Name: "bad"}}))
	good, _ := s.Get(store.Key{Name: "good"})
	assert.Equal(t, "good", good.Name)
	packed, _ := s.Cache().Get(store.Key{Name: "bad"})
	_, err := packed.Decode()
	failed, ok := errors.AsType[*compact.DecodeError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, store.Key{Name: "bad"}, failed.Key)
	assert.ErrorIs(t, err, errCrooked)
	defer func() { assert.Equal(t, failed, recover()) }()
	s.Get(store.Key{Name: "bad"})
	t.Fatal("the read came back")
}

func TestTypesThatCannotBePacked(t *testing.T) {
	_, err := compact.NewPacker(func(string) (store.Key, error) { return store.Key{Name: "a"}, nil }).Pack("a")
	assert.ErrorIs(t, err, compact.ErrNoStruct)
	assert.ErrorContains(t, err, "string")
	_, err = compact.NewPacker[*corev1.Pod](nil).Pack(pod("a"))
	assert.ErrorContains(t, err, "no KeyFunc")
	assert.ErrorContains(t, compact.New[*corev1.Pod](nil).Add(pod("a")), "no KeyFunc")
	_, err = compact.NewPacker(store.ObjectKey[*corev1.Pod]).Pack(nil)
	assert.ErrorIs(t, err, store.ErrBadKey)
}

func TestPackedObjectsSayWhoTheyAre(t *testing.T) {
	for _, long := range []string{"", "x", strings.Repeat("long", 100)} {
		object := &storetest.Object{Cluster: "c" + long, Namespace: "n" + long, Name: "a" + long, UID: "u", ResourceVersion: "1" + long}
		packed, err := compact.NewPacker(storetest.ClusterKey).Pack(object)
		require.NoError(t, err)
		key, err := compact.Key(packed)
		require.NoError(t, err)
		assert.Equal(t, store.Key{Cluster: object.Cluster, Namespace: object.Namespace, Name: object.Name}, key)
		assert.Equal(t, object.Name, packed.GetName())
		assert.Equal(t, object.Namespace, packed.GetNamespace())
		assert.Equal(t, object.UID, packed.GetUID())
		assert.Equal(t, object.ResourceVersion, packed.GetResourceVersion())
		assert.Equal(t, object, packed.Object())
	}
	_, err := compact.Key[*corev1.Pod](nil)
	assert.ErrorIs(t, err, store.ErrBadKey)
}

func TestObjectsWithoutAVersionHaveNone(t *testing.T) {
	type title struct{ Name string }
	packed, err := compact.NewPacker(func(t *title) (store.Key, error) { return store.Key{Name: t.Name}, nil }).Pack(&title{"Emma"})
	require.NoError(t, err)
	assert.Empty(t, packed.GetUID())
	assert.Empty(t, packed.GetResourceVersion())
	assert.Equal(t, "Emma", packed.Object().Name)
}

// configured returns a ConfigMap of a kind: those of one kind differ in a number only.
func configured(kind uint64, i int) *corev1.ConfigMap {
	random := rand.New(rand.NewPCG(kind, kind))
	text := make([]byte, 4096)
	for at := range text {
		text[at] = 'a' + byte(random.IntN(26))
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("kind-", kind), Name: fmt.Sprint("c-", i), UID: "u", ResourceVersion: fmt.Sprint(i)},
		Data:       map[string]string{"text": string(text), "number": fmt.Sprint(i)},
	}
}

func TestLikeObjectsBecomeSmall(t *testing.T) {
	packer := compact.NewPacker(store.ObjectKey[*corev1.ConfigMap], compact.WithRecent(0))
	var all []*compact.Packed[*corev1.ConfigMap]
	for i := range 300 {
		packed, err := packer.Pack(configured(1, i))
		require.NoError(t, err)
		all = append(all, packed)
	}
	assert.Greater(t, all[0].Size(), 2000, "nothing is known yet")
	assert.Less(t, all[299].Size(), 200)
	for i, packed := range all {
		assert.Equal(t, configured(1, i), packed.Object(), "whatever it was packed with")
	}
}

func TestDictionariesFollowTheObjects(t *testing.T) {
	packer := compact.NewPacker(store.ObjectKey[*corev1.ConfigMap], compact.WithRecent(0))
	var old, late *compact.Packed[*corev1.ConfigMap]
	for i := range 5600 {
		kind := uint64(i / 1200) // 1 and more are alike
		packed, err := packer.Pack(configured(min(kind, 1), i))
		require.NoError(t, err)
		if late = packed; i == 500 {
			old = packed
		}
	}
	assert.Less(t, late.Size(), 200, "the new kind was learned")
	assert.Equal(t, configured(0, 500), old.Object())
	assert.Equal(t, configured(1, 5599), late.Object())
}

func TestObjectsThatAreAllSortsOfSizes(t *testing.T) {
	packer := compact.NewPacker(store.ObjectKey[*corev1.ConfigMap], compact.WithRecent(0))
	random := rand.New(rand.NewPCG(5, 5))
	for i := range 200 {
		size := 1 << random.IntN(18)
		data := make([]byte, size)
		for at := range data {
			data[at] = byte(random.Uint32())
		}
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c-", i)}, BinaryData: map[string][]byte{"data": data}}
		packed, err := packer.Pack(object)
		require.NoError(t, err)
		assert.Less(t, packed.Size(), size+200, "what cannot be compressed is not larger")
		require.Equal(t, object, packed.Object())
	}
}

// values is an object with free-form data.
type values struct {
	metav1.ObjectMeta `json:"metadata"`
	Values            map[string]any `json:"values"`
}

func TestNumbersOfFreeFormDataKeepTypeAndDigits(t *testing.T) {
	numbers := func() map[string]any {
		return map[string]any{"int": int64(3), "beyond 2^53": int64(9007199254740993), "float": 3.0, "list": []any{1.0, int64(1), 1e300}}
	}
	typed := &values{metav1.ObjectMeta{Name: "a"}, numbers()}
	assert.Equal(t, typed, again(t, typed))
	loose := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a"}, "values": numbers()}}
	assert.Equal(t, loose, again(t, loose))
}
