package store

import (
	"fmt"
	"maps"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"pgregory.net/rapid"
)

// These tests hold store-S8.

// halves returns a cache with two shards, and a function that makes a UID of the first or the
// second one.
func halves(t require.TestingT) (c *Cache[*corev1.Pod], low, high *Partition[*corev1.Pod], uid func(shard, n int) string) {
	c = newPods()
	shards := Shards(ByUID, 2)
	var parts [2]*Partition[*corev1.Pod]
	for i, shard := range shards {
		var err error
		parts[i], err = c.Partition(Scope{Shard: shard})
		require.NoError(t, err)
	}
	return c, parts[0], parts[1], func(shard, n int) string { return uidIn(shards[shard], n) }
}

func TestReplaceOfAShardTouchesNoOther(t *testing.T) {
	c, low, high, uid := halves(t)
	require.NoError(t, low.Replace([]*corev1.Pod{pod("n", "a", uid(0, 1), "1"), pod("n", "b", uid(0, 2), "1")}, "1"))
	require.NoError(t, high.Replace([]*corev1.Pod{pod("n", "c", uid(1, 3), "1")}, "1"))
	require.NoError(t, low.Replace([]*corev1.Pod{pod("n", "b", uid(0, 2), "1")}, "2"))
	assert.Equal(t, []string{"n/b", "n/c"}, names(c.All()))
	require.NoError(t, high.Replace(nil, "3"))
	assert.Equal(t, []string{"n/b"}, names(c.All()))
	assert.Equal(t, "2", low.ResourceVersion())
	checkCache(t, c)
}

func TestObjectOfAnotherShardIsRejectedAndHoldsUpNothing(t *testing.T) {
	c, low, _, uid := halves(t)
	require.ErrorIs(t, low.Replace([]*corev1.Pod{pod("n", "a", uid(1, 1), "1")}, "1"), ErrOutOfScope)
	require.ErrorIs(t, low.Add(pod("n", "a", uid(1, 1), "2")), ErrOutOfScope)
	require.ErrorIs(t, low.Delete(pod("n", "a", uid(1, 1), "3")), ErrOutOfScope)
	require.NoError(t, low.Bookmark("4"))
	assert.Equal(t, "4", low.ResourceVersion())
	assert.Zero(t, c.Len())
}

// The name was given to an object of another shard. A list that has it, because the server does not
// select, says that this shard's own object is gone.
func TestListWithAnObjectOfAnotherShardDeletesTheOwnOne(t *testing.T) {
	c, low, _, uid := halves(t)
	require.NoError(t, low.Replace([]*corev1.Pod{pod("n", "a", uid(0, 1), "1"), pod("n", "b", uid(0, 2), "1")}, "1"))
	require.ErrorIs(t, low.Replace([]*corev1.Pod{pod("n", "a", uid(1, 3), "2"), pod("n", "b", uid(0, 2), "1")}, "2"), ErrOutOfScope)
	assert.Equal(t, []string{"n/b"}, names(c.All()))
	assert.Equal(t, "2", low.ResourceVersion())
}

func TestShardOfNamespacesNeedsNoUID(t *testing.T) {
	c := newPods()
	shards := Shards(ByNamespace, 2)
	var namespaces [2]string
	for i, shard := range shards {
		namespaces[i] = uidIn(shard, i)
		partition(t, c, Scope{Shard: shard})
	}
	for i, p := range c.Partitions() {
		own, other := namespaces[i], namespaces[1-i]
		require.NoError(t, p.Replace([]*corev1.Pod{pod(own, "a", "", "1")}, "1"))
		require.ErrorIs(t, p.Add(pod(other, "b", "", "2")), ErrOutOfScope)
		require.ErrorIs(t, p.Add(pod(other, "b", "", "")), ErrOutOfScope)
		require.ErrorIs(t, p.Replace([]*corev1.Pod{pod(own, "a", "", "1"), pod(other, "b", "", "2")}, "3"), ErrOutOfScope)
		require.ErrorIs(t, p.DeleteKey(Key{Namespace: other, Name: "a"}), ErrOutOfScope)
		assert.Equal(t, "3", p.ResourceVersion())
		assert.Equal(t, []string{own + "/a"}, names(c.All()))

		require.ErrorIs(t, p.Add(nil), ErrBadKey)
		require.NoError(t, p.Bookmark("4"))
		assert.Equal(t, "3", p.ResourceVersion(), "an object without a namespace may belong to the shard")
		require.NoError(t, p.DeleteKey(Key{Namespace: own, Name: "a"}))
		assert.Zero(t, c.Len())
	}
	checkCache(t, c)
}

