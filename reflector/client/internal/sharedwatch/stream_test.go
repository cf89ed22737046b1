package sharedwatch

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// testStream returns a shared stream with members of two shards.
func testStream() (*sharedStream, []*Member) {
	h := NewMultiplexer(nil)
	asks := demand{by: store.ByUID}
	t := h.newStream(context.Background(), &Member{asks: asks})
	t.begun, t.position = true, 10
	var members []*Member
	for _, shard := range store.Shards(store.ByUID, 2) {
		m := &Member{multiplexer: h, asks: asks, shards: &source.Shards{By: store.ByUID, All: []store.Shard{shard}}, wake: make(chan struct{}, 1)}
		t.registerLocked(m)
		m.joined, m.floor = true, 10
		members = append(members, m)
	}
	return t, members
}

// framesOf returns a batch of an event of each shard for each version.
func framesOf(here, there string, versions ...int) *wire.Batch {
	batch := wire.NewBatch()
	for _, version := range versions {
		for _, uid := range []string{here, there} {
			object := fmt.Appendf(nil, `{"metadata":{"name":"a","namespace":"n","uid":%q,"resourceVersion":"%d"}}`, uid, version)
			batch.Append(&wire.Frame{Type: string(watch.Modified), Object: object})
		}
	}
	return batch
}

