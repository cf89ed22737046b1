package reflectortest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

const path = "/api/v1/namespaces/default/configmaps"

// get reads a response as far as it goes.
func get(t *testing.T, s *reflectortest.Server, target string) (code int, body string, err error) {
	t.Helper()
	client, err := rest.HTTPClientFor(s.Config())
	require.NoError(t, err)
	resp, err := client.Get(s.URL() + target)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// seeded is a server with the config maps a, b and c.
func seeded(t *testing.T, opts ...reflectortest.Option) *reflectortest.Server {
	t.Helper()
	s := reflectortest.Start(t, opts...)
	for _, name := range []string{"a", "b", "c"} {
		require.NoError(t, s.Create(configMap(name)))
	}
	return s
}

const watchFromStart = path + "?watch=1&resourceVersion=1&timeoutSeconds=60"

func TestRefuse(t *testing.T) {
	s := seeded(t)
	inj := s.Inject(reflectortest.Refuse().On("list", "configmaps").Times(2))
	for range 2 {
		_, _, err := get(t, s, path)
		require.True(t, utilnet.IsConnectionRefused(err), "%v", err)
	}
	code, _, err := get(t, s, path)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, 2, inj.Hits())
	require.Len(t, s.Requests(reflectortest.Answered(0)), 2)
}

func TestRefuseOnPort(t *testing.T) {
	s := seeded(t, reflectortest.OnPort())
	s.Inject(reflectortest.Refuse().Times(1))
	_, _, err := get(t, s, path)
	require.ErrorIs(t, err, io.EOF)
	code, _, err := get(t, s, path)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)
}

func TestResetAfterEvents(t *testing.T) {
	for n := range 3 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := seeded(t)
			s.Inject(reflectortest.ResetAfterEvents(n).On("watch", "configmaps"))
			_, body, err := get(t, s, watchFromStart)
			require.ErrorIs(t, err, syscall.ECONNRESET)
			require.Equal(t, n, strings.Count(body, "\n"))
		})
	}
}

func TestResetAfterItemsOfAList(t *testing.T) {
	s := seeded(t)
	s.Inject(reflectortest.ResetAfterEvents(2).On("list", "configmaps"))
	_, body, err := get(t, s, path)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.Contains(t, body, `"name":"b"`)
	require.NotContains(t, body, `"name":"c"`)
}

func TestResetAfterBytes(t *testing.T) {
	s := seeded(t)
	_, whole, err := get(t, s, path)
	require.NoError(t, err)
	s.Inject(reflectortest.ResetAfterBytes(100).On("list", ""))
	_, body, err := get(t, s, path)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.Equal(t, whole[:100], body)
}

func TestStallUntilReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := seeded(t)
		release := make(chan struct{})
		s.Inject(reflectortest.Stall(release).On("get", "configmaps"))
		began := time.Now()
		time.AfterFunc(time.Hour, func() { close(release) })
		code, _, err := get(t, s, path+"/a")
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, code)
		require.Equal(t, time.Hour, time.Since(began))
	})
}

func TestStallUntilTheClientGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := seeded(t)
		s.Inject(reflectortest.Stall(nil))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := clientset(t, s.Config()).CoreV1().ConfigMaps("default").Get(ctx, "a", metav1.GetOptions{})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestStallAfterEventsOutlastsTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := seeded(t)
		release := make(chan struct{})
		s.Inject(reflectortest.StallAfterEvents(2, release).On("watch", ""))
		began := time.Now()
		time.AfterFunc(time.Hour, func() { close(release) })
		_, body, err := get(t, s, watchFromStart)
		require.NoError(t, err)
		require.Equal(t, 3, strings.Count(body, "\n"))
		require.Equal(t, time.Hour, time.Since(began))
	})
}

func TestCloseReleasesTheStalled(t *testing.T) {
	s := seeded(t)
	s.Inject(reflectortest.Stall(nil))
	ended := make(chan error, 1)
	go func() {
		_, _, err := get(t, s, path)
		ended <- err
	}()
	_, err := s.WaitForRequests(t.Context(), 1, reflectortest.Verb("list"))
	require.NoError(t, err)
	s.Close()
	require.Error(t, <-ended)
}

func TestTruncateFrame(t *testing.T) {
	s := seeded(t)
	s.Inject(reflectortest.TruncateFrame(2).On("watch", ""))
	_, body, err := get(t, s, watchFromStart)
	require.NoError(t, err, "the end is an orderly one")
	lines := strings.SplitAfter(body, "\n")
	require.Len(t, lines, 2)
	require.True(t, strings.HasPrefix(lines[1], `{"type":"ADDED"`))
}