func TestShardsOverlapOtherShardsAndTheWholePlace(t *testing.T) {
	c, _, _, _ := halves(t)
	for _, scope := range []Scope{{}, {Namespace: "n"}, {Shard: Shard{From: 5, To: 9}}, {Shard: Shards(ByNamespace, 9)[3]}} {
		_, err := c.Partition(scope)
		require.ErrorIs(t, err, errOverlap, "%v", scope)
	}
	partition(t, c, Scope{Cluster: "west"})
	require.ErrorIs(t, c.Add(pod("n", "a", "u", "1")), errOverlap, "what is in shards is written through them")
}

func TestRecreationInAnotherShard(t *testing.T) {
	setUp := func(t *testing.T) (*Cache[*corev1.Pod], *Partition[*corev1.Pod], *Partition[*corev1.Pod], *recorder, *corev1.Pod, *corev1.Pod) {
		c, low, high, uid := halves(t)
		old, anew := pod("n", "a", uid(0, 1), "5"), pod("n", "a", uid(1, 2), "9")
		require.NoError(t, low.Replace([]*corev1.Pod{pod("n", "a", uid(0, 1), "1")}, "1"))
		require.NoError(t, high.Replace(nil, "1"))
		rec := follow(c)
		require.NoError(t, high.Add(anew))
		return c, low, high, rec, old, anew
	}
	told := []string{"Deletion n/a 1", "Addition n/a 9"}
	for name, late := range map[string]func(*Partition[*corev1.Pod], *corev1.Pod) error{
		"a late deletion": func(p *Partition[*corev1.Pod], old *corev1.Pod) error { return p.Delete(old) },
		"a late deletion by key": func(p *Partition[*corev1.Pod], _ *corev1.Pod) error {
			return p.DeleteKey(Key{Namespace: "n", Name: "a"})
		},
		"a late change": func(p *Partition[*corev1.Pod], old *corev1.Pod) error { return p.Update(old) },
		"a late list":   func(p *Partition[*corev1.Pod], old *corev1.Pod) error { return p.Replace([]*corev1.Pod{old}, "6") },
		"a late unchanged": func(p *Partition[*corev1.Pod], _ *corev1.Pod) error {
			return (list[*corev1.Pod]{Unchanged: []Key{{Namespace: "n", Name: "a"}}, ResourceVersion: "6"}).to(p)
		},
		"a list without it": func(p *Partition[*corev1.Pod], _ *corev1.Pod) error { return p.Replace(nil, "6") },
	} {
		t.Run(name+" of the old one", func(t *testing.T) {
			c, low, _, rec, old, anew := setUp(t)
			require.NoError(t, late(low, old))
			held, _ := c.Get(Key{Namespace: "n", Name: "a"})
			assert.Same(t, anew, held)
			assert.Equal(t, told, rec.changes())
			checkCache(t, c)
		})
		t.Run(name+" of the old one after the end of the new one", func(t *testing.T) {
			c, low, high, rec, old, anew := setUp(t)
			require.NoError(t, high.Delete(anew))
			require.NoError(t, late(low, old))
			assert.Zero(t, c.Len(), "nothing comes back")
			assert.Equal(t, append(told, "Deletion n/a 9"), rec.changes())
		})
	}
	t.Run("what comes later counts", func(t *testing.T) {
		c, low, _, _, old, _ := setUp(t)
		again := pod("n", "a", string(old.UID), "12")
		require.NoError(t, low.Add(again))
		held, _ := c.Get(Key{Namespace: "n", Name: "a"})
		assert.Same(t, again, held)
		assert.Empty(t, low.takenOver, "the writer has caught up")
	})
	t.Run("of one that was not known", func(t *testing.T) {
		c, low, high, uid := halves(t)
		require.NoError(t, low.Replace(nil, "1"))
		require.NoError(t, high.Replace([]*corev1.Pod{pod("n", "a", uid(1, 2), "9")}, "9"))
		rec := follow(c)
		require.NoError(t, low.Add(pod("n", "a", uid(0, 1), "5")))
		require.NoError(t, low.Delete(pod("n", "a", uid(0, 1), "6")))
		assert.Equal(t, []string{"n/a"}, names(c.All()))
		assert.Empty(t, rec.all)
		assert.Equal(t, "6", low.ResourceVersion(), "the writer goes on")
	})
	t.Run("in one batch", func(t *testing.T) {
		c, low, _, _, old, _ := setUp(t)
		var batch writes[*corev1.Pod]
		batch.Delete(old)
		batch.Add(pod("n", "a", string(old.UID), "12"))
		batch.Delete(pod("n", "a", string(old.UID), "13"))
		require.NoError(t, batch.to(low))
		assert.Zero(t, c.Len(), "the last deletion is of the batch's own")
	})
}

