package reflector_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// stopAfter is more than the 16 MiB at which client-go ends an event in protobuf.
const stopAfter = 20 << 20

// stopping is a server that ends an endless body after some megabytes.
type stopping struct {
	answer    hostileAnswer
	read      int
	elsewhere int
}

func (s *stopping) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := &http.Response{StatusCode: max(s.answer.code, http.StatusOK), Request: r, Header: http.Header{"Content-Type": {"application/json"}}, Body: http.NoBody}
	for name, values := range s.answer.header {
		answer.Header[name] = values
	}
	if r.URL.Host != "apiserver" {
		s.elsewhere++
		answer.StatusCode, answer.Body = http.StatusOK, io.NopCloser(strings.NewReader(jsonList("8").body))
		return answer, nil
	}
	answer.Body = &stoppingBody{of: s, from: s.answer.body(1)}
	return answer, nil
}

type stoppingBody struct {
	of   *stopping
	from io.Reader
}

func (b *stoppingBody) Read(into []byte) (int, error) {
	if b.of.read >= stopAfter {
		return 0, errors.New("the server stops here")
	}
	n, err := b.from.Read(into)
	b.of.read += n
	return n, err
}

func (b *stoppingBody) Close() error { return nil }

// What client-go bounds of a server's answers, and what it does not: doc.go has the same table.
func TestGeneratedClientsReadWholeAnswers(t *testing.T) {
	a := func(int) string { return strings.Repeat("a", 4096) }
	zeros := func(int) string { return strings.Repeat("\x00", 4096) }
	for name, tc := range map[string]struct {
		watch   bool
		answer  hostileAnswer
		bounded bool
	}{
		"endless list":              {false, hostileAnswer{body: endlessly(listHead, func(int) string { return keptObject + "," })}, false},
		"endless object in a list":  {false, hostileAnswer{body: endlessly(listHead+`{"data":{"k":"`, a)}, false},
		"endless event in JSON":     {true, hostileAnswer{body: endlessly(`{"type":"ADDED","object":{"data":{"k":"`, a)}, false},
		"endless event in protobuf": {true, hostileAnswer{header: http.Header{"Content-Type": {"application/vnd.kubernetes.protobuf;stream=watch"}}, body: endlessly("\x7f\xff\xff\xff", zeros)}, true},
		"endless refusal":           {false, hostileAnswer{code: 500, body: endlessly("", a)}, false},
		"gzip bomb":                 {false, hostileAnswer{body: bomb()}, false},
		"redirect to another host":  {false, hostileAnswer{code: 307, header: http.Header{"Location": {"http://elsewhere/"}}, body: text("")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &stopping{answer: tc.answer}
				client := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://apiserver", Transport: server, BearerToken: bearerToken, QPS: -1}).CoreV1().ConfigMaps("default")
				if tc.watch {
					w, err := client.Watch(t.Context(), metav1.ListOptions{})
					assert.NoError(t, err)
					for range w.ResultChan() {
						w.Stop()
					}
					synctest.Wait()
				} else {
					_, _ = client.List(t.Context(), metav1.ListOptions{})
				}
				assert.Equal(t, tc.bounded, server.read < stopAfter && server.elsewhere == 0)
			})
		})
	}
}
