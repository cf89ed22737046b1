package reflector_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/answer"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// scripted is a server whose answers are written down. The n-th list gets the n-th of
// lists, and so for watches; when they run out, the last is given again, and a watch stays
// open without a word.
type scripted struct {
	lists, watches []scriptedAnswer

	mu       sync.Mutex
	requests []string // "list 0", "watch 7"
}

type scriptedAnswer struct {
	contentType string // JSON if it is empty
	body        string
	err         error  // at the end of the body; io.EOF if there is none
	open        bool   // instead of an end
	later       string // comes 90 seconds after the body
}

func (s *scripted) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/version" {
		return noVersion(r), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	verb, from := "list", &s.lists
	if r.URL.Query().Get("watch") != "" {
		verb, from = "watch", &s.watches
	}
	s.requests = append(s.requests, verb+" "+r.URL.Query().Get("resourceVersion"))
	answer := scriptedAnswer{open: true}
	if len(*from) > 0 {
		answer = (*from)[0]
	}
	if len(*from) > 1 || verb == "watch" && len(*from) > 0 {
		*from = (*from)[1:]
	}
	if answer.contentType == "" {
		answer.contentType = "application/json"
	}
	return &http.Response{
		StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {answer.contentType}},
		Body: &scriptedBody{Reader: strings.NewReader(answer.body), answer: answer, ctx: r.Context()},
	}, nil
}

// noVersion is the answer of an API server that does not tell its version. The first list is then at
// version "0", as with a server before Kubernetes 1.34.
func noVersion(r *http.Request) *http.Response {
	return &http.Response{StatusCode: http.StatusForbidden, Request: r, Header: http.Header{}, Body: http.NoBody}
}

type scriptedBody struct {
	*strings.Reader
	answer scriptedAnswer
	ctx    context.Context
}

func (b *scriptedBody) Read(into []byte) (int, error) {
	n, err := b.Reader.Read(into)
	switch {
	case err == nil:
		return n, nil
	case b.answer.later != "":
		select {
		case <-time.After(90 * time.Second):
		case <-b.ctx.Done():
			return 0, b.ctx.Err()
		}
		b.Reader, b.answer.later = strings.NewReader(b.answer.later), ""
		return b.Reader.Read(into)
	case b.answer.open:
		<-b.ctx.Done()
		return 0, b.ctx.Err()
	case b.answer.err != nil:
		return n, b.answer.err
	}
	return n, err
}

func (b *scriptedBody) Close() error { return nil }

func (s *scripted) seen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.requests, ", ")
}

// localhost is the config of a server that a transport stands for.
func localhost(server http.RoundTripper) *rest.Config {
	return &rest.Config{Host: "http://localhost", Transport: server, QPS: -1}
}

func (s *scripted) client(t *testing.T, opts ...client.ResourceOption) *client.Resource[*Paint] {
	resource, err := client.ForResource[*Paint](localhost(s), configMapResource, "default", opts...)
	require.NoError(t, err)
	return resource
}

func jsonObject(name, version, color string) string {
	return fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"namespace":"default","name":%q,"uid":"uid of %s","resourceVersion":%q},"data":{"color":%q}}`, name, name, version, color)
}

func jsonList(version string, items ...string) scriptedAnswer {
	return scriptedAnswer{body: fmt.Sprintf(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":%q},"items":[%s]}`, version, strings.Join(items, ","))}
}

func jsonEvent(kind watch.EventType, object string) string {
	return fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", kind, object)
}