func TestDropOfAShardSaysThatItsObjectsLeft(t *testing.T) {
	c, low, high, uid := halves(t)
	require.NoError(t, low.Replace([]*corev1.Pod{pod("n", "a", uid(0, 1), "1")}, "1"))
	require.NoError(t, high.Replace([]*corev1.Pod{pod("n", "b", uid(1, 2), "1"), pod("n", "c", uid(1, 3), "1")}, "1"))
	require.NoError(t, high.Delete(pod("n", "c", uid(1, 3), "2")))
	rec := follow(c)
	changes := dropped(t, c, high.Scope())
	require.Len(t, changes, 1)
	assert.Equal(t, Key{Namespace: "n", Name: "b"}, changes[0].Key)
	assert.True(t, changes[0].OutOfScope)
	assert.False(t, changes[0].FinalStateKnown)
	require.NoError(t, low.Delete(pod("n", "a", uid(0, 1), "3")))
	require.Len(t, rec.all, 2)
	assert.True(t, rec.all[0].OutOfScope, "followers are told as well")
	assert.False(t, rec.all[1].OutOfScope, "this one is gone from the cluster")
	assert.Zero(t, c.Len())
}

// TestWritersOfShardsMayBeBehindEachOther lets the writers of shards follow one history of
// the server's, each at its own pace and with lists in between.
func TestWritersOfShardsMayBeBehindEachOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newPods()
		shards := Shards(ByUID, rapid.IntRange(2, 4).Draw(t, "shards"))
		history := serverHistory(t)
		rec := follow(c)
		writers := make([]*lagging, len(shards))
		for i, shard := range shards {
			p, err := c.Partition(Scope{Shard: shard})
			require.NoError(t, err)
			writers[i] = &lagging{p: p, shard: shard, history: history}
		}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			writers[rapid.IntRange(0, len(writers)-1).Draw(t, "writer")].step(t, rapid.Bool().Draw(t, "list"))
		}
		for _, w := range writers {
			for w.at < len(history) {
				w.step(t, w.p.ResourceVersion() == "")
			}
		}
		got := map[string]types.UID{}
		for key, p := range c.All() {
			got[key.Name] = p.UID
		}
		assert.Equal(t, stateAt(history, len(history)), got)
		assert.Empty(t, rec.illegal)
		ended := map[types.UID]bool{}
		for _, change := range rec.all {
			require.False(t, ended[change.Version.UID], "%s came back", change.Version.UID)
			if change.Type == Deletion {
				ended[change.Version.UID] = true
			}
		}
		checkCache(t, c)
	})
}

// serverEvent is what happened at a resource version: its place in the history, counted from 1.
type serverEvent struct {
	name string
	uid  string
	kind ChangeType
}

func serverHistory(t *rapid.T) (history []serverEvent) {
	held := map[string]string{}
	for i := range rapid.IntRange(0, 40).Draw(t, "history") {
		name := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name")
		uid, exists := held[name]
		switch {
		case !exists:
			held[name] = fmt.Sprint("uid-", i)
			history = append(history, serverEvent{name, held[name], Addition})
		case rapid.Bool().Draw(t, "delete"):
			delete(held, name)
			history = append(history, serverEvent{name, uid, Deletion})
		default:
			history = append(history, serverEvent{name, uid, Modification})
		}
	}
	return history
}

func stateAt(history []serverEvent, n int) map[string]types.UID {
	state := map[string]types.UID{}
	for _, e := range history[:n] {
		state[e.name] = types.UID(e.uid)
		if e.kind == Deletion {
			delete(state, e.name)
		}
	}
	return state
}

// lagging is the writer of a shard, that has come as far as a place in the history.
type lagging struct {
	p       *Partition[*corev1.Pod]
	shard   Shard
	history []serverEvent
	at      int
}

