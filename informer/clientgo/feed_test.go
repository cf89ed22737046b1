package clientgo

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/await"
)

// theirs returns an informer of client-go's of the ConfigMaps of a server.
func theirs(t *testing.T, server *reflectortest.Server) cache.SharedIndexInformer {
	return informers.NewSharedInformerFactory(clientset(t, server), 0).Core().V1().ConfigMaps().Informer()
}

// typedDiary is a handler of ours that writes into a diary.
func typedDiary(d *diary) informer.Handler[*configMap] {
	return informer.HandlerFuncs[*configMap]{
		OnAdd: func(c *configMap, initial bool) { d.OnAdd(c, initial) },
		OnUpdate: func(prior, c *configMap) {
			d.OnUpdate(prior, c)
		},
		OnDelete: func(c *configMap, known bool) {
			if known {
				d.OnDelete(c)
			} else {
				d.write("missing %s", short(c))
			}
		},
	}
}

// begin runs one of our informers until the returned function is called.
func begin(t *testing.T, i interface{ Run(context.Context) error }) (end func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- i.Run(ctx) }()
	return func() error { cancel(); return <-result }
}

func TestSharedInformerFeedsOurs(t *testing.T) {
	for name, late := range map[string]bool{"that is started later": false, "that has synced": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t)
				create(t, server, named("a", "x"), named("b"))
				from := theirs(t, server)
				i := FromSharedInformer(from, store.ObjectKey[*configMap])
				var d diary
				i.Handle(typedDiary(&d))
				if late {
					run(t, from)
					require.True(t, cache.WaitFor(t.Context(), "", from.HasSyncedChecker()))
				}
				end := begin(t, i)
				if !late {
					synctest.Wait()
					assert.Equal(t, reflector.Listing, i.State().Phase)
					assert.Error(t, i.Ready())
					assert.Empty(t, d.read())
					run(t, from)
				}
				require.NoError(t, i.WaitForSync(t.Context()))
				assert.Equal(t, reflector.Watching, i.State().Phase)
				assert.NotEmpty(t, i.Cache().ResourceVersion())
				assert.Equal(t, i.Cache().ResourceVersion(), i.State().ResourceVersion)
				assert.Equal(t, "shared *v1.ConfigMap", i.Name())

				require.NoError(t, server.Update(named("a", "y")))
				create(t, server, named("c"))
				require.NoError(t, server.Delete(named("b")))
				synctest.Wait() // client-go is synced before it says at which version
				require.NoError(t, await.Version(t.Context(), i.Cache(), from.LastSyncResourceVersion()))
				synctest.Wait()
				assert.Equal(t, []string{"initial a:x", "initial b", "update a:x>a:y", "add c", "delete b"}, d.read())
				held, _ := i.Cache().Get(store.Key{Namespace: "default", Name: "a"})
				same, _, _ := from.GetStore().GetByKey("default/a")
				assert.Same(t, same, held, "nothing is copied")
				assert.Len(t, server.Requests(reflectortest.Verb("watch")), 1, "there is no second watch")

				<-time.After(24 * time.Hour)
				assert.NoError(t, i.Ready(), "client-go does not say whether its watch works")
				require.NoError(t, end())
				assert.Equal(t, reflector.Stopped, i.State().Phase)
				create(t, server, named("d"))
				synctest.Wait()
				assert.Equal(t, 2, i.Cache().Len(), "nobody writes after Run")
			})
		})
	}
}

func TestFeedRunsAgainAndNoticesWhatItMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("changed", "x"), named("gone"), named("same"))
		from := theirs(t, server)
		run(t, from)
		i := FromSharedInformer(from, store.ObjectKey[*configMap])
		var d diary
		i.Handle(typedDiary(&d))
		end := begin(t, i)
		synctest.Wait()
		require.NoError(t, end())
		assert.Len(t, d.take(), 3)

		require.NoError(t, server.Update(named("changed", "y")))
		require.NoError(t, server.Delete(named("gone")))
		synctest.Wait()
		end = begin(t, i)
		synctest.Wait()
		require.NoError(t, end())
		assert.ElementsMatch(t, []string{"update changed:x>changed:y", "missing gone"}, d.take())
	})
}

func TestFeedEndsWithTheSharedInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		from := theirs(t, server)
		stop := run(t, from)
		i := FromSharedInformer(from, store.ObjectKey[*configMap])
		result := make(chan error, 1)
		go func() { result <- i.Run(t.Context()) }()
		synctest.Wait()
		stop()
		assert.ErrorIs(t, <-result, ErrStopped)
		assert.ErrorIs(t, i.Run(t.Context()), ErrStopped, "a handler cannot be added any more")
		ended, end := context.WithCancel(t.Context())
		end()
		assert.NoError(t, i.Run(ended), "the program ends")
	})
}

func TestRelistOfASharedInformerIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("changed", "x"), named("gone"), named("same"), named("again"))
		from := theirs(t, server) // without a resync it updates what a relist found unchanged
		var d2 diary
		_, err := from.AddEventHandler(&d2)
		require.NoError(t, err)
		run(t, from)
		i := FromSharedInformer(from, store.ObjectKey[*configMap])
		var d diary
		i.Handle(typedDiary(&d))
		end := begin(t, i)
		<-time.After(10 * time.Second)
		assert.Len(t, d.take(), 4)

		relist(t, server, func() {
			require.NoError(t, server.Update(named("changed", "y")))
			require.NoError(t, server.Delete(named("gone")))
			require.NoError(t, server.Delete(named("again")))
			create(t, server, named("again"))
		})
		// client-go says of again that it changed; that it is another object can be seen.
		assert.ElementsMatch(t, []string{"update changed:x>changed:y", "missing gone", "missing again", "add again"}, d.take())
		assert.Contains(t, d2.read(), "update same>same")
		require.NoError(t, end())
	})
}

// scripted is a shared informer whose events are in the hands of the test.
type scripted struct {
	cache.SharedInformer
	version string
	synced  chan struct{}
	ended   chan struct{} // nil for one that does not end

	handler cache.ResourceEventHandler // nil after it was removed
	period  time.Duration
}

func (s *scripted) GetStore() cache.Store {
	c := cache.NewStore(cache.MetaNamespaceKeyFunc)
	_ = c.Replace(nil, s.version)
	return c
}

func (s *scripted) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler, period time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	s.handler, s.period = h, period
	return s, nil
}

func (s *scripted) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	if handle == s {
		s.handler = nil
	}
	return nil
}

func (s *scripted) HasSyncedChecker() cache.DoneChecker { return synced{"scripted", s.synced} }
func (s *scripted) ShutdownChan() <-chan struct{}       { return s.ended }

func TestFeedLeavesTheSharedInformerAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{synced: make(chan struct{})}
		end := begin(t, NewFeed(s, store.Store[*configMap](store.New(store.ObjectKey[*configMap])), nil))
		synctest.Wait()
		assert.NotNil(t, s.handler)
		assert.Zero(t, s.period, "nobody has to resync for it")
		require.NoError(t, end())
		assert.Nil(t, s.handler)
	})
}

func TestFeedThatEndsAtOneTimeWithTheSharedInformer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &scripted{synced: make(chan struct{}), ended: make(chan struct{})}
	close(s.ended)
	for range 20 { // either may be noticed first
		assert.NoError(t, NewFeed(s, store.Store[*configMap](store.New(store.ObjectKey[*configMap])), nil).Run(ctx))
	}
}

func TestFeedOfAStoreWithOtherKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{synced: make(chan struct{})}
		c := store.New(func(m *configMap) (store.Key, error) {
			return store.Key{Cluster: "west", Namespace: m.Namespace, Name: m.Name}, nil
		})
		end := begin(t, NewFeed(s, c, nil))
		synctest.Wait()
		for _, name := range []string{"a", "b", "c"} {
			s.handler.OnAdd(stored(name, name, "1"), true)
		}
		s.handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "default/a", Obj: stored("a", "a", "1")})
		close(s.synced)
		synctest.Wait()
		s.handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "default/b", Obj: stored("b", "b", "1")})
		s.handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "default/c"}) // the store's key cannot be known
		var left []string
		for key := range c.All() {
			left = append(left, key.String())
		}
		assert.Equal(t, []string{"west|default/c"}, left)
		require.NoError(t, end())
	})
}