func jsonError(err *apierrors.StatusError) string {
	s := err.ErrStatus
	return jsonEvent(watch.Error, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":%q}`, s.Code, s.Reason, s.Message))
}

func colors(s store.Reader[*Paint]) string {
	var all []string
	for key, p := range s.All() {
		all = append(all, key.Name+" "+p.Data.Color)
	}
	return strings.Join(all, ", ")
}

func TestWatchThatCannotBeRead(t *testing.T) {
	const nothing = "nothing to begin with"
	blue := jsonEvent(watch.Added, jsonObject("b", "8", "blue"))
	for name, tc := range map[string]struct {
		watch scriptedAnswer
		is    error
		says  string // how the answer began
		want  string // what the reflector did then
	}{
		"a page of a proxy": {scriptedAnswer{contentType: "text/html; charset=utf-8", body: "<html>log in</html>"}, client.ErrContentType, "<html>log in", "list 0, watch 7, list , watch 7"},
		"cut off":           {scriptedAnswer{body: blue + blue[:40]}, client.ErrTruncated, `{"type":"ADDED"`, "list 0, watch 7, list , watch 8"},
		"a broken connection": {scriptedAnswer{body: blue + blue[:40], err: io.ErrUnexpectedEOF}, io.ErrUnexpectedEOF, `{"type":"ADDED"`,
			"list 0, watch 7, list , watch 8"},
		"malformed":                   {scriptedAnswer{body: blue + "}{", open: true}, client.ErrMalformed, `{"type":"ADDED"`, "list 0, watch 7, list 8, watch 9"},
		"too large":                   {scriptedAnswer{body: blue + jsonEvent(watch.Added, jsonObject("c", "9", strings.Repeat("x", 1000))), open: true}, client.ErrTooLarge, `{"type":"ADDED"`, "list 0, watch 7, list 8, watch 9"},
		"an object that is none":      {scriptedAnswer{body: blue + jsonEvent(watch.Added, `"text"`), open: true}, nil, `"text"`, "list 0, watch 7, list 8, watch 9"},
		"an object without a name":    {scriptedAnswer{body: blue + jsonEvent(watch.Added, `{"data":{"color":7}}`), open: true}, nil, "", "list 0, watch 7, list 8, watch 9"},
		"an error that is none":       {scriptedAnswer{body: blue + jsonEvent(watch.Error, jsonObject("c", "9", "red")), open: true}, nil, `{"kind":"ConfigMap"`, "list 0, watch 7, list 8, watch 9"},
		"an error that is unreadable": {scriptedAnswer{body: blue + jsonEvent(watch.Error, `[]`), open: true}, client.ErrMalformed, "[]", "list 0, watch 7, list 8, watch 9"},
		"a table":                     {scriptedAnswer{body: blue + jsonEvent(watch.Added, `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"9"},"rows":[]}`), open: true}, reflector.ErrTable, `{"kind":"Table"`, "list 0, watch 7, list 8, watch 9"},
		"a status that is no error":   {scriptedAnswer{body: blue + jsonEvent(watch.Modified, `{"kind":"Status","apiVersion":"v1","metadata":{},"code":500}`), open: true}, nil, `{"kind":"Status"`, "list 0, watch 7, list 8, watch 9"},
		"an unknown event":            {scriptedAnswer{body: blue + jsonEvent("SYNC", `{"kind":"x"}`), open: true}, &answer.EventTypeError{Type: "SYNC"}, `{"kind":"x"`, "list 0, watch 7, list 8, watch 9"},
		"no object":                   {scriptedAnswer{body: blue + jsonEvent(watch.Added, `null`), open: true}, &answer.TypeError{Want: "*reflector_test.Paint", Got: "nil"}, nothing, "list 0, watch 7, list 8, watch 9"},
		"no bookmark":                 {scriptedAnswer{body: blue + jsonEvent(watch.Bookmark, `null`), open: true}, &answer.TypeError{Want: "*reflector_test.Paint", Got: "nil"}, nothing, "list 0, watch 7, list 8, watch 9"},
		"no error":                    {scriptedAnswer{body: blue + jsonEvent(watch.Error, `null`), open: true}, &answer.TypeError{Want: "*v1.Status", Got: "nil"}, nothing, "list 0, watch 7, list 8, watch 9"},
		"a bookmark that is none":     {scriptedAnswer{body: blue + jsonEvent(watch.Bookmark, `[]`), open: true}, client.ErrMalformed, "[]", "list 0, watch 7, list 8, watch 9"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &scripted{
					lists:   []scriptedAnswer{jsonList("7", jsonObject("a", "5", "red")), jsonList("9", jsonObject("a", "5", "red"), jsonObject("b", "8", "blue"))},
					watches: []scriptedAnswer{tc.watch},
				}
				s := store.New(store.ObjectKey[*Paint])
				var errs []error
				stop := start(t, reflector.New(server.client(t, client.WithMaxObjectBytes(500)), s, reflector.WithoutWatchList(),
					reflector.WithErrorHandler(func(_ context.Context, err error) { errs = append(errs, err) })))
				<-time.After(time.Minute)
				assert.Equal(t, tc.want, server.seen())
				require.Len(t, errs, 1)
				switch is := tc.is.(type) {
				case nil:
				case *answer.EventTypeError:
					var got *answer.EventTypeError
					require.ErrorAs(t, errs[0], &got)
					assert.Equal(t, is, got)
				case *answer.TypeError:
					var got *answer.TypeError
					require.ErrorAs(t, errs[0], &got)
					assert.Equal(t, is, got)
				default:
					assert.ErrorIs(t, errs[0], is)
				}
				if name == "a status that is no error" {
					var other *answer.TypeError
					require.ErrorAs(t, errs[0], &other)
					assert.Equal(t, "Status", other.Got)
				}
				if tc.says != "" {
					var unreadable *answer.ResponseError
					require.ErrorAs(t, errs[0], &unreadable)
					assert.Contains(t, unreadable.Request, "GET http://localhost/api/v1/namespaces/default/configmaps?")
					assert.Contains(t, unreadable.Request, "watch=true")
					if tc.says == nothing {
						tc.says = ""
						assert.Empty(t, unreadable.Head)
					}
					assert.True(t, bytes.HasPrefix(unreadable.Head, []byte(tc.says)), "%q", unreadable.Head)
				}
				if !assert.ObjectsAreEqual(client.ErrContentType, tc.is) {
					assert.Equal(t, "a red, b blue", colors(s))
				}
				stop()
			})
		})
	}
}

