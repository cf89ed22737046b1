package stream

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

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

// nameOf returns the beginning of the frame of a numbered batch.
func nameOf(batch *wire.Batch) string {
	return strings.TrimSpace(strings.TrimSuffix(string(batch.Frames[0].Object), "}"))
}

func versions(p *part[*corev1.ConfigMap]) (all []string) {
	for i := range p.result {
		all = append(all, p.result[i].Version)
	}
	return all
}

// wait waits for the result of a part.
func wait[T Object](p *part[T]) {
	if p.done != nil {
		<-p.done
	}
}

// slow is a decode function that waits a second for each frame, and notes how many wait.
type slow struct {
	mu         sync.Mutex
	now, most  int
	goroutines map[any]bool
}

func (s *slow) decode(d *decoder[*corev1.ConfigMap], into *[]Item[*corev1.ConfigMap], batch *wire.Batch) {
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
	*into = append(*into, Item[*corev1.ConfigMap]{Version: nameOf(batch)})
}

func TestPipelineKeepsTheOrderOnManyGoroutines(t *testing.T) {
	for name, tc := range map[string]struct {
		processors int
		slack      int
		size       int
		most       int
		atMost     time.Duration
		atLeast    time.Duration
	}{
		"all processors":      {4, 0, partSize, 4, 12 * time.Second, 10 * time.Second},
		"for a list":          {4, 1, partSize, 4, 12 * time.Second, 10 * time.Second},
		"two":                 {2, 0, partSize, 2, 21 * time.Second, 20 * time.Second},
		"one":                 {1, 0, partSize, 1, 40 * time.Second, 40 * time.Second},
		"small ones together": {4, 1, partSize / 4, 4, 16 * time.Second, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			processors(t, tc.processors)
			synctest.Test(t, func(t *testing.T) {
				const frames = 40
				work := &slow{}
				l := newPipeline(configMapReader(t), tc.slack, work.decode)
				begin := time.Now()
				var parts []*part[*corev1.ConfigMap]
				for _, b := range numbered(t, frames, tc.size) {
					if p := l.add(b); p != nil {
						parts = append(parts, p)
					}
				}
				l.close()
				took := time.Since(begin)
				var got, want []string
				for i := range frames {
					want = append(want, fmt.Sprintf(`{"n":%d`, i))
				}
				for _, p := range parts {
					wait(p)
					got = append(got, versions(p)...)
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
	processors(t, 3)
	synctest.Test(t, func(t *testing.T) {
		work := &slow{}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				l := newPipeline(configMapReader(t), 0, work.decode)
				for _, b := range numbered(t, 10, partSize) {
					l.add(b)
				}
				l.close()
			})
		}
		all.Wait()
		assert.Equal(t, 4+2, work.most, "those that cut, and a helper for each processor but one")
		assert.Zero(t, busy.Load())
	})
}

func TestPipelineKeepsTheOrderAroundWhatIsDecodedOnTheSpot(t *testing.T) {
	processors(t, 2)
	synctest.Test(t, func(t *testing.T) {
		first := make(chan struct{})
		l := newPipeline(configMapReader(t), 0, func(_ *decoder[*corev1.ConfigMap], into *[]Item[*corev1.ConfigMap], batch *wire.Batch) {
			text := nameOf(batch)
			if text == `{"n":0` {
				<-first
			}
			*into = append(*into, Item[*corev1.ConfigMap]{Version: text})
		})
		batches := numbered(t, 4, 100)
		parts := []*part[*corev1.ConfigMap]{l.add(batches[0])}
		synctest.Wait() // the helper has begun with it, and has enough to do
		parts = append(parts, l.add(batches[1]))
		require.NotNil(t, parts[1], "it waits")
		parts = append(parts, l.decodeNow(batches[2]))
		if p := l.add(batches[3]); p != nil {
			parts = append(parts, p)
		}
		close(first)
		l.close()
		var got []string
		for _, p := range parts {
			wait(p)
			got = append(got, versions(p)...)
		}
		assert.Equal(t, []string{`{"n":0`, `{"n":1`, `{"n":2`, `{"n":3`}, got)
	})
}
