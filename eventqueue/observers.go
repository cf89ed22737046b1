package eventqueue

import "slices"

// observers are several observers as one.
type observers []Observer

// withObserver returns an observer that tells both; one of them may be nil.
func withObserver(first, second Observer) Observer {
	if first == nil || second == nil {
		return second // a nil one ends what there was
	}
	if several, ok := first.(observers); ok {
		return append(slices.Clip(several), second)
	}
	return observers{first, second}
}

// Taken implements [Observer].
func (o observers) Taken(taking Taking) {
	for _, one := range o {
		one.Taken(taking)
	}
}

// Settled implements [Observer].
func (o observers) Settled(settling Settling) {
	for _, one := range o {
		one.Settled(settling)
	}
}