// bookmarkOf returns a batch of a bookmark.
func bookmarkOf(version string) Batch {
	batch := Batch{Frames: wire.NewBatch()}
	batch.Frames.Append(&wire.Frame{Type: string(watch.Bookmark), Object: fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q}}`, version)})
	return batch
}

// largeOf returns a batch of an event of each UID, of 40 KB.
func largeOf(version int, uids ...string) Batch {
	batch := Batch{Frames: wire.NewBatch()}
	for _, uid := range uids {
		object := fmt.Appendf(nil, `{"metadata":{"name":"a","namespace":"n","uid":%q,"resourceVersion":"%d"},"data":%q}`, uid, version, strings.Repeat("x", 40_000))
		batch.Frames.Append(&wire.Frame{Type: string(watch.Modified), Object: object})
	}
	return batch
}

func TestHandingOutCostsNoMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes pools forget")
	}
	here, there := twoUIDs()
	stream, members := testStream()
	came := Batch{Frames: framesOf(here, there, 20, 20, 20, 20, 20, 20, 20, 20)}
	const want = 8
	each := func() {
		more, err := stream.deliver(t.Context(), &came)
		require.NoError(t, err)
		require.True(t, more)
		for _, m := range members {
			frames := 0
			for len(m.inbox) > 0 {
				got, err := m.take(t.Context(), nil)
				require.NoError(t, err)
				if got.Frames != nil {
					frames += len(got.Frames.Frames)
					got.Frames.Release()
				}
			}
			if frames != want {
				t.Errorf("%d events, want %d", frames, want)
			}
		}
	}
	each()
	assert.Less(t, testing.AllocsPerRun(100, each), 1.0, "of 16 events")
}

func TestWhatWasKeptIsSkippedUpToWhereSomebodyIs(t *testing.T) {
	here, there := twoUIDs()
	stream, members := testStream()
	late := members[0]
	late.joined, late.floor = false, 0
	for _, version := range []int{11, 12, 13} {
		came := Batch{Frames: framesOf(here, there, version)}
		_, err := stream.deliver(t.Context(), &came)
		require.NoError(t, err)
	}
	late.floor = 12
	late.skipLocked()
	var versions []source.Revision
	passed := 0
	for len(late.inbox) > 0 {
		got, err := late.take(t.Context(), nil)
		require.NoError(t, err)
		for i := range got.Size() {
			n := got.notice(i, store.ByUID)
			versions = append(versions, n.version)
		}
		if passed += got.OutOfShard; got.OutOfShard > 0 {
			assert.Equal(t, source.Revision(13), got.Version)
		}
	}
	assert.Equal(t, []source.Revision{13}, versions)
	assert.Equal(t, 1, passed, "and what happened to another since")
}

func TestWhoDoesNotCatchUpBeginsAnew(t *testing.T) {
	here, there := twoUIDs()
	stream, members := testStream()
	late := members[0]
	late.joined, late.floor = false, 0
	var large []int
	for range 400 { // more than half of a buffer
		large = append(large, 0)
	}
	for version := 11; version < 60; version++ {
		for i := range large {
			large[i] = version
		}
		came := Batch{Frames: framesOf(here, there, large...)}
		_, err := stream.deliver(t.Context(), &came)
		require.NoError(t, err)
		for len(members[1].inbox) > 0 {
			_, err = members[1].take(t.Context(), nil)
			require.NoError(t, err)
		}
		require.LessOrEqual(t, len(late.inbox), inboxSize)
	}
	assert.Greater(t, late.since, source.Revision(40), "what came before that is not kept")
	assert.NotEmpty(t, late.inbox)
}

// Somebody who listed later than the last event knows what comes until then.
func TestWhoIsAheadIsToldNothingOld(t *testing.T) {
	here, there := twoUIDs()
	stream, members := testStream()
	ahead := members[0]
	ahead.floor = 20
	came := Batch{Frames: framesOf(here, there, 15, 20)}
	came.Frames.Append(&wire.Frame{Type: string(watch.Bookmark), Object: []byte(`{"metadata":{"resourceVersion":"15"}}`)})
	frames := came.Frames.Frames
	frames[2], frames[3], frames[4] = frames[4], frames[2], frames[3] // the bookmark in between
	more, err := stream.deliver(t.Context(), &came)
	require.NoError(t, err)
	require.True(t, more)
	assert.Empty(t, ahead.inbox)
	assert.Len(t, members[1].inbox, 2)
}

// A bookmark that goes back is for everybody to judge, also for who is ahead.
func TestServerThatWentBackIsShownToAll(t *testing.T) {
	stream, members := testStream()
	stream.position, members[0].floor = 20, 30
	came := bookmarkOf("15")
	more, err := stream.deliver(t.Context(), &came)
	assert.Equal(t, io.EOF, err)
	assert.False(t, more)
	for _, m := range members {
		assert.Len(t, m.inbox, 1)
	}
	assert.False(t, stream.multiplexer.aloneLocked(stream.asks), "it has an order")
}

func TestWhatHasNoOrderIsNotSharedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := twoUIDs()
		stream, members := testStream()
		stream.position = 20
		came := Batch{Frames: framesOf(here, there, 15)}
		more, err := stream.deliver(t.Context(), &came)
		assert.Equal(t, io.EOF, err)
		assert.False(t, more)
		for _, m := range members {
			assert.Len(t, m.inbox, 1, "whose it is, each finds out by itself")
		}
		assert.True(t, stream.multiplexer.aloneLocked(stream.asks))
		<-time.After(orderless)
		assert.False(t, stream.multiplexer.aloneLocked(stream.asks))
		stream.multiplexer.separateLocked(demand{labels: "another"}, unavailable)
		assert.Len(t, stream.multiplexer.alone, 1, "what is over is not kept")
	})
}

// quiet is a watch of somebody's own that brings nothing.
type quiet struct{ Upstream }

func (quiet) Close() {}

func TestTrunkThatEndedIsLeftForAnother(t *testing.T) {
	stream, members := testStream()
	refused := errors.New("refused")
	stream.multiplexer.open = func(context.Context, metav1.ListOptions) (Upstream, error) { return nil, refused }
	late := members[0]
	late.joined, late.own, late.at = false, quiet{}, 20
	stream.multiplexer.mu.Lock()
	stream.endLocked(io.EOF)
	stream.multiplexer.mu.Unlock()
	late.approach(t.Context())
	other := late.stream
	require.NotNil(t, other)
	assert.NotSame(t, stream, other)
	<-other.done
	assert.NotNil(t, late.own, "that was refused, so it goes on by itself")
	late.approach(t.Context())
	assert.Nil(t, late.stream, "and is not asked for again at once")
}

func TestWhatFollowsWhatWasSkippedIsWhole(t *testing.T) {
	here, there := twoUIDs()
	stream, members := testStream()
	late := members[0]
	late.joined, late.floor = false, 0
	var many []int
	for range 400 {
		many = append(many, 11)
	}
	came := Batch{Frames: framesOf(here, there, many...)}
	_, err := stream.deliver(t.Context(), &came)
	require.NoError(t, err)
	late.joined, late.floor = true, 11
	late.skipLocked()
	came = largeOf(12, here)
	object := string(came.Frames.Frames[0].Object)
	_, err = stream.deliver(t.Context(), &came)
	require.NoError(t, err)
	got, err := late.take(t.Context(), nil)
	for err == nil && got.Size() == 0 {
		got, err = late.take(t.Context(), nil)
	}
	require.NoError(t, err)
	assert.Equal(t, object, string(got.Frames.Frames[0].Object))
}

func TestLineOfTwoEventsStaysOne(t *testing.T) {
	here, there := twoUIDs()
	event := `{"type":"MODIFIED","object":{"metadata":{"name":"a","namespace":"n","uid":%q,"resourceVersion":"%d"}}}`
	body := fmt.Sprintf(event+"\n"+event+" "+event+"\n", here, 11, there, 12, here, 13)
	events := wire.NewWatch(strings.NewReader(body), wire.JSON, 0)
	batch, err := events.Next()
	require.NoError(t, err)
	require.Len(t, batch.Frames, 2)
	stream, members := testStream()
	_, err = stream.deliver(t.Context(), &Batch{Frames: batch})
	require.ErrorIs(t, err, io.EOF)
	for _, m := range members {
		got, err := m.take(t.Context(), nil)
		for err == nil && got.Frames == nil {
			got, err = m.take(t.Context(), nil)
		}
		require.NoError(t, err)
		frame := &got.Frames.Frames[len(got.Frames.Frames)-1]
		assert.False(t, frame.Single())
		frames, err := frame.Recut()
		require.NoError(t, err)
		assert.Len(t, frames, 2)
	}
}

func TestNobodyIsLeftBehindForWhomNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, _ := twoUIDs()
		stream, members := testStream()
		members[1].joined = false // it has a watch of its own
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for version := 11; version < 21; version++ {
				came := largeOf(version, here)
				if _, err := stream.deliver(ctx, &came); err != nil {
					return
				}
			}
		}()
		<-time.After(time.Minute)
		synctest.Wait()
		for range 10 {
			got, err := members[0].take(t.Context(), nil)
			require.NoError(t, err)
			assert.Equal(t, 1, got.Size())
		}
		cancel()
		<-ended
	})
}

func TestOthersWaitFiveSecondsInAllForWhoTakesALittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := twoUIDs()
		stream, members := testStream()
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { // takes what there is at once
			for {
				if _, err := members[1].take(ctx, nil); err != nil {
					return
				}
			}
		})
		all.Go(func() {
			for ctx.Err() == nil {
				select {
				case <-time.After(memberPatience - time.Second):
					_, _ = members[0].take(ctx, nil)
				case <-ctx.Done():
				}
			}
		})
		began := time.Now()
		for version := 11; version < 41; version++ {
			came := largeOf(version, here, there)
			_, err := stream.deliver(ctx, &came)
			require.NoError(t, err)
		}
		assert.Equal(t, memberPatience, time.Since(began))
		cancel()
		all.Wait()
		assert.True(t, members[0].evicted)
		assert.False(t, members[1].evicted)
	})
}

func TestWhoHasTakenAllIsNotBehind(t *testing.T) {
	_, members := testStream()
	m := members[0]
	m.inbox, m.delay = make([]Batch, 2), time.Second
	_, err := m.take(t.Context(), nil)
	require.NoError(t, err)
	assert.Equal(t, time.Second, m.delay)
	_, err = m.take(t.Context(), nil)
	require.NoError(t, err)
	assert.Zero(t, m.delay)
}

// still is a watch that brings some batches, and then nothing.
type still struct {
	quiet
	batches []Batch
}

func (s *still) Next(ctx context.Context, _ <-chan time.Time) (Batch, error) {
	if len(s.batches) > 0 {
		next := s.batches[0]
		s.batches = s.batches[1:]
		return next, nil
	}
	<-ctx.Done()
	return Batch{}, ctx.Err()
}

func TestWhoCatchesUpByItselfAsksForEverything(t *testing.T) {
	var asked []metav1.ListOptions
	h := NewMultiplexer(func(_ context.Context, opts metav1.ListOptions) (Upstream, error) {
		asked = append(asked, opts)
		return &still{}, nil
	})
	shards := &source.Shards{By: store.ByUID, All: store.Shards(store.ByUID, 2)[:1]}
	first, err := h.Enter(t.Context(), metav1.ListOptions{ResourceVersion: "20", ShardSelector: "half"}, shards, source.ShardedByClient)
	require.NoError(t, err)
	late, err := h.Enter(t.Context(), metav1.ListOptions{ResourceVersion: "10", ShardSelector: "half"}, shards, source.ShardedByClient)
	require.NoError(t, err)
	unknown, err := h.Enter(t.Context(), metav1.ListOptions{ResourceVersion: "10", ShardSelector: "half"}, shards, source.ShardingUnknown)
	require.NoError(t, err)
	for _, m := range []*Member{first, late, unknown} {
		m.Close()
	}
	var selectors []string
	for _, opts := range asked {
		selectors = append(selectors, opts.ShardSelector)
	}
	assert.Equal(t, []string{"", "", "half"}, selectors, "one server of several may select, and others not")
}

func TestWhatHasNoOrderIsNotJoined(t *testing.T) {
	here, there := twoUIDs()
	for name, versions := range map[string][]int{"in order": {21, 22}, "backwards": {22, 21}} {
		t.Run(name, func(t *testing.T) {
			stream, members := testStream()
			stream.multiplexer.streams[stream.asks], stream.opened, stream.heard = stream, time.Now(), time.Now()
			stream.until = time.Now().Add(time.Hour)
			late := members[0]
			stream.multiplexer.leave(late)
			late.begun, late.own = true, &still{batches: []Batch{{Frames: framesOf(here, there, versions...)}}}
			_, err := late.Next(t.Context(), nil)
			require.NoError(t, err)
			assert.Equal(t, name == "in order", late.joined)
		})
	}
}

// The end of a watch that was old looks like the failure of one to whom it is new.
func TestEndIsPutOffForWhoCameLate(t *testing.T) {
	for name, age := range map[string]time.Duration{"old": time.Hour, "new": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stream, members := testStream()
				stream.opened = time.Now().Add(-age)
				late := members[0]
				late.began = time.Now()
				stream.multiplexer.mu.Lock()
				stream.endLocked(io.EOF)
				stream.multiplexer.mu.Unlock()
				_, err := late.take(t.Context(), nil)
				assert.Equal(t, io.EOF, err)
				assert.Equal(t, map[string]time.Duration{"old": protocol.ShortWatchTime, "new": 0}[name], time.Since(late.began))
			})
		})
	}
}

// twoUIDs returns a UID of the first half of the shards, and one of the other.
func twoUIDs() (here, there string) {
	halves := store.Shards(store.ByUID, 2)
	return uidIn(halves[0]), uidIn(halves[1])
}

// uidIn returns a UID in a shard.
func uidIn(shard store.Shard) string {
	for i := 'a'; ; i++ {
		if uid := strings.Repeat(string(i), 36); shard.Contains(store.ShardHash(uid)) {
			return uid
		}
	}
}

func TestWhoJoinsWaitsFiveSecondsForWhoIsBehindAlready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, _ := twoUIDs()
		stream, members := testStream()
		stream.opened, stream.heard = time.Now(), time.Now()
		late := members[1]
		late.joined, late.own, late.at = false, quiet{}, 10
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for version := 11; !members[0].evicted; version++ {
				came := largeOf(version, here)
				if _, err := stream.deliver(t.Context(), &came); err != nil {
					return
				}
				stream.multiplexer.mu.Lock()
				late.at = max(late.at, stream.position) // its own watch brought it as well
				stream.multiplexer.mu.Unlock()
			}
		}()
		<-time.After(time.Second)
		synctest.Wait() // nobody waits for the other yet
		began := time.Now()
		late.approach(t.Context())
		require.True(t, late.joined)
		<-ended
		assert.Equal(t, memberPatience, time.Since(began))
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
