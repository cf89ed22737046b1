package guard

import (
	"errors"
	"fmt"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var key = store.Key{Namespace: "default", Name: "web"}

func pod(resourceVersion string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web", UID: "u", ResourceVersion: resourceVersion,
			Labels: map[string]string{"app.kubernetes.io/name": "web"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Image:     "nginx:1",
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1500m")}},
		}}},
	}
}

// watching returns a cache with a pod, its guard, and what the guard has reported since
// the last call.
func watching(t *testing.T) (*store.Cache[*corev1.Pod], *Guard[*corev1.Pod], func() []error) {
	t.Helper()
	cache := store.New(store.ObjectKey[*corev1.Pod])
	require.NoError(t, cache.Add(pod("1")))
	var told []error
	g := Watch("pods", cache, Report(func(err error) { told = append(told, err) }))
	return cache, g, func() []error {
		defer func() { told = nil }()
		return told
	}
}

func held(t *testing.T, cache *store.Cache[*corev1.Pod]) *corev1.Pod {
	t.Helper()
	object, ok := cache.Get(key)
	require.True(t, ok)
	return object
}

// mutation returns the one error that there is.
func mutation(t *testing.T, errs ...error) *MutationError {
	t.Helper()
	require.Len(t, errs, 1)
	e, ok := errors.AsType[*MutationError](errs[0])
	require.True(t, ok, "%v", errs[0])
	assert.Equal(t, key, e.Key)
	assert.Equal(t, "pods", e.Guard)
	return e
}

func TestFirstFieldThatDiffersIsNamed(t *testing.T) {
	for want, change := range map[string]func(*corev1.Pod){
		`spec.containers[0].image: "nginx:1" -> "nginx:2"`:             func(p *corev1.Pod) { p.Spec.Containers[0].Image = "nginx:2" },
		`metadata.labels["app.kubernetes.io/name"]: "web" -> "db"`:     func(p *corev1.Pod) { p.Labels["app.kubernetes.io/name"] = "db" },
		`metadata.labels.tier: absent -> "front"`:                      func(p *corev1.Pod) { p.Labels["tier"] = "front" },
		`metadata.labels: {"app.kubernetes.io/name":"web"} -> absent`:  func(p *corev1.Pod) { p.Labels = nil },
		`spec.containers[1]: absent -> {"name":"side","resources":{}}`: func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "side"}) },
		`metadata.generation: absent -> 9007199254740993`:              func(p *corev1.Pod) { p.Generation = 1<<53 + 1 },
		`spec.containers[0].resources.limits.cpu: "1500m" -> "2"`:      func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits["cpu"] = resource.MustParse("2") },
	} {
		t.Run(want, func(t *testing.T) {
			cache, g, told := watching(t)
			require.NoError(t, g.Check())
			change(held(t, cache))
			e := mutation(t, g.Check())
			assert.Equal(t, want, fmt.Sprintf("%s: %s -> %s", e.Path, e.Was, e.Is))
			assert.Empty(t, e.Suspects)
			require.NoError(t, g.Check(), "it is told once")
			assert.Empty(t, told(), "Check returns it")
		})
	}
}

func TestReadingIsNoChange(t *testing.T) {
	cache, g, _ := watching(t)
	cpu := held(t, cache).Spec.Containers[0].Resources.Limits["cpu"]
	_ = cpu.String()
	_ = held(t, cache).Spec.Containers[0].Resources.Limits.Cpu().String() // which keeps its text
	require.NoError(t, g.Check())
}

func TestLaterCommitFindsTheChange(t *testing.T) {
	for name, commit := range map[string]func(*store.Cache[*corev1.Pod]) error{
		"an update":     func(c *store.Cache[*corev1.Pod]) error { return c.Update(pod("2")) },
		"a deletion":    func(c *store.Cache[*corev1.Pod]) error { return c.Delete(pod("2")) },
		"a replacement": func(c *store.Cache[*corev1.Pod]) error { return c.Replace(nil, "9") },
	} {
		t.Run(name, func(t *testing.T) {
			cache, g, told := watching(t)
			require.NoError(t, cache.Update(pod("1a")))
			assert.Empty(t, told())
			held(t, cache).Spec.NodeName = "elsewhere"
			require.NoError(t, commit(cache))
			assert.Equal(t, "spec.nodeName", mutation(t, told()...).Path)
			require.NoError(t, g.Check())
			assert.LessOrEqual(t, len(g.states), 1)
		})
	}
}

