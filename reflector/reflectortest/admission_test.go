package reflectortest_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

// review is what a hook got, in short.
func review[T metav1.Object](a *reflectortest.Admission[T], object, old string) string {
	text := fmt.Sprintf("%s %s %s/%s %s>%s", a.Operation, a.Resource.Resource, a.Namespace, a.Name, old, object)
	if a.Subresource != "" {
		text += " " + a.Subresource
	}
	if a.DryRun {
		text += " dry"
	}
	return text
}

func TestHookSeesEachWrite(t *testing.T) {
	for name, c := range map[string]struct {
		write func(dynamic.ResourceInterface) error
		want  []string
	}{
		"create": {func(r dynamic.ResourceInterface) error {
			_, err := r.Create(t.Context(), keyed("b", "1"), metav1.CreateOptions{})
			return err
		}, []string{"CREATE configmaps ns/b >1"}},
		"create a name": {func(r dynamic.ResourceInterface) error {
			u := keyed("", "1")
			u.SetGenerateName("b-")
			_, err := r.Create(t.Context(), u, metav1.CreateOptions{})
			return err
		}, []string{"CREATE configmaps ns/ >1"}},
		"update": {func(r dynamic.ResourceInterface) error {
			_, err := r.Update(t.Context(), keyed("a", "1"), metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}, []string{"UPDATE configmaps ns/a 0>1 dry"}},
		"patch": {func(r dynamic.ResourceInterface) error {
			_, err := r.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"data":{"k":"1"}}`), metav1.PatchOptions{})
			return err
		}, []string{"UPDATE configmaps ns/a 0>1"}},
		"apply": {func(r dynamic.ResourceInterface) error {
			_, err := r.Apply(t.Context(), "a", keyed("a", "1"), metav1.ApplyOptions{FieldManager: "m", Force: true})
			return err
		}, []string{"UPDATE configmaps ns/a 0>1"}},
		"apply a new one": {func(r dynamic.ResourceInterface) error {
			_, err := r.Apply(t.Context(), "b", keyed("b", "1"), metav1.ApplyOptions{FieldManager: "m"})
			return err
		}, []string{"CREATE configmaps ns/b >1"}},
		"delete": {func(r dynamic.ResourceInterface) error {
			return r.Delete(t.Context(), "a", metav1.DeleteOptions{})
		}, []string{"DELETE configmaps ns/a 0>"}},
		"delete all": {func(r dynamic.ResourceInterface) error {
			return r.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})
		}, []string{"DELETE configmaps ns/a 0>"}},
		"a missing one": {func(r dynamic.ResourceInterface) error {
			_ = r.Delete(t.Context(), "x", metav1.DeleteOptions{})
			return nil
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			s := reflectortest.Start(t, reflectortest.WithAdmission(func(_ context.Context, a *reflectortest.Admission[*corev1.ConfigMap]) error {
				var object, old string
				if a.Object != nil {
					object = a.Object.Data["k"]
				}
				if a.Old != nil {
					old = a.Old.Data["k"]
				}
				got = append(got, review(a, object, old))
				return nil
			}))
			require.NoError(t, s.Create(keyed("a", "0")))
			require.Equal(t, []string{"CREATE configmaps ns/a >0"}, got, "the test's own writes, too")
			got = nil
			client, err := dynamic.NewForConfig(s.Config())
			require.NoError(t, err)
			require.NoError(t, c.write(client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("ns")))
			assert.Equal(t, c.want, got)
		})
	}
}

func keyed(name, value string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"k": value}}}
	u.SetNamespace("ns")
	u.SetName(name)
	return u
}

// TestHookChangesWhatItSees changes a field of a type that lacks another field of the kind, after
// the defaults are set and before the object is checked.
func TestHookChangesWhatItSees(t *testing.T) {
	bookshop := books
	bookshop.Status = true
	bookshop.Schema = []byte(`{"type":"object","properties":{"pages":{"type":"integer","default":7},"cover":{"type":"string","default":"soft"}}}`)
	s := reflectortest.Start(t, reflectortest.WithResource(bookshop), reflectortest.WithAdmission(func(_ context.Context, a *reflectortest.Admission[*book]) error {
		a.Object.Pages++
		a.Object.Labels = map[string]string{"by": "hook"}
		if a.Object.Name == "bad" {
			a.Object.Labels["bad key!"] = ""
		}
		return nil
	}))
	client, err := dynamic.NewForConfig(s.Config())
	require.NoError(t, err)
	r := client.Resource(schema.GroupVersionResource{Group: books.Group, Version: books.Version, Resource: books.Plural}).Namespace("ns")
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "library.example.com/v1", "kind": "Book", "extra": "kept"}}
	u.SetName("a")
	u, err = r.Create(t.Context(), u, metav1.CreateOptions{})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"by": "hook"}, u.GetLabels())
	assert.Equal(t, []any{int64(8), "soft", "kept"}, []any{u.Object["pages"], u.Object["cover"], u.Object["extra"]})

	u.Object["status"] = map[string]any{"read": true}
	u, err = r.UpdateStatus(t.Context(), u, metav1.UpdateOptions{})
	require.NoError(t, err)
	assert.Equal(t, int64(8), u.Object["pages"], "the hook is not for the status")

	u.SetName("bad")
	u.SetResourceVersion("")
	_, err = r.Create(t.Context(), u, metav1.CreateOptions{})
	assert.True(t, apierrors.IsInvalid(err), "%v", err)
}

// stated lacks fields of its status, which its JSON lacks while no other field of it is set.
type stated struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Status            struct {
		Phase string `json:"phase,omitempty"`
	} `json:"status,omitzero"`
}

func TestFieldsThatAHookLacksStayBelowOmitZero(t *testing.T) {
	kind := reflectortest.Resource{Group: "example.com", Version: "v1", Kind: "Stated", Plural: "stateds", Namespaced: true, Prototype: &stated{}}
	s := reflectortest.Start(t, reflectortest.WithResource(kind), reflectortest.WithAdmission(func(_ context.Context, a *reflectortest.Admission[*stated]) error {
		a.Object.Status.Phase = "new"
		return nil
	}))
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Stated", "status": map[string]any{"other": int64(1)},
	}}
	u.SetNamespace("ns")
	u.SetName("a")
	require.NoError(t, s.Create(u))
	require.NoError(t, s.Get(u))
	assert.Equal(t, map[string]any{"other": int64(1), "phase": "new"}, u.Object["status"])
}

// limited has numbers and free-form data.
type limited struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	N                 int64          `json:"n,omitempty"`
	Limits            []int64        `json:"limits,omitempty"`
	Free              map[string]any `json:"free,omitempty"`
}

func TestWhatAHookLeavesIsStoredExactly(t *testing.T) {
	const big = 1<<53 + 1
	kind := reflectortest.Resource{Group: "example.com", Version: "v1", Kind: "Limited", Plural: "limiteds", Namespaced: true, Prototype: &limited{}}
	for name, hook := range map[string]reflectortest.Option{
		"typed": reflectortest.WithAdmission(func(_ context.Context, a *reflectortest.Admission[*limited]) error {
			a.Object.N++
			a.Object.Limits = append(a.Object.Limits, math.MaxInt64)
			a.Object.Free["null"], a.Object.Free["gone"] = nil, map[string]any{"null": nil}
			delete(a.Object.Free, "deep")
			return nil
		}),
		"untyped": reflectortest.WithAdmission(func(_ context.Context, a *reflectortest.Admission[*unstructured.Unstructured]) error {
			o := a.Object.Object
			o["n"] = o["n"].(int64) + 1
			o["limits"] = append(o["limits"].([]any), int64(math.MaxInt64))
			free := o["free"].(map[string]any)
			free["null"], free["gone"] = nil, map[string]any{"null": nil}
			delete(free, "deep")
			return nil
		}),
	} {
		t.Run(name, func(t *testing.T) {
			s := reflectortest.Start(t, reflectortest.WithResource(kind), hook)
			u := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "example.com/v1", "kind": "Limited", "n": int64(big - 1), "limits": []any{int64(big)},
				"free": map[string]any{"gone": "a", "deep": map[string]any{"a": int64(1)}}, "hidden": int64(big),
			}}
			u.SetNamespace("ns")
			u.SetName("a")
			require.NoError(t, s.Create(u))
			data, err := u.MarshalJSON()
			require.NoError(t, err)
			for _, want := range []string{
				`"n":9007199254740993`, `"limits":[9007199254740993,9223372036854775807]`, `"hidden":9007199254740993`,
				`"free":{"gone":{"null":null},"null":null}`,
			} {
				assert.Contains(t, string(data), want)
			}
		})
	}
}

func TestHookThatLeavesNoObjectIsAnError(t *testing.T) {
	s := reflectortest.Start(t, reflectortest.WithAdmission(func(_ context.Context, a *reflectortest.Admission[*corev1.ConfigMap]) error {
		a.Object = nil
		return nil
	}))
	assert.ErrorContains(t, s.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}), "no object")
}

func TestHookDenies(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want metav1.Status
	}{
		"an error": {errors.New("no"), metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
			Message: `admission webhook "reflectortest" denied the request: no`,
		}},
		"an API error": {fmt.Errorf("wrapped: %w", apierrors.NewConflict(schema.GroupResource{Resource: "r"}, "n", errors.New("no"))), metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict,
			Message: `Operation cannot be fulfilled on r "n": no`, Details: &metav1.StatusDetails{Name: "n", Kind: "r"},
		}},
		"an API error without a code": {&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonForbidden, Message: "no"}}, metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusBadRequest, Reason: metav1.StatusReasonForbidden, Message: "no",
		}},
		"an API error that says OK": {&apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusOK, Message: "no"}}, metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusBadRequest, Message: "no",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var of admissionv1.Operation
			s := reflectortest.Start(t, reflectortest.WithAdmission(func(_ context.Context, a *reflectortest.Admission[*unstructured.Unstructured]) error {
				if a.Operation == of {
					return c.err
				}
				return nil
			}))
			client := clientset(t, s.Config()).CoreV1().ConfigMaps("ns")
			_, err := client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
			require.NoError(t, err)
			before := s.ResourceVersion()
			for operation, write := range map[admissionv1.Operation]func() error{
				admissionv1.Create: func() error {
					_, err := client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "b"}}, metav1.CreateOptions{})
					return err
				},
				admissionv1.Update: func() error {
					_, err := client.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"data":{"k":"v"}}`), metav1.PatchOptions{})
					return err
				},
				admissionv1.Delete: func() error { return client.Delete(t.Context(), "a", metav1.DeleteOptions{}) },
			} {
				of = operation
				var status apierrors.APIStatus
				require.ErrorAs(t, write(), &status)
				got := status.Status()
				got.TypeMeta, got.ListMeta = metav1.TypeMeta{}, metav1.ListMeta{}
				assert.Equal(t, c.want, got)
			}
			assert.Equal(t, before, s.ResourceVersion())
		})
	}
}

