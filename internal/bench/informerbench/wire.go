package informerbench

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// wire is a transport that has the answers of a server as bytes: what comes out has to be cut and decoded, and no socket
// is between.
type wire struct {
	list    []byte
	encoded map[*corev1.Pod][]byte // as events
	frames  chan []byte
}

// newWire encodes all that is going to be sent, which is no part of what is measured.
func newWire(s *server, rounds [][]*corev1.Pod) (*wire, error) {
	w := &wire{encoded: map[*corev1.Pod][]byte{}, frames: make(chan []byte)}
	list, err := s.List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	list.Kind, list.APIVersion = "PodList", "v1"
	if w.list, err = json.Marshal(list); err != nil {
		return nil, err
	}
	for _, changed := range rounds {
		for _, pod := range changed {
			object, err := json.Marshal(pod)
			if err != nil {
				return nil, err
			}
			w.encoded[pod] = append(append([]byte(`{"type":"MODIFIED","object":`), object...), "}\n"...)
		}
	}
	return w, nil
}

func (w *wire) send(pods []*corev1.Pod) {
	for _, pod := range pods {
		w.frames <- w.encoded[pod]
	}
}

// RoundTrip answers a list or a watch.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := &http.Response{StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {"application/json"}}}
	if strings.Contains(r.URL.RawQuery, "watch=true") {
		answer.Body = &body{from: w.frames, ended: r.Context().Done()}
	} else {
		answer.Body = io.NopCloser(bytes.NewReader(w.list))
	}
	return answer, nil
}

// body is that of a watch.
type body struct {
	from  <-chan []byte
	ended <-chan struct{}
	rest  []byte
}

func (b *body) Read(to []byte) (int, error) {
	if len(b.rest) == 0 {
		select {
		case b.rest = <-b.from:
		case <-b.ended:
			return 0, io.EOF
		}
	}
	n := copy(to, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *body) Close() error { return nil }
