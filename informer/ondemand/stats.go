package ondemand

// Stats says how [Objects] are doing.
type Stats struct {
	// Kept is the number of objects that are kept.
	Kept int
	// Bytes is about how much memory they take: see memsize.Of. It is 0 without
	// [WithMaxBytes].
	Bytes int64
	// Hits counts the calls of Get that needed no request.
	Hits uint64
	// Requests counts the requests that were begun.
	Requests uint64
}

// Stats returns the statistics.
func (o *Objects[T]) Stats() Stats {
	o.mu.Lock()
	defer o.mu.Unlock()
	return Stats{Kept: o.recent.order.Len(), Bytes: o.recent.size, Hits: o.hits, Requests: o.requests}
}