func TestListThatCannotBeRead(t *testing.T) {
	whole := jsonList("7", jsonObject("a", "5", "red"), jsonObject("b", "6", "blue"))
	for name, tc := range map[string]struct {
		list scriptedAnswer
		is   error
	}{
		"a page of a proxy":   {scriptedAnswer{contentType: "text/html", body: "<html>log in</html>"}, client.ErrContentType},
		"no content at all":   {scriptedAnswer{}, client.ErrTruncated},
		"cut off":             {scriptedAnswer{body: whole.body[:300]}, client.ErrTruncated},
		"a broken connection": {scriptedAnswer{body: whole.body[:300], err: io.ErrUnexpectedEOF}, io.ErrUnexpectedEOF},
		"malformed":           {scriptedAnswer{body: whole.body + "{"}, client.ErrMalformed},
		"too large":           {jsonList("7", jsonObject("a", "5", strings.Repeat("x", 1000))), client.ErrTooLarge},
		"a table":             {scriptedAnswer{body: `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"7"},"rows":[]}`}, reflector.ErrTable},
		"a status":            {scriptedAnswer{body: `{"kind":"Status","apiVersion":"v1","metadata":{"resourceVersion":"7"},"status":"Success"}`}, client.ErrMalformed},
		"a single object":     {scriptedAnswer{body: jsonObject("a", "5", "red")}, client.ErrMalformed},
		"something else":      {scriptedAnswer{body: `{"login":"required"}`}, protocol.NoResourceVersion},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &scripted{lists: []scriptedAnswer{tc.list, whole}}
				s := store.New(store.ObjectKey[*Paint])
				var errs []error
				stop := start(t, reflector.New(server.client(t, client.WithMaxObjectBytes(500)), s, reflector.WithoutWatchList(),
					reflector.WithErrorHandler(func(_ context.Context, err error) { errs = append(errs, err) })))
				require.Len(t, errs, 1)
				assert.ErrorIs(t, errs[0], tc.is)
				if name == "a table" {
					var unreadable *answer.ResponseError
					require.ErrorAs(t, errs[0], &unreadable)
					assert.Contains(t, unreadable.Request, "GET http://localhost/api/v1/namespaces/default/configmaps?")
					assert.True(t, bytes.HasPrefix(unreadable.Head, []byte(`{"kind":"Table"`)), "%q", unreadable.Head)
				}
				assert.Zero(t, s.Len(), "nothing of a list that did not come whole")
				<-time.After(time.Minute)
				assert.Equal(t, "a red, b blue", colors(s))
				assert.Equal(t, "list 0, list 0, watch 7", server.seen())
				stop()
			})
		})
	}
}

