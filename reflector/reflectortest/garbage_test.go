package reflectortest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
)

// collected is a server whose garbage a test collects.
type collected struct {
	*reflectortest.Server
	t      *testing.T
	client *kubernetes.Clientset
}

func startCollected(t *testing.T, opts ...reflectortest.Option) *collected {
	s := reflectortest.Start(t, append(opts, reflectortest.WithResource(books))...)
	return &collected{s, t, clientset(t, s.Config())}
}

// A property changes the metadata of a new object.
type property func(metav1.Object)

func (c *collected) create(obj metav1.Object, name string, properties ...property) metav1.Object {
	c.t.Helper()
	obj.SetName(name)
	for _, p := range properties {
		p(obj)
	}
	require.NoError(c.t, c.Create(obj))
	return obj
}

// configMap creates a ConfigMap in the namespace a.
func (c *collected) configMap(name string, properties ...property) metav1.Object {
	c.t.Helper()
	return c.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}}, name, properties...)
}

func (c *collected) node(name string, properties ...property) metav1.Object {
	c.t.Helper()
	return c.create(&corev1.Node{}, name, properties...)
}

func (c *collected) book(name string, properties ...property) metav1.Object {
	c.t.Helper()
	return c.create(&book{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}}, name, properties...)
}

func referenceTo(obj metav1.Object) metav1.OwnerReference {
	gvk := books
	ref := metav1.OwnerReference{APIVersion: gvk.Group + "/" + gvk.Version, Kind: gvk.Kind, Name: obj.GetName(), UID: obj.GetUID()}
	if typed, ok := obj.(runtime.Object); ok {
		kinds, _, _ := scheme.Scheme.ObjectKinds(typed)
		ref.APIVersion, ref.Kind = kinds[0].ToAPIVersionAndKind()
	}
	return ref
}

// owned adds an owner reference, which the changes may falsify.
func owned(owner metav1.Object, changes ...func(*metav1.OwnerReference)) property {
	ref := referenceTo(owner)
	for _, change := range changes {
		change(&ref)
	}
	return func(obj metav1.Object) { obj.SetOwnerReferences(append(obj.GetOwnerReferences(), ref)) }
}

func blocking(ref *metav1.OwnerReference) { ref.BlockOwnerDeletion = new(true) }

// absent is an owner that no server has.
func absent() metav1.Object {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "absent", UID: "absent"}}
}

func in(namespace string) property { return func(obj metav1.Object) { obj.SetNamespace(namespace) } }

func held(finalizers ...string) property {
	return func(obj metav1.Object) { obj.SetFinalizers(finalizers) }
}

const byTest = "example.com/test"

// delete deletes a ConfigMap as a client does.
func (c *collected) delete(obj metav1.Object, policy metav1.DeletionPropagation) {
	c.t.Helper()
	err := c.client.CoreV1().ConfigMaps(obj.GetNamespace()).Delete(c.t.Context(), obj.GetName(), metav1.DeleteOptions{PropagationPolicy: &policy})
	require.NoError(c.t, err)
}

// collect makes passes until nothing changes, and returns their number.
func (c *collected) collect() (passes int) {
	c.t.Helper()
	for c.CollectGarbage() {
		passes++
		require.Less(c.t, passes, 20, "it does not come to rest: %s", c.state())
	}
	return passes
}

// state shows what the garbage collector can change: an owner that is blocked has a "!".
func (c *collected) state() []string {
	c.t.Helper()
	all := []string{}
	for _, o := range c.Objects() {
		var m metav1.PartialObjectMetadata
		require.NoError(c.t, json.Unmarshal(o.JSON(), &m))
		text := o.Name
		if refs := m.OwnerReferences; len(refs) > 0 {
			var names []string
			for _, ref := range refs {
				name := ref.Name
				if ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion {
					name += "!"
				}
				names = append(names, name)
			}
			text += " of " + strings.Join(names, ",")
		}
		if len(m.Finalizers) > 0 {
			text += " held by " + strings.Join(m.Finalizers, ",")
		}
		if m.DeletionTimestamp != nil {
			text += " deleting"
		}
		all = append(all, text)
	}
	return all
}

