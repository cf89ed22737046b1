package reflector_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// A server loses the last change in a restore. When the reflector reaches it again, it has passed
// the version that it had, or is exactly there.
func TestRestoredServerIsListedAnew(t *testing.T) {
	updated := func(s *reflectortest.Server) error { return s.Update(paint("2", "blue")) }
	deleted := func(s *reflectortest.Server) error { return s.Delete(paint("2", "red")) }
	overtakes := func(s *reflectortest.Server) (err error) {
		for range 5 {
			err = errors.Join(err, s.Delete(paint("3", "red")), s.Create(paint("3", "red")))
		}
		return err
	}
	for name, tc := range map[string]struct {
		lost, since func(*reflectortest.Server) error
		probe       int // the status of the answer to the first probes; 0 is 200
		probes      int // how many; 0 is one
		relists     bool
	}{
		"an object changed last":                               {lost: updated, since: overtakes},
		"an object went last":                                  {lost: deleted, since: overtakes},
		"an object changed last, and a list shows nothing new": {lost: updated, since: overtakes, relists: true},
		"an object went last, and a list shows nothing new":    {lost: deleted, since: overtakes, relists: true},
		"the object that changed went":                         {lost: updated, since: deleted},
		"the probe fails with 503":                             {lost: updated, since: overtakes, probe: http.StatusServiceUnavailable},
		"the probe fails with 502":                             {lost: updated, since: overtakes, probe: http.StatusBadGateway},
		"three probes fail with 502":                           {lost: updated, since: overtakes, probe: http.StatusBadGateway, probes: 3},
		"three probes fail with 403":                           {lost: updated, since: overtakes, probe: http.StatusForbidden, probes: 3},
		"the probe fails with 401":                             {lost: updated, since: overtakes, probe: http.StatusUnauthorized},
		"the probe fails with 403":                             {lost: updated, since: overtakes, probe: http.StatusForbidden},
		"the probe fails with 404":                             {lost: updated, since: overtakes, probe: http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			eachClient(t, func(t *testing.T, generated bool) {
				synctest.Test(t, func(t *testing.T) {
					server := reflectortest.Start(t)
					for _, name := range []string{"1", "2", "3"} {
						require.NoError(t, server.Create(paint(name, "red")))
					}
					snapshot := server.ResourceVersion()
					if tc.relists { // after three objects, their bookmark and what is lost
						broken := apierrors.NewInternalError(errors.New("broken")).Status()
						server.Inject(reflectortest.ErrorEvent(5, broken).On("watch", "").Times(1))
					}
					// No refusal of a probe ends a program that gives up when it may not read.
					m := mirrored(t, server, generated, reflector.WithRetry(func(err error) bool {
						return !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err)
					}))
					require.NoError(t, tc.lost(server))
					synctest.Wait()
					if tc.relists {
						<-time.After(time.Minute)
						require.Len(t, m.told(), 1)
					}
					before, most := server.ResourceVersion(), 4
					fault := reflectortest.Answer(http.StatusServiceUnavailable)
					if tc.probe != 0 { // the server answers at once, but not the first probes
						fault = reflectortest.Answer(tc.probe).On("list", "").Times(max(tc.probes, 1))
						most += max(tc.probes, 1)
					}
					away := server.Inject(fault)
					lists := requestsOf(server, "list")
					require.NoError(t, server.Restore(snapshot))
					require.NoError(t, tc.since(server))
					require.GreaterOrEqual(t, server.ResourceVersion(), before)
					if tc.probe == 0 {
						away.Remove()
						lists = requestsOf(server, "list")
					}
					<-time.After(time.Minute)
					assert.NoError(t, compareShard(server, store.Shards(store.ByUID, 1)[0], m.cache))
					assert.ErrorIs(t, errors.Join(m.told()...), protocol.ServerBehind)
					assert.LessOrEqual(t, requestsOf(server, "list")-lists, most, "probes of one object")
					m.stop()
				})
			})
		})
	}
}

