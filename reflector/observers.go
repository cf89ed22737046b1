package reflector

import "slices"

// observers combines several observers into one.
type observers []Observer

// withObserver returns an observer that calls both; first may be nil.
func withObserver(first, second Observer) Observer {
	if first == nil {
		return second
	}
	if several, ok := first.(observers); ok {
		return append(slices.Clip(several), second)
	}
	return observers{first, second}
}

// Listed implements [Observer].
func (o observers) Listed(list ListDone) {
	for _, one := range o {
		one.Listed(list)
	}
}

// Watched implements [Observer].
func (o observers) Watched(watch WatchDone) {
	for _, one := range o {
		one.Watched(watch)
	}
}