func TestGarbageCollection(t *testing.T) {
	const foreground, orphan = metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents
	for name, test := range map[string]struct {
		make func(c *collected)
		want []string
	}{
		"no owner, and one that exists": {func(c *collected) {
			o := c.configMap("o")
			c.configMap("p", owned(o))
		}, []string{"o", "p of o"}},
		"no owner is left": {func(c *collected) {
			c.configMap("p", owned(absent()))
			c.book("q", owned(absent()))
			c.node("n", owned(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "absent", UID: "absent"}}))
		}, []string{}},
		"a chain": {func(c *collected) {
			o := c.configMap("o", owned(absent()))
			p := c.configMap("p", owned(o))
			c.configMap("q", owned(p))
		}, []string{}},
		"one owner of two is left": {func(c *collected) {
			o := c.configMap("o")
			c.configMap("p", owned(absent()), owned(o, blocking))
			c.book("q", owned(o), owned(absent()))
		}, []string{"o", "p of o!", "q of o"}},
		"an owner that waits for its dependents, and one that does not": {func(c *collected) {
			o, other := c.configMap("o"), c.configMap("other")
			c.configMap("p", owned(o, blocking), owned(other))
			c.delete(o, metav1.DeletePropagationForeground)
		}, []string{"other", "p of other"}},
		"an owner in another namespace": {func(c *collected) {
			c.configMap("p", owned(c.configMap("o", in("b"))))
		}, []string{"o"}},
		"an owner with another UID": {func(c *collected) {
			c.configMap("p", owned(c.configMap("o"), func(ref *metav1.OwnerReference) { ref.UID = "other" }))
		}, []string{"o"}},
		"an owner with another name": {func(c *collected) {
			c.configMap("p", owned(c.configMap("o"), func(ref *metav1.OwnerReference) { ref.Name = "other" }))
		}, []string{"o"}},
		"an owner of another kind": {func(c *collected) {
			c.configMap("p", owned(c.configMap("o"), func(ref *metav1.OwnerReference) { ref.Kind = "Secret" }))
		}, []string{"o"}},
		"an owner without a namespace": {func(c *collected) {
			c.configMap("p", owned(c.node("n")))
		}, []string{"p of n", "n"}},
		"an owner with a namespace of an object without one": {func(c *collected) {
			c.node("n", owned(absent()))
		}, []string{"n of absent"}},
		"an owner of an unknown kind": {func(c *collected) {
			unknown := owned(absent(), func(ref *metav1.OwnerReference) { ref.UID, ref.Kind = "unknown", "Unknown" })
			c.configMap("p", unknown)
			c.configMap("q", owned(absent()), unknown)
			c.configMap("r", owned(c.configMap("o")), owned(absent()), unknown)
		}, []string{"o", "p of absent", "q of absent,absent", "r of o,absent,absent"}},
		"an owner of a version that discovery does not announce": {func(c *collected) {
			c.configMap("p", owned(absent(), func(ref *metav1.OwnerReference) { ref.APIVersion, ref.Kind = "apps/v1beta1", "Deployment" }))
		}, []string{"p of absent"}},
		"an owner in another version of its group": {func(c *collected) {
			o := c.create(&autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}}, "o")
			c.configMap("p", owned(o, func(ref *metav1.OwnerReference) { ref.APIVersion = "autoscaling/v2" }))
		}, []string{"p of o", "o"}},
		"a dependent with a finalizer": {func(c *collected) {
			o := c.configMap("o", owned(absent()), held(byTest))
			c.configMap("p", owned(o))
		}, []string{"o of absent held by example.com/test deleting", "p of o"}},
		"a dependent that is being deleted": {func(c *collected) {
			p := c.configMap("p", owned(absent()), owned(c.configMap("o")), held(byTest))
			require.NoError(c.t, c.Delete(p))
		}, []string{"o", "p of absent,o held by example.com/test deleting"}},
		"foreground: without a dependent": {func(c *collected) {
			c.delete(c.configMap("o", held(byTest)), metav1.DeletePropagationForeground)
			c.delete(c.configMap("p"), metav1.DeletePropagationForeground)
		}, []string{"o held by example.com/test deleting"}},
		"foreground: a dependent blocks until it is gone": {func(c *collected) {
			o := c.configMap("o")
			c.configMap("p", owned(o, blocking), held(byTest))
			c.delete(o, metav1.DeletePropagationForeground)
		}, []string{"o held by foregroundDeletion deleting", "p of o! held by example.com/test deleting"}},
		"foreground: a dependent does not block": {func(c *collected) {
			o := c.configMap("o")
			c.configMap("p", owned(o), held(byTest))
			c.configMap("q", owned(o))
			c.delete(o, metav1.DeletePropagationForeground)
		}, []string{"p of o held by example.com/test deleting"}},
		"foreground: a dependent in another namespace blocks": {func(c *collected) {
			o := c.configMap("o")
			c.configMap("p", in("b"), owned(o, blocking), held(byTest))
			c.delete(o, metav1.DeletePropagationForeground)
		}, []string{"o held by foregroundDeletion deleting", "p of o! held by example.com/test deleting"}},
		"foreground: a dependent with dependents waits for them": {func(c *collected) {
			o := c.configMap("o")
			p := c.configMap("p", owned(o, blocking))
			c.configMap("q", owned(p, blocking), held(byTest))
			c.delete(o, metav1.DeletePropagationForeground)
		}, []string{"o held by foregroundDeletion deleting", "p of o! held by foregroundDeletion deleting", "q of p! held by example.com/test deleting"}},
		"foreground: a cycle": {func(c *collected) {
			c.delete(c.cycle(func(name string, p ...property) metav1.Object { return c.configMap(name, p...) }), metav1.DeletePropagationForeground)
		}, []string{}},
		"foreground: the references in a cycle": {func(c *collected) {
			o := c.configMap("o", held(byTest))
			q := c.configMap("q", held(byTest))
			p := c.configMap("p", owned(o, blocking), held(byTest))
			q.SetOwnerReferences([]metav1.OwnerReference{referenceTo(p)})
			require.NoError(c.t, c.Update(q))
			c.delete(q, metav1.DeletePropagationForeground)
			c.delete(o, metav1.DeletePropagationForeground)
		}, []string{"o held by example.com/test deleting", "p of o held by example.com/test deleting", "q of p held by example.com/test deleting"}},
		"orphan": {func(c *collected) {
			o := c.configMap("o", held(byTest))
			c.configMap("p", owned(o, blocking))
			c.configMap("q", owned(c.configMap("other")), owned(o))
			c.book("r", owned(o))
			c.delete(o, metav1.DeletePropagationOrphan)
		}, []string{"o held by example.com/test deleting", "other", "p", "q of other", "r"}},
		"orphan: the owner is gone": {func(c *collected) {
			o := c.configMap("o")
			c.configMap("p", owned(o))
			c.delete(o, metav1.DeletePropagationOrphan)
		}, []string{"p"}},
		"an object is deleted as its finalizer says: orphan": {func(c *collected) {
			o := c.configMap("o", owned(absent()), held(orphan))
			c.configMap("p", owned(o))
		}, []string{"p"}},
		"an object is deleted as its finalizer says: foreground": {func(c *collected) {
			o := c.configMap("o", owned(absent()), held(foreground))
			c.configMap("p", owned(o, blocking), held(byTest))
		}, []string{"o of absent held by foregroundDeletion deleting", "p of o! held by example.com/test deleting"}},
		"events are ignored": {func(c *collected) {
			c.create(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}, InvolvedObject: corev1.ObjectReference{Namespace: "a"}}, "e", owned(absent()))
			o := c.configMap("o")
			c.create(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}, InvolvedObject: corev1.ObjectReference{Namespace: "a"}}, "f", owned(o, blocking))
			c.delete(o, metav1.DeletePropagationForeground)
		}, []string{"e of absent", "f of o!"}},
		"a pod has time to stop": {func(c *collected) {
			c.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}, Spec: corev1.PodSpec{NodeName: "n"}}, "running", owned(absent()))
			c.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}}, "unscheduled", owned(absent()))
		}, []string{"running of absent deleting"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startCollected(t)
			test.make(c)
			c.collect()
			require.Equal(t, test.want, c.state())
		})
	}
}

