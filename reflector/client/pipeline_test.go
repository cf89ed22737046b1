package client

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// Processors lets a test have some, and gives back those that it had.
func Processors(t *testing.T, n int) {
	before := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

func someResource(t *testing.T, opts ...ResourceOption) *Resource[*corev1.ConfigMap] {
	r, err := FromRESTClient[*corev1.ConfigMap](nil, "configmaps", "", opts...)
	require.NoError(t, err)
	return r
}

// numbered returns batches of one frame each: {"n":0}, {"n":1} and so on, each of a size.
func numbered(t *testing.T, n, size int) []*wire.Batch {
	var batches []*wire.Batch
	for i := range n {
		text := fmt.Sprintf(`{"n":%d%s}`, i, strings.Repeat(" ", size))
		list := wire.NewList(strings.NewReader(`{"items":[`+text+`]}`), wire.JSON, 0)
		batch, err := list.Next()
		require.NoError(t, err)
		batches = append(batches, batch)
	}
	return batches
}

// slow is a decode function that waits a second for each frame, and notes how many wait.
type slow struct {
	mu         sync.Mutex
	now, most  int
	goroutines map[any]bool
}

func (s *slow) decode(d *decoder[*corev1.ConfigMap], into *[]string, batch *wire.Batch) {
	s.mu.Lock()
	s.now++
	s.most = max(s.most, s.now)
	if s.goroutines == nil {
		s.goroutines = map[any]bool{}
	}
	s.goroutines[d] = true
	s.mu.Unlock()
	<-time.After(time.Second)
	s.mu.Lock()
	s.now--
	s.mu.Unlock()
	*into = append(*into, strings.TrimSpace(strings.TrimSuffix(string(batch.Frames[0].Object), "}")))
}

func TestPipelineKeepsTheOrderOnManyGoroutines(t *testing.T) {
	Processors(t, 4)
	for name, tc := range map[string]struct {
		opts    []ResourceOption
		eager   bool
		size    int
		most    int
		atMost  time.Duration
		atLeast time.Duration
	}{
		"all processors":          {nil, true, partSize, 4, 12 * time.Second, 10 * time.Second},
		"for a list":              {nil, false, partSize, 4, 12 * time.Second, 10 * time.Second},
		"no more than were asked": {[]ResourceOption{WithDecodeConcurrency(2)}, true, partSize, 2, 21 * time.Second, 20 * time.Second},
		"one":                     {[]ResourceOption{WithDecodeConcurrency(1)}, true, partSize, 1, 40 * time.Second, 40 * time.Second},
		"small ones together":     {nil, false, partSize / 4, 4, 16 * time.Second, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const frames = 40
				work := &slow{}
				l := newPipeline(someResource(t, tc.opts...), tc.eager, work.decode)
				begin := time.Now()
				var parts []*part[[]string]
				for _, b := range numbered(t, frames, tc.size) {
					if p := l.add(b); p != nil {
						parts = append(parts, p)
					}
				}
				l.close(true)
				took := time.Since(begin)
				var got, want []string
				for i := range frames {
					want = append(want, fmt.Sprintf(`{"n":%d`, i))
				}
				for _, p := range parts {
					require.True(t, p.wait(nil))
					got = append(got, p.result...)
				}
				assert.Equal(t, want, got)
				assert.Equal(t, tc.most, work.most)
				assert.Len(t, work.goroutines, tc.most, "one decoder each")
				assert.GreaterOrEqual(t, took, tc.atLeast)
				assert.LessOrEqual(t, took, tc.atMost)
				assert.Zero(t, busy.Load())
			})
		})
	}
}

func TestPipelinesTogetherHaveOneGoroutineForEachProcessor(t *testing.T) {
	Processors(t, 3)
	synctest.Test(t, func(t *testing.T) {
		work := &slow{}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				l := newPipeline(someResource(t), true, work.decode)
				for _, b := range numbered(t, 10, partSize) {
					l.add(b)
				}
				l.close(true)
			})
		}
		all.Wait()
		assert.Equal(t, 4+2, work.most, "those that cut, and a helper for each processor but one")
		assert.Zero(t, busy.Load())
	})
}

