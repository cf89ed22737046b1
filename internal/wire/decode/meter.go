package decode

// meter decides whether lookups in a table pay off. It counts bytes: a longer found value saves
// more. It counts only lookups that happened, so pauses of other tables do not affect it.
type meter struct {
	asked        int // lookups in this period
	bytes, found int
	pause        int // values to skip until the next period
	last         int // the length of the last pause; 0 if the last period was good
}

const (
	// The number of lookups in a period. A period after a bad one is shorter.
	period      = 512
	shortPeriod = period / 4
	// One byte in so many must be found: that is about the cost of a lookup relative to its saving.
	worth = 4
	// The number of skipped values after a bad period. It doubles after each further one, up to the
	// largest.
	firstPause = 8 * period
	mostPause  = 256 * period
)

// open reports whether to look up a value.
func (m *meter) open() bool {
	if m.pause > 0 {
		m.pause--
		return false
	}
	return true
}

// hopeless reports whether this is not the first pause.
func (m *meter) hopeless() bool { return m.last > firstPause }

// count records a lookup: its bytes, and how many of them were found.
func (m *meter) count(bytes, found int) {
	m.asked++
	m.bytes += bytes
	m.found += found
	if m.asked < period && (m.asked < shortPeriod || m.last == 0) {
		return
	}
	if m.found*worth < m.bytes {
		m.last = min(max(2*m.last, firstPause), mostPause)
		m.pause = m.last
	} else {
		m.last = 0
	}
	m.asked, m.bytes, m.found = 0, 0, 0
}
