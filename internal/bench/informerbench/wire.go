package informerbench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// wire is a transport that has the answers of a server as bytes: what comes out has to be cut and decoded, and no socket
// is between.
type wire struct {
	list     []byte
	modified map[*corev1.Pod]template
	version  int
	frames   chan []byte
	// buffers have a frame in turn: when one is received, all of the one before was read.
	buffers [2][]byte
}

// template is an event without the object's resource version.
type template struct{ before, after []byte }

// firstVersion is higher than the resource versions of all objects. All later versions have the
// same number of digits.
const firstVersion = 1_000_000_000

// newWire encodes the changing pods, so that the encoding stays outside the measurement.
func newWire(s *server, pods []*corev1.Pod) (*wire, error) {
	w := &wire{modified: map[*corev1.Pod]template{}, version: firstVersion, frames: make(chan []byte)}
	list, err := s.List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	list.Kind, list.APIVersion = "PodList", "v1"
	if w.list, err = json.Marshal(list); err != nil {
		return nil, err
	}
	for _, pod := range pods {
		object, err := json.Marshal(pod)
		if err != nil {
			return nil, err
		}
		version := []byte(`"resourceVersion":"` + pod.ResourceVersion)
		before, after, ok := bytes.Cut(object, version)
		if !ok {
			return nil, fmt.Errorf("%s/%s has no resource version", pod.Namespace, pod.Name)
		}
		w.modified[pod] = template{
			before: append(append([]byte(`{"type":"MODIFIED","object":`), before...), `"resourceVersion":"`...),
			after:  append(after, "}\n"...),
		}
	}
	return w, nil
}

func (w *wire) send(pods []*corev1.Pod) {
	for i, pod := range pods {
		event := w.modified[pod]
		w.version++
		frame := append(w.buffers[i%2][:0], event.before...)
		frame = strconv.AppendInt(frame, int64(w.version), 10)
		frame = append(frame, event.after...)
		w.buffers[i%2] = frame
		w.frames <- frame
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

// body is the body of a watch.
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
