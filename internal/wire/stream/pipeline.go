package stream

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/kubereflector/kubereflector/internal/wire"
)

const (
	// partSize is the size of a part in bytes. It is small enough to keep all goroutines busy, and
	// large enough to make handing over cheap.
	partSize = 64 << 10
	// partBatches is the largest number of batches in a part. Each batch keeps a buffer.
	partBatches = 8
)

// part is the work of one goroutine: consecutive frames and their items.
type part[T Object] struct {
	batches []*wire.Batch
	size    int
	result  []Item[T]
	// done is closed when result is complete. It is nil if result was complete from the beginning.
	done chan struct{}
	full bool // put adds no further batch
}

// isDone reports whether the result is complete.
func (p *part[T]) isDone() bool {
	if p.done == nil {
		return true
	}
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// pipeline decodes frames on several goroutines. One goroutine, the reader, cuts the input into
// frames. The parts that add returns have the order of the frames. The reader also decodes if it
// has no helpers or they cannot keep up. Without helpers, a pipeline only calls decode.
type pipeline[T Object] struct {
	of *Reader[T]
	// decode appends the items of a batch. Several goroutines call it at once.
	decode func(*decoder[T], *[]Item[T], *wire.Batch)
	// slack is the number of parts that wait for more. It is 0 for watches: the pipeline decodes data at
	// once, because more data may not come. It is 1 for lists, so that a short list needs no helper.
	slack int

	own     *decoder[T] // of the reader
	helpers int         // at most
	helping sync.WaitGroup

	mu      sync.Mutex // protects the fields below
	waiting []*part[T] // parts that no goroutine has taken yet, oldest first
	working int        // number of running helpers
}

// busy is the number of helpers in the process. All pipelines share the processors: a hundred lists
// at once do not need a hundred times as many goroutines.
var busy atomic.Int32

// newPipeline returns a pipeline with at most one decoder for each processor.
func newPipeline[T Object](of *Reader[T], slack int, decode func(*decoder[T], *[]Item[T], *wire.Batch)) *pipeline[T] {
	return &pipeline[T]{of: of, decode: decode, slack: slack, own: of.get(), helpers: runtime.GOMAXPROCS(0) - 1}
}

// add queues the next batch. It returns the new part for the batch, or nil if the batch went into
// the previous part. The caller must deliver the part before the next call.
func (l *pipeline[T]) add(batch *wire.Batch) *part[T] {
	if l.helpers == 0 || batch.Size() == 0 {
		return l.decodeNow(batch)
	}
	begun := l.put(batch)
	for {
		p := l.surplus()
		if p == nil {
			return begun
		}
		l.finish(l.own, p)
	}
}

// decodeNow decodes a batch on the caller's goroutine.
func (l *pipeline[T]) decodeNow(batch *wire.Batch) *part[T] {
	p := l.addResult(nil)
	l.decode(l.own, &p.result, batch)
	batch.Release()
	return p
}

// addResult is add for a result that is complete. No further batch joins the part before it, because its
// events would come before the result.
func (l *pipeline[T]) addResult(result []Item[T]) *part[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.waiting); n > 0 {
		l.waiting[n-1].full = true
	}
	return &part[T]{result: result}
}

// put queues a batch. It returns the part if it is a new one.
func (l *pipeline[T]) put(batch *wire.Batch) *part[T] {
	size := batch.Size()
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.waiting); n > 0 {
		if last := l.waiting[n-1]; !last.full && last.size+size <= partSize && len(last.batches) < partBatches {
			last.batches = append(last.batches, batch)
			last.size += size
			return nil
		}
	}
	p := &part[T]{batches: []*wire.Batch{batch}, size: size, done: make(chan struct{})}
	l.waiting = append(l.waiting, p)
	return p
}

// surplus starts a helper if more parts wait than slack allows. It returns a part for the reader to decode
// if the helpers cannot keep up, and nil otherwise. Two parts may wait for each helper: one that it takes
// while the reader decodes a part, and one that it takes while the reader cuts the next.
func (l *pipeline[T]) surplus() *part[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) > l.slack && l.working < l.helpers {
		if busy.Add(1) < int32(max(runtime.GOMAXPROCS(0), 2)) {
			l.working++
			l.helping.Add(1)
			go l.help()
		} else {
			busy.Add(-1)
		}
	}
	if len(l.waiting) <= 2*l.working+l.slack {
		return nil
	}
	return l.takeLocked()
}

// takeLocked removes and returns the oldest waiting part; nil if there is none.
func (l *pipeline[T]) takeLocked() *part[T] {
	if len(l.waiting) == 0 {
		return nil
	}
	p := l.waiting[0]
	n := copy(l.waiting, l.waiting[1:])
	l.waiting[n] = nil
	l.waiting = l.waiting[:n]
	return p
}

// help decodes waiting parts until there are none.
func (l *pipeline[T]) help() {
	defer l.helping.Done()
	defer busy.Add(-1)
	d := l.of.get()
	defer l.of.put(d)
	for {
		l.mu.Lock()
		p := l.takeLocked()
		if p == nil {
			l.working--
		}
		l.mu.Unlock()
		if p == nil {
			return
		}
		l.finish(d, p)
	}
}

func (l *pipeline[T]) finish(d *decoder[T], p *part[T]) {
	defer close(p.done)
	for _, batch := range p.batches {
		l.decode(d, &p.result, batch)
		batch.Release()
	}
	p.batches = nil
}

// close decodes the parts that wait, and waits for the helpers. There are few, so it does so even if nobody
// wants them any more: later parts may have been decoded already, and no result must be missing before them.
func (l *pipeline[T]) close() {
	for {
		l.mu.Lock()
		p := l.takeLocked()
		l.mu.Unlock()
		if p == nil {
			break
		}
		l.finish(l.own, p)
	}
	l.helping.Wait()
	l.of.put(l.own)
}
