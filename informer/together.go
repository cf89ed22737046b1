package informer

import (
	"context"
	"errors"
	"sync"
)

// together is one call of Run of something that has parts, which come and go while it
// runs. Its fields are guarded by the mutex of whatever has the parts.
type together struct {
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	// last is the context of parts that end after all others: those of lasting.
	last    context.Context
	endLast context.CancelFunc
	lasting sync.WaitGroup
	ending  bool // nothing is started any more
	errs    []error
}

func newTogether(ctx context.Context) *together {
	r := &together{}
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.last, r.endLast = context.WithCancel(context.WithoutCancel(ctx))
	return r
}

// failLocked notes that a part failed, which ends the others.
func (r *together) failLocked(err error) {
	r.errs = append(r.errs, err)
	r.cancel()
}

// wait waits until ctx ends or a part fails, and then for all parts. It returns how they
// failed. If none failed, parts that end last go on until last is closed, which finished
// precedes.
func (r *together) wait(mu *sync.Mutex, last <-chan struct{}, finished func()) error {
	defer r.cancel()
	defer r.endLast()
	<-r.ctx.Done()
	mu.Lock()
	r.ending = true
	failed := len(r.errs) > 0
	mu.Unlock()
	r.running.Wait()
	finished()
	if !failed {
		<-last
	}
	r.endLast()
	r.lasting.Wait()
	return errors.Join(r.errs...) // all who wrote to it have ended
}