func TestRelistDoesNotDecodeWhatIsHeld(t *testing.T) {
	// What the store is asked shows which objects were decoded.
	restored := apierrors.NewBadRequest("resource version of another life")
	for name, tc := range map[string]struct {
		opts []reflector.Option
		err  *apierrors.StatusError
		asks int // the store, whether it holds an object
	}{
		"list":                {[]reflector.Option{reflector.WithoutWatchList()}, apierrors.NewResourceExpired("too old"), 3},
		"watch-list":          {nil, apierrors.NewResourceExpired("too old"), 3},
		"of another history":  {[]reflector.Option{reflector.WithoutWatchList()}, restored, 3},
		"watch-list, another": {nil, restored, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				red := []string{jsonObject("a", "5", "red"), jsonObject("b", "6", "red"), jsonObject("c", "7", "red")}
				then := []string{jsonObject("a", "5", "red"), jsonObject("b", "9", "green"), jsonObject("d", "8", "new")}
				server := &scripted{lists: []scriptedAnswer{jsonList("7", red...), jsonList("9", then...)}}
				first, second := jsonStream("7", red...), jsonStream("9", then...)
				server.watches = []scriptedAnswer{{body: jsonError(tc.err)}}
				if tc.opts == nil {
					again := jsonEvent(watch.Modified, jsonObject("b", "10", "green")) // of which the store is not asked any more
					server.watches = []scriptedAnswer{{body: first}, {body: jsonError(tc.err)}, {body: second, later: again, open: true}}
				}
				resource, release := server.heldBack(t)
				s := &askedStore{Cache: store.New(store.ObjectKey[*Paint])}
				stop := start(t, reflector.New(resource, s, tc.opts...))
				require.Equal(t, "a red, b red, c red", colors(s))
				assert.Zero(t, s.asked, "of the first list")
				before, _ := s.Get(store.Key{Namespace: "default", Name: "a"})
				<-time.After(90 * time.Second) // a watch has two minutes to be answered
				release()
				<-time.After(time.Minute)
				assert.Equal(t, "a red, b green, d new", colors(s))
				assert.Equal(t, tc.asks, s.asked)
				assert.Equal(t, "9", s.ResourceVersion())
				after, _ := s.Get(store.Key{Namespace: "default", Name: "a"})
				assert.Same(t, before, after)
				<-time.After(2 * time.Minute)
				assert.Equal(t, tc.asks, s.asked)
				stop()
			})
		})
	}
}

// askedStore counts the questions whether it holds an object.
type askedStore struct {
	*store.Cache[*Paint]
	asked int
}

func (s *askedStore) Has(key store.Key, version store.Version, hash uint64) bool {
	s.asked++
	return s.Cache.Has(key, version, hash)
}

func (s *askedStore) BeginBatch(_ store.Store[*Paint], replace bool) store.Batch[*Paint] {
	b := s.Cache.BeginBatch(s.Cache, replace)
	if !replace {
		return b
	}
	return &askedBatch{Batch: b, of: s}
}

// askedBatch fails unless one object is kept of a list for which the store was asked.
type askedBatch struct {
	store.Batch[*Paint]
	of   *askedStore
	kept []store.Key
}

func (b *askedBatch) Keep(key store.Key) {
	b.kept = append(b.kept, key)
	b.Batch.Keep(key)
}

func (b *askedBatch) Commit(resourceVersion string) error {
	if b.of.asked > 0 && len(b.kept) != 1 {
		b.Discard()
		return fmt.Errorf("kept are %v", b.kept)
	}
	return b.Batch.Commit(resourceVersion)
}