func TestFirstObjectsOfAFeedAreReplacedAtOnce(t *testing.T) {
	for name, test := range map[string]struct {
		version string
		script  func(cache.ResourceEventHandler)
		want    []string
		at      string
	}{
		"none":                  {"", func(cache.ResourceEventHandler) {}, nil, ""},
		"none, of a synced one": {"7", func(cache.ResourceEventHandler) {}, nil, "7"},
		"the greatest of objects": {"7", func(h cache.ResourceEventHandler) {
			h.OnAdd(stored("a", "a", "10"), true)
			h.OnAdd(stored("b", "b", "9"), true)
		}, []string{"a", "b"}, "10"},
		"with changes meanwhile": {"7", func(h cache.ResourceEventHandler) {
			h.OnAdd(stored("a", "a", "5", "x"), true)
			h.OnAdd(stored("b", "b", "6"), true)
			h.OnAdd(stored("c", "c", "6"), true)
			h.OnUpdate(stored("a", "a", "5", "x"), stored("a", "a", "8", "y"))
			h.OnDelete(stored("b", "b", "11"))
			h.OnDelete(cache.DeletedFinalStateUnknown{Key: "default/c"})
		}, []string{"a:y"}, "11"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{version: test.version, synced: make(chan struct{})}
				c := store.New(store.ObjectKey[*configMap])
				f := NewFeed(s, c, nil)
				end := begin(t, f)
				synctest.Wait()
				test.script(s.handler)
				assert.Zero(t, c.Len(), "nothing before all are known")
				assert.False(t, done(f.Synced()))
				close(s.synced)
				<-f.Synced()
				var got []string
				for _, object := range c.All() {
					got = append(got, short(object))
				}
				assert.Equal(t, test.want, got)
				assert.Equal(t, test.at, c.ResourceVersion())
				require.NoError(t, end())
			})
		})
	}
}

// newPicky returns a cache that rejects objects whose word is bad.
func newPicky(t *testing.T) *store.Cache[*configMap] {
	t.Helper()
	c := store.New(store.ObjectKey[*configMap])
	_, err := store.AddIndex(c, "picky", func(m *configMap) []string {
		if m.Data["word"] == "bad" {
			panic("bad")
		}
		return nil
	})
	require.NoError(t, err)
	return c
}

func TestFeedReportsWhatItCannotStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{synced: make(chan struct{})}
		c := newPicky(t)
		var f *Feed[*configMap]
		var mu sync.Mutex
		var failures []error
		f = NewFeed(s, c, func(ctx context.Context, err error) {
			mu.Lock()
			defer mu.Unlock()
			assert.NoError(t, ctx.Err())
			assert.Equal(t, err, f.State().Err, "who is told may ask for the state")
			failures = append(failures, err)
		})
		end := begin(t, f)
		synctest.Wait()
		s.handler.OnAdd(stored("first", "first", "1", "bad"), true)
		s.handler.OnAdd(stored("second", "second", "2"), true)
		close(s.synced)
		<-f.Synced()
		synctest.Wait()
		seen := f.State()
		assert.Error(t, seen.Err)
		changed := f.Changed(seen)
		s.handler.OnAdd(&corev1.Secret{}, false)
		assert.True(t, done(changed))
		assert.True(t, done(f.Changed(seen)), "it is another failure")
		assert.False(t, done(f.Changed(f.State())))
		seen.Err = f.State().Err
		assert.False(t, done(f.Changed(seen)))
		seen.Phase = reflector.Listing
		assert.True(t, done(f.Changed(seen)))
		s.handler.OnUpdate(stored("second", "second", "2"), stored("second", "second", "3", "bad"))
		s.handler.OnDelete("no object")
		s.handler.OnAdd(stored("third", "third", "4"), false)
		assert.Error(t, f.State().Err, "as long as an object is lacking")
		held, _ := c.Get(store.Key{Namespace: "default", Name: "second"})
		assert.Equal(t, "2", held.ResourceVersion)
		assert.Equal(t, 2, c.Len())

		mu.Lock()
		defer mu.Unlock()
		require.Len(t, failures, 4)
		for n, want := range []string{"first", "Secret", "second", "no meta"} {
			failure, ok := errors.AsType[*reflector.Error](failures[n])
			require.True(t, ok, "%v", failures[n])
			assert.Equal(t, opStore, failure.Op)
			assert.ErrorContains(t, failure, want)
		}
		require.NoError(t, end())
	})
}

