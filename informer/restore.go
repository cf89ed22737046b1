package informer

// Restore fills the cache with what an earlier process held: the objects of a snapshot of
// its cache, and the snapshot's resource version. Run then resumes from there, without a
// list, if the server still knows that version. What happened meanwhile comes as events;
// subscribers hear of the rest as initial additions.
//
// Call it before the first Run, with objects that have their metadata: without their
// versions, a list cannot tell which of them did not change. It returns [ErrRunning] while
// Run runs, and otherwise the errors of [store.Cache]: a scoped informer with scopes cannot
// be restored.
func (i *Informer[T]) Restore(objects []T, resourceVersion string) error {
	i.mu.Lock()
	running := i.run != nil
	i.mu.Unlock()
	if running {
		return ErrRunning
	}
	return i.cache.Replace(objects, resourceVersion)
}
