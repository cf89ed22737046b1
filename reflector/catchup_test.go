package reflector_test

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func aConfigMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// busy makes changes of another kind, which raise the version of the server.
func busy(t *testing.T, server *reflectortest.Server) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "busy"}}
	require.NoError(t, server.Create(secret))
	require.NoError(t, server.Delete(secret))
}

// catchingUp returns a channel that gets the result of CatchUp, and the time that it took.
func catchingUp(ctx context.Context, m *follower[*corev1.ConfigMap], since time.Time) (<-chan error, *time.Duration) {
	done, took := make(chan error, 1), new(time.Duration)
	began := time.Now()
	go func() {
		err := m.of.CatchUp(ctx, since)
		*took = time.Since(began)
		done <- err
	}()
	return done, took
}

func TestCatchUpOfAQuietKindNeedsNoBookmarkOfItsWatch(t *testing.T) {
	eachClient(t, func(t *testing.T, generated bool) {
		synctest.Test(t, func(t *testing.T) {
			server := reflectortest.Start(t)
			require.NoError(t, server.Create(aConfigMap("a")))
			m := mirrored(t, server, generated)
			busy(t, server)
			<-time.After(time.Second)
			requests := len(server.Requests())
			since := time.Now()
			done, took := catchingUp(t.Context(), m, since)
			require.NoError(t, <-done)
			assert.LessOrEqual(t, *took, 3*time.Second)
			assert.Len(t, server.Requests()[requests:], 2, "a list of one object, and a watch")

			require.NoError(t, m.of.CatchUp(t.Context(), since))
			assert.Len(t, server.Requests()[requests:], 2, "the result of the first call is still good")
		})
	})
}

func TestCatchUpWithoutBookmarksBelievesASilentWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t, reflectortest.WithBookmarkInterval(0))
		m := mirrored(t, server, false)
		busy(t, server)
		<-time.After(time.Second)
		done, took := catchingUp(t.Context(), m, time.Now())
		require.NoError(t, <-done)
		assert.LessOrEqual(t, *took, 4*time.Second)
	})
}

// Events are such a kind: they have no watch cache, and etcd itself seldom says that nothing happened.
func TestCatchUpOfAQuietKindListsIfTheServerHasForgottenTheVersion(t *testing.T) {
	eachClient(t, func(t *testing.T, generated bool) {
		synctest.Test(t, func(t *testing.T) {
			server := reflectortest.Start(t, reflectortest.WithBookmarkInterval(0))
			require.NoError(t, server.Create(aConfigMap("a")))
			m := mirrored(t, server, generated)
			<-time.After(6 * time.Minute)
			busy(t, server)
			require.NoError(t, server.Compact(server.ResourceVersion()))
			release := make(chan struct{})
			server.Inject(reflectortest.StallAfterEvents(1, release).On("watch", "configmaps")) // the list of Run
			time.AfterFunc(4*time.Second, func() { close(release) })
			requests := len(server.Requests())
			limited, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			require.NoError(t, m.of.CatchUp(limited, time.Now()))
			assert.Equal(t, []string{"a"}, m.names())
			assert.NoError(t, m.of.State().LastErr, "a 410 of a watch is no failure")
			lists := 0
			for _, r := range server.Requests()[requests:] {
				if r.Query.Get("sendInitialEvents") != "" {
					lists++
				}
			}
			assert.Equal(t, 1, lists, "CatchUp does not end the list that it waits for")
		})
	})
}

// See kubernetes/kubernetes#137089.
func TestCatchUpListsIfTheServerForgetsVersionsWithoutAWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t, reflectortest.WithBookmarkInterval(0))
		config := server.Config()
		var forgotten atomic.Bool
		config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
			return closing{rt, func(query url.Values) bool { return forgotten.Load() && !query.Has("sendInitialEvents") }}
		})
		m := mirroredBy(t, config, false)
		busy(t, server)
		<-time.After(time.Second) // what Run began with is older than what CatchUp asks for
		forgotten.Store(true)
		limited, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		require.NoError(t, m.of.CatchUp(limited, time.Now()))
		last := server.Requests(reflectortest.Verb("watch"))
		assert.True(t, last[len(last)-1].Query.Has("sendInitialEvents"), "Run lists")
	})
}

