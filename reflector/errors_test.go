package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/answer"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestPanicOfTheErrorHookDoesNotEndTheReflector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &scripted{lists: []scriptedAnswer{{contentType: "text/html"}, jsonList("7", jsonObject("a", "5", "red"))}}
		m := followed(t, opened[*Paint](t, server, configMapResource, "default"), reflector.WithoutWatchList(),
			reflector.WithErrorHandler(func(context.Context, error) { panic("hook") }))
		<-time.After(time.Minute)
		assert.Equal(t, []string{"a"}, m.names())
		assert.Equal(t, 1, m.logs.FilterMessage("error handler panicked").Len())
		m.stop()
	})
}

func TestTextsAreBounded(t *testing.T) {
	long := strings.Repeat("é", 1<<20)
	failing := apierrors.NewForbidden(corev1.Resource("configmaps"), "", errors.New(long))
	for name, tc := range map[string]*scripted{
		"message of an event":  {lists: []scriptedAnswer{jsonList("7")}, watches: []scriptedAnswer{{body: jsonError(failing), open: true}}},
		"version of a list":    {lists: []scriptedAnswer{jsonList(long)}},
		"version of an item":   {lists: []scriptedAnswer{jsonList("7", jsonObject("a", long, "red"))}},
		"version of an object": {lists: []scriptedAnswer{jsonList("7")}, watches: []scriptedAnswer{{body: jsonEvent(watch.Added, jsonObject("a", long, "red")), open: true}}},
		"version of a bookmark": {lists: []scriptedAnswer{jsonList("7")},
			watches: []scriptedAnswer{{body: jsonEvent(watch.Bookmark, jsonObject("", long, "")), open: true}}},
		"type of an event":           {lists: []scriptedAnswer{jsonList("7")}, watches: []scriptedAnswer{{body: jsonEvent(watch.EventType(long), `{}`), open: true}}},
		"kind":                       {lists: []scriptedAnswer{jsonList("7", objectOf("v1", long, "default", "a"))}},
		"name of what does not fit":  {lists: []scriptedAnswer{jsonList("7", `{"metadata":{"namespace":"default","name":"`+long+`"},"data":7}`)}},
		"field of what does not fit": {lists: []scriptedAnswer{jsonList("7", `{"metadata":{"namespace":"default","name":"a","labels":{"`+long+`":7}}}`)}},
		"content type":               {lists: []scriptedAnswer{{contentType: "text/" + long}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := followed(t, opened[*Paint](t, tc, configMapResource, "default"), reflector.WithoutWatchList())
				synctest.Wait()
				require.NotEmpty(t, m.errors())
				assertBounded(t, m)
				m.stop()
			})
		})
	}
}

// assertBounded looks at every text that a reflector gave.
func assertBounded[T reflector.Object](t *testing.T, m *follower[T]) {
	t.Helper()
	const most = 1 << 10
	for _, err := range append(m.errors(), m.of.State().Err) {
		if err != nil {
			assert.LessOrEqual(t, len(err.Error()), most)
			assert.True(t, utf8.ValidString(err.Error()))
			if refusal, ok := errors.AsType[*apierrors.StatusError](err); ok {
				assert.LessOrEqual(t, refusal.ErrStatus.Size(), 16*most, "bytes that callers keep")
			}
		}
	}
	for _, line := range m.logs.All() {
		for name, value := range line.ContextMap() {
			assert.LessOrEqual(t, len(fmt.Sprint(value)), most, "%s of %q", name, line.Message)
		}
	}
	assert.LessOrEqual(t, len(m.of.State().ResourceVersion), most)
}

