package clientgo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/feed"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// byHand is a feed that leaves the store to the test.
type byHand struct{}

func (byHand) Run(ctx context.Context) error           { <-ctx.Done(); return nil }
func (byHand) State() reflector.State                  { return reflector.State{} }
func (byHand) Changed(reflector.State) <-chan struct{} { return nil }
func (byHand) Synced() <-chan struct{}                 { return nil }

// inHand returns an informer and the store by which the test fills its cache.
func inHand() (*shared, store.Store[*configMap]) {
	var hand store.Store[*configMap]
	i := informer.NewFed(nil, store.ObjectKey[*configMap], func(target feed.Target[*configMap]) feed.Group {
		hand = target.Into
		return feed.New(byHand{})
	})
	return AsSharedIndexInformer(i), hand
}

// versions is a handler that writes down, for each event, the version of the object and
// the one that the store shows for it meanwhile.
type versions struct {
	diary
	store cache.Store
}

func (v *versions) OnAdd(object any, initial bool) {
	v.diary.OnAdd(object, initial)
	v.note(object)
}

func (v *versions) OnUpdate(prior, object any) {
	v.diary.OnUpdate(prior, object)
	v.note(object)
}

func (v *versions) OnDelete(object any) {
	v.diary.OnDelete(object)
	if lost, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = lost.Obj
	}
	v.note(object)
}

func (v *versions) note(object any) {
	told, _ := meta.Accessor(object)
	held, ok, _ := v.store.Get(object)
	if !ok {
		v.write("  %s is gone", told.GetResourceVersion())
		return
	}
	shown, _ := meta.Accessor(held)
	v.write("  %s is %s", told.GetResourceVersion(), shown.GetResourceVersion())
}

func TestReplaceIsTheSameToHandlersAsItsChanges(t *testing.T) {
	for name, test := range map[string]struct {
		before, list []*configMap
		want         []string
	}{
		"of nothing": {nil, []*configMap{stored("a", "a", "1")}, []string{"initial a", "  1 is 1"}},
		"by nothing": {[]*configMap{stored("a", "a", "1"), stored("b", "b", "2")}, nil,
			[]string{"missing default/a a", "  1 is gone", "missing default/b b", "  2 is gone"}},
		"by everything": {[]*configMap{stored("a", "a", "1", "x"), stored("b", "b", "2"), stored("c", "c", "3"), stored("d", "d", "4")},
			[]*configMap{stored("a", "a", "5", "y"), stored("c", "c", "3"), stored("e", "e", "6"), stored("d", "other", "7")},
			// Deletions come first; that it was another object, client-go does not tell.
			[]string{"missing default/b b", "  2 is gone", "update a:x>a:y", "  5 is 5", "missing default/d d", "  4 is 7", "add d", "  7 is 7", "add e", "  6 is 6"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, hand := inHand()
				v := &versions{store: s.GetStore()}
				_, err := s.AddEventHandler(v)
				require.NoError(t, err)
				run(t, s)
				if test.before != nil {
					require.NoError(t, hand.Replace(test.before, "4"))
				}
				synctest.Wait()
				v.take()
				require.NoError(t, hand.Replace(test.list, "10"))
				synctest.Wait()
				assert.ElementsMatch(t, test.want, v.read())
				assert.Equal(t, test.want[:2], v.read()[:2])
				assert.Len(t, s.GetStore().List(), len(test.list))
				assert.Equal(t, "10", s.GetStore().LastStoreSyncResourceVersion())
			})
		})
	}
}

// A bad object of several is kept out, and nobody is told of it.
func TestHandlersAreToldOfWhatWasStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, hand := inHand()
		require.NoError(t, s.AddIndexers(cache.Indexers{"picky": func(object any) ([]string, error) {
			if object.(*configMap).Data["word"] == "bad" {
				return nil, assert.AnError
			}
			return nil, nil
		}}))
		var d diary
		_, err := s.AddEventHandler(&d)
		require.NoError(t, err)
		run(t, s)
		batch, own := decorate.BeginWatch(hand)
		require.True(t, own)
		for _, w := range []store.Write[*configMap]{
			{Type: store.Addition, Object: stored("a", "a", "1")},
			{Type: store.Addition, Object: stored("b", "b", "2", "bad")},
			{Type: store.Addition, Object: stored("c", "c", "3")},
			{Type: store.Modification, Object: stored("a", "a", "4", "bad")},
			{Type: store.Modification, Object: stored("c", "c", "5", "y")},
		} {
			require.NoError(t, batch.Write(w))
		}
		assert.Error(t, batch.Commit(""))
		synctest.Wait()
		assert.ElementsMatch(t, []string{"add a", "add c", "update c>c:y"}, d.read())
		assert.Equal(t, []string{"default/a", "default/c"}, s.GetStore().ListKeys())
	})
}

func TestVersionOfTheStoreFollowsItsObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a"))
		s := NewTyped(configMaps(t, server))
		version := s.GetStore().LastStoreSyncResourceVersion
		v := &versions{store: s.GetStore()}
		_, err := s.AddEventHandler(v)
		require.NoError(t, err)
		run(t, s)
		synctest.Wait()
		first := version()
		assert.NotEmpty(t, first)

		changed := named("a", "y")
		require.NoError(t, server.Update(changed))
		synctest.Wait()
		assert.Equal(t, changed.ResourceVersion, version())
		assert.Contains(t, v.read(), "  "+version()+" is "+version())

		require.NoError(t, server.Delete(changed))
		synctest.Wait()
		assert.Greater(t, version(), changed.ResourceVersion)
		assert.Contains(t, v.read(), "  "+version()+" is gone")

		other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"}}
		create(t, server, other)
		server.SendBookmarks()
		synctest.Wait()
		assert.Equal(t, other.ResourceVersion, version(), "a bookmark counts")
	})
}

// What a transform makes need not have metadata: the cache knows keys and versions.
func TestVersionOfTheStoreOfWhatHasNoMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a", "x"))
		word := func(c *configMap) (words, error) { return words{c.Name, c.Data["word"]}, nil }
		key := func(w words) (store.Key, error) { return store.Key{Namespace: "default", Name: w.name}, nil }
		s := AsSharedIndexInformer(informer.NewTransformed(configMaps(t, server), word, key))
		var d diary
		_, err := s.AddEventHandler(&d)
		require.NoError(t, err)
		run(t, s)
		synctest.Wait()
		changed := named("a", "y")
		require.NoError(t, server.Update(changed))
		synctest.Wait()
		// client-go stays at the version of the list.
		assert.Equal(t, changed.ResourceVersion, s.GetStore().LastStoreSyncResourceVersion())
		require.NoError(t, server.Delete(changed))
		synctest.Wait()
		assert.Equal(t, []string{"initial {a x}", "update {a x}>{a y}", "delete {a y}"}, d.read())
	})
}

type words struct{ name, word string }

// mirror is a handler that keeps what it is told is there, and says what cannot be.
type mirror struct {
	mu     sync.Mutex
	held   map[string]*configMap
	faults []string
}

func (m *mirror) change(kind string, object any, change func(key string, c *configMap) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held == nil {
		m.held = map[string]*configMap{}
	}
	if lost, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = lost.Obj
	}
	c := object.(*configMap)
	if !change(c.Name, c) {
		m.faults = append(m.faults, kind+" "+short(c))
	}
}

func (m *mirror) OnAdd(object any, _ bool) {
	m.change("added although it is there:", object, func(key string, c *configMap) bool {
		_, held := m.held[key]
		m.held[key] = c
		return !held
	})
}

func (m *mirror) OnUpdate(prior, object any) {
	m.change("updated from another state:", object, func(key string, c *configMap) bool {
		same := m.held[key] == prior
		m.held[key] = c
		return same
	})
}

func (m *mirror) OnDelete(object any) {
	m.change("deleted although it is not there:", object, func(key string, c *configMap) bool {
		_, held := m.held[key]
		delete(m.held, key)
		return held
	})
}

// read returns what is held, and what went wrong.
func (m *mirror) read() (map[string]string, []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	words := map[string]string{}
	for name, c := range m.held {
		words[name] = c.Data["word"]
	}
	return words, m.faults
}

// hammer changes ConfigMaps at random, of names of its own.
func hammer(t *testing.T, server *reflectortest.Server, who, changes int) {
	dice := rand.New(rand.NewPCG(uint64(who), 1))
	alive := map[string]bool{}
	for n := range changes {
		c := named(fmt.Sprintf("c-%d-%d", who, dice.IntN(20)), fmt.Sprint(n))
		switch {
		case !alive[c.Name]:
			assert.NoError(t, server.Create(c))
			alive[c.Name] = true
		case dice.IntN(3) == 0:
			assert.NoError(t, server.Delete(c))
			alive[c.Name] = false
		default:
			assert.NoError(t, server.Update(c))
		}
		if n%50 == 49 {
			<-time.After(time.Duration(dice.IntN(1000)) * time.Millisecond)
		}
	}
}