func TestPipelineThatIsNotWantedAnyMoreDecodesNoMore(t *testing.T) {
	Processors(t, 2)
	synctest.Test(t, func(t *testing.T) {
		work := &slow{}
		l := newPipeline(someResource(t), true, work.decode)
		var parts []*part[[]string]
		for _, b := range numbered(t, 3, partSize) {
			parts = append(parts, l.add(b))
			synctest.Wait() // for a helper to begin
		}
		l.close(false)
		decoded := 0
		for _, p := range parts {
			assert.True(t, p.wait(nil), "nobody waits for what is not decoded")
			decoded += len(p.result)
		}
		assert.Equal(t, 1, decoded, "what was begun")
	})
}

func TestPipelineKeepsTheOrderAroundWhatIsDecodedOnTheSpot(t *testing.T) {
	Processors(t, 2)
	synctest.Test(t, func(t *testing.T) {
		first := make(chan struct{})
		l := newPipeline(someResource(t), true, func(_ *decoder[*corev1.ConfigMap], into *[]string, batch *wire.Batch) {
			text := strings.TrimSpace(strings.TrimSuffix(string(batch.Frames[0].Object), "}"))
			if text == `{"n":0` {
				<-first
			}
			*into = append(*into, text)
		})
		batches := numbered(t, 4, 100)
		parts := []*part[[]string]{l.add(batches[0])}
		synctest.Wait() // the helper has begun with it, and has enough to do
		parts = append(parts, l.add(batches[1]))
		require.NotNil(t, parts[1], "it waits")
		parts = append(parts, l.now(batches[2]))
		if p := l.add(batches[3]); p != nil {
			parts = append(parts, p)
		}
		close(first)
		l.close(true)
		var got []string
		for _, p := range parts {
			require.True(t, p.wait(nil))
			got = append(got, p.result...)
		}
		assert.Equal(t, []string{`{"n":0`, `{"n":1`, `{"n":2`, `{"n":3`}, got)
	})
}

// sampled is a body in which chunks come after pauses.
type sampled struct {
	chunks []string
	pause  time.Duration
}

func (s *sampled) Read(b []byte) (int, error) {
	if len(s.chunks) == 0 {
		return 0, io.EOF
	}
	<-time.After(s.pause)
	n := copy(b, s.chunks[0])
	if s.chunks[0] = s.chunks[0][n:]; s.chunks[0] == "" {
		s.chunks = s.chunks[1:]
	}
	return n, nil
}

func (s *sampled) Close() error { return nil }

func configMapEvent(i int) string {
	return fmt.Sprintf(`{"type":"ADDED","object":{"metadata":{"namespace":"ns","name":"m%d","uid":"u%d","resourceVersion":"%d"},"data":{"text":%q}}}`+"\n",
		i, i, i+100, strings.Repeat("x", 5000))
}

func TestEventThatComesAloneIsDecodedWhereItIsCut(t *testing.T) {
	Processors(t, 4)
	for name, tc := range map[string]struct {
		pause  time.Duration
		helped bool
	}{"alone": {time.Millisecond, false}, "without a pause": {0, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := someResource(t)
				body := &sampled{pause: tc.pause}
				const events = 200
				for i := range events {
					body.chunks = append(body.chunks, configMapEvent(i))
				}
				s := &wireWatch[*corev1.ConfigMap]{of: r, answer: &answer{contentType: mediaJSON, body: body}, parts: make(chan *part[[]source.Event[*corev1.ConfigMap]])}
				go s.run(t.Context())
				var names []string
				helped := false
				for p := range s.parts {
					helped = helped || p.done != nil
					p.wait(nil)
					for _, e := range p.result {
						names = append(names, e.Object.Name)
					}
				}
				require.NoError(t, s.err)
				require.Len(t, names, events)
				for i, name := range names {
					require.Equal(t, fmt.Sprint("m", i), name)
				}
				assert.Equal(t, tc.helped, helped)
			})
		})
	}
}

func TestDecodersOfAnInitialListAreNotKept(t *testing.T) {
	Processors(t, 4)
	r := someResource(t)
	r.keepAll()
	var all []*decoder[*corev1.ConfigMap]
	for range 6 {
		all = append(all, r.decoder())
	}
	for _, d := range all {
		r.giveBack(d)
	}
	assert.Len(t, r.spare, 4, "one for each processor")
	r.keepFew()
	assert.Equal(t, all[2:4], r.spare, "those that were used last")
	r.giveBack(all[5])
	assert.Len(t, r.spare, 2)
}
