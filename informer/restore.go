package informer

// Restore fills the cache with the snapshot of an earlier process: the objects of its cache, and
// the snapshot's resource version. If the server still knows that version, Run resumes from there
// without a list. Later changes come as events; subscribers get the other objects as initial
// additions.
//
// Call it before the first Run, with objects that have their metadata: without resource versions, a
// list cannot tell which objects are unchanged. It returns [ErrRunning] while Run runs, and
// otherwise the errors of [store.Cache]: a scoped informer with scopes cannot be restored.
func (i *Informer[T]) Restore(objects []T, resourceVersion string) error {
	i.mu.Lock()
	running := i.run != nil
	i.mu.Unlock()
	if running {
		return ErrRunning
	}
	return i.cache.Replace(objects, resourceVersion)
}