func TestUndecodableObjectsAreReportedTogether(t *testing.T) {
	const count = 2000
	var events strings.Builder
	for i := range count {
		events.WriteString(jsonEvent(watch.Added, fmt.Sprintf(`{"metadata":{"namespace":"default","name":"b%d","uid":"u","resourceVersion":"%d"},"data":7}`, i, i+8)))
	}
	synctest.Test(t, func(t *testing.T) {
		server := &scripted{lists: []scriptedAnswer{jsonList("7")}, watches: []scriptedAnswer{{body: events.String(), open: true}}}
		m := followed(t, opened[*Paint](t, server, configMapResource, "default"), reflector.WithoutWatchList())
		synctest.Wait()
		require.NotEmpty(t, m.errors())
		reported := 0
		for _, err := range m.errors() {
			var rejected *store.RejectedError
			require.ErrorAs(t, err, &rejected)
			reported += len(rejected.Rejections)
		}
		assert.Greater(t, reported, count/2)
		assert.LessOrEqual(t, len(m.errors()), 10)
		assert.Equal(t, len(m.errors()), m.logs.FilterMessage("reflecting failed").Len())
		assert.Contains(t, m.errors()[0].Error(), "default/b0")
		assertBounded(t, m)
		m.stop()
	})
}

func TestUndecodableObjectsThatComeOneByOneAreReportedAtABoundedRate(t *testing.T) {
	const count = 2000
	synctest.Test(t, func(t *testing.T) {
		body, events := io.Pipe()
		defer events.Close()
		server := roundTrip(func(r *http.Request) (*http.Response, error) {
			answer := &http.Response{StatusCode: 200, Request: r, Header: http.Header{"Content-Type": {"application/json"}}}
			if answer.Body = body; r.URL.Query().Get("watch") == "" {
				answer.Body = io.NopCloser(strings.NewReader(jsonList("7").body))
			}
			return answer, nil
		})
		m := followed(t, opened[*Paint](t, server, configMapResource, "default"), reflector.WithoutWatchList())
		synctest.Wait()
		for i := range count {
			_, err := io.WriteString(events, jsonEvent(watch.Added, fmt.Sprintf(`{"metadata":{"namespace":"default","name":"b%d","uid":"u","resourceVersion":"%d"},"data":7}`, i, i+8)))
			require.NoError(t, err)
			synctest.Wait()
		}
		assert.Len(t, m.errors(), 10)
		m.stop()
	})
}

func TestTypeWithoutMetadataIsRefused(t *testing.T) {
	type untagged struct {
		metav1.ObjectMeta `json:"meta"`
	}
	type left struct {
		metav1.ObjectMeta `json:"-"`
	}
	_, err := client.ForResource[*untagged](localhost(nil), configMapResource, "")
	assert.ErrorIs(t, err, client.ErrNoMetadata)
	_, err = client.ForResource[*left](localhost(nil), configMapResource, "")
	assert.ErrorIs(t, err, client.ErrNoMetadata)
	_, err = client.ForResource[*Paint](localhost(nil), configMapResource, "")
	assert.NoError(t, err)
}

func TestFailedAnswersSayWhoAnsweredAndWhatWasExpected(t *testing.T) {
	const secret = "c2VjcmV0"
	for name, tc := range map[string]struct {
		code        int
		contentType string
		body        string
		err         error
		wants       []string
	}{
		"a proxy without a body": {502, "", "", nil, []string{"status 502 Bad Gateway", "no Status of an API server", "proxy"}},
		"a page of a proxy":      {502, "text/html", "<html>bad gateway</html>", nil, []string{"status 502", `content type "text/html"`}},
		"a login page":           {200, "text/html", "<html>log in</html>", nil, []string{`content type "text/html"`, "want JSON or protobuf", "login page"}},
		"a refusal":              {403, "application/json", `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"no list for you"}`, nil, []string{"no list for you", "status 403 Forbidden"}},
		"a cut list":             {200, "application/json", `{"kind":"ConfigMapList","items":[{"data":"` + secret, nil, []string{"ended early", "application/json"}},
		"a broken connection":    {200, "application/json", `{"kind":"ConfigMapList","items":[{"data":"` + secret, io.ErrUnexpectedEOF, []string{"unexpected EOF"}},
		"a head without an end":  {0, "", "", fmt.Errorf("net/http: HTTP/1.x transport connection broken: malformed MIME header: missing colon: %q", "{\"data\":\""+secret), []string{"missing colon", "proxy"}},
		"HTTP/2":                 {0, "", "", fmt.Errorf("transport connection broken: malformed HTTP response %q", "\x00\x00\x02%"+secret), []string{"malformed HTTP response", "TLS, HTTP/2"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := roundTrip(func(r *http.Request) (*http.Response, error) {
				if tc.code == 0 {
					return nil, tc.err
				}
				answer := &http.Response{StatusCode: tc.code, Request: r, Header: http.Header{}}
				if tc.contentType != "" {
					answer.Header.Set("Content-Type", tc.contentType)
				}
				answer.Body = &scriptedBody{Reader: strings.NewReader(tc.body), answer: scriptedAnswer{err: tc.err}, ctx: r.Context()}
				return answer, nil
			})
			_, err := opened[*Paint](t, server, configMapResource, "default").List(t.Context(), metav1.ListOptions{})
			require.Error(t, err)
			for _, want := range append(tc.wants, "GET http://localhost/api/v1/namespaces/default/configmaps") {
				assert.Contains(t, err.Error(), want)
			}
			assert.NotContains(t, err.Error(), secret)
			assert.Equal(t, 1, strings.Count(err.Error(), "http://localhost"))
		})
	}
}