// jsonStream is the beginning of a watch-list.
func jsonStream(version string, objects ...string) (events string) {
	for _, o := range objects {
		events += jsonEvent(watch.Added, o)
	}
	return events + jsonEvent(watch.Bookmark, fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":%q,"annotations":{%q:"true"}}}`,
		version, metav1.InitialEventsAnnotationKey))
}

func TestWatchListThatChangesWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		red := []string{jsonObject("a", "5", "red"), jsonObject("b", "6", "red"), jsonObject("c", "7", "red"), jsonObject("d", "8", "red")}
		second := jsonEvent(watch.Added, red[0]) + jsonEvent(watch.Added, red[1]) + jsonEvent(watch.Added, red[2]) +
			jsonEvent(watch.Deleted, jsonObject("b", "9", "red")) + jsonEvent(watch.Modified, jsonObject("c", "10", "green")) +
			jsonEvent(watch.Added, red[3]) + jsonEvent(watch.Deleted, jsonObject("d", "11", "red")) + jsonEvent(watch.Added, jsonObject("d", "12", "blue"))
		assertSecondStream(t, jsonStream("8", red...), second+jsonStream("12"), "a red, b red, c red, d red", "a red, c green, d blue")
	})
}

// assertSecondStream looks at what a store holds after a watch-list, and after another one in
// which much is held already.
func assertSecondStream(t *testing.T, first, second, before, after string) {
	server := &scripted{lists: []scriptedAnswer{jsonList("99")}, watches: []scriptedAnswer{{body: first}, {body: jsonError(apierrors.NewResourceExpired("too old"))}, {body: second, open: true}}}
	resource, release := server.heldBack(t)
	s := store.New(store.ObjectKey[*Paint])
	stop := start(t, reflector.New(resource, s))
	require.Equal(t, before, colors(s))
	<-time.After(90 * time.Second) // old enough, and not given up
	release()
	<-time.After(time.Minute)
	assert.Equal(t, after, colors(s))
	stop()
}

// heldBack returns a client whose watches are not answered until release is called, unless
// they begin with all objects: so that the first list gets old.
func (s *scripted) heldBack(t *testing.T) (resource *client.Resource[*Paint], release func()) {
	released := make(chan struct{})
	transport := roundTrip(func(r *http.Request) (*http.Response, error) {
		if v := r.URL.Query(); v.Get("watch") != "" && v.Get("sendInitialEvents") == "" {
			select {
			case <-released:
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		}
		return s.RoundTrip(r)
	})
	resource, err := client.ForResource[*Paint](localhost(transport), configMapResource, "default")
	require.NoError(t, err)
	return resource, func() { close(released) }
}

func TestErrorEventsFromTheWire(t *testing.T) {
	for name, tc := range map[string]struct {
		err  *apierrors.StatusError
		want string
	}{
		"expired":  {apierrors.NewResourceExpired("too old"), "list 0, watch 7, list , watch 9"},
		"busy":     {apierrors.NewTooManyRequests("busy", 1), "list 0, watch 7, watch 8"},
		"internal": {apierrors.NewInternalError(fmt.Errorf("unreadable")), "list 0, watch 7, list 8, watch 9"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &scripted{
					lists:   []scriptedAnswer{jsonList("7"), jsonList("9", jsonObject("b", "8", "blue"))},
					watches: []scriptedAnswer{{body: jsonEvent(watch.Added, jsonObject("b", "8", "blue")) + jsonError(tc.err), open: true}},
				}
				var errs []error
				stop := start(t, reflector.New(server.client(t), store.New(store.ObjectKey[*Paint]), reflector.WithoutWatchList(),
					reflector.WithErrorHandler(func(_ context.Context, err error) { errs = append(errs, err) })))
				<-time.After(time.Minute)
				assert.Equal(t, tc.want, server.seen())
				require.Len(t, errs, 1)
				assert.Equal(t, tc.err.ErrStatus.Reason, apierrors.ReasonForError(errs[0]))
				stop()
			})
		})
	}
}
