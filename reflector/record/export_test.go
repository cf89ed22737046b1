package record

// SetLimit sets the number of bytes that may wait.
func (r *Recorder) SetLimit(bytes int) { r.limit = bytes }