func TestFailedAnswersDoNotTellAPassword(t *testing.T) {
	config := localhost(&scripted{lists: []scriptedAnswer{{contentType: "text/html"}}})
	config.Host = "http://someone:hunter2@localhost"
	_, err := openedAt[*Paint](t, config, configMapResource, "default").List(t.Context(), metav1.ListOptions{})
	require.ErrorContains(t, err, "http://someone:xxxxx@localhost/api/v1")
	assert.NotContains(t, err.Error(), "hunter2")
}

func TestManyUndecodableObjectsTakeLittleMemory(t *testing.T) {
	const count, each = 40_000, 42 // bytes
	bad := `{"metadata":{},"data":7}`
	list := listHead + strings.Repeat(bad+",", count)
	events := strings.Repeat(jsonEvent(watch.Added, bad), count)
	for name, tc := range map[string]struct {
		server *scripted
		opts   []reflector.Option
	}{
		"list":       {&scripted{lists: []scriptedAnswer{{body: list, open: true}}}, []reflector.Option{reflector.WithoutWatchList()}},
		"watch-list": {&scripted{watches: []scriptedAnswer{{body: events, open: true}}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				resource := opened[*Paint](t, tc.server, configMapResource, "default")
				before := liveHeap()
				m := followed(t, resource, tc.opts...)
				synctest.Wait() // what has come is not complete
				assert.LessOrEqual(t, liveHeap()-before, int64(count*each), "bytes of live heap")
				m.stop()
			})
		})
	}
}

// redirecting answers requests to a path of apiserver with a redirect, and everything else as the
// server that it leads to. It notes which hosts got credentials.
type redirecting struct {
	code     int
	location string
	trusting []string // hosts
}

func (s *redirecting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Authorization") != "" {
		s.trusting = append(s.trusting, r.URL.Scheme+"://"+r.URL.Host)
	}
	answer := &http.Response{StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {"application/json"}}, Body: http.NoBody}
	if r.URL.Host == "apiserver" && r.URL.Path != "/moved" {
		answer.StatusCode = s.code
		answer.Header.Set("Location", s.location)
		return answer, nil
	}
	list := jsonList("7", jsonObject("stolen", "5", "red"))
	answer.Body = io.NopCloser(strings.NewReader(list.body))
	return answer, nil
}

