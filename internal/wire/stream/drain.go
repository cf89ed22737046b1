package stream

import (
	"errors"
	"time"
)

// ErrAwake means that the caller's timer ended the wait for events.
var ErrAwake = errors.New("wake delivered a value")

var errNotClosed = errors.New("client did not close the channel of its watch after Stop")

// CloseTimeout is how long a stream waits for a watch to close its channel after Stop.
const CloseTimeout = 5 * time.Second

// Drain receives from a channel until it is closed, as watch.Interface requires after Stop.
// apimachinery's ProxyWatcher never closes its channel, so Drain gives up after CloseTimeout.
func Drain[E any](events <-chan E) error {
	timeout := time.NewTimer(CloseTimeout)
	defer timeout.Stop()
	for {
		select {
		case _, open := <-events:
			if !open {
				return nil
			}
		case <-timeout.C:
			return errNotClosed
		}
	}
}