func TestCorruptFrame(t *testing.T) {
	for name, config := range map[string]func(*rest.Config) *rest.Config{
		"json": func(c *rest.Config) *rest.Config { return c }, "protobuf": protobuf,
	} {
		t.Run(name, func(t *testing.T) {
			s := seeded(t)
			s.Inject(reflectortest.CorruptFrame(2).On("watch", ""))
			w, err := clientset(t, config(s.Config())).CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1"})
			require.NoError(t, err)
			defer w.Stop()
			require.Equal(t, "a", (<-w.ResultChan()).Object.(metav1.Object).GetName())
			require.Contains(t, (<-w.ResultChan()).Object.(*metav1.Status).Message, "unable to decode")
			s.ClearFaults()
			s.Inject(reflectortest.CorruptFrame(2).On("list", ""))
			_, err = clientset(t, config(s.Config())).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
			require.Error(t, err)
		})
	}
}

func TestDuplicateFrame(t *testing.T) {
	s := seeded(t)
	s.Inject(reflectortest.DuplicateFrame(2).On("watch", ""))
	s.Inject(reflectortest.ResetAfterEvents(2).On("watch", "")) // faults compose
	_, body, err := get(t, s, watchFromStart)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	lines := strings.SplitAfter(body, "\n")
	require.Len(t, lines, 4)
	require.Equal(t, lines[1], lines[2])
	require.Equal(t, []string{"DuplicateFrame", "ResetAfterEvents"}, s.Requests(reflectortest.Verb("watch"))[0].Faults)
}

func TestWithholdClosingBookmark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := seeded(t)
		target := path + "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=60"
		_, body, err := get(t, s, target)
		require.NoError(t, err)
		require.Contains(t, body, metav1.InitialEventsAnnotationKey)
		s.Inject(reflectortest.WithholdClosingBookmark())
		_, body, err = get(t, s, target)
		require.NoError(t, err)
		require.NotContains(t, body, metav1.InitialEventsAnnotationKey)
		require.Contains(t, body, `{"type":"BOOKMARK"`, "the later ones come")
	})
}

func TestAnswers(t *testing.T) {
	for code, reason := range map[int]metav1.StatusReason{
		401: metav1.StatusReasonUnauthorized, 403: metav1.StatusReasonForbidden, 404: metav1.StatusReasonNotFound,
		409: metav1.StatusReasonConflict, 410: metav1.StatusReasonExpired, 422: metav1.StatusReasonInvalid,
		429: metav1.StatusReasonTooManyRequests, 500: metav1.StatusReasonInternalError,
		503: metav1.StatusReasonServiceUnavailable, 504: metav1.StatusReasonTimeout,
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			// In a bubble: client-go waits for Retry-After, ten times.
			synctest.Test(t, func(t *testing.T) {
				s := seeded(t)
				s.Inject(reflectortest.Answer(code).On("list", "configmaps"))
				_, err := clientset(t, s.Config()).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
				var status apierrors.APIStatus
				require.ErrorAs(t, err, &status)
				require.EqualValues(t, code, status.Status().Code)
				require.Equal(t, reason, status.Status().Reason)
				require.Equal(t, code, s.Requests(reflectortest.Verb("list"))[0].Code)
			})
		})
	}
}

func TestAnswerStatusSetsRetryAfter(t *testing.T) {
	s := seeded(t)
	s.Inject(reflectortest.AnswerStatus(apierrors.NewTooManyRequests("slowly", 7).Status()))
	client, err := rest.HTTPClientFor(s.Config())
	require.NoError(t, err)
	resp, err := client.Get(s.URL() + path)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
	require.Equal(t, "7", resp.Header.Get("Retry-After"))
}

func TestAnswerHTML(t *testing.T) {
	s := seeded(t)
	s.Inject(reflectortest.AnswerHTML(502))
	code, body, err := get(t, s, path)
	require.NoError(t, err)
	require.Equal(t, 502, code)
	require.True(t, strings.HasPrefix(body, "<html>"), body)
}

func TestErrorEvent(t *testing.T) {
	for n := range 3 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			s := seeded(t)
			s.Inject(reflectortest.ErrorEvent(n, apierrors.NewResourceExpired("gone").Status()).On("watch", ""))
			_, body, err := get(t, s, watchFromStart)
			require.NoError(t, err)
			lines := strings.Split(strings.TrimSpace(body), "\n")
			require.Len(t, lines, n+1)
			require.Contains(t, lines[n], `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1"`)
			require.Contains(t, lines[n], `"code":410`)
		})
	}
}

