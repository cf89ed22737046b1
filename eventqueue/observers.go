package eventqueue

import "slices"

// observers combines several observers into one.
type observers []Observer

// withObserver returns an observer that calls both. A nil second one removes the first.
func withObserver(first, second Observer) Observer {
	if first == nil || second == nil {
		return second // a nil observer removes the earlier ones
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
