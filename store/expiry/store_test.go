package expiry

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/storetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type object = storetest.Object

func named(name, version string) *object { return storetest.New("ns", name, "uid-"+name, version) }

func keyOf(name string) store.Key { return store.Key{Namespace: "ns", Name: name} }

func names(s *Store[*object]) (all []string) {
	for key := range s.All() {
		all = append(all, key.Name)
	}
	return all
}

func TestContractOfAStoreWhoseObjectsLiveForEver(t *testing.T) {
	for name, life := range map[string]func(*object) time.Duration{"without a time": nil, "for long": For[*object](time.Hour)} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func() (store.Store[*object], store.Reader[*object]) {
				s := New(store.ObjectKey[*object], life)
				t.Cleanup(s.Close)
				return s, s
			})
		})
	}
}

// client-go's TestTTLPolicy: exactly at the end an object is alive.
func TestObjectIsGoneWhenItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(store.ObjectKey[*object], For[*object](time.Minute))
		require.NoError(t, s.Add(named("a", "1")))
		<-time.After(time.Minute)
		_, ok := s.Get(keyOf("a"))
		assert.True(t, ok)
		assert.Equal(t, 1, s.Len())
		assert.True(t, s.Holds(keyOf("a"), store.Version{UID: "uid-a", ResourceVersion: "1"}))
		<-time.After(1)
		_, ok = s.Get(keyOf("a"))
		assert.False(t, ok)
		assert.Zero(t, s.Len())
		assert.Empty(t, names(s))
		assert.False(t, s.Holds(keyOf("a"), store.Version{UID: "uid-a", ResourceVersion: "1"}))
		synctest.Wait()
		assert.Zero(t, s.cache.Len(), "and its memory is released")
	})
}

// Nobody takes anything out: reads alone have to leave out what is over.
func TestNoReadReturnsWhatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(store.ObjectKey[*object], For[*object](time.Minute))
		s.Close()
		require.NoError(t, s.Add(named("a", "1")))
		require.NoError(t, s.Add(named("b", "2")))
		<-time.After(time.Second)
		require.NoError(t, s.Add(named("c", "3")))
		seen := 0
		for range s.All() {
			if seen++; seen == 1 {
				<-time.After(time.Minute) // b and c were alive when the walk began
				require.NoError(t, s.Update(named("b", "9")))
			}
		}
		assert.Equal(t, 2, seen, "c is exactly at its end; the b that the walk has is over, though there is a new one")
		assert.Equal(t, []string{"b", "c"}, names(s))
		assert.Equal(t, 2, s.Len())
		assert.Equal(t, 3, s.cache.Len())
		_, ok := s.Get(keyOf("a"))
		assert.False(t, ok)
		for key := range s.Namespace("ns") {
			assert.NotEqual(t, "a", key.Name)
		}
	})
}

// client-go's TestReAddExpiredItem, and what else begins the time anew.
func TestTimeBeginsAnew(t *testing.T) {
	for name, write := range map[string]func(*Store[*object]) error{
		"at an update":                    func(s *Store[*object]) error { return s.Update(named("a", "2")) },
		"at an addition":                  func(s *Store[*object]) error { return s.Add(named("a", "1")) },
		"at a list that has it as it was": func(s *Store[*object]) error { return s.Replace([]*object{named("a", "1")}, "5") },
		"at a list that has it changed":   func(s *Store[*object]) error { return s.Replace([]*object{named("a", "2")}, "5") },
		"at a list that names it unchanged": func(s *Store[*object]) error {
			return s.ReplaceAll(store.Listing[*object]{Unchanged: []store.Key{keyOf("a")}, ResourceVersion: "5"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(store.ObjectKey[*object], For[*object](time.Minute))
				require.NoError(t, s.Add(named("a", "1")))
				<-time.After(40 * time.Second)
				require.NoError(t, write(s))
				<-time.After(40 * time.Second)
				assert.Equal(t, []string{"a"}, names(s))
				<-time.After(21 * time.Second)
				assert.Empty(t, names(s))
				synctest.Wait()
				assert.Zero(t, s.cache.Len())
			})
		})
	}
	t.Run("not at a list that rejects it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := New(store.ObjectKey[*object], For[*object](time.Minute))
			require.NoError(t, s.Add(named("a", "1")))
			<-time.After(40 * time.Second)
			lacking := []store.Rejection{{Key: keyOf("a"), Err: assert.AnError}}
			require.ErrorIs(t, s.ReplaceAll(store.Listing[*object]{Lacking: lacking, ResourceVersion: "5"}), assert.AnError)
			<-time.After(21 * time.Second)
			assert.Empty(t, names(s))
		})
	})
}

func TestMemoryIsReleasedInBoundedSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(store.ObjectKey[*object], func(o *object) time.Duration {
			if o.Name == "stays" {
				return 0
			}
			return time.Minute
		})
		var objects []*object
		for i := range 3*most + 1 {
			objects = append(objects, named(strconv.Itoa(i), "1"))
		}
		require.NoError(t, s.Replace(append(objects, named("stays", "1")), "5"))
		sizes := &sizes{}
		s.cache.Follow(sizes)
		<-time.After(time.Minute + 1)
		synctest.Wait()
		assert.Equal(t, []int{most, most, most, 1}, sizes.all)
		assert.Equal(t, []string{"stays"}, names(s))
		assert.Empty(t, s.queue.places)
		assert.Equal(t, "5", s.ResourceVersion())
	})
}