func TestRedirectToAnotherServerGetsNoCredentials(t *testing.T) {
	requests := map[string]func(context.Context, *client.Resource[*Paint]) error{
		"get": func(ctx context.Context, r *client.Resource[*Paint]) error {
			_, err := r.Get(ctx, "a", metav1.GetOptions{})
			return err
		},
		"list": func(ctx context.Context, r *client.Resource[*Paint]) error {
			_, err := r.List(ctx, metav1.ListOptions{})
			return err
		},
		"watch": func(ctx context.Context, r *client.Resource[*Paint]) error {
			_, err := r.Watch(ctx, metav1.ListOptions{})
			return err
		},
	}
	clients := map[string]func(*rest.Config) (*client.Resource[*Paint], error){
		"own": func(c *rest.Config) (*client.Resource[*Paint], error) {
			return client.ForResource[*Paint](c, configMapResource, "default")
		},
		"of a kind": func(c *rest.Config) (*client.Resource[*Paint], error) {
			all, err := client.For[*Paint](c, client.WithKind(corev1.SchemeGroupVersion.WithKind("ConfigMap")))
			return all.In("default"), err
		},
		"over a REST client": func(c *rest.Config) (*client.Resource[*Paint], error) {
			return client.FromRESTClient[*Paint](kubernetes.NewForConfigOrDie(c).CoreV1().RESTClient(), "configmaps", "default")
		},
	}
	for _, code := range []int{301, 302, 303, 307, 308} {
		for _, location := range []string{"http://elsewhere/moved", "https://apiserver/moved", "http://apiserver:8080/moved", "//elsewhere/moved"} {
			for api, open := range clients {
				for verb, request := range requests {
					server := &redirecting{code: code, location: location}
					config := &rest.Config{Host: "http://apiserver", Transport: server, BearerToken: "secret", QPS: -1}
					resource, err := open(config)
					require.NoError(t, err)
					err = request(t.Context(), resource)
					var refused *answer.RedirectError
					require.ErrorAs(t, err, &refused, "%d %s: %s by a client %s", code, location, verb, api)
					assert.Equal(t, "http://apiserver", refused.From)
					assert.NotContains(t, err.Error(), "secret")
					for _, host := range server.trusting {
						assert.Equal(t, "http://apiserver", host)
					}
				}
			}
		}
	}
}

func TestRedirectWithinTheServerIsFollowed(t *testing.T) {
	for _, location := range []string{"/moved", "http://apiserver/moved", "http://APISERVER:80/moved"} {
		server := &redirecting{code: http.StatusPermanentRedirect, location: location}
		config := &rest.Config{Host: "http://apiserver", BearerToken: "secret", QPS: -1}
		config.Wrap(func(http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				r = r.Clone(r.Context())
				r.URL.Host = strings.TrimSuffix(strings.ToLower(r.URL.Host), ":80")
				return server.RoundTrip(r)
			})
		})
		resource, err := client.ForResource[*Paint](config, configMapResource, "default")
		require.NoError(t, err)
		list, err := resource.List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		assert.Len(t, list.Items, 1)
	}
}

func TestBodyOfARefusalIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := &counted{from: endless{}}
		server := roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 500, Request: r, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}, nil
		})
		_, err := opened[*Paint](t, server, configMapResource, "default").List(t.Context(), metav1.ListOptions{})
		require.Error(t, err)
		assert.LessOrEqual(t, body.read, 1<<20)
		assert.LessOrEqual(t, len(err.Error()), 1<<10)
	})
}

func TestSilentBodyOfARefusalEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body, _ := io.Pipe()
		server := roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 500, Request: r, Header: http.Header{}, Body: body}, nil
		})
		m := followed(t, opened[*Paint](t, server, configMapResource, "default"))
		synctest.Wait()
		m.stop() // a test that hangs here is a deadlock of the bubble
	})
}

// counted counts the bytes that are read of a body, and ends it at 4 MiB.
type counted struct {
	from io.Reader
	read int
}

func (c *counted) Read(into []byte) (int, error) {
	if c.read >= 4<<20 {
		return 0, io.EOF
	}
	n, err := c.from.Read(into)
	c.read += n
	return n, err
}

func (c *counted) Close() error { return nil }

type endless struct{}

func (endless) Read(into []byte) (int, error) { clear(into); return len(into), nil }

func TestErrorWithoutAConnectionSaysWhatToCheck(t *testing.T) {
	const advice = "kubectl get --raw /readyz"
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "cluster"}}
	for about, test := range map[string]struct {
		err    error
		advice bool
	}{
		"no connection":         {fmt.Errorf("discovery: %w", &url.Error{Op: "Get", URL: "https://cluster/api", Err: dial}), true},
		"a long text before it": {fmt.Errorf("%s: %w", strings.Repeat("é", 1<<12), dial), true},
		"a broken connection":   {&net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}, false},
		"an answer":             {apierrors.NewUnauthorized("no token"), false},
	} {
		t.Run(about, func(t *testing.T) {
			text := (&reflector.Error{Reflector: "pods", Op: "list", Err: test.err}).Error()
			assert.Equal(t, test.advice, strings.HasSuffix(text, advice), text)
			assert.LessOrEqual(t, len(text), 1<<10)
			assert.True(t, utf8.ValidString(text))
		})
	}
}
