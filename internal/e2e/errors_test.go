package e2e

import (
	"context"
	"sync"
)

// errorList collects what goes wrong on several goroutines.
type errorList struct {
	mu   sync.Mutex
	errs []error
}

func (l *errorList) note(_ context.Context, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
}

func (l *errorList) all() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]error(nil), l.errs...)
}