// TestHookIsCalledAgain changes the object while the hook runs: the patch then starts from the change.
func TestHookIsCalledAgain(t *testing.T) {
	var s *reflectortest.Server
	var once sync.Once
	calls := 0
	s = reflectortest.Start(t, reflectortest.WithAdmission(func(_ context.Context, a *reflectortest.Admission[*corev1.ConfigMap]) (err error) {
		if a.Operation != admissionv1.Update || a.Object.Data["by"] != "client" {
			return nil
		}
		calls++
		once.Do(func() {
			current := a.Old.DeepCopy()
			current.Data = map[string]string{"k": "2"}
			err = s.Update(current)
		})
		return err
	}))
	require.NoError(t, s.Create(keyed("a", "1")))
	got, err := clientset(t, s.Config()).CoreV1().ConfigMaps("ns").Patch(t.Context(), "a", types.MergePatchType, []byte(`{"data":{"by":"client"}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"k": "2", "by": "client"}, got.Data)
	assert.Equal(t, 2, calls)
}

// TestApplyBeginsAgain creates or deletes the object while the hook runs: an apply is right in both cases.
func TestApplyBeginsAgain(t *testing.T) {
	for name, c := range map[string]struct {
		during admissionv1.Operation
		other  func(*reflectortest.Server) error // what another client does
		want   map[string]string
		calls  string
	}{
		"created": {admissionv1.Create, func(s *reflectortest.Server) error { return s.Create(keyed("a", "1")) },
			map[string]string{"k": "1", "by": "client"}, "CREATE UPDATE"},
		"deleted": {admissionv1.Update, func(s *reflectortest.Server) error { return s.Delete(keyed("a", "1")) },
			map[string]string{"by": "client"}, "UPDATE CREATE"},
		"neither": {admissionv1.Create, func(*reflectortest.Server) error {
			return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "configmaps"}, "a") // by the hook
		}, nil, "CREATE"},
	} {
		t.Run(name, func(t *testing.T) {
			var s *reflectortest.Server
			var calls []string
			var once sync.Once
			s = reflectortest.Start(t, reflectortest.WithAdmission(func(_ context.Context, a *reflectortest.Admission[*corev1.ConfigMap]) (err error) {
				if a.Operation == admissionv1.Delete || a.Object.Data["by"] != "client" {
					return nil
				}
				calls = append(calls, string(a.Operation))
				once.Do(func() { err = c.other(s) })
				return err
			}))
			if c.during == admissionv1.Update {
				require.NoError(t, s.Create(keyed("a", "1")))
			}
			u := keyed("a", "")
			u.Object["data"] = map[string]any{"by": "client"}
			_, err := dynamic.NewForConfigOrDie(s.Config()).Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace("ns").
				Apply(t.Context(), "a", u, metav1.ApplyOptions{FieldManager: "m"})
			assert.Equal(t, c.calls, strings.Join(calls, " "))
			if c.want == nil {
				require.True(t, apierrors.IsAlreadyExists(err), "%v", err)
				return
			}
			require.NoError(t, err)
			stored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}
			require.NoError(t, s.Get(stored))
			assert.Equal(t, c.want, stored.Data)
		})
	}
}

// TestCollectorChangesNoOtherObject replaces an object by another one with its name in the middle of a pass.
func TestCollectorChangesNoOtherObject(t *testing.T) {
	var s *reflectortest.Server
	var once sync.Once
	waiting := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Finalizers: []string{metav1.FinalizerDeleteDependents}}}
	}
	s = reflectortest.Start(t, reflectortest.WithAdmission(func(_ context.Context, a *reflectortest.Admission[*corev1.ConfigMap]) (err error) {
		if a.Name != "a" || a.Operation != admissionv1.Update {
			return nil
		}
		once.Do(func() {
			gone := waiting("b")
			gone.Finalizers = nil
			err = errors.Join(s.Update(gone), s.Create(waiting("b")))
		})
		return err
	}))
	for _, name := range []string{"a", "b"} {
		require.NoError(t, s.Create(waiting(name)))
		require.NoError(t, s.Delete(waiting(name)))
	}
	require.True(t, s.CollectGarbage())
	b := waiting("b")
	require.NoError(t, s.Get(b))
	assert.Nil(t, b.DeletionTimestamp)
	assert.NotEmpty(t, b.Finalizers)
}

// TestHookSeesTheCollector lets the garbage collector delete a dependent, which a hook may deny.
func TestHookSeesTheCollector(t *testing.T) {
	deny := true
	s := reflectortest.Start(t, reflectortest.WithAdmission(func(_ context.Context, a *reflectortest.Admission[*corev1.ConfigMap]) error {
		if a.Operation == admissionv1.Delete && deny {
			return errors.New("no")
		}
		return nil
	}))
	u := keyed("a", "1")
	u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "absent", UID: "absent"}})
	require.NoError(t, s.Create(u))
	assert.False(t, s.CollectGarbage())
	deny = false
	require.NoError(t, s.Create(keyed("b", "1"))) // a change, for another pass
	assert.True(t, s.CollectGarbage())
	assert.True(t, apierrors.IsNotFound(s.Get(u)))
}

func TestHookOfTheStatus(t *testing.T) {
	var got []string
	s := reflectortest.Start(t, reflectortest.WithAdmission(func(_ context.Context, a *reflectortest.Admission[*corev1.Pod]) error {
		got = append(got, review(a, string(a.Object.Status.Phase), string(a.Old.Status.Phase)))
		return nil
	}, "status"))
	pods := clientset(t, s.Config()).CoreV1().Pods("ns")
	pod, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	pod.Status.Phase = corev1.PodRunning
	_, err = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	require.NoError(t, err)
	assert.Equal(t, []string{"UPDATE pods ns/a Pending>Running status"}, got)
}

func TestHookOfAnUnknownKind(t *testing.T) {
	_, err := reflectortest.NewServer(reflectortest.WithAdmission(func(context.Context, *reflectortest.Admission[*book]) error { return nil }))
	assert.ErrorContains(t, err, "book is not served")
}

func TestHooksFollowEachOtherInTheOrderOfTheOptions(t *testing.T) {
	note := func(text string) reflectortest.Option {
		return reflectortest.WithAdmission(func(_ context.Context, a *reflectortest.Admission[*corev1.ConfigMap]) error {
			a.Object.Data = map[string]string{"noted": a.Object.Data["noted"] + text}
			return nil
		})
	}
	server := reflectortest.Start(t, note("a"), note("b"))
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
	require.NoError(t, server.Create(c))
	require.NoError(t, server.Get(c))
	assert.Equal(t, "ab", c.Data["noted"])
}

func TestUpdateWithoutAVersionReplacesWhatAHookHasWritten(t *testing.T) {
	var server *reflectortest.Server
	var written atomic.Bool
	object := func(value string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}, Data: map[string]string{"k": value}}
	}
	server = reflectortest.Start(t, reflectortest.WithAdmission(func(_ context.Context, a *reflectortest.Admission[*corev1.ConfigMap]) (err error) {
		if a.Operation == admissionv1.Update && !written.Swap(true) {
			err = server.Update(object("hook"))
		}
		return err
	}))
	require.NoError(t, server.Create(object("first")))
	require.NoError(t, server.Update(object("last")))
	stored := object("")
	require.NoError(t, server.Get(stored))
	assert.Equal(t, "last", stored.Data["k"])
}

// TestHookReadsOtherObjects has a hook that refuses the second object of a host.
func TestHookReadsOtherObjects(t *testing.T) {
	s := reflectortest.Start(t, reflectortest.WithAdmission(func(_ context.Context, a *reflectortest.Admission[*corev1.ConfigMap]) error {
		others, err := reflectortest.List[*corev1.ConfigMap](a.Server, "")
		for _, other := range others {
			if other.Data["host"] == a.Object.Data["host"] {
				return errors.New("the host is taken")
			}
		}
		return err
	}))
	hosted := func(name string) *corev1.ConfigMap {
		object := configMap(name)
		object.Data = map[string]string{"host": "example.com"}
		return object
	}
	require.NoError(t, s.Create(hosted("a")))
	require.ErrorContains(t, s.Create(hosted("b")), "the host is taken")
}

// TestNobodyOwnsWhatAHookSets follows handlers/create.go of the API server: the managedFields of a write are
// complete before the webhooks are called.
func TestNobodyOwnsWhatAHookSets(t *testing.T) {
	s := reflectortest.Start(t, reflectortest.WithAdmission(func(_ context.Context, a *reflectortest.Admission[*corev1.Pod]) error {
		if a.Subresource == "status" {
			a.Object.Status.Message = "hook"
		} else {
			a.Object.Spec.SchedulerName = "hook"
		}
		return nil
	}, "", "status"))
	client := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().Pods("ns")
	owned := func(pod *corev1.Pod) map[string]string {
		all := map[string]string{}
		for _, e := range pod.ManagedFields {
			all[e.Manager+" "+e.Subresource] = e.FieldsV1.GetRawString()
		}
		return all
	}
	for _, name := range []string{"a", "b"} {
		_, err := client.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Hostname: "h"}}, metav1.CreateOptions{FieldManager: "writer"})
		require.NoError(t, err)
	}
	applied := applycorev1.Pod("a", "ns").WithSpec(applycorev1.PodSpec().WithSchedulerName("mine"))
	pod, err := client.Apply(t.Context(), applied, metav1.ApplyOptions{FieldManager: "mine"})
	require.NoError(t, err, "the hook has set it, for nobody")
	assert.Equal(t, "hook", pod.Spec.SchedulerName)
	want := map[string]string{"writer ": `{"f:spec":{"f:hostname":{}}}`, "mine ": `{"f:spec":{"f:schedulerName":{}}}`}
	assert.Equal(t, want, owned(pod))

	pod.Spec.Hostname, pod.Spec.SchedulerName = "h2", "theirs"
	pod, err = client.Update(t.Context(), pod, metav1.UpdateOptions{FieldManager: "editor"})
	require.NoError(t, err)
	assert.Equal(t, "hook", pod.Spec.SchedulerName)
	assert.Equal(t, map[string]string{"editor ": `{"f:spec":{"f:hostname":{},"f:schedulerName":{}}}`}, owned(pod), "a client owns what it sends, also if a hook changes it")

	for _, name := range []string{"a", "b"} { // a is tracked already, b is not
		pod, err = client.Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		pod.Spec.Hostname, pod.Status.Reason = "not from here", "r"
		pod, err = client.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{FieldManager: "kubelet"})
		require.NoError(t, err)
		assert.Equal(t, "hook", pod.Status.Message)
		status := applycorev1.Pod(name, "ns").WithStatus(applycorev1.PodStatus().WithMessage("mine"))
		pod, err = client.ApplyStatus(t.Context(), status, metav1.ApplyOptions{FieldManager: "mine"})
		require.NoError(t, err)
		assert.Equal(t, `{"f:status":{"f:reason":{}}}`, owned(pod)["kubelet status"])
	}
}

// Kubernetes moves stringData when it decodes a Secret, thus before managedFields and webhooks, and again in what a
// webhook returns.
func TestHookSeesStringDataAsData(t *testing.T) {
	s := reflectortest.Start(t, reflectortest.WithAdmission(func(_ context.Context, a *reflectortest.Admission[*corev1.Secret]) error {
		assert.Empty(t, a.Object.StringData)
		assert.NotEmpty(t, a.Object.Data["sent"])
		a.Object.StringData = map[string]string{"hook": "h"}
		return nil
	}))
	client := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().Secrets("ns")
	apply := func(key string) error {
		applied := applycorev1.Secret("a", "ns").WithData(map[string][]byte{key: []byte("mine")})
		_, err := client.Apply(t.Context(), applied, metav1.ApplyOptions{FieldManager: "mine"})
		return err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}, StringData: map[string]string{"sent": "1"}}
	secret, err := client.Create(t.Context(), secret, metav1.CreateOptions{FieldManager: "writer"})
	require.NoError(t, err)
	assert.Equal(t, map[string][]byte{"sent": []byte("1"), "hook": []byte("h")}, secret.Data)
	assert.True(t, apierrors.IsConflict(apply("sent")), "the writer owns the data that it sent as stringData")

	secret.StringData = map[string]string{"later": "2"}
	_, err = client.Update(t.Context(), secret, metav1.UpdateOptions{FieldManager: "editor"})
	require.NoError(t, err)
	assert.True(t, apierrors.IsConflict(apply("later")))
	require.NoError(t, apply("hook"), "the hook has set it, for nobody")
}
