package informer

import (
	"context"
	"errors"
	"sync"
)

// together is one call of Run of a type with parts, which come and go while it runs. Its fields are
// guarded by the mutex of that type.
type together struct {
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	// last is the context of the parts in lasting, which end after all others.
	last    context.Context
	endLast context.CancelFunc
	lasting sync.WaitGroup
	ending  bool // no further part is started
	errs    []error
}

func newTogether(ctx context.Context) *together {
	r := &together{}
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.last, r.endLast = context.WithCancel(context.WithoutCancel(ctx))
	return r
}

// failLocked records that a part failed, and ends the others.
func (r *together) failLocked(err error) {
	r.errs = append(r.errs, err)
	r.cancel()
}

// wait waits until ctx ends or a part fails, and then for all parts. It returns their errors. If no
// part failed, the parts that end last continue until last is closed. wait calls finished before it
// waits for last.
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
	return errors.Join(r.errs...) // all goroutines that wrote to errs have ended
}
