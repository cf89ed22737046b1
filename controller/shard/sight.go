package shard

import (
	"context"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	coordinationv1 "k8s.io/api/coordination/v1"
)

// sight is a member's view of the leases, with times. All fields except wake belong to one
// goroutine.
type sight struct {
	leases *informer.Informer[*coordinationv1.Lease]
	wake   chan struct{}                    // something has changed
	seen   map[string]sighting              // by the name of a lease, or of a holder without a lease
	known  map[string]*coordinationv1.Lease // the results of writes that the cache may not show yet
}

// sighting is the time, on our own clock, at which a version of a lease was first seen. The writer
// wrote it earlier, so a reader that counts from here counts longer than the writer.
type sighting struct {
	version string
	at      time.Time
}

// Handle implements [informer.Handler].
func (s *sight) Handle(context.Context, eventqueue.Event[*coordinationv1.Lease]) error {
	s.poke()
	return nil
}

func (s *sight) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// all iterates over the leases.
func (s *sight) all(yield func(*coordinationv1.Lease) bool) {
	cache := s.leases.Cache()
	shown := cache.ResourceVersion() // read before the walk, which may show more
	for name, lease := range s.known {
		if !newer(lease.ResourceVersion, shown) {
			delete(s.known, name)
		}
	}
	walked := map[string]bool{}
	for key, lease := range cache.All() {
		walked[key.Name] = true
		if known := s.known[key.Name]; known != nil && newer(known.ResourceVersion, lease.ResourceVersion) {
			lease = known
		}
		if !yield(lease) {
			return
		}
	}
	for name, lease := range s.known {
		if !walked[name] && !yield(lease) {
			return
		}
	}
}

// look reads the leases, and records changes. It also returns the time.
func (s *sight) look(o *options, group Group) (*view, time.Time) {
	version := s.leases.Cache().ResourceVersion()
	v := newView(group, s.all, o.lease)
	v.version = version
	now := o.clock.now() // read after the leases: they were written before now
	used := map[string]bool{}
	note := func(name, version string) {
		used[name] = true
		if old, ok := s.seen[name]; !ok || old.version != version {
			s.seen[name] = sighting{version, now}
		}
	}
	for _, p := range v.members {
		note(p.lease.Name, p.lease.ResourceVersion)
	}
	for _, claims := range [][]claim{v.claims, v.strange} {
		for _, c := range claims {
			if c.holder != "" && v.members[c.holder] == nil {
				note(memberLease(group.Name, c.holder), "") // no lease has such a version
			}
		}
	}
	for name := range s.seen {
		if !used[name] {
			delete(s.seen, name)
		}
	}
	return v, now
}

// since returns when an incarnation last changed its lease, or when its lease was first missing.
func (s *sight) since(group Group, incarnation string) time.Time {
	return s.seen[memberLease(group.Name, incarnation)].at
}
