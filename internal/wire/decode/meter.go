package decode

// meter says whether looking values up is worth it. It judges by bytes: a long value that is
// found saves more.
type meter struct {
	asked        int // times, in this period
	bytes, found int
	pause        int // times that are left until the next period
	last         int // the length of the last pause; 0 if the last period was good
}

const (
	// A period is so many questions, and fewer after one that was bad.
	period      = 512
	shortPeriod = period / 4
	// One byte in so many has to be found: about what a question costs of what it saves.
	worth = 4
	// After a bad period so many values are not asked for; twice as many after each further
	// one, up to the most.
	firstPause = 8 * period
	mostPause  = 256 * period
)

// open reports whether to ask.
func (m *meter) open() bool {
	if m.pause > 0 {
		m.pause--
		return false
	}
	return true
}

// hopeless reports whether this is not the first pause.
func (m *meter) hopeless() bool { return m.last > firstPause }

// count notes how many of some bytes were found.
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