func (w *lagging) step(t *rapid.T, list bool) {
	if list || w.p.ResourceVersion() == "" {
		w.at = min(len(w.history), w.at+rapid.IntRange(0, 5).Draw(t, "ahead"))
		last := map[string]int{}
		for i, e := range w.history[:w.at] {
			last[e.name] = i + 1
		}
		var listed []*corev1.Pod
		state := stateAt(w.history, w.at)
		for name := range maps.Keys(state) {
			if uid := string(state[name]); w.shard.Contains(ShardHash(uid)) {
				listed = append(listed, pod("", name, uid, strconv.Itoa(last[name])))
			}
		}
		require.NoError(t, w.p.Replace(listed, strconv.Itoa(max(w.at, 1))))
		return
	}
	if w.at == len(w.history) {
		return
	}
	e := w.history[w.at]
	w.at++
	if !w.shard.Contains(ShardHash(e.uid)) {
		return
	}
	object := pod("", e.name, e.uid, strconv.Itoa(w.at))
	write := map[ChangeType]func(*corev1.Pod) error{Addition: w.p.Add, Modification: w.p.Update, Deletion: w.p.Delete}[e.kind]
	require.NoError(t, write(object))
}

func TestObjectInTheShardOfNoPartitionIsWritable(t *testing.T) {
	for _, by := range []ShardKey{ByUID, ByNamespace} {
		t.Run(by.String(), func(t *testing.T) {
			shards := Shards(by, 2)
			in, out := uidIn(shards[0], 1), uidIn(shards[1], 2)
			object := func(id, version string) *corev1.Pod {
				if by == ByNamespace {
					return pod(id, "a", id, version)
				}
				return pod("n", id, id, version)
			}
			c := newPods()
			p := partition(t, c, Scope{Shard: shards[0]})
			require.NoError(t, p.Replace([]*corev1.Pod{object(in, "1")}, "1"))
			require.ErrorIs(t, c.Add(object(in, "2")), errOverlap)
			require.NoError(t, c.Add(object(out, "2")))
			assert.Equal(t, 2, c.Len())
			require.NoError(t, c.Update(object(out, "3")))
			require.NoError(t, c.Delete(object(out, "4")))
			require.ErrorIs(t, c.Delete(object(in, "4")), errOverlap)
			require.NoError(t, c.Add(object(out, "5")))
			key, err := c.KeyOf(object(out, ""))
			require.NoError(t, err)
			require.NoError(t, c.DeleteKey(key))
			key, err = c.KeyOf(object(in, ""))
			require.NoError(t, err)
			require.ErrorIs(t, c.DeleteKey(key), errOverlap)
			assert.Equal(t, 1, c.Len())
			checkCache(t, c)
		})
	}
}

// An object outside of the shard must not take out the partition's object of the same name.
func TestObjectOutsideOfAShardTakesNoKeyOfThePartition(t *testing.T) {
	shards := Shards(ByUID, 2)
	in, out := uidIn(shards[0], 1), uidIn(shards[1], 2)
	c := newPods()
	p := partition(t, c, Scope{Shard: shards[0]})
	require.NoError(t, p.Replace([]*corev1.Pod{pod("n", "a", in, "5")}, "5"))
	require.ErrorIs(t, c.Add(pod("n", "a", out, "6")), errOverlap)
	require.ErrorIs(t, c.Delete(pod("n", "a", out, "6")), errOverlap)
	require.ErrorIs(t, c.Update(pod("n", "b", "", "6")), errOverlap, "nothing says that it is outside")
	assert.Equal(t, []string{"n/a"}, names(c.All()))
}

func TestShardIsNotRewoundAfterAListWithoutANumber(t *testing.T) {
	c, low, high, uid := halves(t)
	require.NoError(t, low.Replace([]*corev1.Pod{pod("n", "a", uid(0, 1), "1")}, "first"))
	require.NoError(t, high.Replace(nil, "1"))
	require.NoError(t, high.Add(pod("n", "a", uid(1, 2), "8")))
	require.NoError(t, high.Delete(pod("n", "a", uid(1, 2), "9")))
	require.Error(t, low.Add(nameless("2")), "the version stays")
	require.NoError(t, low.Add(pod("n", "b", uid(0, 3), "3")))
	require.NoError(t, low.Update(pod("n", "a", uid(0, 1), "4")))
	assert.Equal(t, []string{"n/b"}, names(c.All()), "its end is still to come")
	checkCache(t, c)
}

