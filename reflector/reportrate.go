package reflector

import "time"

const (
	// reportBurst is how many rejections are reported at once; one more is every reportInterval.
	reportBurst    = 10
	reportInterval = time.Second
)

// reportRate bounds how often rejections are reported: a server may send thousands of objects a
// second that do not fit. State has the last one all the same.
type reportRate struct {
	used int // of the burst
	last time.Time
}

func (r *reportRate) due(now time.Time) bool {
	if passed := int(now.Sub(r.last) / reportInterval); passed > 0 {
		r.used, r.last = max(r.used-passed, 0), now
	}
	if r.used == reportBurst {
		return false
	}
	r.used++
	return true
}
