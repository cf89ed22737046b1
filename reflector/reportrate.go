package reflector

import "time"

const (
	// reportBurst is the number of rejections that may be reported at once. After that, the
	// reflector may report one more every reportInterval.
	reportBurst    = 10
	reportInterval = time.Second
)

// reportRate bounds the rate of reported rejections. A server may send thousands of undecodable
// objects a second. State still has the last rejection.
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