// cycle makes two objects that own and block each other.
func (c *collected) cycle(create func(string, ...property) metav1.Object) metav1.Object {
	c.t.Helper()
	o := create("o")
	p := create("p", owned(o, blocking))
	ref := referenceTo(p)
	blocking(&ref)
	o.SetOwnerReferences([]metav1.OwnerReference{ref})
	require.NoError(c.t, c.Update(o))
	return o
}

// In a kind that is not built in, the references get a blockOwnerDeletion, which is false, even if they
// had none.
func TestGarbageCollectionUnblocksReferences(t *testing.T) {
	for name, test := range map[string]struct {
		create func(*collected, string, ...property) metav1.Object
		want   []*bool
	}{
		"built in":     {(*collected).configMap, []*bool{new(false), nil}},
		"not built in": {(*collected).book, []*bool{new(false), new(false)}},
	} {
		t.Run(name, func(t *testing.T) {
			c := startCollected(t)
			o := c.configMap("o")
			p := test.create(c, "p", owned(o, blocking), owned(absent()), held(byTest))
			q := c.configMap("q", owned(p), held(byTest))
			c.delete(q, metav1.DeletePropagationForeground)
			c.delete(o, metav1.DeletePropagationForeground)
			c.collect()
			require.NoError(t, c.Get(p))
			var got []*bool
			for _, ref := range p.GetOwnerReferences() {
				got = append(got, ref.BlockOwnerDeletion)
			}
			assert.Equal(t, test.want, got)
		})
	}
}

