package simulate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// cloud is a fake of a system outside of the cluster: buckets by their IDs, with the name of the owner.
type cloud struct {
	mu      sync.Mutex
	buckets map[string]string // guarded by mu
}

func (c *cloud) put(ctx context.Context, id, owner string) error {
	return Call(ctx, "put", owner, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.buckets[id] = owner
		return nil
	})
}

func (c *cloud) delete(ctx context.Context, id string) error {
	return Call(ctx, "delete", "bucket "+id, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		if _, ok := c.buckets[id]; !ok {
			return errors.New("there is no such bucket")
		}
		delete(c.buckets, id)
		return nil
	})
}

func (c *cloud) has(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buckets[id] != ""
}

// all returns the owners, because the IDs are not the same in each run.
func (c *cloud) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.buckets))
}

func newCloud() *cloud { return &cloud{buckets: map[string]string{}} }

// keepBuckets is an operator that keeps a bucket for each ConfigMap, and a finalizer until the bucket is gone.
// idOf names the bucket.
func keepBuckets(c *cloud, idOf func(*corev1.ConfigMap) string) func(context.Context, *rest.Config) error {
	return polling(func(ctx context.Context, k kubernetes.Interface, p *corev1.ConfigMap) error {
		patch := func(text string) error {
			_, err := k.CoreV1().ConfigMaps("default").Patch(ctx, p.Name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
			return err
		}
		switch {
		case p.DeletionTimestamp != nil && len(p.Finalizers) > 0:
			if id := p.Data["bucket"]; c.has(id) {
				if err := c.delete(ctx, id); err != nil {
					return err
				}
			}
			return patch(`{"metadata":{"finalizers":null}}`)
		case p.DeletionTimestamp != nil, p.Data["bucket"] != "":
			return nil
		case len(p.Finalizers) == 0:
			return patch(`{"metadata":{"finalizers":["example.com/bucket"]}}`)
		}
		id := idOf(p)
		if err := c.put(ctx, id, p.Name); err != nil {
			return err
		}
		return patch(fmt.Sprintf(`{"data":{"bucket":%q}}`, id))
	})
}

// bucketed is the scenario of that operator. idOf makes a function for each run.
func bucketed(idOf func() func(*corev1.ConfigMap) string) Scenario {
	return Scenario{Steps: []Step{Create(parent()), Delete(parent())}, Outside: func(run *Scenario) func() []string {
		c := newCloud()
		run.Operator = keepBuckets(c, idOf())
		return c.all
	}}
}

func byName(p *corev1.ConfigMap) string { return p.Name }

// drawn draws an ID at each try, which is a bug.
func drawn() func(*corev1.ConfigMap) string {
	n := 0
	return func(*corev1.ConfigMap) string { n++; return fmt.Sprint(n) }
}

func TestCallsOutsideOfTheClusterAreDisturbed(t *testing.T) {
	assert.Empty(t, Find(t, bucketed(func() func(*corev1.ConfigMap) string { return byName })))

	for line, want := range map[string]struct {
		trace []string
		ids   int // how many were drawn
	}{
		"lose call put a#1":                    {[]string{"p0 call put a#1", "  ** lose", "p0 call put a#2"}, 2},
		"fail call put a#1 with 500":           {[]string{"p0 call put a#1", "  ** fail", "p0 call put a#2"}, 2},
		"fail call put a#1 with 500 for 10m":   {[]string{"  ** fail", "p0 call put a#24", "p0 patch"}, 25},
		"crash before call put a#1":            {[]string{"p0 call put a#1", "  ** crash", "p1 call put a#2"}, 2},
		"crash after call put a#1":             {[]string{"p0 call put a#1", "  ** crash", "p1 call put a#2"}, 2},
		"step before call put a#1":             {[]string{"p0 call put a#1", "  ** step", "user: delete", "p0 call delete bucket_a#1"}, 1},
		"lose call delete bucket_a#1":          {[]string{"p0 call delete bucket_a#1", "  ** lose"}, 1},
		"fail call delete bucket_a#1 with 500": {[]string{"p0 call delete bucket_a#1", "  ** fail", "p0 call delete bucket_a#2"}, 1},
	} {
		drawn := 0 // in the last run
		s := bucketed(func() func(*corev1.ConfigMap) string {
			drawn = 0
			return func(p *corev1.ConfigMap) string { drawn++; return p.Name }
		})
		trace, failures := Play(t, s, line)
		assert.Empty(t, failures, line)
		inOrder(t, trace, want.trace...)
		assert.Equal(t, want.ids, drawn, line)
	}
}

// The IDs are drawn at each try, so an answer that is lost leaves a bucket behind.
func TestAnEffectThatIsRepeatedIsFound(t *testing.T) {
	s := bucketed(drawn)
	s.Normalize = func(object map[string]any) { delete(object, "data") }
	found := Find(t, s)
	require.Len(t, found, 1)
	assert.Contains(t, found[0].Line, "put a#1")
	assert.Contains(t, strings.Join(found[0].Failures, "\n"), `outside of the cluster is ["a" "a"], undisturbed ["a"]`)
	assert.Contains(t, append(found[0].Others, found[0].Line), "lose call put a#1")
	assert.NotContains(t, append(found[0].Others, found[0].Line), "fail call put a#1 with 500", "it had no effect")
}

// A job at night with a new seed plays what the default leaves out.
func TestEachSeedPlaysAnotherPartOfTheSchedules(t *testing.T) {
	defer func(seed uint64) { *flagSeed = seed }(*flagSeed)
	*flagSeed = 0
	s := bucketed(drawn)
	s.Normalize = func(object map[string]any) { delete(object, "data") }
	found := func() (lines []string) {
		for _, f := range Find(t, s) {
			lines = append(append(lines, f.Line), f.Others...)
		}
		slices.Sort(lines)
		return lines
	}
	all := found()
	s.Most = 40
	first := found()
	assert.Equal(t, first, found(), "the same part each time")
	*flagSeed = 1
	second := found()
	assert.NotEqual(t, first, second)
	assert.Less(t, len(first), len(all))
	*flagSeed = 2
	assert.Subset(t, slices.Concat(first, second, found()), all)
}

func TestSchedulesCanBeChosenByTheirLines(t *testing.T) {
	defer func() { *flagAt = *regexp.MustCompile("") }()
	s := bucketed(drawn)
	s.Normalize = func(object map[string]any) { delete(object, "data") }
	s.Most = 1
	*flagAt = *regexp.MustCompile("lose .*put|crash before")
	found := Find(t, s)
	require.Len(t, found, 1)
	assert.Equal(t, "lose call put a#1", found[0].Line)
	for _, line := range found[0].Others {
		assert.Regexp(t, flagAt, line)
	}
	*flagAt = *regexp.MustCompile("create secrets")
	_, err := s.find(t)
	require.ErrorContains(t, err, `no schedule matches -simulate.at="create secrets"; the writes of the undisturbed run are ["`)
}

// As with requests: each try repeats what comes before the write that fails.
func TestACallWithoutAnEffectIsNotCountedWhileAWriteFails(t *testing.T) {
	s := Scenario{Steps: []Step{Create(parent()), Delete(parent())}, Outside: func(run *Scenario) func() []string {
		c := newCloud()
		once := keepBuckets(c, byName)
		run.Operator = func(ctx context.Context, config *rest.Config) error {
			k, err := kubernetes.NewForConfig(config)
			if err != nil {
				return err
			}
			go func() {
				for ctx.Err() == nil {
					if p, err := k.CoreV1().ConfigMaps("default").Get(ctx, "a", metav1.GetOptions{}); err == nil && c.has("a") && p.Data["bucket"] == "" {
						_ = c.put(ctx, "a", "a")
					}
					select {
					case <-ctx.Done():
					case <-time.After(time.Second):
					}
				}
			}()
			return once(ctx, config)
		}
		return c.all
	}}
	_, failures := Play(t, s, "fail patch configmaps default/a#2 with 500 for 10m")
	assert.Empty(t, failures)
}

func TestTheInvariantIsCheckedAfterACall(t *testing.T) {
	s := Scenario{Steps: []Step{Create(parent()), Delete(parent())}, Outside: func(run *Scenario) func() []string {
		c, tries := newCloud(), 0
		run.Operator = keepBuckets(c, func(p *corev1.ConfigMap) string { tries++; return p.Name })
		run.Invariant = func(server *reflectortest.Server) error {
			if p := parent(); tries > 1 && server.Get(p) == nil && p.Data["bucket"] == "" {
				return errors.New("there is a bucket that nothing names")
			}
			return nil
		}
		return c.all
	}}
	_, failures := Play(t, s, "fail patch configmaps default/a#2 with 500")
	assert.Contains(t, strings.Join(failures, ""), "there is a bucket")
}

// What a run does with its fake does not depend on the runs beside it.
func TestRunsBesideEachOtherFindWhatSerialOnesDo(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	var found [2][]Finding
	for i, serial := range []bool{true, false} {
		var playing, most atomic.Int64
		s := bucketed(drawn)
		s.Serial = serial
		s.Normalize = func(object map[string]any) { delete(object, "data") }
		made := s.Outside
		s.Outside = func(run *Scenario) func() []string {
			lines := made(run)
			operator := run.Operator
			run.Operator = func(ctx context.Context, config *rest.Config) error {
				for n := playing.Add(1); ; {
					if last := most.Load(); n <= last || most.CompareAndSwap(last, n) {
						break
					}
				}
				defer playing.Add(-1)
				return operator(ctx, config)
			}
			return lines
		}
		found[i] = Find(t, s)
		require.Len(t, found[i], 1)
		if serial {
			assert.EqualValues(t, 1, most.Load(), "at once")
		} else {
			assert.Greater(t, most.Load(), int64(1), "at once")
		}
	}
	assert.Equal(t, found[0], found[1])
}

// A run may change everything of its scenario, also what lists hold, without a trace in the others.
func TestOutsideSetsTheScenarioOfOneRun(t *testing.T) {
	lists := Scenario{
		Steps:   append(make([]Step, 0, 8), Create(parent()), Step{}),
		Players: make([]Player, 0, 8),
		Server:  make([]reflectortest.Option, 0, 8),
	}
	lists.Outside = func(run *Scenario) func() []string {
		c := newCloud()
		run.Operator = keepBuckets(c, byName)
		run.Steps[1] = Step{Name: "make a bucket of somebody else", Do: func(*reflectortest.Server) error {
			return c.put(context.Background(), "other", "b")
		}}
		run.Steps = append(run.Steps, Delete(parent()))
		players := 0
		run.Players = append(run.Players, func(*reflectortest.Server) (time.Duration, error) { players++; return 0, nil })
		run.Server = append(run.Server, reflectortest.WithAdmission(func(context.Context, *reflectortest.Admission[*corev1.ConfigMap]) error { return nil }))
		return c.all
	}
	trace, failures := Play(t, lists, "steps 2 and 3 together")
	assert.Empty(t, failures)
	inOrder(t, trace, "p0 call put a#1", "user: make a bucket of somebody else", "user: delete")
	assert.Empty(t, Find(t, lists))
	assert.Nil(t, lists.Operator)
	assert.Nil(t, lists.Steps[1].Do)
	assert.Nil(t, lists.Steps[:3][2].Do)
}

// Other tests use the same fake.
func TestACallWithoutASimulationIsOnlyItsEffect(t *testing.T) {
	c := newCloud()
	require.NoError(t, c.put(t.Context(), "1", "a"))
	assert.True(t, c.has("1"))
	require.NoError(t, c.delete(t.Context(), "1"))
	assert.EqualError(t, c.delete(t.Context(), "1"), "there is no such bucket")
}
