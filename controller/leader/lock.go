package leader

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// heldLock is a lock that knows whether it was ever ours, and since when for certain.
// Its requests have a limit: one without an answer would keep a candidate from the lease
// for ever.
type heldLock struct {
	resourcelock.Interface
	limit time.Duration

	// mu protects the fields below it.
	mu      sync.Mutex
	renewed time.Time     // when the last write that succeeded was begun; zero if none did
	open    bool          // a write was given up: nobody knows what became of it
	life    time.Duration // how long a write holds the lease for certain
	over    *time.Timer   // nil unless somebody wants to know when that is over
}

// held reports whether the lease was ever ours.
func (l *heldLock) held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.renewed.IsZero()
}

// unsure reports whether the lease may be ours although no write succeeded.
func (l *heldLock) unsure() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// watch has a function called once the last write that succeeded was begun longer ago
// than life, until stop is called. Others count from when the server wrote, which may be
// long before its answer arrived: client-go counts from then.
func (l *heldLock) watch(life time.Duration, lose func()) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.life = life
	l.over = time.AfterFunc(time.Until(l.renewed.Add(life)), lose)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.over.Stop()
		l.over = nil
	}
}

// Get implements [resourcelock.Interface].
func (l *heldLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	return l.Interface.Get(ctx)
}

// Create implements [resourcelock.Interface].
func (l *heldLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Create)
}

// Update implements [resourcelock.Interface].
func (l *heldLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Update)
}

func (l *heldLock) write(ctx context.Context, record resourcelock.LeaderElectionRecord, write func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	begun := time.Now()
	err := write(ctx, record)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.open = l.open || ctx.Err() != nil
		return err
	}
	l.renewed = begun
	if l.over != nil {
		l.over.Reset(time.Until(begun.Add(l.life)))
	}
	return nil
}
