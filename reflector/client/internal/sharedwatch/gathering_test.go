package sharedwatch

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// answering is a server that answers the first request when release is closed, and the second one
// with a watch of the test. All other watches bring nothing.
type answering struct {
	release chan struct{}
	second  Upstream

	mu    sync.Mutex // protects asked
	asked []metav1.ListOptions
}

func (s *answering) open(_ context.Context, opts metav1.ListOptions) (Upstream, error) {
	s.mu.Lock()
	s.asked = append(s.asked, opts)
	n := len(s.asked)
	s.mu.Unlock()
	if n == 1 {
		<-s.release
	}
	if n == 2 && s.second != nil {
		return s.second, nil
	}
	return &still{}, nil
}

// gathered returns a member for each group of shards. All of them request a watch-list before the
// server has answered the first one.
func (s *answering) gathered(t *testing.T, groups ...[]store.Shard) []*Member {
	t.Helper()
	s.release = make(chan struct{})
	h, members := NewMultiplexer(s.open), make([]*Member, len(groups))
	var entering sync.WaitGroup
	for i, group := range groups {
		entering.Go(func() {
			shards := &source.Shards{By: store.ByUID, All: group}
			opts := metav1.ListOptions{SendInitialEvents: new(true), ShardSelector: shards.Selector()}
			var err error
			members[i], err = h.Enter(t.Context(), opts, shards, source.ShardingUnknown)
			assert.NoError(t, err)
		})
		synctest.Wait()
	}
	close(s.release)
	entering.Wait()
	return members
}

// paced is a watch that brings a batch every ten seconds, and then nothing.
type paced struct{ still }

func (p *paced) Next(ctx context.Context, wake <-chan time.Time) (Batch, error) {
	<-time.After(10 * time.Second)
	return p.still.Next(ctx, wake)
}

// addedOf returns a batch of a new object.
func addedOf(uid, version string) Batch {
	batch := Batch{Frames: wire.NewBatch()}
	batch.Frames.Append(&wire.Frame{Type: string(watch.Added), Object: fmt.Appendf(nil, `{"metadata":{"name":"a","namespace":"n","uid":%q,"resourceVersion":%q}}`, uid, version)})
	return batch
}