// A program may subscribe for each of its clients.
func TestOnlyTheLastEarlierSubscribersAreKept(t *testing.T) {
	cache, g, told := watching(t)
	one := held(t, cache)
	for n := range 1000 {
		g.Given(fmt.Sprint(n), key, one)()
	}
	g.Given("999", key, one)()
	one.Spec.NodeName = "a"
	require.NoError(t, cache.Update(pod("2")))
	earlier := mutation(t, told()...).Earlier
	assert.Len(t, earlier, maxEarlier)
	assert.Contains(t, earlier, "999")
	assert.Contains(t, earlier, "984")
}

func TestSubscriberIsNamed(t *testing.T) {
	cache, g, told := watching(t)
	one := held(t, cache)
	g.Given("reader", key, one)()
	assert.Empty(t, told())

	back := g.Given("writer", key, one, nil)
	one.Spec.NodeName = "a"
	back()
	e := mutation(t, told()...)
	assert.Equal(t, []string{"writer"}, e.Suspects)
	assert.Equal(t, []string{"reader"}, e.Earlier)
	assert.Contains(t, e.Error(), `subscriber writer had it in hand`)

	// Two at once: either may have been it.
	back, other := g.Given("a", key, one), g.Given("b", key, one)
	one.Spec.NodeName = "b"
	other()
	assert.Equal(t, []string{"a", "b"}, mutation(t, told()...).Suspects)
	one.Spec.NodeName = "c"
	back()
	e = mutation(t, told()...)
	assert.Equal(t, []string{"a"}, e.Suspects, "b had given it back")
	assert.Equal(t, []string{"b", "reader", "writer"}, e.Earlier)

	// A subscriber that kept it, or a reader of the cache, before the next subscriber gets it.
	one.Spec.NodeName = "d"
	back = g.Given("innocent", key, one)
	e = mutation(t, told()...)
	assert.Empty(t, e.Suspects)
	assert.Contains(t, e.Error(), "somebody who read it from the cache")
	back()
	assert.Empty(t, told())
}

func TestObjectsThatTheCacheDoesNotHoldAnyMore(t *testing.T) {
	cache, g, told := watching(t)
	old := held(t, cache)
	back := g.Given("slow", key, old)
	require.NoError(t, cache.Update(pod("2")))
	old.Spec.NodeName = "a"
	back()
	assert.Equal(t, []string{"slow"}, mutation(t, told()...).Suspects)
	back = g.Given("slower", key, old)
	old.Spec.NodeName = "b"
	back()
	assert.Equal(t, []string{"slower"}, mutation(t, told()...).Suspects)
	require.NoError(t, cache.DeleteKey(key))
	assert.Empty(t, g.states, "nobody has anything")
}

func TestObjectsWithoutAFormAreToldOnce(t *testing.T) {
	type odd struct{ Call func() }
	cache := store.New(func(*odd) (store.Key, error) { return key, nil })
	var told []error
	Watch("odd", cache, Report(func(err error) { told = append(told, err) }))
	require.NoError(t, cache.Add(&odd{}))
	require.NoError(t, cache.Add(&odd{}))
	require.Len(t, told, 1)
	e, ok := errors.AsType[*EncodeError](told[0])
	require.True(t, ok)
	assert.Equal(t, key, e.Key)
}

// vault is an object whose own method does not encode it, and quotes why.
type vault struct{ panics bool }

func (v *vault) MarshalJSON() ([]byte, error) {
	if v.panics {
		panic("bad password hush")
	}
	return nil, errors.New("bad password hush")
}

func TestErrorOfAnObjectThatDoesNotEncodeQuotesNoValue(t *testing.T) {
	for _, panics := range []bool{false, true} {
		cache := store.New(func(*vault) (store.Key, error) { return key, nil })
		var told []error
		Watch("vaults", cache, Report(func(err error) { told = append(told, err) }))
		require.NoError(t, cache.Add(&vault{panics}))
		require.Len(t, told, 1)
		assert.NotContains(t, told[0].Error(), "hush")
		if panics {
			assert.ErrorIs(t, told[0], store.ErrPanic)
			assert.ErrorContains(t, told[0], "guard.(*vault).MarshalJSON (guard_test.go:")
			assert.ErrorContains(t, told[0], "with a string")
		}
	}
}

func TestValuesAndMaps(t *testing.T) {
	cache := store.New(func(m map[string]string) (store.Key, error) { return store.Key{Name: m["name"]}, nil })
	require.NoError(t, cache.Add(map[string]string{"name": "a"}))
	g := Watch("maps", cache, Report(func(error) {}))
	m, _ := cache.Get(store.Key{Name: "a"})
	back := g.Given("writer", store.Key{Name: "a"}, m)
	assert.Len(t, g.states[store.Key{Name: "a"}], 1, "it is the one that is held")
	m["x"] = "y"
	back()
	require.NoError(t, g.Check(), "told already")

	words := store.New(func(word string) (store.Key, error) { return store.Key{Name: word}, nil })
	require.NoError(t, words.Add("go"))
	require.NoError(t, Watch("words", words, Report(func(error) {})).Check())
}

