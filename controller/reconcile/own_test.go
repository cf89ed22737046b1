package reconcile

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/ownwrites"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
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

// The function copies data into an annotation by a patch without a version. Another writer changes
// data during the call, and the function patches once more, without a change: the answer is the other
// writer's state.
func TestWriteOfNothingHidesNoOtherWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		of, err := client.FromTypedClient(w.client.CoreV1().ConfigMaps(""))
		require.NoError(t, err)
		w.create(configMap("a"))
		var got list
		stop := w.run(New("test", w.configMaps, func(ctx context.Context, _ store.Key, c *corev1.ConfigMap) (Result, error) {
			got.add(c.Data["touched"])
			if c.Data["touched"] == "1" {
				w.touch("a", "2")
			}
			_, err := of.In("ns").Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"annotations":{"mark":"yes"}}}`), metav1.PatchOptions{})
			return Result{}, err
		}, IgnoreOwnWrites()))
		<-time.After(time.Minute)
		w.touch("a", "1")
		<-time.After(time.Minute)
		all := got.take()
		assert.Equal(t, "2", all[len(all)-1])
		require.NoError(t, stop())
	})
}

func TestWritesWithAVersionCauseNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		of, err := client.FromTypedClient(w.client.CoreV1().ConfigMaps(""))
		require.NoError(t, err)
		w.create(configMap("a"))
		var got list
		stop := w.run(New("test", w.configMaps, func(ctx context.Context, _ store.Key, c *corev1.ConfigMap) (Result, error) {
			got.add(c.Name)
			c = c.DeepCopy()
			c.Labels = map[string]string{"by": "update"}
			c, err := of.Update(ctx, c, metav1.UpdateOptions{})
			if err == nil {
				c, err = of.In("ns").Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"by":"patch"},"resourceVersion":"`+c.ResourceVersion+`"}}`), metav1.PatchOptions{})
			}
			if err == nil {
				c, err = of.In("ns").Patch(ctx, "a", types.JSONPatchType, []byte(`[{"op":"replace","path":"/metadata/resourceVersion","value":"`+c.ResourceVersion+`"},{"op":"add","path":"/data","value":{"by":"json"}}]`), metav1.PatchOptions{})
			}
			if err == nil {
				applied := configMap("a")
				applied.ResourceVersion, applied.Data = c.ResourceVersion, map[string]string{"by": "apply"}
				_, err = of.Apply(ctx, applied, metav1.ApplyOptions{FieldManager: "test", Force: true})
			}
			if err == nil {
				_, err = w.creator.Apply(ctx, secret("s", "a"), metav1.ApplyOptions{FieldManager: "test"}) // creates it
			}
			return Result{}, err
		}, w.ofSecrets, IgnoreOwnWrites()))
		<-time.After(time.Minute)
		assert.Equal(t, []string{"a"}, got.take())
		assert.Equal(t, 1, w.secrets.Cache().Len())
		held, _ := w.configMaps.Cache().Get(store.Key{Namespace: "ns", Name: "a"})
		assert.Equal(t, "apply", held.Data["by"])
		require.NoError(t, stop())
	})
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
				ownwrites.Report(ctx, ownwrites.Write{Object: one, Replaced: strconv.Itoa(i)})
				ownwrites.Report(ctx, ownwrites.Write{Object: configMap("no cache of the reconciler has it"), Created: true})
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
		assert.Equal(t, store.Version{UID: "u", ResourceVersion: strconv.Itoa(2 * maxOwn)}, r.states[key].own[maxOwn-1].version)
		r.mu.Unlock()
		r.trigger(trigger{key: key, of: store.Version{UID: "other"}, gone: true})
		synctest.Wait()
		require.NoError(t, stop())
		r.trigger(trigger{key: key, of: store.Version{UID: "u", ResourceVersion: "99"}, gone: true})
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
			ownwrites.Report(ctx, ownwrites.Write{Object: shared, Created: true})
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
			ownwrites.Report(ctx, ownwrites.Write{Object: other, Created: true})
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