func TestCatchUpLeavesAWatchAloneThatIsPastAForgottenVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t, reflectortest.WithBookmarkInterval(0))
		release, answer := make(chan struct{}), make(chan struct{})
		server.Inject(reflectortest.StallAfterEvents(1, release).On("watch", "configmaps").Times(1))
		m := mirrored(t, server, false)
		require.NoError(t, server.Create(aConfigMap("a")))
		busy(t, server)
		<-time.After(time.Second)
		server.Inject(reflectortest.Stall(answer).On("watch", "configmaps").Times(1)) // the watch of CatchUp
		server.Inject(reflectortest.Answer(410).On("watch", "configmaps").Times(1))
		requests := len(server.Requests())
		done, _ := catchingUp(t.Context(), m, time.Now())
		synctest.Wait()
		close(release) // Run receives a while the check is on its way
		synctest.Wait()
		require.Equal(t, []string{"a"}, m.names())
		close(answer)
		require.NoError(t, <-done)
		for _, r := range server.Requests()[requests:] {
			assert.Empty(t, r.Query.Get("sendInitialEvents"), "a list of Run")
		}
	})
}

func TestCatchUpWaitsForAChangeThatTheWatchDidNotBring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		release := make(chan struct{})
		// The bookmark after the initial events is the first event.
		server.Inject(reflectortest.StallAfterEvents(2, release).On("watch", "configmaps").Times(1))
		m := mirrored(t, server, false)
		require.NoError(t, server.Create(aConfigMap("a")))
		require.NoError(t, server.Delete(aConfigMap("a")))
		busy(t, server)
		<-time.After(time.Second)
		require.Equal(t, []string{"a"}, m.names())
		done, _ := catchingUp(t.Context(), m, time.Now())
		<-time.After(20 * time.Second)
		assert.Empty(t, done, "the store still has the deleted object")

		limited, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		err := m.of.CatchUp(limited, time.Now())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, m.of.State().ResourceVersion)

		close(release)
		require.NoError(t, <-done)
		assert.Empty(t, m.names())
	})
}

// lagging answers lists at version "0" with the state at an earlier version, as an API server whose
// watch cache is behind. It does not say which Kubernetes it is: a first list of 1.34 or later is not
// at "0".
type lagging struct {
	http.RoundTripper
	version string
}

func (l lagging) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/version" {
		r = r.Clone(r.Context())
		r.URL.Path = "/unknown"
	}
	if q := r.URL.Query(); q.Get("resourceVersion") == "0" && q.Get("watch") == "" {
		q.Set("resourceVersion", l.version)
		q.Set("resourceVersionMatch", "Exact")
		r = r.Clone(r.Context())
		r.URL.RawQuery = q.Encode()
	}
	return l.RoundTripper.RoundTrip(r)
}

func TestCatchUpDoesNotTrustAFirstListAtVersionZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(aConfigMap("a")))
		version := server.ResourceVersion()
		require.NoError(t, server.Delete(aConfigMap("a")))
		release := make(chan struct{})
		server.Inject(reflectortest.Stall(release).On("watch", "configmaps"))
		config := server.Config()
		config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return lagging{rt, strconv.FormatUint(version, 10)} })
		began := time.Now()
		m := followed(t, openedAt[*corev1.ConfigMap](t, config, configMapResource, "default"), reflector.WithoutWatchList())
		<-time.After(time.Second)
		require.Equal(t, []string{"a"}, m.names())
		done, _ := catchingUp(t.Context(), m, began)
		<-time.After(20 * time.Second)
		assert.Empty(t, done)
		close(release)
		require.NoError(t, <-done)
		assert.Empty(t, m.names())
	})
}

func TestCatchUpAfterAConsistentListSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		began := time.Now()
		m := mirrored(t, server, false)
		busy(t, server)
		requests := len(server.Requests())
		require.NoError(t, m.of.CatchUp(t.Context(), began))
		assert.Len(t, server.Requests(), requests)
	})
}

func TestCatchUpWithoutVersionsReturnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := followed(t, fake.NewClientset(aConfigMap("a")).CoreV1().ConfigMaps("default"))
		synctest.Wait()
		began := time.Now()
		require.NoError(t, m.of.CatchUp(t.Context(), time.Now()))
		assert.Equal(t, began, time.Now())
		m.stop()
	})
}

func TestCatchUpDoesNotTakeAnAnswerWithoutAVersionForTheServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &computing{names: []string{"a"}, version: "7", watches: true}
		m := followed(t, opened[*corev1.ConfigMap](t, server, configMapResource, "default"))
		synctest.Wait()
		server.setVersion("")
		limited, cancel := context.WithTimeout(t.Context(), 19500*time.Millisecond) // between two attempts
		defer cancel()
		err := m.of.CatchUp(limited, time.Now())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "list has no resource version")

		done, _ := catchingUp(t.Context(), m, time.Now())
		<-time.After(20 * time.Second)
		assert.Empty(t, done)
		server.setVersion("7")
		require.NoError(t, <-done)
	})
}

func TestCatchUpWhilePollingReturnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := followed(t, opened[*corev1.ConfigMap](t, &computing{names: []string{"a"}}, configMapResource, "default"))
		synctest.Wait()
		require.Equal(t, reflector.Polling, m.of.State().Phase)
		require.NoError(t, m.of.CatchUp(t.Context(), time.Now()))
	})
}

// followedWithoutBad runs a reflector over a cache that rejects objects with the name bad.
func followedWithoutBad(t *testing.T, server *reflectortest.Server) *follower[*corev1.ConfigMap] {
	cache := store.New(store.ObjectKey[*corev1.ConfigMap])
	_, err := store.AddIndex(cache, "names", func(c *corev1.ConfigMap) []string {
		if c.Name == "bad" {
			panic("bad")
		}
		return nil
	})
	require.NoError(t, err)
	m := followedInto(t, openedAt[*corev1.ConfigMap](t, server.Config(), configMapResource, "default"), cache)
	synctest.Wait()
	return m
}

func TestCatchUpWaitsForAChangeAfterAFirstListWithARejectedObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(aConfigMap("bad")))
		release := make(chan struct{})
		defer close(release)
		server.Inject(reflectortest.StallAfterEvents(2, release).On("watch", "configmaps").Times(1)) // the object and the bookmark
		m := followedWithoutBad(t, server)
		require.Len(t, m.cache.Rejected(), 1)
		require.NoError(t, server.Create(aConfigMap("a")))
		<-time.After(time.Second / 2) // the list that the rejection causes comes after 0.8 s at least
		require.Empty(t, m.names())
		limited, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, m.of.CatchUp(limited, time.Now()))
		assert.Equal(t, []string{"a"}, m.names())
	})
}

func TestCatchUpDoesNotWaitForARejectedObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		m := followedWithoutBad(t, server)
		require.NoError(t, server.Create(aConfigMap("bad")))
		require.NoError(t, server.Create(aConfigMap("a")))
		busy(t, server)
		<-time.After(time.Second)
		require.Len(t, m.cache.Rejected(), 1)
		limited, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		require.NoError(t, m.of.CatchUp(limited, time.Now()))
	})
}

func TestCatchUpWaitsForTheListAfterARestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(aConfigMap("a")))
		backup := server.ResourceVersion()
		require.NoError(t, server.Create(aConfigMap("b")))
		m := mirrored(t, server, false)
		away := server.Inject(reflectortest.Answer(503).On("", "configmaps"))
		require.NoError(t, server.Restore(backup))
		<-time.After(5 * time.Minute)
		away.Remove()
		require.Equal(t, []string{"a", "b"}, m.names())
		done, _ := catchingUp(t.Context(), m, time.Now())
		require.NoError(t, <-done)
		assert.Equal(t, []string{"a"}, m.names(), "b is of a history that is lost")
	})
}
