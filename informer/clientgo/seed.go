package clientgo

import (
	"context"

	"github.com/kubereflector/kubereflector/reflector"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// seed lets code write to the cache before the informer starts, as tests do. After the start it
// returns [ErrReadOnly], and reports the first such write: tests tend to ignore the error.
func (s *SharedIndexInformer[T]) seed() (done func(), err error) {
	s.seeding.RLock()
	if s.indexer.cache != nil && !s.hasStarted() {
		return s.seeding.RUnlock, nil
	}
	s.seeding.RUnlock()
	s.complaint.Do(func() {
		s.mu.Lock()
		ctx := s.ctx
		s.mu.Unlock()
		if ctx == nil {
			ctx = context.Background()
		}
		utilruntime.HandleErrorWithContext(s.logging(ctx), ErrReadOnly, "Write to the cache of an informer was refused", "informer", s.informer.Name())
	})
	return nil, ErrReadOnly
}

// hasStarted reports whether Run was called, of this SharedIndexInformer or of the informer.
func (s *SharedIndexInformer[T]) hasStarted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.startedLocked()
}

func (s *SharedIndexInformer[T]) startedLocked() bool {
	return s.ctx != nil || s.informer.State() != (reflector.State{Phase: reflector.Stopped})
}
