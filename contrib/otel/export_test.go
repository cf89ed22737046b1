package otel

// Remembered returns how many traces are remembered for an informer.
func (t *Tracing) Remembered(informer string) int {
	c := t.chainsOf(informer)
	c.recent.mu.Lock()
	defer c.recent.mu.Unlock()
	return len(c.recent.all)
}
