package ondemand

// Stats are the statistics of [Objects].
type Stats struct {
	// Kept is the number of objects that are kept.
	Kept int
	// Bytes estimates the memory of the kept objects: see memsize.Of. It is 0 without
	// [WithMaxBytes].
	Bytes int64
	// Hits counts the calls of Get and Cached that returned a kept object. Objects of the cache of
	// [NewOwned] do not count.
	Hits uint64
	// Requests counts the started requests.
	Requests uint64
}

// Stats returns the statistics.
func (o *Objects[T]) Stats() Stats {
	o.mu.Lock()
	defer o.mu.Unlock()
	return Stats{Kept: o.recent.order.Len(), Bytes: o.recent.size, Hits: o.hits, Requests: o.requests}
}
