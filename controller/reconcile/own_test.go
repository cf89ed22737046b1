package reconcile

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func TestOwnWritesCountUnlessToldNotTo(t *testing.T) {
	for name, tc := range map[string]struct {
		opts []Option
		want []string
	}{
		"counted":                  {nil, []string{"a0", "a1"}},
		"ignored":                  {[]Option{IgnoreOwnWrites()}, []string{"a0"}},
		"ignored, without waiting": {[]Option{IgnoreOwnWrites(), WithReadYourWritesTimeout(0)}, []string{"a0"}},
	} {
		for order, late := range map[string]bool{"the event comes late": true, "the event comes during the call": false} {
			t.Run(name+"/"+order, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					release := func() {}
					if late {
						release = w.deafen(1)
					}
					w.create(configMap("a"))
					var got list
					stop := w.run(New("test", w.configMaps, func(ctx context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) {
						result, err := w.securing(&got)(ctx, key)
						<-time.After(time.Second)
						return result, err
					}, append(tc.opts, w.ofSecrets)...))
					<-time.After(10 * time.Second)
					release()
					<-time.After(10 * time.Second)
					assert.Equal(t, tc.want, got.take())

					s := secret("", "a")
					for _, held := range w.secrets.Cache().All() {
						s = held.DeepCopy()
					}
					s.Data = map[string][]byte{"somebody": []byte("else")}
					w.update(s)
					<-time.After(10 * time.Second)
					assert.Equal(t, []string{"a1"}, got.take(), "what others write counts")
					require.NoError(t, stop())
				})
			})
		}
	}
}

func TestWhatOthersDoDuringACallCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(configMap("a"))
		var got list
		stop := w.run(New("test", w.configMaps, func(ctx context.Context, key store.Key, _ *corev1.ConfigMap) (Result, error) {
			result, err := w.securing(&got)(ctx, key)
			<-time.After(time.Second)
			return result, err
		}, w.ofSecrets, IgnoreOwnWrites()))
		synctest.Wait()
		w.touch("a", "1")
		<-time.After(time.Minute)
		assert.Equal(t, []string{"a0", "a1"}, got.take())
		require.NoError(t, stop())
	})
}

func TestNothingIsRememberedOfKeysThatAreDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var got list
		o := newOptions([]Option{w.ofSecrets, IgnoreOwnWrites()})
		r := newRun(t.Context(), &o, "test", w.securing(&got), o.sources)
		defer r.close()
		subscription := o.sources[0].subscribe(&o, "test", r.trigger)
		stop := w.run(runFunc(func(ctx context.Context) error {
			<-subscription.Synced()
			return r.work(ctx, subscription.Close)
		}))
		r.trigger(trigger{key: store.Key{Namespace: "ns", Name: "a"}})
		r.trigger(trigger{})
		synctest.Wait()
		assert.Equal(t, []string{"a0"}, got.take())
		require.NoError(t, stop())
		assert.Empty(t, r.states)
		assert.Zero(t, r.keys.Len())
	})
}

func TestOwnWritesThatNobodyHearsOfAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := newOptions([]Option{w.ofSecrets, IgnoreOwnWrites(), WithReadYourWritesTimeout(0)})
		r := newRun(t.Context(), &o, "test", func(ctx context.Context, _ store.Key) (Result, error) {
			for i := range 2 * maxOwn {
				one := secret("s", "a")
				one.UID, one.ResourceVersion = "u", strconv.Itoa(i+1)
				ExpectWrite(ctx, one)
				ExpectWrite(ctx, configMap("no cache of the reconciler has it"))
			}
			return Result{}, nil
		}, o.sources)
		key := store.Key{Name: "a"}
		r.trigger(trigger{key: key})
		stop := working(t, r)
		synctest.Wait()
		r.mu.Lock()
		require.Contains(t, r.states, key)
		assert.Len(t, r.states[key].own, maxOwn)
		assert.Equal(t, version{"u", strconv.Itoa(2 * maxOwn)}, r.states[key].own[maxOwn-1])
		r.mu.Unlock()
		r.trigger(trigger{key: key, of: version{uid: "other"}, gone: true})
		synctest.Wait()
		require.NoError(t, stop())
		r.trigger(trigger{key: key, of: version{uid: "u", resourceVersion: "99"}, gone: true})
		assert.Empty(t, r.states, "the object is gone")
	})
}

func TestOwnWritesOfADeletedKeyAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := newOptions([]Option{w.ofSecrets, IgnoreOwnWrites(), WithReadYourWritesTimeout(0)})
		r := newRun(t.Context(), &o, "test", func(ctx context.Context, _ store.Key) (Result, error) {
			shared := secret("shared", "nobody") // its events trigger no reconcile of the key
			shared.UID, shared.ResourceVersion = "u", "1"
			ExpectWrite(ctx, shared)
			return Result{}, nil
		}, o.sources)
		stop := working(t, r)
		for _, gone := range []bool{false, true} {
			r.trigger(trigger{key: store.Key{Name: "a"}, primary: true, gone: gone})
			synctest.Wait()
		}
		r.mu.Lock()
		assert.Empty(t, r.states)
		r.mu.Unlock()
		require.NoError(t, stop())
	})
}

func TestOwnWritesThatASelectorExcludesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		selected := informer.New(w.client.CoreV1().ConfigMaps(""),
			informer.WithReflector(reflector.WithLabelSelector(labels.SelectorFromSet(labels.Set{"app": "db"}))))
		o := newOptions([]Option{IgnoreOwnWrites(), WithReadYourWritesTimeout(0)})
		r := newRun(t.Context(), &o, "test", func(ctx context.Context, _ store.Key) (Result, error) {
			other := configMap("other")
			other.UID, other.ResourceVersion = "u", "1"
			ExpectWrite(ctx, other)
			return Result{}, nil
		}, []source{&watching[*corev1.ConfigMap]{informer: selected}})
		stop := working(t, r)
		r.trigger(trigger{key: store.Key{Name: "a"}})
		synctest.Wait()
		r.mu.Lock()
		assert.Empty(t, r.states)
		r.mu.Unlock()
		require.NoError(t, stop())
	})
}

func TestOnlyEventsOfOwnWritesAreNoReason(t *testing.T) {
	key := store.Key{Name: "a"}
	of := func(uid, resourceVersion string) trigger { return trigger{key: key, of: version{uid, resourceVersion}} }
	gone := func(t trigger) trigger { t.gone = true; return t }
	listed := func(t trigger) trigger { t.listed = true; return t }
	for name, tc := range map[string]struct {
		wrote         []string
		during, after []trigger
		calls         int
		remembered    int
	}{
		"own, during":                       {wrote: []string{"5"}, during: []trigger{of("u", "5")}},
		"own, after":                        {wrote: []string{"5"}, after: []trigger{of("u", "5")}},
		"own, twice":                        {wrote: []string{"5", "6"}, during: []trigger{of("u", "5")}, after: []trigger{of("u", "6")}},
		"foreign, before ours":              {wrote: []string{"5"}, during: []trigger{of("u", "4"), of("u", "5")}, calls: 1},
		"foreign, after ours":               {wrote: []string{"5"}, during: []trigger{of("u", "5"), of("u", "6")}, calls: 1},
		"foreign, of another object":        {wrote: []string{"5"}, after: []trigger{of("v", "5")}, calls: 1, remembered: 1},
		"hidden by a list, during":          {wrote: []string{"5"}, during: []trigger{listed(of("u", "5"))}, calls: 1},
		"hidden by a list, after":           {wrote: []string{"5"}, after: []trigger{listed(of("u", "5"))}, calls: 1},
		"deleted as it was, during":         {wrote: []string{"5"}, during: []trigger{gone(of("u", "5"))}, calls: 1},
		"deleted as it was, after":          {wrote: []string{"5"}, after: []trigger{gone(of("u", "5"))}, calls: 1},
		"ours, and deleted":                 {wrote: []string{"5"}, during: []trigger{of("u", "5"), gone(of("u", "6"))}, calls: 1},
		"write that changed nothing":        {wrote: []string{"5"}, after: []trigger{of("u", "6")}, calls: 1},
		"gone before it was seen":           {wrote: []string{"5"}, after: []trigger{gone(listed(of("u", "4")))}, calls: 1},
		"many that changed nothing":         {wrote: []string{"5", "5", "5"}, remembered: 1},
		"later, and an earlier list":        {wrote: []string{"5"}, after: []trigger{of("u", "4")}, calls: 1, remembered: 1},
		"versions that are no numbers":      {wrote: []string{"x"}, after: []trigger{of("u", "6")}, calls: 1, remembered: 1},
		"object that the server never saw":  {wrote: []string{""}, during: []trigger{of("u", "")}, calls: 1},
		"object that has no version at all": {wrote: []string{"", "-"}, after: []trigger{of("", ""), of("", "-")}, calls: 2},
		"more than is remembered": {wrote: []string{"99"}, during: []trigger{
			of("1", "1"), of("2", "1"), of("3", "1"), of("4", "1"), of("5", "1"), of("6", "1"), of("7", "1"), of("8", "1"),
			of("9", "1"), of("10", "1"), of("11", "1"), of("12", "1"), of("13", "1"), of("14", "1"), of("15", "1"), of("16", "1"),
			of("17", "1"),
		}, calls: 1, remembered: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				o := newOptions([]Option{w.ofSecrets, IgnoreOwnWrites(), WithReadYourWritesTimeout(0)})
				calls, release := 0, make(chan struct{})
				r := newRun(t.Context(), &o, "test", func(ctx context.Context, _ store.Key) (Result, error) {
					if calls++; calls > 1 {
						return Result{}, nil
					}
					for _, resourceVersion := range tc.wrote {
						one := secret("s", "a")
						if one.UID, one.ResourceVersion = "u", resourceVersion; resourceVersion == "-" {
							one.UID = ""
						}
						ExpectWrite(ctx, one)
					}
					<-release
					return Result{}, nil
				}, o.sources)
				stop := working(t, r)
				r.trigger(trigger{key: key})
				synctest.Wait()
				for _, event := range tc.during {
					r.trigger(event)
				}
				r.mu.Lock()
				assert.LessOrEqual(t, len(r.states[key].during), maxOwn)
				r.mu.Unlock()
				close(release)
				for _, event := range tc.after {
					synctest.Wait()
					r.trigger(event)
				}
				synctest.Wait()
				assert.Equal(t, tc.calls, calls-1)
				remembered := 0
				if s := r.states[key]; s != nil {
					remembered = len(s.own)
				}
				assert.Equal(t, tc.remembered, remembered)
				assert.NoError(t, stop())
			})
		})
	}
}
