package mapper

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// aggregator is an API server whose group example.com another server has. That one does not answer
// while down is true.
type aggregator struct {
	config *rest.Config
	down   atomic.Bool
	whole  atomic.Bool // nothing answers
	asked  atomic.Int32
}

func reply(r *http.Request, code int, contentType, body string) *http.Response {
	return &http.Response{StatusCode: code, Request: r, Header: http.Header{"Content-Type": {contentType}}, Body: io.NopCloser(strings.NewReader(body))}
}

const unavailable = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503,"message":"service telescopes is down"}`

// aggregate returns an aggregator that answers group by group, or with one answer for all groups.
func aggregate(t *testing.T, oneAnswer bool) *aggregator {
	a := &aggregator{config: withTelescopes(t).Config()}
	a.config.Wrap(func(to http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if a.asked.Add(1); a.whole.Load() {
				return reply(r, 503, "application/json", unavailable), nil
			}
			if !oneAnswer {
				r = r.Clone(r.Context())
				r.Header.Set("Accept", "application/json")
				if a.down.Load() && r.URL.Path == "/apis/example.com/v1" {
					return reply(r, 503, "application/json", unavailable), nil
				}
				return to.RoundTrip(r)
			}
			r = r.Clone(r.Context())
			r.Header.Del("If-None-Match")
			response, err := to.RoundTrip(r)
			if err != nil || !a.down.Load() || r.URL.Path != "/apis" {
				return response, err
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			i := strings.Index(string(body), `"metadata":{"name":"example.com"`)
			stale := string(body[:i]) + strings.ReplaceAll(string(body[i:]), `"freshness":"Current"`, `"freshness":"Stale"`)
			return reply(r, 200, response.Header.Get("Content-Type"), stale), err
		})
	})
	return a
}

// places are where a mapper keeps what discovery said.
var places = map[string]func(*testing.T, *rest.Config) *Mapper{
	"memory": func(t *testing.T, config *rest.Config) *Mapper {
		m, err := InMemory(config)
		require.NoError(t, err)
		return m
	},
	"disk": func(t *testing.T, config *rest.Config) *Mapper {
		return onDisk(t, config, WithDirectory(t.TempDir()))
	},
}

// everyMapper calls do with each kind of mapper of each kind of aggregator.
func everyMapper(t *testing.T, do func(t *testing.T, a *aggregator, m *Mapper)) {
	for name, open := range places {
		for answers, one := range map[string]bool{"group by group": false, "one answer": true} {
			t.Run(name+", "+answers, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a := aggregate(t, one)
					do(t, a, open(t, a.config))
				})
			})
		}
	}
}

// mapper-M6
func TestGroupThatDoesNotAnswerIsNotMissing(t *testing.T) {
	everyMapper(t, func(t *testing.T, a *aggregator, m *Mapper) {
		a.down.Store(true)
		for end := time.Now().Add(time.Hour); time.Now().Before(end); <-time.After(6 * time.Minute) {
			assert.Equal(t, "pods", resourceOf(t, m, podKind))
			_, err := m.RESTMapping(telescopeKind, "v1")
			require.False(t, meta.IsNoMatchError(err), "%v", err)
			var failed *GroupError
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, telescopes.GroupVersion(), failed.Group)
			assert.ErrorContains(t, err, "example.com/v1")
			_, err = m.KindFor(schema.GroupVersionResource{Resource: "telescopes"})
			require.ErrorAs(t, err, &failed)
			_, err = m.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Nothing"})
			require.True(t, meta.IsNoMatchError(err), "that group answers: %v", err)
		}
		a.down.Store(false)
		<-time.After(10 * time.Second)
		assert.Equal(t, "telescopes", resourceOf(t, m, telescopeKind))
	})
}

func TestGroupThatDoesNotAnswerIsAskedAgainSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := aggregate(t, true)
		m, err := InMemory(a.config)
		require.NoError(t, err)
		a.down.Store(true)
		for range 100 {
			_, err = m.RESTMapping(telescopeKind, "v1")
			require.Error(t, err)
		}
		assert.EqualValues(t, 4, a.asked.Load(), "/api and /apis, twice")
		a.down.Store(false)
		<-time.After(time.Second)
		assert.Equal(t, "telescopes", resourceOf(t, m, telescopeKind))
	})
}

// mapper-M6
func TestServerThatDoesNotAnswerIsAskedAgainSeldom(t *testing.T) {
	for name, known := range map[string]bool{"it has answered before": true, "it has never answered": false} {
		t.Run(name, func(t *testing.T) {
			everyMapper(t, func(t *testing.T, a *aggregator, m *Mapper) {
				if known {
					assert.Equal(t, "pods", resourceOf(t, m, podKind))
				}
				a.whole.Store(true)
				ask := func(times int) (asked int32) {
					before := a.asked.Load()
					for range times {
						_, err := m.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Nothing"})
						var failed *Error
						require.ErrorAs(t, err, &failed)
					}
					return a.asked.Load() - before
				}
				once := ask(1)
				require.NotZero(t, once)
				assert.LessOrEqual(t, ask(99), once, "at most one repetition")
				<-time.After(time.Second)
				assert.NotZero(t, ask(1), "after a second")
				assert.Zero(t, ask(99))
				a.whole.Store(false)
				<-time.After(10 * time.Second)
				assert.Equal(t, "pods", resourceOf(t, m, podKind))
				assert.Equal(t, "telescopes", resourceOf(t, m, telescopeKind))
			})
		})
	}
}

func TestCauseOfAGroupThatDoesNotAnswerIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := aggregate(t, false)
		m, err := InMemory(a.config)
		require.NoError(t, err)
		a.down.Store(true)
		_, err = m.RESTMapping(telescopeKind, "v1")
		require.True(t, apierrors.IsServiceUnavailable(err), "%v", err)
		assert.ErrorContains(t, err, "service telescopes is down")
	})
}

// What was known of a group is not lost when another question finds it down.
func TestGroupThatEndsToAnswerStaysKnown(t *testing.T) {
	everyMapper(t, func(t *testing.T, a *aggregator, m *Mapper) {
		assert.Equal(t, "telescopes", resourceOf(t, m, telescopeKind))
		a.down.Store(true)
		for range 5 {
			assert.Empty(t, resourceOf(t, m, schema.GroupKind{Group: "apps", Kind: "Nothing"}))
			assert.Equal(t, "telescopes", resourceOf(t, m, telescopeKind))
			<-time.After(10 * time.Second)
		}
		a.whole.Store(true)
		for range 5 {
			_, err := m.RESTMapping(schema.GroupKind{Group: "apps", Kind: "Nothing"})
			var failed *Error
			require.ErrorAs(t, err, &failed)
			require.True(t, apierrors.IsServiceUnavailable(err), "%v", err)
			assert.Equal(t, "telescopes", resourceOf(t, m, telescopeKind))
			<-time.After(10 * time.Second)
		}
	})
}

// mapper-M2
func TestKindThatIsAskedForTooEarlyIsFoundLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := reflectortest.Start(t), withTelescopes(t)
		var installed atomic.Bool
		config := before.Config()
		config.Wrap(func(to http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if !installed.Load() {
					return to.RoundTrip(r)
				}
				then, err := rest.TransportFor(after.Config())
				require.NoError(t, err)
				return then.RoundTrip(r)
			})
		})
		m, err := InMemory(config)
		require.NoError(t, err)
		for range 600 {
			assert.Empty(t, resourceOf(t, m, telescopeKind))
			_, err := m.KindsFor(schema.GroupVersionResource{Resource: "telescopes"})
			require.True(t, meta.IsNoMatchError(err), "%v", err)
			<-time.After(time.Second)
		}
		assert.Less(t, discoveries(before), 2*80, "six times a minute")
		installed.Store(true)
		<-time.After(10 * time.Second)
		assert.Equal(t, "telescopes", resourceOf(t, m, telescopeKind))
		discoveries(after)
		assert.Equal(t, "telescopes", resourceOf(t, m, telescopeKind))
		assert.Zero(t, discoveries(after), "what is known is not asked for")
	})
}

// mapper-M5: client-go would sleep for the Retry-After, without the context of the caller.
func TestOverloadedServerMakesNoCallerSleep(t *testing.T) {
	for name, body := range map[string]string{
		"status": `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429}`,
		"text":   "Too many requests, please try again later.\n", // of priority and fairness
	} {
		for place, open := range places {
			t.Run(name+", "+place, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					requests := 0
					m := open(t, &rest.Config{Host: "http://apiserver", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
						requests++
						answer := reply(r, http.StatusTooManyRequests, "application/json", body)
						answer.Header.Set("Retry-After", "3600")
						return answer, nil
					})})
					began := time.Now()
					for range 3 {
						_, err := m.RESTMappingWithContext(t.Context(), podKind)
						require.True(t, apierrors.IsTooManyRequests(err), "%v", err)
						assert.ErrorContains(t, err, "get /api: ")
						seconds, ok := apierrors.SuggestsClientDelay(err)
						assert.True(t, ok)
						assert.Equal(t, 3600, seconds)
					}
					assert.Zero(t, time.Since(began))
					assert.Equal(t, 2, requests, "it is asked again once, and then seldom")
				})
			})
		}
	}
}

// The group's server is overloaded, or shuts down, and the answer of a proxy or of priority and fairness is no Status.
func TestErrorOfAGroupHasTheWaitOfItsServer(t *testing.T) {
	for _, body := range []string{unavailable, "Too many requests, please try again later.\n"} {
		for place, open := range places {
			synctest.Test(t, func(t *testing.T) {
				a := aggregate(t, false)
				a.config.Wrap(func(to http.RoundTripper) http.RoundTripper {
					return roundTrip(func(r *http.Request) (*http.Response, error) {
						if r.URL.Path != "/apis/example.com/v1" {
							return to.RoundTrip(r)
						}
						answer := reply(r, http.StatusServiceUnavailable, "text/plain", body)
						answer.Header.Set("Retry-After", "30")
						return answer, nil
					})
				})
				m, began := open(t, a.config), time.Now()
				_, err := m.RESTMapping(telescopeKind, "v1")
				var failed *GroupError
				require.ErrorAs(t, err, &failed, place)
				seconds, _ := apierrors.SuggestsClientDelay(err)
				assert.Equal(t, 30, seconds, "%s: %v", place, err)
				assert.Zero(t, time.Since(began), place)
			})
		}
	}
}

// endless is the context of a program. It counts the functions that wait for its end.
type endless struct {
	context.Context
	end             chan struct{}
	waiting, waited atomic.Int32
}

func (e *endless) Done() <-chan struct{} { return e.end }

func (e *endless) AfterFunc(func()) (stop func() bool) {
	e.waiting.Add(1)
	e.waited.Add(1)
	return func() bool { e.waiting.Add(-1); return true }
}

// client-go's cache on disk drops the answer of a server that has nothing new, without closing it.
func TestQuestionsLeaveNothingAtTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := &endless{Context: context.Background(), end: make(chan struct{})}
		unchanged := 0
		config := reflectortest.Start(t).Config()
		config.Wrap(func(to http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				response, err := to.RoundTrip(r)
				if err == nil && response.StatusCode == http.StatusNotModified {
					unchanged++
				}
				return response, err
			})
		})
		m := onDisk(t, config, WithDirectory(t.TempDir()))
		for range 3 {
			_, err := m.RESTMappingWithContext(ctx, telescopeKind)
			require.True(t, meta.IsNoMatchError(err), "%v", err)
			<-time.After(10 * time.Second)
		}
		assert.NotZero(t, unchanged)
		assert.NotZero(t, ctx.waited.Load())
		assert.Zero(t, ctx.waiting.Load())
	})
}
