package stream

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire/decode"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// processors sets the number of processors during a test.
func processors(t *testing.T, n int) {
	before := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// readerOf returns a reader that accepts every kind and namespace.
func readerOf[T Object](t *testing.T) *Reader[T] {
	codec, err := decode.For[T](decode.Options{})
	require.NoError(t, err)
	return &Reader[T]{
		Resource: "things/v1", Type: "T",
		NewDecoder:     func(func(error)) *decode.Decoder[T] { return codec.NewDecoder() },
		Pool:           new(Pool[T]),
		CheckKind:      func(metav1.TypeMeta) error { return nil },
		CheckList:      func(metav1.TypeMeta, bool) error { return nil },
		CheckNamespace: func(string) error { return nil },
	}
}

func configMapReader(t *testing.T) *Reader[*corev1.ConfigMap] {
	return readerOf[*corev1.ConfigMap](t)
}

// taken are the items of a list.
type taken struct {
	objects   []*corev1.ConfigMap
	unchanged []store.Key
	undecoded []store.Key
	outside   int
}

// readList reads a list of ConfigMaps.
func readList(r *Reader[*corev1.ConfigMap], body io.Reader, w Wants[*corev1.ConfigMap]) (all taken, err error) {
	w.Take = func(i *Item[*corev1.ConfigMap]) {
		i.Filter(w.Shards)
		switch {
		case i.Kind == Unchanged:
			all.unchanged = append(all.unchanged, i.Keys...)
		case i.Kind == Outside:
			all.outside += i.Count
		case i.Write.Err != nil:
			all.undecoded = append(all.undecoded, i.Write.Key)
		default:
			all.objects = append(all.objects, i.Write.Object)
		}
	}
	_, err = r.List(&Response{ContentType: "application/json", Body: io.NopCloser(body)}, w)
	return all, err
}

// watchBody reads a watch from a body of JSON until ctx ends.
func watchBody[T Object](ctx context.Context, t *testing.T, body io.ReadCloser, initial bool, w Wants[T]) *Watch[T] {
	r := readerOf[T](t)
	response := &Response{ContentType: "application/json", Body: body}
	ctx, cancel := context.WithCancel(ctx)
	return r.Watch(ctx, cancel, response, initial, w)
}

// watchList reads a watch-list of ConfigMaps.
func watchList(ctx context.Context, t *testing.T, body io.ReadCloser, holds HoldsFunc) *Watch[*corev1.ConfigMap] {
	return watchBody[*corev1.ConfigMap](ctx, t, body, true, Wants[*corev1.ConfigMap]{Holds: holds})
}

// text is a body that arrives at once.
func text(events ...string) io.ReadCloser {
	return io.NopCloser(strings.NewReader(strings.Join(events, "")))
}

// paused is a body in which each chunk arrives after a pause of its own.
type paused []pausedChunk

type pausedChunk struct {
	after time.Duration
	text  string
}

// inChunks is a body whose chunks arrive after equal pauses.
func inChunks(pause time.Duration, chunks ...string) *paused {
	var body paused
	for _, chunk := range chunks {
		body = append(body, pausedChunk{pause, chunk})
	}
	return &body
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

// configMap returns the JSON of an object with the given number of bytes of data.
func configMap(i, size int) string {
	return fmt.Sprintf(`{"metadata":{"namespace":"default","name":"a%d","uid":"%d","resourceVersion":"%d"},"data":{"key":"%s"}}`, i, i, i+1, strings.Repeat("x", size))
}

// added returns the event of a new object.
func added(object string) string { return `{"type":"ADDED","object":` + object + "}\n" }

// assertAllocations checks how many objects on the heap a second call of read makes for each of n
// objects.
func assertAllocations(t *testing.T, n int, most float64, read func()) {
	read()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	read()
	runtime.ReadMemStats(&after)
	assert.Less(t, float64(after.Mallocs-before.Mallocs)/float64(n), most)
}

// mostAllocations is the bound for objects that the store holds.
func mostAllocations() float64 {
	if raceEnabled {
		return 0.6 // pools then forget some of what they hold
	}
	return 0.4 // it is 0.28 for a list and 0.04 for a watch-list
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
