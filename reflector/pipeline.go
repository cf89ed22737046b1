package reflector

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/kubereflector/kubereflector/internal/wire"
)

const (
	// partSize is how many bytes are decoded at once: so few that all have something to do,
	// and so many that handing them over costs little.
	partSize = 64 << 10
	// partBatches bounds how many batches they may come in: each keeps a buffer.
	partBatches = 8
)

// part is what one goroutine decodes: frames that came one after the other, and what comes of
// them.
type part[R any] struct {
	batches []*wire.Batch
	size    int
	result  R
	// done is closed when result is there; nil if it was from the beginning.
	done chan struct{}
}

// takes reports whether there is room for more.
func (p *part[R]) takes(size int) bool {
	return p.size+size <= partSize && len(p.batches) < partBatches
}

// isDone reports whether the result is there.
func (p *part[R]) isDone() bool {
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

// wait waits for the result, and returns false if something else happens before.
func (p *part[R]) wait(or <-chan struct{}) bool {
	if p.done == nil {
		return true
	}
	select {
	case <-p.done:
		return true
	case <-or:
		return false
	}
}

// pipeline decodes, on several goroutines, what one cuts; the parts that add returns have the
// order of the frames. The goroutine that cuts decodes as well, where nobody else would or
// where the others cannot keep up: so a pipeline without helpers is a call of decode.
type pipeline[T Object, R any] struct {
	of *Resource[T]
	// decode appends what a batch means. It is called by several goroutines at once.
	decode func(*decoder[T], *R, *wire.Batch)
	// eager means that what comes is decoded at once, since nobody knows whether more will
	// come. Otherwise one part waits for the next, so that little is not worth a goroutine.
	eager bool

	own     *decoder[T] // of the goroutine that cuts
	helpers int         // at most
	helping sync.WaitGroup

	mu      sync.Mutex // protects the fields below
	waiting []*part[R] // that nobody has begun with, oldest first
	working int        // helpers
}

// busy is the number of all helpers in the process. Pipelines share the processors: a hundred
// lists at once do not need a hundred times as many goroutines.
var busy atomic.Int32

func newPipeline[T Object, R any](of *Resource[T], eager bool, decode func(*decoder[T], *R, *wire.Batch)) *pipeline[T, R] {
	decoders := of.options.decoders
	if decoders <= 0 {
		decoders = runtime.GOMAXPROCS(0)
	}
	return &pipeline[T, R]{of: of, decode: decode, eager: eager, own: of.decoder(), helpers: decoders - 1}
}

// add takes the batch that was cut next, and returns the part that it begins, or nil if it
// went into the part before. A part must be passed on before the next call.
func (l *pipeline[T, R]) add(batch *wire.Batch) *part[R] {
	if l.helpers == 0 {
		return l.now(batch)
	}
	begun := l.put(batch)
	slack := 1
	if l.eager {
		slack = 0
	}
	for {
		p := l.surplus(slack)
		if p == nil {
			return begun
		}
		l.finish(l.own, p)
	}
}

// now decodes a batch on the spot.
func (l *pipeline[T, R]) now(batch *wire.Batch) *part[R] {
	var none R
	p := l.ready(none)
	l.decode(l.own, &p.result, batch)
	batch.Release()
	return p
}

// ready returns a part of what is known already. The parts before it take nothing more, since
// that would come too early.
func (l *pipeline[T, R]) ready(result R) *part[R] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.waiting); n > 0 {
		l.waiting[n-1].size = partSize + 1 // also for events without an object, which have no size
	}
	return &part[R]{result: result}
}

// put lets a batch wait, and returns the part if it is a new one.
func (l *pipeline[T, R]) put(batch *wire.Batch) *part[R] {
	size := batch.Size()
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.waiting); n > 0 && l.waiting[n-1].takes(size) {
		last := l.waiting[n-1]
		last.batches = append(last.batches, batch)
		last.size += size
		return nil
	}
	p := &part[R]{batches: []*wire.Batch{batch}, size: size, done: make(chan struct{})}
	l.waiting = append(l.waiting, p)
	return p
}

// surplus gets a helper for what waits beyond some slack. It returns a part that the helpers
// are not going to begin with soon, or nil.
func (l *pipeline[T, R]) surplus(slack int) *part[R] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) > slack && l.working < l.helpers {
		if busy.Add(1) < int32(max(runtime.GOMAXPROCS(0), 2)) {
			l.working++
			l.helping.Add(1)
			go l.help()
		} else {
			busy.Add(-1)
		}
	}
	if len(l.waiting) <= 2*l.working+slack {
		return nil
	}
	return l.takeLocked()
}

// takeLocked returns the part that waits longest, or nil.
func (l *pipeline[T, R]) takeLocked() *part[R] {
	if len(l.waiting) == 0 {
		return nil
	}
	p := l.waiting[0]
	n := copy(l.waiting, l.waiting[1:])
	l.waiting[n] = nil
	l.waiting = l.waiting[:n]
	return p
}

// help decodes what waits.
func (l *pipeline[T, R]) help() {
	defer l.helping.Done()
	defer busy.Add(-1)
	d := l.of.decoder()
	defer l.of.giveBack(d)
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

func (l *pipeline[T, R]) finish(d *decoder[T], p *part[R]) {
	defer close(p.done)
	for _, batch := range p.batches {
		l.decode(d, &p.result, batch)
		batch.Release()
	}
	p.batches = nil
}

// close ends the pipeline: all goroutines have ended when it returns. What waits is decoded if
// it is wanted.
func (l *pipeline[T, R]) close(wanted bool) {
	for {
		l.mu.Lock()
		p := l.takeLocked()
		l.mu.Unlock()
		if p == nil {
			break
		}
		if wanted {
			l.finish(l.own, p)
		} else {
			close(p.done)
		}
	}
	l.helping.Wait()
	l.of.giveBack(l.own)
}
