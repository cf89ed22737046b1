package clientgo

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/cache"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

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