func TestRestoreThatTakesAwayWhatTheStoreRejectedIsFoundOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(paint("1", "red")))
		snapshot := server.ResourceVersion()
		cache := store.New(store.ObjectKey[*corev1.ConfigMap])
		_, err := store.AddIndex(cache, "color", func(c *corev1.ConfigMap) []string {
			if c.Data["color"] == "odd" {
				panic("an odd color")
			}
			return nil
		})
		require.NoError(t, err)
		m := followedInto(t, openedAt[*corev1.ConfigMap](t, server.Config(), configMapResource, "default"), cache)
		synctest.Wait()
		require.NoError(t, server.Update(paint("1", "odd")))
		synctest.Wait()
		var rejected *store.RejectedError
		require.ErrorAs(t, errors.Join(m.told()...), &rejected)
		require.NoError(t, server.Restore(snapshot))
		busy(t, server)
		server.Inject(reflectortest.ResetAfterEvents(1).On("watch", "")) // at its first bookmark
		<-time.After(30 * time.Minute)
		behind := 0
		for _, err := range m.told() {
			if errors.Is(err, protocol.ServerBehind) {
				behind++
			}
		}
		assert.LessOrEqual(t, behind, 1)
		m.stop()
	})
}

func TestServerThatWentAwayAndChangedIsNotListed(t *testing.T) {
	eachClient(t, func(t *testing.T, generated bool) {
		synctest.Test(t, func(t *testing.T) {
			server := reflectortest.Start(t)
			require.NoError(t, server.Create(paint("1", "red")))
			m := mirrored(t, server, generated)
			for range 20 {
				require.NoError(t, server.Update(paint("1", "blue")))
				synctest.Wait()
				server.Inject(reflectortest.ResetAfterEvents(1).On("watch", "").Times(2))
				require.NoError(t, server.Update(paint("1", "red")))
				require.NoError(t, server.Delete(paint("1", "red")))
				require.NoError(t, server.Create(paint("1", "green")))
				<-time.After(5 * time.Minute)
			}
			for _, r := range server.Requests() {
				assert.False(t, r.Verb == "list" && r.Query.Get("limit") != "1", "a broken watch costs no list: %v", r.Query)
			}
			assert.NotErrorIs(t, errors.Join(m.told()...), protocol.ServerBehind)
			m.stop()
		})
	})
}

func TestWatchThatIsNotAnsweredIsNoWatch(t *testing.T) {
	eachClient(t, func(t *testing.T, generated bool) {
		synctest.Test(t, func(t *testing.T) {
			server := reflectortest.Start(t)
			m := mirrored(t, server, generated, reflector.WithoutWatchList())
			require.Equal(t, reflector.Watching, m.of.State().Phase)
			began := m.of.State().LastContact
			stalled := server.Inject(reflectortest.Stall(nil).On("watch", ""))
			require.NoError(t, server.Restore(server.ResourceVersion())) // cuts watches off
			<-time.After(10 * time.Second)
			assert.Equal(t, reflector.Opening, m.of.State().Phase)
			assert.LessOrEqual(t, m.of.State().LastContact.Sub(began), 2*time.Second, "the probe, and nothing since")
			m.told()
			<-time.After(2 * time.Minute)
			assert.ErrorIs(t, errors.Join(m.told()...), protocol.NoAnswer)
			assert.ErrorIs(t, m.of.State().Err, protocol.NoAnswer)
			stalled.Remove()
			<-time.After(5 * time.Minute)
			assert.Equal(t, reflector.Watching, m.of.State().Phase)
			assert.NoError(t, m.of.State().Err)
			m.stop()
		})
	})
}

func TestEndOfAWatchIsNoContact(t *testing.T) {
	eachClient(t, func(t *testing.T, generated bool) {
		synctest.Test(t, func(t *testing.T) {
			server := reflectortest.Start(t)
			m := mirrored(t, server, generated)
			before := m.of.State().LastContact
			<-time.After(20 * time.Second)
			server.Inject(reflectortest.Stall(nil))
			require.NoError(t, server.Restore(server.ResourceVersion())) // cuts watches off
			<-time.After(time.Second)
			assert.Equal(t, reflector.Opening, m.of.State().Phase)
			assert.Equal(t, before, m.of.State().LastContact)
			m.stop()
		})
	})
}

func TestStateSaysWhyThereAreNoWatchLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		unknown := server.Inject(reflectortest.Answer(http.StatusUnprocessableEntity).On("watch", "").Times(1))
		m := mirrored(t, server, false)
		assert.Equal(t, 1, unknown.Hits())
		assert.Equal(t, reflector.Watching, m.of.State().Phase)
		assert.ErrorContains(t, m.of.State().WatchListErr, "watch")
		assert.Empty(t, m.told(), "a list serves as well")
		<-time.After(61 * time.Minute)
		server.Inject(reflectortest.ErrorEvent(0, metav1.Status{Status: metav1.StatusFailure, Code: 500, Reason: metav1.StatusReasonInternalError}).On("watch", "").Times(1))
		lists := requestsOf(server, "list")
		<-time.After(15 * time.Minute) // the next watch fails, and all is listed
		assert.NoError(t, m.of.State().WatchListErr, "watch-lists work again")
		assert.Equal(t, lists, requestsOf(server, "list"))
		m.stop()
	})
}

func TestWatchesAreNotThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := reflectortest.Start(t).Config()
		config.QPS, config.Burst = 0.001, 1
		resource, err := client.ForResource[*corev1.ConfigMap](config, configMapResource, "default")
		require.NoError(t, err)
		began := time.Now()
		for range 3 {
			w, err := resource.Watch(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			w.Stop()
			for range w.ResultChan() {
				// until it is closed
			}
		}
		assert.Equal(t, began, time.Now(), "without a pause")
	})
}

func TestGetReadsNoMoreThanTheFrameLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(paint("large", strings.Repeat("x", 10_000))))
		resource, err := client.ForResource[*corev1.ConfigMap](server.Config(), configMapResource, "default", client.WithMaxObjectBytes(1000))
		require.NoError(t, err)
		_, err = resource.Get(t.Context(), "large", metav1.GetOptions{})
		assert.ErrorIs(t, err, client.ErrTooLarge)
	})
}

// What a network that drops packets, or a proxy that hangs, does to a request.
func TestWhatStallsForeverIsGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		fault reflectortest.Fault
		opts  []reflector.Option
		want  error
	}{
		"a watch":                   {reflectortest.StallAfterEvents(1, nil).On("watch", ""), []reflector.Option{reflector.WithoutWatchList()}, protocol.SilentWatch},
		"a watch after a stream":    {reflectortest.StallAfterEvents(3, nil).On("watch", ""), nil, protocol.SilentWatch},
		"a stream":                  {reflectortest.StallAfterEvents(1, nil).On("watch", ""), nil, protocol.NoInitialEventsEnd},
		"the beginning of a stream": {reflectortest.Stall(nil).On("watch", ""), nil, protocol.NoAnswer},
		"the beginning of a watch":  {reflectortest.Stall(nil).On("watch", ""), []reflector.Option{reflector.WithoutWatchList()}, protocol.NoAnswer},
		"a list":                    {reflectortest.StallAfterEvents(1, nil).On("list", ""), []reflector.Option{reflector.WithoutWatchList()}, protocol.NoAnswer},
		"the beginning of a list":   {reflectortest.Stall(nil).On("list", ""), []reflector.Option{reflector.WithoutWatchList()}, protocol.NoAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			eachClient(t, func(t *testing.T, generated bool) {
				synctest.Test(t, func(t *testing.T) {
					server := reflectortest.Start(t)
					for _, name := range []string{"a", "b"} {
						require.NoError(t, server.Create(paint(name, "red")))
					}
					server.Inject(c.fault.Times(1))
					m := mirrored(t, server, generated, c.opts...)
					<-time.After(time.Minute)
					require.NoError(t, server.Create(paint("c", "red")))
					require.NoError(t, server.Create(paint("d", "red")))
					<-time.After(13 * time.Minute)
					assert.Equal(t, []string{"a", "b", "c", "d"}, m.names())
					assert.ErrorIs(t, errors.Join(m.told()...), c.want)
					m.stop()
				})
			})
		})
	}
}

// closing answers watches without an event, as a server does that has forgotten the version and does not
// say so, or a proxy that lets no stream through.
type closing struct {
	http.RoundTripper
	closes func(query url.Values) bool
}

func (c closing) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := c.RoundTripper.RoundTrip(r)
	if err == nil && r.URL.Query().Has("watch") && c.closes(r.URL.Query()) {
		err = answer.Body.Close()
		answer.Body = http.NoBody
	}
	return answer, err
}