func wordsOf(t *testing.T, server *reflectortest.Server) map[string]string {
	t.Helper()
	all, err := reflectortest.List[*configMap](server, "")
	require.NoError(t, err)
	words := map[string]string{}
	for _, c := range all {
		words[c.Name] = c.Data["word"]
	}
	return words
}

func TestHandlersHoldWhatTheServerHoldsAfterAStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		// Some watches break, and one after the other is refused its place.
		server.Inject(reflectortest.ResetAfterEvents(100).On("watch", ""))
		server.Inject(reflectortest.LoseHistory().On("watch", "").After(2).Times(5))
		s := NewTyped(configMaps(t, server))
		var early mirror
		_, err := s.AddEventHandler(&early)
		require.NoError(t, err)
		run(t, s)
		var storm sync.WaitGroup
		for who := range 4 {
			storm.Go(func() { hammer(t, server, who, 500) })
		}
		<-time.After(2 * time.Second)
		var late mirror
		_, err = s.AddEventHandlerWithResyncPeriod(&late, time.Second)
		require.NoError(t, err)
		storm.Wait()
		server.ClearFaults()
		<-time.After(5 * time.Minute)
		synctest.Wait()

		want := wordsOf(t, server)
		assert.Greater(t, len(want), 20)
		assert.GreaterOrEqual(t, len(server.Requests(reflectortest.Verb("watch"))), 4, "a back-off lies between watches that break")
		for name, m := range map[string]*mirror{"early": &early, "late": &late} {
			got, faults := m.read()
			assert.Equal(t, want, got, name)
			assert.Empty(t, faults, name)
		}
	})
}

func TestHandlersComeAndGoInAStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		s := NewTyped(configMaps(t, server))
		stop := run(t, s)
		var visitors sync.WaitGroup
		for who := range 20 {
			visitors.Go(func() {
				dice := rand.New(rand.NewPCG(uint64(who), 2))
				var handles []cache.ResourceEventHandlerRegistration
				for {
					<-time.After(time.Duration(dice.IntN(100)) * time.Millisecond)
					if len(handles) == 0 || dice.IntN(2) == 0 {
						handle, err := s.AddEventHandlerWithResyncPeriod(&mirror{}, time.Second)
						if err != nil {
							assert.ErrorIs(t, err, ErrStopped)
							return
						}
						handles = append(handles, handle)
						continue
					}
					last := len(handles) - 1
					assert.NoError(t, s.RemoveEventHandler(handles[last]))
					handles = handles[:last]
				}
			})
		}
		var all mirror
		_, err := s.AddEventHandler(&all)
		require.NoError(t, err)
		hammer(t, server, 1, 500)
		synctest.Wait()
		got, faults := all.read()
		assert.Equal(t, wordsOf(t, server), got)
		assert.Empty(t, faults)
		stop()
		visitors.Wait()
	})
}

// Each object is added, changed once and deleted by its handler, while watches end early.
func TestHandlersSeeTheTransitionsThatThereWere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		server.Inject(reflectortest.ResetAfterEvents(3).On("watch", ""))
		s := NewTyped(configMaps(t, server))
		var mu sync.Mutex
		transitions := map[string]int{}
		deletions := make(chan string, 100)
		_, err := s.AddEventHandler(cache.ResourceEventHandlerFuncs{
			UpdateFunc: func(prior, object any) {
				from, to := prior.(*configMap), object.(*configMap)
				mu.Lock()
				transitions[from.Data["word"]+" to "+to.Data["word"]]++
				mu.Unlock()
				if to.Data["word"] == "last" {
					assert.NoError(t, server.Delete(to))
				}
			},
			DeleteFunc: func(object any) {
				key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
				assert.NoError(t, err)
				deletions <- key
			},
		})
		require.NoError(t, err)
		run(t, s)
		<-s.HasSyncedChecker().Done()
		const objects = 12
		var writers sync.WaitGroup
		for n := range objects {
			writers.Go(func() {
				name := fmt.Sprint("c-", n)
				assert.NoError(t, server.Create(named(name, "first")))
				// The watch is awaited: an object whose first state nobody saw is not changed.
				for {
					if _, ok, _ := s.GetStore().GetByKey("default/" + name); ok {
						break
					}
					<-time.After(10 * time.Millisecond)
				}
				assert.NoError(t, server.Update(named(name, "last")))
			})
		}
		writers.Wait()
		gone := map[string]bool{}
		for range objects {
			gone[<-deletions] = true
		}
		assert.Len(t, gone, objects)
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, map[string]int{"first to last": objects}, transitions)
	})
}
