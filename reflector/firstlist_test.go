package reflector_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

// versioned is a server whose answer to /version is given. It counts these requests, and remembers
// the first list.
type versioned struct {
	http.RoundTripper
	code   int
	answer string

	mu    sync.Mutex
	asked int
	first string // "RESOURCEVERSION limit=LIMIT"
}

func (v *versioned) RoundTrip(r *http.Request) (*http.Response, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	query := r.URL.Query()
	switch {
	case strings.HasSuffix(r.URL.Path, "/version"):
		v.asked++
		if v.code == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		return &http.Response{StatusCode: v.code, Request: r, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(v.answer))}, nil
	case query.Get("watch") == "" && v.first == "":
		v.first = query.Get("resourceVersion") + " limit=" + query.Get("limit")
	}
	return v.RoundTripper.RoundTrip(r)
}

// restart gives another answer, and forgets the first list.
func (v *versioned) restart(code int, answer string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.code, v.answer, v.first = code, answer, ""
}

func (v *versioned) seen() (asked int, first string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.asked, v.first
}

func TestFirstListIsConsistentWhereTheServerPagesFromItsCache(t *testing.T) {
	const consistent, cached = " limit=500", "0 limit=500"
	for name, tc := range map[string]struct {
		code   int
		answer string
		want   string
	}{
		"1.34":                 {200, `{"major":"1","minor":"34","gitVersion":"v1.34.0"}`, consistent},
		"1.37":                 {200, `{"major":"1","minor":"37"}`, consistent},
		"2.0":                  {200, `{"major":"2","minor":"0"}`, consistent},
		"1.34 of a vendor":     {200, `{"major":"1","minor":"34+","gitVersion":"v1.34.2-eks-1"}`, consistent},
		"1.33":                 {200, `{"major":"1","minor":"33"}`, cached},
		"1.9":                  {200, `{"major":"1","minor":"9"}`, cached},
		"1.36 that is as 1.33": {200, `{"major":"1","minor":"36","emulationMajor":"1","emulationMinor":"33"}`, cached},
		"1.36 that is as 1.34": {200, `{"major":"1","minor":"36","emulationMajor":"1","emulationMinor":"34"}`, consistent},
		"forbidden":            {403, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403}`, cached},
		"unavailable":          {503, "", cached},
		"no answer":            {0, "", cached},
		"nothing":              {200, "", cached},
		"a page of a proxy":    {200, "<html>log in</html>", cached},
		"no version":           {200, `{}`, cached},
		"no numbers":           {200, `{"major":"one","minor":"many"}`, cached},
		"negative":             {200, `{"major":"1","minor":"-34"}`, cached},
		"endless":              {200, `{"major":"1","minor":"` + strings.Repeat("3", 1<<20), cached},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t)
				require.NoError(t, server.Create(paint("a", "red")))
				config := server.Config()
				var version *versioned
				config.Wrap(func(to http.RoundTripper) http.RoundTripper {
					version = &versioned{RoundTripper: to, code: tc.code, answer: tc.answer}
					return version
				})
				m := followed(t, openedAt[*Paint](t, config, configMapResource, "default"), reflector.WithoutWatchList())
				<-time.After(time.Hour)
				for range 3 {
					server.Inject(reflectortest.LoseHistory().On("watch", "").Times(1))
					require.NoError(t, server.Restore(server.ResourceVersion()))
					<-time.After(2 * time.Minute)
				}
				asked, first := version.seen()
				assert.Equal(t, tc.want, first)
				assert.Equal(t, 1, asked)
				assert.Equal(t, []string{"a"}, m.names())
				m.stop()
			})
		})
	}
}

// A program starts while its server starts: the first requests fail.
func TestServerThatStartsIsAskedForItsVersionAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(paint("a", "red")))
		config := server.Config()
		var version *versioned
		config.Wrap(func(to http.RoundTripper) http.RoundTripper {
			version = &versioned{RoundTripper: to}
			return version
		})
		server.Inject(reflectortest.Answer(503).On("list", "configmaps").Times(1))
		m := followed(t, openedAt[*Paint](t, config, configMapResource, "default"), reflector.WithoutWatchList())
		synctest.Wait()
		asked, first := version.seen()
		assert.Equal(t, 1, asked)
		assert.Equal(t, "0 limit=500", first)
		version.restart(200, `{"major":"1","minor":"36"}`)
		<-time.After(time.Minute)
		asked, first = version.seen()
		assert.Equal(t, 2, asked)
		assert.Equal(t, " limit=500", first)
		assert.Equal(t, []string{"a"}, m.names())
		m.stop()
	})
}

func TestVersionIsNotAskedForWithoutNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(paint("a", "red")))
		config := server.Config()
		version := &versioned{code: 200, answer: `{"major":"1","minor":"36"}`}
		config.Wrap(func(to http.RoundTripper) http.RoundTripper {
			version.RoundTripper = to
			return version
		})
		m := followed(t, openedAt[*Paint](t, config, configMapResource, "default"))
		synctest.Wait()
		generated := followed(t, kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default"), reflector.WithoutWatchList())
		synctest.Wait()
		assert.Equal(t, []string{"a"}, m.names())
		assert.Equal(t, []string{"a"}, generated.names())
		asked, first := version.seen()
		assert.Zero(t, asked, "a watch-list works, and a generated client cannot tell")
		assert.Equal(t, "0 limit=500", first, "of the generated client")
		m.stop()
		generated.stop()
	})
}

// Operators set a Timeout of some seconds, so that a request cannot hang.
func TestTimeoutOfTheConfigDoesNotEndWatches(t *testing.T) {
	for _, timeout := range []time.Duration{time.Second, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			server := reflectortest.Start(t)
			config := server.Config()
			config.Timeout = timeout
			m := followed(t, openedAt[*Paint](t, config, configMapResource, "default"))
			<-time.After(4 * time.Minute)
			require.NoError(t, server.Create(paint("a", "red")))
			synctest.Wait()
			assert.Equal(t, []string{"a"}, m.names(), "at once")
			assert.Len(t, server.Requests(reflectortest.Verb("watch")), 1)
			assert.Empty(t, m.errors())
			m.stop()

			server.Inject(reflectortest.Stall(nil).On("watch", ""))
			m = followed(t, openedAt[*Paint](t, config, configMapResource, "default"))
			<-time.After(timeout + time.Millisecond)
			require.NotEmpty(t, m.errors(), "it bounds the time until the answer begins")
			assert.ErrorContains(t, m.errors()[0], "the Timeout of the config")
			m.stop()
			server.ClearFaults()
		})
	}
}

// The watches of a generated client end with the Timeout of its config.
func TestWatchesOfSecondsBringChangesWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		config := server.Config()
		config.Timeout = 3 * time.Second
		m := followed(t, reflector.Client[*corev1.ConfigMap, *corev1.ConfigMapList](kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")))
		synctest.Wait()
		for i := range 60 {
			name := string(rune('a'+i/26)) + string(rune('a'+i%26))
			require.NoError(t, server.Create(paint(name, "red")))
			<-time.After(1600 * time.Millisecond)
			synctest.Wait()
			require.Len(t, m.names(), i+1, "after %d changes", i+1)
		}
		assert.LessOrEqual(t, len(m.errors()), 2, "said once")
		m.stop()
	})
}
