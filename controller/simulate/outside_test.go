package simulate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
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

func (c *cloud) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buckets = map[string]string{}
}

// all returns the owners, because the IDs are not the same in each run.
func (c *cloud) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.buckets))
}

// bucketed keeps a bucket for each ConfigMap, and a finalizer until the bucket is gone. idOf names the bucket.
func bucketed(c *cloud, idOf func(*corev1.ConfigMap) string) Scenario {
	operator := polling(func(ctx context.Context, k kubernetes.Interface, p *corev1.ConfigMap) error {
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
	return Scenario{Operator: operator, Steps: []Step{Create(parent()), Delete(parent())}, Reset: c.reset, Outside: c.all}
}

func TestCallsOutsideOfTheClusterAreDisturbed(t *testing.T) {
	c := &cloud{}
	byName := func(p *corev1.ConfigMap) string { return p.Name }
	assert.Empty(t, Find(t, bucketed(c, byName)))

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
		drawn := 0
		s := bucketed(c, func(p *corev1.ConfigMap) string { drawn++; return p.Name })
		reset := s.Reset
		s.Reset = func() { reset(); drawn = 0 }
		trace, failures := Play(t, s, line)
		assert.Empty(t, failures, line)
		inOrder(t, trace, want.trace...)
		assert.Equal(t, want.ids, drawn, line)
		assert.Empty(t, c.all(), line)
	}
}

// The IDs are drawn at each try, so an answer that is lost leaves a bucket behind.
func TestAnEffectThatIsRepeatedIsFound(t *testing.T) {
	c, n := &cloud{}, 0
	s := bucketed(c, func(*corev1.ConfigMap) string { n++; return fmt.Sprint(n) })
	s.Normalize = func(object map[string]any) { delete(object, "data") }
	found := Find(t, s)
	require.Len(t, found, 1)
	assert.Contains(t, found[0].Line, "put a#1")
	assert.Contains(t, strings.Join(found[0].Failures, "\n"), `outside of the cluster is ["a" "a"], undisturbed ["a"]`)
	assert.Contains(t, append(found[0].Others, found[0].Line), "lose call put a#1")
	assert.NotContains(t, append(found[0].Others, found[0].Line), "fail call put a#1 with 500", "it had no effect")
}

// As with requests: each try repeats what comes before the write that fails.
func TestACallWithoutAnEffectIsNotCountedWhileAWriteFails(t *testing.T) {
	c := &cloud{}
	s := bucketed(c, func(p *corev1.ConfigMap) string { return p.Name })
	once := s.Operator
	s.Operator = func(ctx context.Context, config *rest.Config) error {
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
	_, failures := Play(t, s, "fail patch configmaps default/a#2 with 500 for 10m")
	assert.Empty(t, failures)
}

func TestTheInvariantIsCheckedAfterACall(t *testing.T) {
	c, tries := &cloud{}, 0
	s := bucketed(c, func(p *corev1.ConfigMap) string { tries++; return p.Name })
	s.Reset = func() { c.reset(); tries = 0 }
	s.Invariant = func(server *reflectortest.Server) error {
		if p := parent(); tries > 1 && server.Get(p) == nil && p.Data["bucket"] == "" {
			return errors.New("there is a bucket that nothing names")
		}
		return nil
	}
	_, failures := Play(t, s, "fail patch configmaps default/a#2 with 500")
	assert.Contains(t, strings.Join(failures, ""), "there is a bucket")
}

// Other tests use the same fake.
func TestACallWithoutASimulationIsOnlyItsEffect(t *testing.T) {
	c := &cloud{}
	c.reset()
	require.NoError(t, c.put(t.Context(), "1", "a"))
	assert.True(t, c.has("1"))
	require.NoError(t, c.delete(t.Context(), "1"))
	assert.EqualError(t, c.delete(t.Context(), "1"), "there is no such bucket")
}