func TestServerThatListsAndDoesNotWatchIsListed(t *testing.T) {
	for name, refusal := range map[string]reflectortest.Fault{
		"closed at once": {},
		"504":            reflectortest.Answer(http.StatusGatewayTimeout),
		"502 of a proxy": reflectortest.AnswerHTML(http.StatusBadGateway),
		"401":            reflectortest.Answer(http.StatusUnauthorized),
		"not answered":   reflectortest.Stall(nil),
	} {
		for way, opts := range map[string][]reflector.Option{"watch-lists": nil, "lists": {reflector.WithoutWatchList()}} {
			t.Run(name+", "+way, func(t *testing.T) {
				eachClient(t, func(t *testing.T, generated bool) {
					synctest.Test(t, func(t *testing.T) {
						server := reflectortest.Start(t)
						require.NoError(t, server.Create(paint("a", "red")))
						config := server.Config()
						if name == "closed at once" {
							config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
								return closing{rt, func(url.Values) bool { return true }}
							})
						} else {
							server.Inject(refusal.On("watch", ""))
						}
						m := mirroredBy(t, config, generated, opts...)
						<-time.After(3 * time.Minute)
						assert.Equal(t, []string{"a"}, m.names())
						require.NoError(t, server.Create(paint("b", "red")))
						require.NoError(t, server.Delete(paint("a", "red")))
						<-time.After(12 * time.Minute)
						assert.Equal(t, []string{"b"}, m.names())
						require.NoError(t, server.Create(paint("c", "red")))
						<-time.After(12 * time.Minute)
						assert.Equal(t, []string{"b", "c"}, m.names(), "it goes on")
						m.stop()
					})
				})
			})
		}
	}
}

func TestEndlessListEndsWithTheBudgetOfItsCache(t *testing.T) {
	item := func(i int) string { return markedObject(fmt.Sprint("n", i), "8", "") }
	for name, tc := range map[string]struct {
		verb string
		body hostileAnswer
		from string // the version that the cache has
		opts []reflector.Option
	}{
		"list": {"list", hostileAnswer{body: endlessly(listHead, func(i int) string { return item(i) + "," })}, "7", []reflector.Option{reflector.WithoutWatchList()}},
		"pages": {"list", hostileAnswer{body: func(n int) io.Reader {
			items := strings.Repeat(item(n)+",", 499) + item(n)
			return strings.NewReader(fmt.Sprintf(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"80","continue":"t%d"},"items":[%s]}`, n, items))
		}}, "7", []reflector.Option{reflector.WithoutWatchList()}},
		"watch-list": {"watch", hostileAnswer{body: endlessly("", func(i int) string { return jsonEvent(watch.Added, item(i)) })}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &hostile{row: hostileRow{verb: tc.verb, answer: tc.body}}
				config := &rest.Config{Host: "http://apiserver", Transport: server, QPS: -1}
				resource := openedAt[*corev1.ConfigMap](t, config, configMapResource, "default", client.WithoutProtobuf())
				cache := store.New(store.ObjectKey[*corev1.ConfigMap])
				held := []*corev1.ConfigMap{heldObject()}
				require.NoError(t, cache.Replace(held, tc.from))
				budget, err := store.AddBudget(cache, 64<<10, nil)
				require.NoError(t, err)
				before, bytes := liveHeap(), budget.Bytes()
				m := followedInto(t, resource, cache, tc.opts...)
				synctest.Wait()

				state := m.of.State()
				require.Equal(t, reflector.BackingOff, state.Phase)
				require.ErrorIs(t, state.Err, store.ErrOverBudget)
				assert.Equal(t, []string{"kept"}, m.names())
				assert.Equal(t, tc.from, cache.ResourceVersion())
				assert.Equal(t, bytes, budget.Bytes())
				assert.LessOrEqual(t, liveHeap()-before, int64(4<<20), "bytes of live heap")
				requests, read, _ := server.measured()
				assert.LessOrEqual(t, read, int64(16<<20), "bytes read")

				assert.Greater(t, time.Until(state.NextRetry), 500*time.Millisecond)
				<-time.After(time.Until(state.NextRetry) - time.Millisecond)
				early, _, _ := server.measured()
				assert.Equal(t, requests, early, "requests before the next try")
				server.behave()
				<-time.After(10 * time.Minute)
				assert.Equal(t, []string{"kept", "new"}, m.names())
				assert.NoError(t, m.of.State().Err)
				m.stop()
			})
		})
	}
}
