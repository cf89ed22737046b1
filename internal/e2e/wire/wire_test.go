package wire

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	inJSON     = "application/json"
	inProtobuf = "application/vnd.kubernetes.protobuf"
)

// subject is a resource, how client-go reads it, and how it is mirrored.
type subject struct {
	population
	read    func(*world) objects
	mirrors []decoding
}

// decoding is a way to decode a resource.
type decoding struct {
	name   string
	media  string
	mirror func(w *world, p *population, opts ...reflector.Option) mirror
}

// decoded is a way to decode into T, which is compared in a form.
func decoded[T comparableObject](name, media string, form func(T) any, opts ...client.ResourceOption) decoding {
	return decoding{name, media, func(w *world, p *population, own ...reflector.Option) mirror {
		w.Helper()
		return newMirror(w, p, form, opts, own)
	}}
}

func itself[T any](object T) any { return object }

func newSubjects() []*subject {
	return []*subject{
		{population{resource: telescopes, size: 1200, make: newTelescope}, readTelescopes, []decoding{
			decoded("struct", inJSON, func(t *telescope) any { return asRead(t) }),
			decoded("unstructured", inJSON, func(u *unstructured.Unstructured) any { return u.Object }),
		}},
		{population{resource: pods, size: 500, make: newPod}, readPods, []decoding{
			decoded("protobuf", inProtobuf, itself[*corev1.Pod]),
			decoded("protobuf unshared", inProtobuf, itself[*corev1.Pod], client.WithoutInterning()),
		}},
		{population{resource: configMaps, size: 500, make: newConfigMap}, readConfigMaps, []decoding{
			decoded("protobuf", inProtobuf, itself[*corev1.ConfigMap]),
		}},
	}
}

func readTelescopes(w *world) objects {
	w.Helper()
	list, err := w.dynamic.Resource(telescopes).Namespace(w.namespace).List(w.Context(), metav1.ListOptions{})
	require.NoError(w, err)
	all := objects{}
	for i := range list.Items {
		all[store.Key{Namespace: w.namespace, Name: list.Items[i].GetName()}] = list.Items[i].Object
	}
	return all
}

// readPods has to say the kind, which typed clients drop.
func readPods(w *world) objects {
	w.Helper()
	list, err := w.typed.CoreV1().Pods(w.namespace).List(w.Context(), metav1.ListOptions{})
	require.NoError(w, err)
	all := objects{}
	for i := range list.Items {
		object := &list.Items[i]
		object.TypeMeta = podMeta
		all[store.Key{Namespace: w.namespace, Name: object.Name}] = object
	}
	return all
}

func readConfigMaps(w *world) objects {
	w.Helper()
	list, err := w.typed.CoreV1().ConfigMaps(w.namespace).List(w.Context(), metav1.ListOptions{})
	require.NoError(w, err)
	all := objects{}
	for i := range list.Items {
		object := &list.Items[i]
		object.TypeMeta = configMapMeta
		all[store.Key{Namespace: w.namespace, Name: object.Name}] = object
	}
	return all
}

// entrant is a mirror that takes part in the scenario.
type entrant struct {
	mirror
	name    string
	subject *subject
	media   string
	streams bool // its full lists are watches that begin with the state
}

func enter(w *world, subjects []*subject) (entrants []*entrant) {
	for _, s := range subjects {
		for _, d := range s.mirrors {
			name := fmt.Sprintf("%s as %s", s.resource.Resource, d.name)
			entrants = append(entrants,
				&entrant{d.mirror(w, &s.population), name + ", watch-list", s, d.media, true},
				&entrant{d.mirror(w, &s.population, reflector.WithoutWatchList()), name + ", list", s, d.media, false})
		}
	}
	return entrants
}

// requireEqual waits until all mirrors have seen the last write of their resource, and compares
// each with what client-go reads.
func requireEqual(w *world, entrants []*entrant, last map[*subject]string) {
	w.Helper()
	read := map[*subject]objects{}
	for _, e := range entrants {
		if read[e.subject] == nil {
			read[e.subject] = e.subject.read(w)
			require.Greater(w, len(read[e.subject]), e.subject.size/2)
		}
		w.Run(e.name, func(t *testing.T) {
			inner := w.within(t)
			e.await(inner, last[e.subject])
			e.requireEqual(inner, read[e.subject])
		})
	}
}