// double is a test that does not fail.
type double struct {
	errors []string
	ends   []func()
}

func (d *double) Helper()            {}
func (d *double) Cleanup(end func()) { d.ends = append(d.ends, end) }
func (d *double) Errorf(format string, args ...any) {
	d.errors = append(d.errors, fmt.Sprintf(format, args...))
}

func TestTestFails(t *testing.T) {
	d := &double{}
	cache := store.New(store.ObjectKey[*corev1.Pod])
	g := Watch("pods", cache, Fail(d))
	require.NoError(t, cache.Add(pod("1")))
	back := g.Given("writer", key, held(t, cache))
	held(t, cache).Spec.NodeName = "a"
	back()
	require.Len(t, d.errors, 1)
	held(t, cache).Spec.NodeName = "b"
	for _, end := range d.ends {
		end()
	}
	require.Len(t, d.errors, 2, "what nobody looked at is found at the end")
	assert.Contains(t, d.errors[1], `spec.nodeName was "a", is "b"`)
}

// A struct with a map cannot be compared, so that nobody tells by the value which one it is.
func TestValuesThatCannotBeCompared(t *testing.T) {
	type small struct {
		Name   string
		Labels map[string]string
	}
	cache := store.New(func(s small) (store.Key, error) { return store.Key{Name: s.Name}, nil })
	var told []error
	g := Watch("small", cache, Report(func(err error) { told = append(told, err) }))
	labels := map[string]string{}
	require.NoError(t, cache.Add(small{"a", labels}))
	for range 3 {
		require.NoError(t, cache.Update(small{"a", labels}))
	}
	assert.Len(t, g.states[store.Key{Name: "a"}], 1, "one state is held")
	labels["x"] = "y"
	require.NoError(t, cache.Update(small{"a", nil}))
	require.Len(t, told, 1, "the next commit finds it")
	require.NoError(t, cache.DeleteKey(store.Key{Name: "a"}))
	assert.Empty(t, g.states)
	require.Len(t, told, 1)
}

func TestReportTellsOfEachChange(t *testing.T) {
	cache, g, told := watching(t)
	other := pod("1")
	other.Name = "other"
	require.NoError(t, cache.Add(other))
	held(t, cache).Spec.NodeName = "a"
	other.Spec.NodeName = "b"
	g.Report()
	all := told()
	require.Len(t, all, 2)
	for _, err := range all {
		assert.IsType(t, &MutationError{}, err)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNothingIsReportedAfterTheTest(t *testing.T) {
	d := &double{}
	cache := store.New(store.ObjectKey[*corev1.Pod])
	g := Watch("pods", cache, Fail(d))
	require.NoError(t, cache.Add(pod("1")))
	for _, end := range d.ends {
		end()
	}
	held(t, cache).Spec.NodeName = "a"
	require.NoError(t, cache.Update(pod("2"))) // an informer that nothing waits for
	assert.Empty(t, d.errors, "the testing package ends the process for it")
	require.NoError(t, g.Check())
}

func TestSecretValuesAreNotShown(t *testing.T) {
	cache := store.New(store.ObjectKey[*corev1.Secret])
	g := Watch("secrets", cache, Report(func(error) {}))
	require.NoError(t, cache.Add(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Data: map[string][]byte{"p": []byte("hunter2")}}))
	secret, _ := cache.Get(key)
	for _, change := range []struct {
		path   string
		change func()
	}{
		{"data.p", func() { secret.Data["p"] = []byte("hunter3") }},
		{"data.p", func() { secret.Data["p"] = []byte{} }},
		{"data.q", func() { secret.Data["q"] = []byte("hunter2") }},
		{"data", func() { secret.Data = nil }},
		{"metadata.name", func() { secret.Name = "other" }},
	} {
		change.change()
		e := mutationOf(t, g)
		assert.Equal(t, change.path, e.Path)
		assert.NotContains(t, e.Error(), "aHVudGVy")
		assert.NotEqual(t, e.Was, e.Is)
	}
}

func mutationOf(t *testing.T, g *Guard[*corev1.Secret]) *MutationError {
	t.Helper()
	e, ok := errors.AsType[*MutationError](g.Check())
	require.True(t, ok)
	return e
}
