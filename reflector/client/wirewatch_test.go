package client

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// sluggish is an object that takes as long to decode as it says.
type sluggish struct {
	metav1.ObjectMeta `json:"metadata"`
	Takes             duration `json:"takes"`
}

func (*sluggish) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (s *sluggish) DeepCopyObject() runtime.Object { return s }

type duration string

func (*duration) UnmarshalJSON(text []byte) error {
	takes, err := time.ParseDuration(strings.Trim(string(text), `"`))
	if err == nil {
		<-time.After(takes)
	}
	return err
}

func sluggishEvent(version, size int, takes string) string {
	return fmt.Sprintf(`{"type":"MODIFIED","object":{"metadata":{"namespace":"ns","name":"a","uid":"u","resourceVersion":"%d"},"takes":%q,"pad":%q}}`+"\n",
		version, takes, strings.Repeat("x", size))
}

// paused is a body in which each chunk comes after a pause of its own.
type paused []pausedChunk

type pausedChunk struct {
	after time.Duration
	text  string
}

func (p *paused) Read(into []byte) (int, error) {
	if len(*p) == 0 {
		return 0, io.EOF
	}
	chunk := &(*p)[0]
	if chunk.after > 0 {
		<-time.After(chunk.after)
		chunk.after = 0
	}
	n := copy(into, chunk.text)
	if chunk.text = chunk.text[n:]; chunk.text == "" {
		*p = (*p)[1:]
	}
	return n, nil
}

func (p *paused) Close() error { return nil }

// sluggishWatch is a watch that reads a body until ctx ends.
func sluggishWatch(ctx context.Context, t *testing.T, body paused) *wireWatch[*sluggish] {
	r, err := FromRESTClient[*sluggish](nil, "x", "")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(ctx)
	s := &wireWatch[*sluggish]{
		of: r, answer: &answer{contentType: mediaJSON, body: &body},
		parts: make(chan *part[[]source.Event[*sluggish]], partsAhead), cancel: cancel,
	}
	go s.run(ctx)
	return s
}

// While a helper is at the first event, the second one waits, the third one is decoded where it
// is cut, and there is room beside the second one for the fourth.
func TestEventThatComesAloneIsNotOvertaken(t *testing.T) {
	Processors(t, 2)
	synctest.Test(t, func(t *testing.T) {
		s := sluggishWatch(t.Context(), t, paused{
			{0, sluggishEvent(1, 60000, "1s")},
			{0, sluggishEvent(2, 20000, "0s")},
			{time.Millisecond, sluggishEvent(3, 10, "0s")},
			{0, sluggishEvent(4, 10, "0s")},
		})
		defer s.cancel()
		var got []string
		for p := range s.parts {
			p.wait(nil)
			for _, e := range p.result {
				require.NotNil(t, e.Object)
				got = append(got, e.ResourceVersion)
			}
		}
		require.NoError(t, s.err)
		assert.Equal(t, []string{"1", "2", "3", "4"}, got)
	})
}

// The second event is dropped, since it waits when the watch is told to end; what was decoded
// on the spot after it must not come in its place.
func TestWatchThatIsToldToEndLeavesNoGap(t *testing.T) {
	Processors(t, 2)
	for range 20 { // a select that may go either way does not always go wrong
		synctest.Test(t, func(t *testing.T) {
			s := sluggishWatch(t.Context(), t, paused{
				{0, sluggishEvent(1, 60000, "1s")},
				{0, sluggishEvent(2, 20000, "0s")},
				{time.Millisecond, sluggishEvent(3, 10, "0s")},
				{10 * time.Millisecond, sluggishEvent(4, 10, "0s")},
			})
			w := source.NewWatch[*sluggish](t.Context(), s)
			time.AfterFunc(5*time.Millisecond, w.Stop)
			var all sync.WaitGroup
			for range 2 { // so that somebody is there for whatever would be sent
				all.Go(func() {
					for e := range w.ResultChan() {
						assert.Equal(t, "1", e.Object.(*sluggish).ResourceVersion)
					}
				})
			}
			all.Wait()
			assert.NoError(t, s.err)
		})
	}
}