// The writes are of an object u. "4>5" had the precondition 4, ">5" is a creation, and "5" may have
// replaced any state.
func TestOnlyEventsOfOwnWritesAreNoReason(t *testing.T) {
	key := store.Key{Name: "a"}
	version := func(uid types.UID, version string) store.Version {
		return store.Version{UID: uid, ResourceVersion: version}
	}
	changed := func(uid types.UID, prior, now string) trigger {
		return trigger{key: key, prior: version(uid, prior), of: version(uid, now)}
	}
	added := func(uid types.UID, now string) trigger { return trigger{key: key, of: version(uid, now), added: true} }
	gone := func(t trigger) trigger { t.gone, t.added, t.prior = true, false, store.Version{}; return t }
	listed := func(t trigger) trigger { t.listed = true; return t }
	own := changed("u", "4", "5")
	var crowd []trigger
	for i := range maxOwn + 1 {
		crowd = append(crowd, added(types.UID(strconv.Itoa(i)), "1"))
	}
	for name, tc := range map[string]struct {
		wrote         []string
		during, after []trigger
		calls         int
		remembered    int
	}{
		"own, during":                         {wrote: []string{"4>5"}, during: []trigger{own}},
		"own, after":                          {wrote: []string{"4>5"}, after: []trigger{own}},
		"own, twice":                          {wrote: []string{"4>5", "5>6"}, during: []trigger{own}, after: []trigger{changed("u", "5", "6")}},
		"own, reported twice":                 {wrote: []string{"4>5", "5"}, after: []trigger{own}},
		"own, also a write of nothing":        {wrote: []string{"4>5", "5>5"}, after: []trigger{own}},
		"own creation":                        {wrote: []string{">5"}, after: []trigger{added("u", "5")}},
		"own creation and change":             {wrote: []string{">5", "5>6"}, during: []trigger{added("u", "5")}, after: []trigger{changed("u", "5", "6")}},
		"creation of another":                 {wrote: []string{">5"}, after: []trigger{added("v", "5")}, calls: 1, remembered: 1},
		"creation that comes as a change":     {wrote: []string{">5"}, after: []trigger{own}, calls: 1},
		"change that comes as an addition":    {wrote: []string{"4>5"}, after: []trigger{added("u", "5")}, calls: 1},
		"creation seen by a list":             {wrote: []string{">5"}, after: []trigger{listed(added("u", "5"))}, calls: 1},
		"creation, twice":                     {wrote: []string{">5"}, after: []trigger{added("u", "5"), added("u", "5")}, calls: 1},
		"without a precondition":              {wrote: []string{"5"}, after: []trigger{own}, calls: 1},
		"without a change":                    {wrote: []string{"5>5"}, after: []trigger{own}, calls: 1},
		"precondition that servers ignore":    {wrote: []string{"0>5"}, after: []trigger{changed("u", "0", "5")}, calls: 1},
		"states left out":                     {wrote: []string{"4>5"}, after: []trigger{changed("u", "3", "5")}, calls: 1},
		"states left out between own ones":    {wrote: []string{"4>5", "7>8"}, after: []trigger{changed("u", "5", "8")}, calls: 1},
		"prior of another object":             {wrote: []string{"4>5"}, after: []trigger{{key: key, prior: version("v", "4"), of: version("u", "5")}}, calls: 1},
		"prior that is not mapped to the key": {wrote: []string{"4>5"}, after: []trigger{{key: key, of: version("u", "5")}}, calls: 1},
		"changed again under its version":     {wrote: []string{"4>5"}, after: []trigger{own, changed("u", "5", "5")}, calls: 1},
		"foreign, before ours":                {wrote: []string{"4>5"}, during: []trigger{changed("u", "3", "4"), own}, calls: 1},
		"foreign, after ours":                 {wrote: []string{"4>5"}, during: []trigger{own, changed("u", "5", "6")}, calls: 1},
		"foreign, of another object":          {wrote: []string{"4>5"}, after: []trigger{changed("v", "4", "5")}, calls: 1, remembered: 1},
		"hidden by a list, during":            {wrote: []string{"4>5"}, during: []trigger{listed(own)}, calls: 1},
		"hidden by a list, after":             {wrote: []string{"4>5"}, after: []trigger{listed(own)}, calls: 1},
		"deleted as it was, during":           {wrote: []string{"4>5"}, during: []trigger{gone(own)}, calls: 1},
		"deleted as it was, after":            {wrote: []string{"4>5"}, after: []trigger{gone(own)}, calls: 1},
		"ours, and deleted":                   {wrote: []string{"4>5"}, during: []trigger{own, gone(changed("u", "5", "6"))}, calls: 1},
		"gone before it was seen":             {wrote: []string{"4>5"}, after: []trigger{gone(listed(changed("u", "3", "4")))}, calls: 1},
		"later, and an earlier list":          {wrote: []string{"4>5"}, after: []trigger{listed(changed("u", "3", "4"))}, calls: 1, remembered: 1},
		"versions that are no numbers":        {wrote: []string{"x>y"}, after: []trigger{changed("u", "x", "y")}, calls: 1},
		"object that the server never saw":    {wrote: []string{">"}, during: []trigger{added("u", "")}, calls: 1},
		"object that has no version at all":   {wrote: []string{">", ">-"}, after: []trigger{added("", ""), added("", "-")}, calls: 2},
		"more than is remembered":             {wrote: []string{"4>5"}, during: crowd, after: []trigger{own}, calls: 2},
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
					for _, text := range tc.wrote {
						one := secret("s", "a")
						replaced, now, facts := strings.Cut(text, ">")
						if !facts {
							replaced, now = "", replaced
						}
						if one.UID, one.ResourceVersion = "u", now; now == "-" {
							one.UID = ""
						}
						ownwrites.Report(ctx, ownwrites.Write{Object: one, Created: facts && replaced == "", Replaced: replaced})
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

func TestOwnWritesWithoutAnEventAreForgottenAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		o := newOptions([]Option{w.ofSecrets, IgnoreOwnWrites(), WithReadYourWritesTimeout(0)})
		r := newRun(t.Context(), &o, "test", func(ctx context.Context, key store.Key) (Result, error) {
			if key.Name == "a" {
				one := secret("s", "somebody else")
				one.UID, one.ResourceVersion = "u", "5"
				ownwrites.Report(ctx, ownwrites.Write{Object: one, Created: true})
			}
			return Result{}, nil
		}, o.sources)
		stop := working(t, r)
		remembered := func() int {
			synctest.Wait()
			r.mu.Lock()
			defer r.mu.Unlock()
			return len(r.states)
		}
		r.trigger(trigger{key: store.Key{Name: "a"}})
		assert.Equal(t, 1, remembered())
		<-time.After(ownLife - time.Second)
		r.trigger(trigger{key: store.Key{Name: "b"}})
		assert.Equal(t, 1, remembered())
		<-time.After(time.Second)
		r.trigger(trigger{key: store.Key{Name: "b"}})
		assert.Zero(t, remembered())
		require.NoError(t, stop())
	})
}