// closingOf returns a batch of the bookmark that ends the first objects.
func closingOf(version string) Batch {
	batch := Batch{Frames: wire.NewBatch()}
	batch.Frames.Append(&wire.Frame{Type: string(watch.Bookmark), Object: fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"annotations":{%q:"true"}}}`, version, metav1.InitialEventsAnnotationKey)})
	return batch
}

// received reads what comes for a member, until nothing comes for some time. It returns the number
// of events.
func received(t *testing.T, m *Member, patience time.Duration) (events int) {
	for {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		got, err := m.Next(ctx, nil)
		cancel()
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			return events
		}
		events += got.Size()
	}
}

// The reflector gives up a watch-list that brings nothing for 30 seconds.
func TestObjectsOfOthersShowThatASharedWatchListGoesOn(t *testing.T) {
	for name, of := range map[string]int{"nobody's": 0, "another's": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := store.Shards(store.ByUID, 3)
				comes := &paced{}
				for n := range 10 {
					comes.batches = append(comes.batches, addedOf(uidIn(all[of]), fmt.Sprint(1+n)))
				}
				comes.batches = append(comes.batches, closingOf("100"))
				server := &answering{second: comes}
				members := server.gathered(t, all[:1], all[1:2], all[2:])
				began := time.Now()
				assert.Equal(t, 1, received(t, members[2], 11*time.Second), "the bookmark")
				assert.Equal(t, 121*time.Second, time.Since(began), "nothing came after the bookmark alone")
				assert.Equal(t, 1+10*of, received(t, members[1], time.Second))
				lists := slices.DeleteFunc(server.asked, func(opts metav1.ListOptions) bool { return opts.SendInitialEvents == nil })
				assert.Len(t, lists, 2)
				for _, m := range members {
					m.Close()
				}
			})
		})
	}
}

func TestVersionsWithoutAnOrderInASharedWatchList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := store.Shards(store.ByUID, 3)
		comes := &still{}
		for n := range 10 {
			comes.batches = append(comes.batches, addedOf(uidIn(all[n%3]), fmt.Sprint("v", n)))
		}
		comes.batches = append(comes.batches, closingOf("z"), addedOf(uidIn(all[2]), "zz"))
		server := &answering{second: comes}
		members := server.gathered(t, all[:1], all[1:2], all[2:])
		synctest.Wait()
		for _, m := range members[1:] {
			assert.Equal(t, 12, received(t, m, time.Second), "each member judges every event by itself")
		}
		assert.Len(t, server.asked, 2)
		for _, m := range members {
			m.Close()
		}
	})
}

func TestSelectorOfManyShardsIsNotTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := store.Shards(store.ByUID, 256)
		var groups [][]store.Shard
		for i := range 16 {
			groups = append(groups, all[16*i:16*i+16])
		}
		server := &answering{}
		for _, m := range server.gathered(t, groups...) {
			m.Close()
		}
		most := 0
		for _, opts := range server.asked {
			most = max(most, strings.Count(opts.ShardSelector, "shardRange"))
		}
		assert.Equal(t, gatherMost, most, "of two members")
	})
}

// entering enters a member of each shard at the same time, for the changes after a version, and
// returns their errors.
func entering(t *testing.T, shards int, open func(context.Context, metav1.ListOptions) (Upstream, error)) []error {
	h, errs := NewMultiplexer(open), make([]error, shards)
	var all sync.WaitGroup
	for i, shard := range store.Shards(store.ByUID, shards) {
		all.Go(func() {
			m, err := h.Enter(t.Context(), metav1.ListOptions{ResourceVersion: "10"}, &source.Shards{By: store.ByUID, All: []store.Shard{shard}}, source.ShardedByClient)
			errs[i] = err
			m.Close()
		})
	}
	all.Wait()
	return errs
}

func TestRefusalIsHeardByAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("dial: timeout")
		began := time.Now()
		for _, err := range entering(t, 8, func(context.Context, metav1.ListOptions) (Upstream, error) {
			<-time.After(30 * time.Second)
			return nil, refused
		}) {
			assert.ErrorIs(t, err, refused)
		}
		assert.Equal(t, time.Minute, time.Since(began), "the shared watch, and then one of each")
	})
}

func TestClientThatEndsTheGoroutineHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var once sync.Once
		failed := 0
		for _, err := range entering(t, 2, func(context.Context, metav1.ListOptions) (Upstream, error) {
			once.Do(runtime.Goexit)
			return &still{}, nil
		}) {
			if err != nil {
				failed++
			}
		}
		assert.Equal(t, 1, failed, "the member that opened the shared watch")
	})
}

func TestNobodyWaitsLongForTheListOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &answering{release: make(chan struct{})}
		h := NewMultiplexer(server.open)
		var first sync.WaitGroup
		for i, shard := range store.Shards(store.ByUID, 2) {
			enter := func() {
				shards := &source.Shards{By: store.ByUID, All: []store.Shard{shard}}
				m, err := h.Enter(t.Context(), metav1.ListOptions{SendInitialEvents: new(true)}, shards, source.ShardingUnknown)
				assert.NoError(t, err)
				m.Close()
			}
			if i == 0 {
				first.Go(enter)
				synctest.Wait()
				continue
			}
			began := time.Now()
			enter()
			assert.Equal(t, gatherPatience, time.Since(began))
		}
		close(server.release)
		first.Wait()
	})
}

// Bookmarks come every minute, so a silent watch may have stalled.
func TestNobodyJoinsASharedWatchThatIsSilent(t *testing.T) {
	for name, silent := range map[string]time.Duration{"silent": protocol.Silence, "for less time": protocol.Silence - 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				opened := 0
				h := NewMultiplexer(func(context.Context, metav1.ListOptions) (Upstream, error) {
					opened++
					return &still{}, nil
				})
				var members []*Member
				for _, shard := range store.Shards(store.ByUID, 2) {
					shards := &source.Shards{By: store.ByUID, All: []store.Shard{shard}}
					m, err := h.Enter(t.Context(), metav1.ListOptions{ResourceVersion: "10"}, shards, source.ShardedByClient)
					require.NoError(t, err)
					members = append(members, m)
					<-time.After(silent)
				}
				assert.Equal(t, map[string]int{"silent": 2, "for less time": 1}[name], opened)
				for _, m := range members {
					m.Close()
				}
			})
		})
	}
}
