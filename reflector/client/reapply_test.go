package client_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// write-W8: an equal apply to the state that the last equal one answered sends nothing.
func TestReapplyAsksOnlyIfSomethingMayHaveChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		all, err := client.For[*corev1.ConfigMap](server.Config())
		require.NoError(t, err)
		ctx, by := t.Context(), metav1.ApplyOptions{FieldManager: "one"}
		intent := func(value string) *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}, Data: map[string]string{"a": value}}
		}
		reapply := func(held, object *corev1.ConfigMap, opts metav1.ApplyOptions, want int, why string) *corev1.ConfigMap {
			t.Helper()
			server.ForgetRequests()
			got, err := all.Reapply(ctx, held, object, opts)
			require.NoError(t, err)
			assert.Len(t, server.Requests(reflectortest.Verb("patch")), want, why)
			return got
		}
		first := reapply(nil, intent("1"), by, 1, "the object does not exist")
		assert.Same(t, first, reapply(first, intent("1"), by, 0, "nothing has changed"))
		reapply(first.DeepCopy(), intent("1"), by, 0, "the cache has it")
		reapply(nil, intent("1"), by, 1, "the cache does not have it")
		reapply(first, intent("1"), metav1.ApplyOptions{FieldManager: "one", Force: true}, 1, "another option")
		reapply(first, intent("1"), metav1.ApplyOptions{FieldManager: "one", DryRun: []string{metav1.DryRunAll}}, 1, "a dry run")

		other, err := all.In("ns").Get(ctx, "c", metav1.GetOptions{})
		require.NoError(t, err)
		other.Labels = map[string]string{"by": "another"}
		changed, err := all.Update(ctx, other, metav1.UpdateOptions{})
		require.NoError(t, err)
		answer := reapply(changed, intent("1"), by, 1, "somebody else has written it")
		reapply(answer, intent("1"), by, 0, "which this was the answer to")
		second := reapply(answer, intent("2"), by, 1, "another intent")
		third := reapply(second, intent("1"), by, 1, "the earlier one again")
		reapply(second, intent("2"), by, 1, "second lags: it is the answer to an earlier intent than the last one")
		third = reapply(third, intent("1"), by, 1, "and the other way around")

		server.Inject(reflectortest.Answer(http.StatusInternalServerError).On("patch", "configmaps").Times(1))
		_, err = all.Reapply(ctx, third, intent("2"), by)
		require.Error(t, err)
		third = reapply(third, intent("1"), by, 1, "nobody knows whether the failed request was carried out")
		reapply(third, intent("1"), by, 0, "now it is known again")

		require.NoError(t, server.Delete(third.DeepCopy()))
		again := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
		require.NoError(t, server.Create(again))
		again.ResourceVersion = third.ResourceVersion // as after a restored backup
		reapply(again, intent("1"), by, 1, "another object has its name")

		reapply(third, intent("1"), metav1.ApplyOptions{FieldManager: "two"}, 1, "another manager")
		server.ForgetRequests()
		elsewhere, err := client.For[*corev1.ConfigMap](server.Config())
		require.NoError(t, err)
		_, err = elsewhere.Reapply(ctx, third, intent("1"), by)
		require.NoError(t, err)
		assert.Len(t, server.Requests(reflectortest.Verb("patch")), 1, "another client")
		_, err = all.Reapply(ctx, nil, nil, by)
		assert.ErrorContains(t, err, "object is nil")
		_, err = (*client.Resource[*corev1.ConfigMap])(nil).Reapply(ctx, nil, intent("1"), by)
		assert.Error(t, err)
	})
}

// reapplying returns a client, and a function that reapplies one object and counts the requests for that.
func reapplying(t *testing.T, server *reflectortest.Server) (all *client.Resource[*corev1.ConfigMap], reapply func(held *corev1.ConfigMap, want int, why string) *corev1.ConfigMap) {
	t.Helper()
	all, err := client.For[*corev1.ConfigMap](server.Config())
	require.NoError(t, err)
	intent := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}, Data: map[string]string{"a": "1"}}
	return all, func(held *corev1.ConfigMap, want int, why string) *corev1.ConfigMap {
		t.Helper()
		server.ForgetRequests()
		got, err := all.Reapply(t.Context(), held, intent, metav1.ApplyOptions{FieldManager: "one"})
		require.NoError(t, err)
		assert.Len(t, server.Requests(reflectortest.Verb("patch")), want, why)
		return got
	}
}