func TestExpireContinue(t *testing.T) {
	s := seeded(t)
	inj := s.Inject(reflectortest.ExpireContinue().On("list", "configmaps").Times(1))
	cms := clientset(t, s.Config()).CoreV1().ConfigMaps("default")
	page, err := cms.List(t.Context(), metav1.ListOptions{Limit: 1})
	require.NoError(t, err)
	require.Zero(t, inj.Hits(), "a first page has no token to expire")
	_, err = cms.List(t.Context(), metav1.ListOptions{Limit: 1, Continue: page.Continue})
	require.True(t, apierrors.IsResourceExpired(err), "%v", err)
	status := err.(apierrors.APIStatus).Status()
	page, err = cms.List(t.Context(), metav1.ListOptions{Continue: status.Continue})
	require.NoError(t, err)
	require.Len(t, page.Items, 2)
}

func TestLoseHistory(t *testing.T) {
	s := seeded(t)
	s.Inject(reflectortest.LoseHistory().On("watch", "configmaps"))
	_, body, err := get(t, s, watchFromStart)
	require.NoError(t, err)
	require.Contains(t, body, `"message":"too old resource version: 1 (4)","reason":"Expired","code":410`)
}

func TestLoseHistoryLeavesOutTheLastChangeToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := seeded(t)
		s.Inject(reflectortest.LoseHistory().On("watch", "configmaps"))
		for version, expired := range map[string]bool{"3": true, "4": false} {
			_, body, err := get(t, s, path+"?watch=1&timeoutSeconds=1&resourceVersion="+version)
			require.NoError(t, err)
			require.Equal(t, expired, strings.Contains(body, `"code":410`), "from version %s: %s", version, body)
		}
		for version, want := range map[string]int{"3": http.StatusGone, "4": http.StatusOK} {
			code, _, err := get(t, s, path+"?resourceVersionMatch=Exact&resourceVersion="+version)
			require.NoError(t, err)
			require.Equal(t, want, code, "the state at the current version stays known, and no other")
		}
		require.NoError(t, s.Restore(4))
	})
}

func TestGoBackTo(t *testing.T) {
	s := seeded(t)
	s.Inject(reflectortest.GoBackTo(2).On("list", "configmaps").Times(1))
	w, err := clientset(t, s.Config()).CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "4"})
	require.NoError(t, err)
	defer w.Stop()
	list, err := clientset(t, s.Config()).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	require.Equal(t, "2", list.ResourceVersion)
	_, open := <-w.ResultChan()
	require.False(t, open, "the watch is cut off")
	again := configMap("d")
	require.NoError(t, s.Create(again))
	require.Equal(t, "3", again.ResourceVersion, "versions are used again")
}

func TestFaultsAreScopedAndCounted(t *testing.T) {
	s := seeded(t)
	inj := s.Inject(reflectortest.Answer(500).On("get", "configmaps").In("default").After(1).Times(1))
	var codes []int
	for _, target := range []string{path, path + "/a", path + "/a", path + "/a", "/api/v1/namespaces/other/configmaps/a"} {
		code, _, err := get(t, s, target)
		require.NoError(t, err)
		codes = append(codes, code)
	}
	require.Equal(t, []int{200, 200, 500, 200, 404}, codes)
	require.Equal(t, 1, inj.Hits())
	again := s.Inject(reflectortest.Answer(500))
	again.Remove()
	code, _, err := get(t, s, path)
	require.NoError(t, err)
	require.Equal(t, 200, code)
}

func TestInIsTheNamespaceOfTheRequest(t *testing.T) {
	s := seeded(t)
	s.Inject(reflectortest.Answer(500).In("default"))
	for target, want := range map[string]int{
		path: 500, path + "/a": 500, "/api/v1/namespaces/other/configmaps": 200, "/api/v1/configmaps": 200,
	} {
		code, _, err := get(t, s, target)
		require.NoError(t, err)
		require.Equal(t, want, code, target)
	}
}