func TestStateOfAFeedIsGoodAgainWhenNothingIsLacking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{synced: make(chan struct{})}
		c := newPicky(t)
		f := NewFeed(s, c, nil)
		end := begin(t, f)
		synctest.Wait()
		s.handler.OnAdd(stored("a", "a", "1", "bad"), true)
		close(s.synced)
		<-f.Synced()
		s.handler.OnAdd(stored("b", "b", "2", "bad"), false)
		s.handler.OnUpdate(stored("b", "b", "2", "bad"), stored("b", "b", "2")) // as a resync does
		assert.Error(t, f.State().Err)
		assert.Equal(t, 1, c.Len(), "what lacks is tried again")
		s.handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "default/a", Obj: stored("a", "a", "1", "bad")})
		assert.NoError(t, f.State().Err)
		assert.Error(t, f.State().LastErr, "the failure that the feed has overcome")
		assert.ErrorIs(t, f.Run(t.Context()), reflector.ErrRunning)
		late := s.handler
		require.NoError(t, end())
		late.OnAdd(stored("c", "c", "4"), false)
		assert.Equal(t, 1, c.Len(), "what comes after Run is ignored")
	})
}

// failing is a store that takes nothing, or panics somewhere else after it took it.
type failing struct {
	store.Store[*configMap]
	err error
}

func (f *failing) Replace([]*configMap, string) error { return f.err }
func (f *failing) Add(*configMap) error               { return f.err }

func TestFeedOfAStoreThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{synced: make(chan struct{})}
		f := NewFeed(s, &failing{store.New(store.ObjectKey[*configMap]), assert.AnError}, func(context.Context, error) { t.Error("it is returned") })
		close(s.synced)
		assert.ErrorIs(t, f.Run(t.Context()), assert.AnError)
		assert.False(t, done(f.Synced()))

		assert.ErrorIs(t, NewFeed[*configMap](s, nil, nil).Run(t.Context()), reflector.ErrNoStore)
		assert.ErrorIs(t, NewFeed(nil, store.Store[*configMap](&failing{}), nil).Run(t.Context()), ErrNoSharedInformer)
	})
}

func TestThereAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a"))
		there := NewTyped(configMaps(t, server))
		back := FromSharedInformer(there, store.ObjectKey[*configMap])
		sub := back.Subscribe()
		stop := run(t, there)
		result := make(chan error, 1)
		go func() { result <- back.Run(t.Context()) }()
		require.NoError(t, back.WaitForSync(t.Context()))
		create(t, server, named("b"))
		synctest.Wait()
		assert.Equal(t, 2, back.Cache().Len())
		stop()
		assert.ErrorIs(t, <-result, ErrStopped)
		var got []string
		for event := range sub.Consume(t.Context()) {
			if got = append(got, event.Key.Name); len(got) == 2 {
				break
			}
		}
		slices.Sort(got)
		assert.Equal(t, []string{"a", "b"}, got)
		sub.Close()
	})
}

func TestFeedFillsAnyStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a"), named("b"))
		from := theirs(t, server)
		run(t, from)
		queues := eventqueue.New(store.ObjectKey[*configMap])
		end := begin(t, NewFeed(from, queues, nil))
		var keys []string
		for range 2 {
			queue, err := queues.Take(t.Context())
			require.NoError(t, err)
			keys = append(keys, queue.Key().String())
			queue.Done()
		}
		assert.ElementsMatch(t, []string{"default/a", "default/b"}, keys)
		<-queues.Synced()
		require.NoError(t, end())
	})
}

func TestObjectOfAWrongTypeThatIsGoneIsNotMissing(t *testing.T) {
	f := NewFeed[*configMap](cache.NewSharedInformer(&cache.ListWatch{}, &configMap{}, 0), store.New(store.ObjectKey[*configMap]), nil)
	r, err := f.start(t.Context())
	require.NoError(t, err)
	require.NoError(t, f.fill(r))
	h := handler[*configMap]{f, r}
	wrong := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "u", ResourceVersion: "1"}}
	h.OnAdd(wrong, false)
	h.OnDelete(wrong)
	assert.Empty(t, f.missing)
	h.OnAdd(stored("b", "v", "2"), false)
	assert.NoError(t, f.State().Err)
}
