package feed

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// selection is a server whose watches, one for each selector, deliver its changes at their own
// pace. The selectors are the names of labels.
type selection struct {
	t       *testing.T
	random  *rand.Rand
	of      *Selected[*corev1.Pod]
	changes []podChange
	objects map[string]*corev1.Pod
	ends    map[string]int // the version up to which a state was current, by resource version
	watches map[string]*watching
	epoch   int // how often the server was restored

	rejecting, restores bool
	bad                 map[string]bool // the names that the merged cache rejects

	// Of the follower of the merged cache.
	last map[string]*corev1.Pod
	high map[string]int // the highest version of each object
	// removed has the objects of removed selectors, which slower watches may add again.
	removed map[string]bool
	left    map[string]int // the highest version at which a watch saw the object leave
}

// watching is the watch of one selector.
type watching struct {
	into store.Store[*corev1.Pod]
	sent int  // the number of delivered changes
	lost bool // it has to list, because the server was restored, or because it has no list yet
	bad  bool // it cannot decode the next changes
}

type podChange struct {
	name     string
	old, new *corev1.Pod
}

// at returns the version of the server after some changes. Versions of epochs differ.
func (s *selection) at(changes int) int { return (changes+1)*10 + s.epoch }

func (s *selection) step() {
	name := []string{"a", "b", "c"}[s.random.IntN(3)]
	w := s.watches[name]
	switch n := s.random.IntN(40); {
	case n == 0 && s.restores && s.epoch < 9:
		s.restore()
	case n == 1 && s.rejecting:
		pod := strconv.Itoa(s.random.IntN(2))
		s.bad[pod] = !s.bad[pod]
	case n == 2 && s.rejecting && w != nil:
		w.bad = !w.bad
	case n < 5 && w != nil:
		for key := range w.into.(store.Reader[*corev1.Pod]).All() {
			s.removed[key.Name] = true
		}
		require.NoError(s.t, s.of.remove(Place{Selector: name}))
		delete(s.watches, name)
	case n < 8 && w == nil:
		s.add(name)
	case n < 22:
		s.change(strconv.Itoa(s.random.IntN(2)))
	case w == nil:
	case n < 24 || w.lost:
		s.list(name, w)
	case n < 26:
		s.bookmark(w)
	default:
		s.send(name, w, 1+s.random.IntN(3))
	}
}

func (s *selection) add(name string) {
	into, err := s.of.part(Place{Selector: name})
	require.NoError(s.t, err)
	s.watches[name] = &watching{into: into, lost: true}
}

// restore loses the last changes.
func (s *selection) restore() {
	s.epoch++
	for range min(s.random.IntN(10), len(s.changes)) {
		last := s.changes[len(s.changes)-1]
		s.changes = s.changes[:len(s.changes)-1]
		s.objects[last.name] = last.old
	}
	for _, w := range s.watches {
		w.lost = true
	}
}

func (s *selection) change(name string) {
	old := s.objects[name]
	c := podChange{name: name, old: old}
	version := strconv.Itoa(s.at(len(s.changes) + 1))
	if old == nil || s.random.IntN(4) > 0 {
		c.new = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID("u" + version), ResourceVersion: version, Labels: map[string]string{},
		}}
		for _, label := range []string{"a", "b", "c"} {
			if s.random.IntN(2) == 0 {
				c.new.Labels[label] = ""
			}
		}
		if old != nil {
			c.new.UID = old.UID
		}
	}
	if old != nil {
		s.ends[old.ResourceVersion] = s.at(len(s.changes) + 1)
	}
	s.changes = append(s.changes, c)
	s.objects[name] = c.new
}

func selects(label string, o *corev1.Pod) bool {
	return o != nil && labels.Set(o.Labels).Has(label)
}

// send delivers the next changes to a watch, in one batch.
func (s *selection) send(label string, w *watching, n int) {
	b := w.into.(store.BatchStore[*corev1.Pod]).BeginBatch(w.into, false)
	some := false
	for range min(n, len(s.changes)-w.sent) {
		w.sent++
		c, version := s.changes[w.sent-1], strconv.Itoa(s.at(w.sent))
		write := store.Write[*corev1.Pod]{Type: store.Modification, Object: c.new}
		switch {
		case selects(label, c.new) && w.bad:
			write = store.Write[*corev1.Pod]{Key: podKey(c.name), Version: store.VersionOf(c.new), Err: errors.New("bad")}
		case selects(label, c.new):
		case selects(label, c.old):
			write = store.Write[*corev1.Pod]{Type: store.Deletion, Object: c.old.DeepCopy(), FinalStateKnown: true}
			write.Object.ResourceVersion = version
			s.leave(c.name, s.at(w.sent))
		default:
			continue
		}
		some = true
		require.NoError(s.t, b.Write(write))
	}
	if some {
		s.written(b.Commit(""))
	}
}

// leave notes that a watch saw an object leave. What the cache shows first may be older. A watch
// does not see that an object left if it rejected the object.
func (s *selection) leave(name string, version int) {
	if isClosed(s.of.filled) && !s.rejecting {
		s.left[name] = max(s.left[name], version)
	}
}

