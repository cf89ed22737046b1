package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kubereflector/kubereflector/informer"
)

// startLimit is the time within which an informer that is not a member must start. A program may
// call the informer's Run in a goroutine just before the manager's Run.
const startLimit = time.Second

// checkInformers returns an error for each reconciler with an informer that is not a member and
// does not start within startLimit. Such a reconciler would wait for its first sync for ever.
func (m *Manager) checkInformers(ctx context.Context) error {
	for deadline := time.Now().Add(startLimit); ; {
		err := m.idleInformers()
		if err == nil || !time.Now().Before(deadline) {
			return err
		}
		select {
		case <-time.After(startLimit / 100):
		case <-ctx.Done():
			return nil
		}
	}
}

func (m *Manager) idleInformers() error {
	var errs []error
	places, members := m.list()
	for n, p := range places {
		reconciler, ok := members[n].(interface{ Informers() []informer.Runnable })
		if !ok {
			continue
		}
		for _, watched := range reconciler.Informers() {
			if m.idle(watched) {
				name, _ := nameOf(watched)
				err := fmt.Errorf("informer %q %w and is no member: add it with Manager.Add, or call its Run", name, errNotRunning)
				errs = append(errs, &RunnableError{Name: p.name, Err: err})
			}
		}
	}
	return errors.Join(errs...)
}

// idle reports whether an informer neither runs nor is a member. A led member may start later.
func (m *Manager) idle(watched informer.Runnable) bool {
	i, ok := watched.(lasting)
	if !ok || m.has(watched) {
		return false
	}
	select {
	case <-i.Stopped():
		return true
	default:
		return false
	}
}