func TestAFaultThatEndsTheRequestIsTheLast(t *testing.T) {
	for name, first := range map[string]reflectortest.Fault{
		"Refuse": reflectortest.Refuse(), "Answer": reflectortest.Answer(500), "AnswerHTML": reflectortest.AnswerHTML(500),
		"AnswerStatus": reflectortest.AnswerStatus(metav1.Status{Code: 500}),
	} {
		t.Run(name, func(t *testing.T) {
			s := seeded(t)
			inj := s.Inject(first.On("list", "").Times(1))
			next := s.Inject(reflectortest.Answer(503).On("list", "").Times(1))
			_, _, _ = get(t, s, path)
			require.Equal(t, 1, inj.Hits())
			require.Zero(t, next.Hits())
			for _, want := range []int{503, 200} {
				code, _, err := get(t, s, path)
				require.NoError(t, err)
				require.Equal(t, want, code)
			}
			require.Equal(t, 1, next.Hits())
			require.Len(t, s.Requests()[0].Faults, 1)
		})
	}
}

func TestFaultsOfWatchesAreNotSpentOnOtherRequests(t *testing.T) {
	for name, fault := range map[string]reflectortest.Fault{
		"ErrorEvent":              reflectortest.ErrorEvent(0, apierrors.NewResourceExpired("gone").Status()),
		"DuplicateFrame":          reflectortest.DuplicateFrame(0),
		"WithholdClosingBookmark": reflectortest.WithholdClosingBookmark(),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := seeded(t)
				inj := s.Inject(fault.Times(1))
				for _, target := range []string{path, path + "/a", "/api/v1", "/version"} {
					code, _, err := get(t, s, target)
					require.NoError(t, err)
					require.Equal(t, 200, code)
				}
				require.Zero(t, inj.Hits())
				_, _, err := get(t, s, path+"?watch=1&timeoutSeconds=1")
				require.NoError(t, err)
				require.Equal(t, 1, inj.Hits())
			})
		})
	}
}

func TestTheSmallestLimitOfBytesWins(t *testing.T) {
	for _, limits := range [][]int{{10, 20}, {20, 10}} {
		s := seeded(t)
		for _, n := range limits {
			s.Inject(reflectortest.ResetAfterBytes(n))
		}
		_, body, err := get(t, s, path)
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.Len(t, body, 10)
	}
}

func TestCodesOfAnswers(t *testing.T) {
	for name, answer := range map[string]func(int) reflectortest.Fault{
		"Answer": reflectortest.Answer, "AnswerHTML": reflectortest.AnswerHTML,
		"AnswerStatus": func(code int) reflectortest.Fault {
			return reflectortest.AnswerStatus(metav1.Status{Code: int32(code)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, code := range []int{-1, 42, 100, 199, 600, 1000} {
				require.PanicsWithValue(t, fmt.Sprintf("reflectortest: a fault cannot answer with code %d: it is not between 200 and 599", code), func() { answer(code) })
			}
			s := seeded(t)
			s.Inject(answer(0))
			code, _, err := get(t, s, path)
			require.NoError(t, err)
			require.Equal(t, 500, code)
			for _, empty := range []int{http.StatusNoContent, http.StatusNotModified} {
				s := seeded(t)
				s.Inject(answer(empty))
				code, body, err := get(t, s, path)
				require.NoError(t, err)
				require.Equal(t, empty, code)
				require.Empty(t, body)
			}
		})
	}
}

func TestAScopeThatNoRequestHasIsRefused(t *testing.T) {
	s := reflectortest.Start(t, reflectortest.WithResource(books))
	for _, scope := range [][2]string{{"configmaps", "list"}, {"WATCH", ""}, {"list", "pod"}, {"list", "ConfigMap"}, {"get", "pods/status"}} {
		require.Panics(t, func() { s.Inject(reflectortest.Refuse().On(scope[0], scope[1])) }, "%v", scope)
	}
	for _, scope := range [][2]string{{"", ""}, {"", "configmaps"}, {"list", "configmaps"}, {"patch", "configmaps"}, {"deletecollection", ""}, {"get", "books"}} {
		s.Inject(reflectortest.Refuse().On(scope[0], scope[1]))
	}
}

// net/http repeats a GET whose reused connection broke before an answer.
func TestAFaultIsNotRepairedByTheTransport(t *testing.T) {
	s := seeded(t)
	client, err := rest.HTTPClientFor(s.Config())
	require.NoError(t, err)
	for range 3 { // the connection is there to be reused
		resp, err := client.Get(s.URL() + path)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
	}
	s.Inject(reflectortest.Refuse().Times(1))
	_, err = client.Get(s.URL() + path)
	require.True(t, utilnet.IsConnectionRefused(err), "%v", err)
}