func TestAPassOfGarbageCollectionReachesOneGeneration(t *testing.T) {
	c := startCollected(t)
	// The names are in another order than the generations.
	o := c.configMap("a")
	p := c.configMap("c", owned(o))
	q := c.configMap("b", owned(p))
	c.configMap("d", owned(q))
	require.False(t, c.CollectGarbage())
	require.NoError(t, c.Delete(o))
	for _, want := range [][]string{{"b of c", "d of b"}, {"d of b"}, {}} {
		require.True(t, c.CollectGarbage())
		require.Equal(t, want, c.state())
	}
	require.False(t, c.CollectGarbage())
}

// An object without dependents needs no deletion in the foreground, which would take another pass.
func TestAWaitingOwnersDependentIsDeletedAtOnce(t *testing.T) {
	c := startCollected(t)
	o := c.configMap("o")
	c.configMap("p", owned(o, blocking))
	c.delete(o, metav1.DeletePropagationForeground)
	require.True(t, c.CollectGarbage())
	require.Equal(t, []string{"o held by foregroundDeletion deleting"}, c.state())
}

// The deletion of an object whose references this pass has changed waits for the next one.
func TestGarbageCollectionUnblocksBeforeItDeletes(t *testing.T) {
	c := startCollected(t)
	c.delete(c.cycle(func(name string, p ...property) metav1.Object { return c.configMap(name, p...) }), metav1.DeletePropagationForeground)
	require.True(t, c.CollectGarbage())
	require.Equal(t, []string{"o of p! held by foregroundDeletion deleting", "p of o"}, c.state())
	require.True(t, c.CollectGarbage())
	require.Equal(t, []string{"p of o held by foregroundDeletion deleting"}, c.state())
}

func TestGarbageCollectionLeavesNoEmptyLists(t *testing.T) {
	c := startCollected(t)
	o := c.book("o", held(byTest))
	c.book("p", owned(o))
	require.NoError(t, c.client.CoreV1().RESTClient().Delete().AbsPath("/apis/library.example.com/v1/namespaces/a/books/o").
		Param("propagationPolicy", "Orphan").Do(t.Context()).Error())
	c.collect()
	for _, object := range c.Objects() {
		assert.NotContains(t, string(object.JSON()), "ownerReferences")
	}
}

func TestGarbageCollectionAfterARestore(t *testing.T) {
	c := startCollected(t)
	c.configMap("p", owned(absent()))
	version := c.ResourceVersion()
	require.Equal(t, 1, c.collect())
	require.NoError(t, c.Restore(version))
	require.Equal(t, []string{"p of absent"}, c.state())
	require.Equal(t, 1, c.collect())
}

