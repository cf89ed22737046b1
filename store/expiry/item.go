package expiry

import (
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// item is an object and the end of its time. The object does not change, the end does
// when the object is listed again.
type item[T any] struct {
	object T
	until  atomic.Int64 // see now
}

// longest is more than anybody waits, and so little that what is computed with it is a duration.
const longest = 100 * 365 * 24 * time.Hour

func (i *item[T]) renew(life time.Duration) {
	if life == 0 || life > longest {
		i.until.Store(never)
		return
	}
	i.until.Store(int64(now() + max(life, -1)))
}

func (i *item[T]) over(at time.Duration) bool { return int64(at) > i.until.Load() }

// GetUID returns the UID of the object, if it has one.
func (i *item[T]) GetUID() types.UID {
	if o, ok := any(i.object).(interface{ GetUID() types.UID }); ok {
		return o.GetUID()
	}
	return ""
}

// GetResourceVersion returns the resource version of the object, if it has one.
func (i *item[T]) GetResourceVersion() string {
	if o, ok := any(i.object).(interface{ GetResourceVersion() string }); ok {
		return o.GetResourceVersion()
	}
	return ""
}
