package informer

import (
	"context"
	"testing"
	"time"
)

// finisher is a member that works for a second after it was told to end, and notes whether an
// informer still fills its cache then.
type finisher struct {
	stub
	filled bool
}

func newFinisher(stopped func() <-chan struct{}) *finisher {
	f := &finisher{}
	f.run = func(ctx context.Context) error {
		<-ctx.Done()
		<-time.After(time.Second)
		f.filled = !isClosed(stopped())
		return nil
	}
	return f
}

// runs runs members in a group for a moment and returns what its Run returned.
func runs(t *testing.T, settle func(), members ...Member) error {
	var group Group
	for _, member := range members {
		group.Add(member)
	}
	stop := start(t, &group)
	settle()
	return stop()
}

// nest returns a group of members.
func nest(members ...Member) *Group {
	group := &Group{}
	for _, member := range members {
		group.Add(member)
	}
	return group
}