// A finalizer of the test is the last thing that holds an object, and its end is the garbage of the
// next pass.
func TestGarbageCollectionGoesOnAfterAFinalizer(t *testing.T) {
	c := startCollected(t)
	o := c.configMap("o")
	p := c.configMap("p", owned(o, blocking), held(byTest))
	c.delete(o, metav1.DeletePropagationForeground)
	c.collect()
	require.Len(t, c.state(), 2)
	_, err := c.client.CoreV1().ConfigMaps("a").Patch(t.Context(), p.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	c.collect()
	require.Empty(t, c.state())
}

func TestGarbageCollectionIsCheap(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	c := startCollected(t)
	o := c.configMap("o")
	for i := range 200 {
		c.configMap(fmt.Sprint("p", i), owned(o))
	}
	c.collect()
	assert.Zero(t, testing.AllocsPerRun(100, func() { c.CollectGarbage() }), "nothing has changed")
	other := c.configMap("other").(*corev1.ConfigMap)
	write := func() {
		other.ResourceVersion = ""
		other.Data = map[string]string{"k": fmt.Sprint(time.Now().UnixNano())}
		require.NoError(t, c.Update(other))
	}
	alone := testing.AllocsPerRun(100, write)
	both := testing.AllocsPerRun(100, func() {
		write()
		c.CollectGarbage()
	})
	assert.Less(t, both-alone, 20.0, "a pass over 200 dependents, which have not changed")
}

func TestTheServerCollectsGarbageByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCollected(t, reflectortest.WithGarbageCollection(time.Second))
		o := c.configMap("o")
		c.configMap("q", owned(c.configMap("p", owned(o))))
		<-time.After(time.Minute) // also for what the creations caused
		synctest.Wait()
		require.Equal(t, []string{"o", "p of o", "q of p"}, c.state())

		c.delete(o, metav1.DeletePropagationBackground)
		after := func(d time.Duration, want ...string) {
			t.Helper()
			<-time.After(d)
			synctest.Wait()
			require.Equal(t, append([]string{}, want...), c.state())
		}
		after(time.Second-1, "p of o", "q of p")
		after(1, "q of p")
		after(time.Second-1, "q of p")
		after(1)
	})
}

// A change during the wait is part of the pass, and starts no wait of its own.
func TestGarbageCollectionWaitsAfterEachPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCollected(t, reflectortest.WithGarbageCollection(time.Second))
		c.configMap("o")
		<-time.After(time.Second / 2)
		c.configMap("p")
		<-time.After(time.Second) // after the pass
		c.configMap("q", owned(absent()))
		<-time.After(time.Second - 1)
		synctest.Wait()
		require.Equal(t, []string{"o", "p", "q of absent"}, c.state())
		<-time.After(1)
		synctest.Wait()
		require.Equal(t, []string{"o", "p"}, c.state())
	})
}

func TestCloseEndsTheGarbageCollection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, waiting := range []bool{false, true} {
			c := startCollected(t, reflectortest.WithGarbageCollection(time.Hour))
			if waiting {
				c.configMap("p", owned(absent()))
				synctest.Wait()
			}
			start := time.Now()
			c.Close()
			require.Zero(t, time.Since(start))
		}
	})
}

func TestWithoutTheOptionNothingIsCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startCollected(t)
		c.configMap("p", owned(absent()))
		<-time.After(time.Hour)
		synctest.Wait()
		require.Equal(t, []string{"p of absent"}, c.state())
	})
}

func TestDirectDeletionOrphansNothing(t *testing.T) {
	c := startCollected(t)
	job := c.create(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "a"}}, "j")
	c.configMap("p", owned(job))
	require.NoError(t, c.Delete(job))
	c.collect()
	require.Empty(t, c.state())
}

func TestDirectDeletionHasThePolicyOfItsCaller(t *testing.T) {
	c := startCollected(t)
	o, other := c.configMap("o"), c.configMap("other")
	c.configMap("p", owned(o, blocking), held(byTest))
	c.configMap("q", owned(other))
	require.NoError(t, c.Delete(o, metav1.DeletePropagationForeground))
	require.NoError(t, c.Delete(other, metav1.DeletePropagationOrphan))
	c.collect()
	require.Equal(t, []string{"o held by foregroundDeletion deleting", "p of o! held by example.com/test deleting", "q"}, c.state())
}

func TestDirectDeletionRefusesAnUnknownPolicy(t *testing.T) {
	c := startCollected(t)
	o := c.configMap("o")
	for _, policy := range []metav1.DeletionPropagation{"", "foreground"} {
		require.True(t, apierrors.IsInvalid(c.Delete(o, policy)), "%q", policy)
	}
	require.ErrorContains(t, c.Delete(o, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan), "one policy")
	require.Equal(t, []string{"o"}, c.state())
}