func TestMirrorsHoldWhatClientGoReads(t *testing.T) {
	w := newWorld(t)
	begin := time.Now()
	install(w)
	subjects := newSubjects()
	last := map[*subject]string{}
	for _, s := range subjects {
		s.fill(w)
		last[s] = s.fence(w)
	}
	took(w, "the writing of all objects", begin)

	entrants := enter(w, subjects)
	begin = time.Now()
	for _, e := range entrants {
		e.start(w)
		t.Cleanup(func() { e.stop() }) // whatever was started last
	}
	t.Run("first state", func(t *testing.T) {
		requireEqual(w.within(t), entrants, last)
		for _, e := range entrants {
			requireFull(w, e, 1)
		}
	})
	took(w, "the first state", begin)

	begin = time.Now()
	t.Run("changes", func(t *testing.T) {
		for _, s := range subjects {
			last[s] = s.change(w)
		}
		requireEqual(w.within(t), entrants, last)
	})
	took(w, "changes", begin)

	begin = time.Now()
	t.Run("relist after the past was compacted", func(t *testing.T) { relist(w.within(t), subjects, entrants, last) })
	took(w, "relist", begin)

	begin = time.Now()
	t.Run("restart of the API server", func(t *testing.T) {
		require.NoError(t, w.server.KillAPIServer())
		require.NoError(t, w.server.StartAPIServer())
		for _, s := range subjects {
			s.fence(w.within(t)) // it serves again
			last[s] = s.change(w.within(t))
		}
		requireEqual(w.within(t), entrants, last)
	})
	took(w, "restart", begin)
	for _, e := range entrants {
		assert.Equal(t, []string{e.media}, e.seen().spoken(), e.name)
	}
}

// relist stops all mirrors, lets them miss changes and makes the server forget these, so that each
// has to list anew.
func relist(w *world, subjects []*subject, entrants []*entrant, last map[*subject]string) {
	for _, e := range entrants {
		e.stop()
		e.remember()
	}
	for _, s := range subjects {
		last[s] = s.change(w)
	}
	require.NoError(w, w.server.Forget(w.Context()))
	for _, e := range entrants {
		e.start(w)
	}
	for _, s := range subjects {
		last[s] = s.fence(w)
	}
	requireEqual(w, entrants, last)
	for _, e := range entrants {
		requireFull(w, e, 2)
		// Not those that were changed, deleted, or deleted and made anew.
		require.GreaterOrEqual(w, e.unchanged(), e.subject.size-6*changed, "%s: what did not change is not decoded again", e.name)
	}
}

// requireFull requires a number of full lists, of the kind that the mirror is to make.
func requireFull(w *world, e *entrant, want int) {
	w.Helper()
	lists, streams := e.seen().full()
	if !e.streams {
		lists, streams = streams, lists
	}
	require.Equal(w, [2]int{0, want}, [2]int{lists, streams}, "full lists of %s", e.name)
}

var (
	pods       = corev1.SchemeGroupVersion.WithResource("pods")
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

	podMeta       = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	configMapMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
)

func newConfigMap(i int) any {
	c := &corev1.ConfigMap{
		TypeMeta: configMapMeta,
		ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{"app": fmt.Sprint("app-", i/20)},
			Annotations: map[string]string{"example.com/own": fmt.Sprint(i)},
		},
		Data:       map[string]string{"key": fmt.Sprint("value of ", i), "text": "ünïcode\t\"\\"},
		BinaryData: map[string][]byte{"binary": {0, 1, byte(i), 255}},
	}
	if i%3 == 0 {
		yes := true
		c.Data, c.Labels, c.Immutable = nil, nil, &yes
	}
	return c
}

func newPod(i int) any {
	app, seconds := fmt.Sprint("app-", i/20), int64(300)
	yes := true
	probe := &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("main")}},
		PeriodSeconds: 5,
	}
	container := func(name string, port int32) corev1.Container {
		return corev1.Container{
			Name: name, Image: "registry.example.com/" + app + ":v1", Args: []string{"--name=" + app, fmt.Sprint("--number=", i)},
			Ports: []corev1.ContainerPort{{Name: name, ContainerPort: port}},
			Env: []corev1.EnvVar{
				{Name: "APP", Value: app},
				{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			},
			Resources: corev1.ResourceRequirements{
				Limits:   corev1.ResourceList{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("1Gi")},
				Requests: corev1.ResourceList{"cpu": *resource.NewMilliQuantity(int64(100+i%7), resource.DecimalSI)},
			},
			VolumeMounts:   []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}},
			ReadinessProbe: probe, LivenessProbe: probe,
			SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(bool)},
		}
	}
	p := &corev1.Pod{
		TypeMeta: podMeta,
		ObjectMeta: metav1.ObjectMeta{
			Labels:          map[string]string{"app": app},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app, UID: "0b1c2d3e", Controller: &yes}},
		},
		Spec: corev1.PodSpec{
			Containers:       []corev1.Container{container("main", 8080), container("proxy", 9090)},
			Volumes:          []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			Tolerations:      []corev1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &seconds}},
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
			SecurityContext:  &corev1.PodSecurityContext{RunAsNonRoot: &yes},
		},
	}
	if i%3 == 0 {
		p.Labels, p.Spec.Containers[1].Env, p.Spec.Tolerations = nil, nil, nil
	}
	return p
}

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