// A definition or a conversion that changes gives an object another content under the same version.
func TestReapplyAsksIfTheContentChangesUnderItsVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		all, reapply := reapplying(t, server)
		// cached returns the object as a cache has it, or as one that transforms it.
		cached := func(transforms bool) *corev1.ConfigMap {
			t.Helper()
			list, err := all.List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			held := list.Items[0]
			held.ManagedFields, held.TypeMeta = nil, metav1.TypeMeta{}
			if transforms {
				held.Data = nil
			}
			return held
		}
		convert := func(label, value string) {
			t.Helper()
			require.NoError(t, server.Convert("configmaps", func(o metav1.Object) {
				c := o.(*corev1.ConfigMap)
				c.Labels = map[string]string{"shown": label}
				c.Data["a"] = value
			}))
		}
		first := reapply(nil, 1, "the object does not exist")
		reapply(cached(false), 0, "managed fields and the kind do not count")
		convert("x", "x")
		held := cached(false)
		require.Equal(t, first.ResourceVersion, held.ResourceVersion)
		second := reapply(held, 1, "the server shows another value")
		assert.Equal(t, "1", second.Data["a"])
		reapply(cached(false), 0, "the cache has the answer")

		reapply(cached(true), 1, "the cache does not show the answer")
		reapply(cached(true), 0, "but it shows what the cache had, which the server said is up to date")
		convert("y", "1")
		held = cached(true)
		require.Equal(t, second.ResourceVersion, held.ResourceVersion)
		reapply(held, 1, "the cache shows another label")
		reapply(cached(true), 0, "which the intent does not have")

		_, reapply = reapplying(t, server)
		reapply(cached(true), 1, "another process")
		reapply(cached(true), 0, "whose answer had the version that the cache shows")
	})
}

// A webhook that stamps each request gives each apply a new version. If a transform hides what the server
// answered, too, no comparison with an answer ever says that held is up to date.
func TestReapplyEndsIfATransformMeetsAWebhookThatStamps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stamps := 0
		server := reflectortest.Start(t, reflectortest.WithAdmission(func(_ context.Context, a *reflectortest.Admission[*corev1.ConfigMap]) error {
			stamps++
			a.Object.Annotations = map[string]string{"stamp": strconv.Itoa(stamps)}
			return nil
		}))
		all, reapply := reapplying(t, server)
		cached := func() *corev1.ConfigMap {
			t.Helper()
			held, err := all.In("ns").Get(t.Context(), "c", metav1.GetOptions{})
			require.NoError(t, err)
			held.Data = nil
			return held
		}
		first := reapply(nil, 1, "the object does not exist")
		reapply(cached(), 1, "the cache does not show the answer")
		require.NotEqual(t, first.ResourceVersion, cached().ResourceVersion, "the apply is not idempotent")
		for range 3 {
			reapply(cached(), 0, "but it has the version of the last answer")
		}
		convert := func(label string) {
			t.Helper()
			require.NoError(t, server.Convert("configmaps", func(o metav1.Object) { o.SetLabels(map[string]string{"shown": label}) }))
		}
		convert("x")
		reapply(cached(), 1, "the content still counts")
		reapply(cached(), 0, "once")
		convert("y")
		reapply(cached(), 1, "again")
		other := cached()
		other.UID = "other" // as after a restored backup
		reapply(other, 1, "another object has the version of the answer")

		whole := func() *corev1.ConfigMap {
			held, err := all.In("ns").Get(t.Context(), "c", metav1.GetOptions{})
			require.NoError(t, err)
			return held
		}
		reapply(whole(), 0, "the cache has the answer")
		for range 3 {
			reapply(cached(), 1, "another cache does not show the answer")
			reapply(whole(), 0, "this one shows it")
		}
		for range 3 {
			reapply(cached(), 0, "the two would contradict each other without end")
			reapply(whole(), 0, "so their content no longer counts")
		}
		reapply(other, 1, "another object")
		reapply(whole(), 0, "the cache has the answer")
		convert("z")
		reapply(whole(), 1, "since the last request, the content counts again")
	})
}

func TestViewsShareWhatReapplyRemembersWithinABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		all, err := client.For[*corev1.ConfigMap](server.Config())
		require.NoError(t, err)
		intent := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
		by := metav1.ApplyOptions{FieldManager: "one"}
		held, err := all.Reapply(t.Context(), nil, intent, by)
		require.NoError(t, err)
		server.ForgetRequests()
		_, err = all.In("ns").Reapply(t.Context(), held, intent, by)
		require.NoError(t, err)
		assert.Empty(t, server.Requests())

		for n := range 3 * client.MaxAnswers {
			client.Remember(all, fmt.Sprint(n), held)
		}
		assert.LessOrEqual(t, client.Remembered(all), 2*client.MaxAnswers)
		_, err = all.In("ns").Reapply(t.Context(), held, intent, by)
		require.NoError(t, err)
		assert.Len(t, server.Requests(), 1, "forgotten")
	})
}