// sizes notes how many changes commits had.
type sizes struct{ all []int }

func (*sizes) Start(*store.Snapshot[*item[*object]])    {}
func (s *sizes) Commit(c *store.Commit[*item[*object]]) { s.all = append(s.all, len(c.Changes)) }

func TestObjectThatChangesAllTheTimeIsKeptOnce(t *testing.T) {
	s := New(store.ObjectKey[*object], For[*object](time.Hour))
	defer s.Close()
	for i := range 1000 {
		require.NoError(t, s.Update(named("a", strconv.Itoa(i+1))))
	}
	assert.Len(t, s.queue.order, 1)
}

func TestTimeFunctionThatPanicsRejectsItsObject(t *testing.T) {
	s := New(store.ObjectKey[*object], func(o *object) time.Duration {
		if o.Name == "bad" {
			panic("no time")
		}
		return 0
	})
	require.ErrorIs(t, s.Add(named("bad", "1")), store.ErrPanic)
	require.NoError(t, s.Add(named("good", "1")))
	assert.Equal(t, []string{"good"}, names(s))
	require.ErrorIs(t, New[*object](nil, nil).Add(named("a", "1")), store.ErrNoKeyFunc)
}

func TestStoreAgainstAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		// A bubble needs a testing.T of its own.
		synctest.Test(t, func(*testing.T) { againstModel(rt) })
	})
}

func againstModel(t *rapid.T) {
	s := New(store.ObjectKey[*object], func(o *object) time.Duration { return time.Duration(len(o.Payload)) * time.Second })
	defer s.Close()
	type held struct {
		version, payload string
		until            time.Time
	}
	model := map[string]held{}
	version := 0
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
		version++
		o := named(name, strconv.Itoa(version))
		o.Payload = rapid.StringMatching("x{0,5}").Draw(t, "seconds")
		until := time.Now().Add(time.Duration(len(o.Payload)) * time.Second)
		if o.Payload == "" {
			until = time.Now().Add(1000 * time.Hour)
		}
		switch rapid.IntRange(0, 4).Draw(t, "step") {
		case 0, 1:
			require.NoError(t, s.Update(o))
			model[name] = held{o.ResourceVersion, o.Payload, until}
		case 2:
			require.NoError(t, s.DeleteKey(keyOf(name)))
			delete(model, name)
		case 3:
			require.NoError(t, s.Replace([]*object{o}, o.ResourceVersion))
			clear(model)
			model[name] = held{o.ResourceVersion, o.Payload, until}
		case 4:
			<-time.After(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
		}
		if rapid.Bool().Draw(t, "settle") {
			synctest.Wait()
		}
		var want, got []string
		for name, h := range model {
			if !time.Now().After(h.until) {
				want = append(want, name+h.version)
			}
		}
		slices.Sort(want)
		for key, o := range s.All() {
			got = append(got, key.Name+o.ResourceVersion)
		}
		require.Equal(t, fmt.Sprint(want), fmt.Sprint(got))
		require.Equal(t, len(want), s.Len())
	}

}

// An object that a list has unchanged may have a shorter time by then, or have one at all.
func TestListMakesATimeShorter(t *testing.T) {
	for name, before := range map[string]time.Duration{"that was longer": time.Hour, "that had no end": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				life := before
				s := New(store.ObjectKey[*object], func(*object) time.Duration { return life })
				defer s.Close()
				all := []*object{named("a", "1"), named("b", "2")}
				require.NoError(t, s.Replace(all, "9"))
				life = time.Minute
				require.NoError(t, s.Replace(all, "9"))
				<-time.After(time.Minute)
				synctest.Wait()
				assert.Equal(t, 2, s.Len())
				<-time.After(1)
				assert.Zero(t, s.Len())
				synctest.Wait()
				assert.Zero(t, s.cache.Len(), "and its memory is released")
			})
		})
	}
}

func TestObjectWhoseTimeIsOverAlreadyIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := time.Now()
		s := New(store.ObjectKey[*object], func(*object) time.Duration { return time.Until(ends) })
		defer s.Close()
		<-time.After(time.Second)
		require.NoError(t, s.Add(named("a", "1")))
		_, ok := s.Get(keyOf("a"))
		assert.False(t, ok)
		assert.Zero(t, s.Len())
		<-time.After(1)
		synctest.Wait()
		assert.Zero(t, s.cache.Len())
	})
}

// The time until a moment that is very far away is as long as a duration can be.
func TestTimesAsLongAsTheyCanBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)
		s := New(store.ObjectKey[*object], func(*object) time.Duration { return time.Until(ends) })
		defer s.Close()
		<-time.After(time.Second)
		require.NoError(t, s.Add(named("a", "1")))
		assert.Equal(t, 1, s.Len())
		_, ok := s.Get(keyOf("a"))
		assert.True(t, ok)

		ends = time.Time{}
		require.NoError(t, s.Update(named("a", "2")))
		_, ok = s.Get(keyOf("a"))
		assert.False(t, ok)
		<-time.After(time.Second)
		synctest.Wait()
		assert.Zero(t, s.cache.Len(), "and its memory is released")
	})
}
