package measure

// Samples are what processes measured for each entry, round by round. Cases share them: a process
// measures all figures of its entry.
type Samples[E comparable, S any] map[E][]S

// Side returns a round that takes a figure of the entry's next sample. Missing samples are measured.
func (s Samples[E, S]) Side(entry E, measure func(E) (S, error), figure func(S) float64) Round {
	round := 0
	return func() (float64, error) {
		for len(s[entry]) <= round {
			sample, err := measure(entry)
			if err != nil {
				return 0, err
			}
			s[entry] = append(s[entry], sample)
		}
		round++
		return figure(s[entry][round-1]), nil
	}
}