func podKey(name string) store.Key { return store.Key{Namespace: "ns", Name: name} }

// written checks the error of a layer. Layers may reject objects.
func (s *selection) written(err error) {
	if _, ok := errors.AsType[*store.RejectedError](err); !ok {
		require.NoError(s.t, err)
	}
}

func (s *selection) list(label string, w *watching) {
	var all []*corev1.Pod
	for _, name := range []string{"0", "1"} {
		if o := s.objects[name]; selects(label, o) {
			all = append(all, o)
		} else if _, had := w.into.(store.Reader[*corev1.Pod]).Get(podKey(name)); had {
			s.leave(name, s.at(len(s.changes)))
		}
	}
	w.sent, w.lost, w.bad = len(s.changes), false, false
	require.NoError(s.t, w.into.Replace(all, strconv.Itoa(s.at(w.sent))))
}

func (s *selection) bookmark(w *watching) {
	if w.sent == len(s.changes) && !w.lost {
		require.NoError(s.t, w.into.Bookmark(strconv.Itoa(s.at(w.sent))))
	}
}

func (*selection) Start(*store.Snapshot[*corev1.Pod]) {}

// Commit checks the events of the merged cache.
func (s *selection) Commit(commit *store.Commit[*corev1.Pod]) {
	for _, c := range commit.Changes {
		name, last := c.Key.Name, s.last[c.Key.Name]
		require.Equal(s.t, c.Type == store.Addition, last == nil, "%v of %s", c.Type, name)
		if c.Type == store.Deletion {
			delete(s.last, name)
			if s.removed[name] {
				delete(s.high, name)
			}
			continue
		}
		if version, err := strconv.Atoi(c.Object.ResourceVersion); s.epoch == 0 {
			require.NoError(s.t, err)
			require.GreaterOrEqual(s.t, version, s.high[name], "%s went back", name)
			s.high[name] = version
			end, ok := s.ends[c.Object.ResourceVersion]
			if !ok {
				end = math.MaxInt
			}
			require.Greater(s.t, end, s.left[name], "%s had left since", name)
		}
		s.last[name] = c.Object
	}
}

// settle lets all watches catch up, and compares the merged cache with the server.
func (s *selection) settle() {
	clear(s.bad)
	for label, w := range s.watches {
		w.bad = false
		if w.lost || len(w.into.(*store.Cache[*corev1.Pod]).Rejected()) > 0 {
			s.list(label, w)
		}
		s.send(label, w, len(s.changes))
	}
	for range 2 { // an object may wait until a watch has reached a version, which the server may have lost
		s.changes = append(s.changes, make([]podChange, 100)...)
		for _, w := range s.watches {
			w.sent = len(s.changes)
			s.bookmark(w)
		}
	}
	want, got := map[string]string{}, map[string]string{}
	for label := range s.watches {
		for name, o := range s.objects {
			if selects(label, o) {
				want[name] = o.ResourceVersion
			}
		}
	}
	for key, o := range s.of.shown.All() {
		got[key.Name] = o.ResourceVersion
		assert.Equal(s.t, s.last[key.Name], o)
	}
	require.Equal(s.t, want, got)
	require.Len(s.t, s.last, len(want))
	assert.Empty(s.t, s.of.late)
	assert.Empty(s.t, s.of.failed)
	if len(s.watches) > 0 {
		assert.Empty(s.t, s.of.floors)
	}
	if len(s.watches) > 0 {
		assert.Equal(s.t, strconv.Itoa(s.at(len(s.changes))), s.of.shown.ResourceVersion())
	}
}

// However the watches interleave, and whenever selectors are added and removed, the merged cache
// ends with the objects that at least one selector selects. The events of an object are
// well-formed, its states never go back, and an object that left does not come back in a state of
// before.
func TestSelectorsAgainstAModel(t *testing.T) {
	for seed := range uint64(600) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			cache := store.New(store.ObjectKey[*corev1.Pod])
			of := NewSelected(Target[*corev1.Pod]{Cache: cache, Into: cache, Report: func(context.Context, error) {}}, nil, nil)
			s := &selection{
				t: t, random: rand.New(rand.NewPCG(seed, 1)), of: of, objects: map[string]*corev1.Pod{}, ends: map[string]int{},
				watches: map[string]*watching{}, rejecting: seed&1 > 0, restores: seed&2 > 0, bad: map[string]bool{},
				last: map[string]*corev1.Pod{}, high: map[string]int{}, left: map[string]int{}, removed: map[string]bool{},
			}
			_, err := store.AddIndex(&cache.View, "bad", func(o *corev1.Pod) []string {
				if s.bad[o.Name] {
					panic("rejected")
				}
				return nil
			})
			require.NoError(t, err)
			cache.Follow(s)
			for _, name := range []string{"a", "b"} {
				s.add(name)
			}
			for range 5 {
				for range 60 {
					s.step()
				}
				if seed&4 > 0 {
					s.settle()
				}
			}
			s.settle()
		})
	}
}