func TestShardForgetsKeysTakenWithoutComparableVersions(t *testing.T) {
	for _, version := range []string{"", "none"} {
		t.Run(fmt.Sprintf("%q", version), func(t *testing.T) {
			_, low, high, uid := halves(t)
			require.NoError(t, low.Replace([]*corev1.Pod{pod("n", "a", uid(0, 1), version)}, version))
			require.NoError(t, high.Replace([]*corev1.Pod{pod("n", "a", uid(1, 2), version)}, version))
			require.NoError(t, low.Bookmark(version+"1"))
			assert.Zero(t, takenOverIn(low))
		})
	}
}

func TestShardsHashAsAPIServersDo(t *testing.T) {
	for _, value := range []string{"", "a", "default", string(uuid.NewUUID()), "ü\x00\xff"} {
		want, err := strconv.ParseUint(sharding.HashField(value), 16, 64)
		require.NoError(t, err)
		assert.Equal(t, want, ShardHash(value), "%q", value)
	}
}

func TestShardsHaveEverythingBetweenThemOnce(t *testing.T) {
	for _, n := range []int{-1, 0, 1, 2, 3, 7, 16, 1000} {
		shards := Shards(ByUID, n)
		require.Len(t, shards, max(n, 1))
		assert.Zero(t, shards[0].From)
		assert.Zero(t, shards[len(shards)-1].To)
		for i, shard := range shards {
			if i > 0 {
				assert.Equal(t, shards[i-1].To, shard.From)
				assert.False(t, shards[i-1].overlaps(shard))
			}
			assert.InDelta(t, 1/float64(len(shards)), (float64(shard.last())-float64(shard.From))/(1<<64), 1e-9)
		}
		for range 100 {
			uid, in := string(uuid.NewUUID()), 0
			for _, shard := range shards {
				if shard.Contains(ShardHash(uid)) {
					in++
				}
			}
			require.Equal(t, 1, in, uid)
		}
	}
	assert.True(t, Shards(ByNamespace, 1)[0].IsEverything())
}

func TestShardsThatCoverAndOverlap(t *testing.T) {
	shard := func(by ShardKey, from, to uint64) Shard { return Shard{by, from, to} }
	for _, tt := range []struct {
		a, b                       Shard
		aCovers, bCovers, overlaps bool
	}{
		{Shard{}, shard(ByUID, 5, 9), true, false, true},
		{Shard{}, shard(ByNamespace, 5, 9), true, false, true},
		{Shard{}, shard(ByNamespace, 0, 0), true, true, true},
		{shard(ByUID, 5, 9), shard(ByUID, 5, 9), true, true, true},
		{shard(ByUID, 5, 9), shard(ByUID, 6, 9), true, false, true},
		{shard(ByUID, 5, 9), shard(ByUID, 8, 0), false, false, true},
		{shard(ByUID, 5, 0), shard(ByUID, 8, 0), true, false, true},
		{shard(ByUID, 5, 9), shard(ByUID, 9, 0), false, false, false},
		{shard(ByUID, 5, 9), shard(ByUID, 0, 5), false, false, false},
		{shard(ByUID, 5, 9), shard(ByNamespace, 9, 0), false, false, true},
	} {
		name := fmt.Sprintf("%v and %v", tt.a, tt.b)
		assert.Equal(t, tt.aCovers, tt.a.covers(tt.b), name)
		assert.Equal(t, tt.bCovers, tt.b.covers(tt.a), name)
		assert.Equal(t, tt.overlaps, tt.a.overlaps(tt.b), name)
		assert.Equal(t, tt.overlaps, tt.b.overlaps(tt.a), name)
	}
}

func TestScopesSayTheirShard(t *testing.T) {
	half := Shards(ByUID, 2)[1]
	assert.Equal(t, "all namespaces, UIDs 8000000000000000-ffffffffffffffff", Scope{Shard: half}.String())
	assert.Equal(t, "namespace west|n, UIDs 8000000000000000-ffffffffffffffff", Scope{"west", "n", half}.String())
	assert.Equal(t, "namespace n", Scope{Namespace: "n"}.String())
	assert.Equal(t, "ShardKey(7)", ShardKey(7).String())
}
