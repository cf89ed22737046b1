package persist

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/informer/scoped"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
)

// process is an informer over a file, and its events.
type process struct {
	store    *Store[*corev1.ConfigMap]
	informer *informer.Informer[*corev1.ConfigMap]
	stop     func()

	mu    sync.Mutex
	heard []string // since the last look
}

func (p *process) handle(_ context.Context, e eventqueue.Event[*corev1.ConfigMap]) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	initial := ""
	if e.Initial {
		initial = "initial "
	}
	p.heard = append(p.heard, fmt.Sprintf("%s%v %v", initial, e.Type, e.Key))
	return nil
}

// events returns the events since the last call.
func (p *process) events() []string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	heard := p.heard
	p.heard = nil
	return heard
}

func clientOf(t *testing.T, server *reflectortest.Server) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	return client
}

func openMaps(t *testing.T, path string) *Store[*corev1.ConfigMap] {
	t.Helper()
	s, err := Open(path, store.ObjectKey[*corev1.ConfigMap], Options[*corev1.ConfigMap]{Resource: "configmaps"})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// begin is a new process. It does not run yet.
func begin(t *testing.T, path string, server *reflectortest.Server) *process {
	t.Helper()
	p := &process{store: openMaps(t, path)}
	p.informer = informer.NewStored(clientOf(t, server).CoreV1().ConfigMaps("n"), p.store)
	p.informer.Handle(informer.HandlerFunc[*corev1.ConfigMap](p.handle))
	return p
}

// end ends the process as a kill does: only the file remains.
func (p *process) end(t *testing.T) {
	t.Helper()
	synctest.Wait()
	p.store.stop()
	require.NoError(t, p.store.file.Close())
	p.store.mu.Lock()
	p.store.pending, p.store.closed = pending[*corev1.ConfigMap]{}, true
	p.store.mu.Unlock()
	p.stop()
}

// lists returns how often a server was asked for a list since it forgot its requests.
func lists(server *reflectortest.Server) (n int) {
	for _, r := range server.Requests() {
		if r.Verb == "list" || r.Query.Get("sendInitialEvents") == "true" {
			n++
		}
	}
	return n
}

// changes is a follower that writes down the changes.
type changes []string

func (*changes) Start(*store.Snapshot[*corev1.ConfigMap]) {}

func (c *changes) Commit(commit *store.Commit[*corev1.ConfigMap]) {
	for i := range commit.Changes {
		*c = append(*c, fmt.Sprintf("%v %v", commit.Changes[i].Type, commit.Changes[i].Key))
	}
}

// The definition of a resource changes while no process runs: the versions in the file are those of
// the server, and yet the objects differ.
func TestNextProcessFindsObjectsThatChangedUnderTheirVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, path := reflectortest.Start(t), fresh(t)
		for _, name := range []string{"a", "b"} {
			require.NoError(t, server.Create(configMap(name, 0)))
		}
		once := func() changes {
			p := begin(t, path, server)
			var heard changes
			p.store.Cache().Follow(&heard)
			p.stop = run(t, p.informer)
			require.NoError(t, p.informer.WaitForSync(t.Context()))
			<-time.After(time.Minute)
			synctest.Wait()
			p.stop()
			require.NoError(t, p.store.Close())
			return heard
		}
		assert.Equal(t, changes{"Addition n/a", "Addition n/b"}, once())
		require.NoError(t, server.Convert("configmaps", func(object metav1.Object) {
			if object.GetName() == "a" {
				object.(*corev1.ConfigMap).Data = map[string]string{"form": "another"}
			}
		}))
		assert.Equal(t, changes{"Modification n/a"}, once())
		s := openMaps(t, path)
		held, _ := s.Get(store.Key{Namespace: "n", Name: "a"})
		assert.Equal(t, "another", held.Data["form"], "it is in the file")
		require.NoError(t, s.Close())
		require.NoError(t, server.Convert("configmaps", func(metav1.Object) {}))
		assert.Empty(t, once(), "a list that says the same changes nothing")
	})
}

func TestNextProcessServesAtOnceAndListsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, path := reflectortest.Start(t), fresh(t)
		for _, name := range []string{"a", "b", "c"} {
			require.NoError(t, server.Create(configMap(name, 0)))
		}
		p := begin(t, path, server)
		assert.True(t, p.store.State().Stale)
		p.stop = run(t, p.informer)
		require.NoError(t, p.informer.WaitForSync(t.Context()))
		assert.False(t, p.store.State().Stale)
		assert.Equal(t, 1, lists(server))
		<-time.After(2 * defaultDelay)
		p.end(t)

		require.NoError(t, server.Delete(configMap("b", 0)))
		require.NoError(t, server.Create(configMap("d", 0)))
		server.ForgetRequests()
		p = begin(t, path, server)
		assert.Equal(t, 3, p.informer.Cache().Len(), "before Run")
		assert.Equal(t, State{Loaded: 3, Stale: true, Lasting: true}, p.store.State())
		p.stop = run(t, p.informer)
		require.NoError(t, p.informer.WaitForSync(t.Context()))
		synctest.Wait()
		assert.False(t, p.store.State().Stale)
		assert.Zero(t, lists(server))
		assert.ElementsMatch(t, []string{
			"initial Addition n/a", "initial Addition n/b", "initial Addition n/c", "Deletion n/b", "Addition n/d",
		}, apart(p.events()))
		p.stop()
		require.NoError(t, p.store.Close())

		require.NoError(t, server.Delete(configMap("c", 0)))
		require.NoError(t, server.Create(configMap("e", 0)))
		require.NoError(t, server.Compact(server.ResourceVersion()))
		server.ForgetRequests()
		p = begin(t, path, server)
		assert.Equal(t, 3, p.informer.Cache().Len(), "what Run left is written")
		assert.ElementsMatch(t, []string(nil), p.events())
		p.stop = run(t, p.informer)
		<-time.After(time.Minute)
		assert.Equal(t, 1, lists(server), "history is lost")
		assert.ElementsMatch(t, []string{
			"initial Addition n/a", "initial Addition n/c", "initial Addition n/d", "Deletion n/c", "Addition n/e",
		}, apart(p.events()))
		assert.Equal(t, 3, p.informer.Cache().Len())
	})
}

// apart takes events apart that were merged: a Deletion that came before the initial Addition was
// handed out is an initial Deletion.
func apart(events []string) (all []string) {
	for _, e := range events {
		if key, ok := strings.CutPrefix(e, "initial Deletion "); ok {
			all = append(all, "initial Addition "+key, "Deletion "+key)
		} else {
			all = append(all, e)
		}
	}
	return all
}

func TestInformerOfScopesGoesOnWhereEachOfThemWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := fresh(t)
		servers := map[store.Scope]*reflectortest.Server{
			{Cluster: "east", Namespace: "n"}: reflectortest.Start(t),
			{Cluster: "west", Namespace: "n"}: reflectortest.Start(t),
		}
		start := func() (*Store[*corev1.ConfigMap], *scoped.Scopes[*corev1.ConfigMap], func()) {
			s := openMaps(t, path)
			scopes := scoped.NewStored(s)
			for scope, server := range servers {
				require.NoError(t, scoped.Add(scopes, scope, clientOf(t, server).CoreV1().ConfigMaps("n")))
			}
			return s, scopes, run(t, scopes.Informer())
		}
		for _, server := range servers {
			require.NoError(t, server.Create(configMap("a", 0)))
		}
		s, scopes, stop := start()
		require.NoError(t, scopes.Informer().WaitForSync(t.Context()))
		stop()
		require.NoError(t, s.Close())
		for _, server := range servers {
			require.NoError(t, server.Create(configMap("b", 0)))
			server.ForgetRequests()
		}

		s, scopes, stop = start()
		require.NoError(t, scopes.Informer().WaitForSync(t.Context()))
		synctest.Wait()
		assert.Equal(t, 4, scopes.Informer().Cache().Len())
		assert.False(t, s.State().Stale)
		for scope, server := range servers {
			assert.Zero(t, lists(server), scope)
		}
		require.NoError(t, scopes.Drop(store.Scope{Cluster: "west", Namespace: "n"}))
		stop()
		require.NoError(t, s.Close())
		s = openMaps(t, path)
		assert.Equal(t, []store.Scope{{Cluster: "east", Namespace: "n"}}, s.Scopes())
		assert.Equal(t, 2, s.Len())
	})
}

func TestReflectorAloneResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, path := reflectortest.Start(t), fresh(t)
		require.NoError(t, server.Create(configMap("a", 0)))
		for round := range 2 {
			server.ForgetRequests()
			s := openMaps(t, path)
			r := reflector.New(clientOf(t, server).CoreV1().ConfigMaps("n"), s)
			stop := run(t, r)
			<-r.Synced()
			synctest.Wait()
			assert.Equal(t, 1-round, lists(server))
			assert.False(t, s.State().Stale)
			stop()
			require.NoError(t, s.Close())
		}
	})
}

func TestStoreServesOneInformerAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		p := begin(t, fresh(t), server)
		p.stop = run(t, p.informer)
		synctest.Wait()
		other := informer.NewStored(clientOf(t, server).CoreV1().ConfigMaps("n"), p.store)
		require.ErrorIs(t, other.Run(t.Context()), reflector.ErrRunning)
		p.stop()
	})
}

func TestInformerWithoutScopesIsToldOfThoseInTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, path := reflectortest.Start(t), fresh(t)
		s := openMaps(t, path)
		scope := store.Scope{Namespace: "n"}
		part, err := s.Partition(scope)
		require.NoError(t, err)
		require.NoError(t, part.Replace([]*corev1.ConfigMap{configMap("a", 5)}, "9"))
		require.NoError(t, s.Close())

		p := begin(t, path, server)
		defer func() { require.NoError(t, p.store.Close()) }()
		_, err = p.store.Partition(store.Scope{})
		wanted, ok := errors.AsType[*ScopesError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, []store.Scope{scope}, wanted.Scopes)
		stop := run(t, p.informer)
		defer stop()
		synctest.Wait()
		wanted, ok = errors.AsType[*ScopesError](p.informer.State().Err)
		require.True(t, ok, "%v", p.informer.State().Err)
		assert.Equal(t, path, wanted.Path)
		require.ErrorIs(t, wanted, store.ErrOutOfScope)
		assert.ErrorContains(t, wanted, "namespace n")
		for _, scope := range wanted.Scopes {
			err := p.store.Drop(scope)
			require.NoError(t, err)
		}
		require.NoError(t, p.informer.WaitForSync(t.Context()))
	})
}

// The server is behind the file: it has b, which the process before saw being deleted. A server that
// only lags catches up. One that was restored from a backup has no newer state, so after the process
// has said so, that state counts.
func TestNextProcessRefusesAServerBehindItsFile(t *testing.T) {
	for name, test := range map[string]struct {
		expired  bool // the server also refuses to watch from the version of the file
		restored bool // and does not only lag
	}{
		"it catches up":                 {},
		"it was restored":               {restored: true},
		"it was restored and compacted": {restored: true, expired: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, path := reflectortest.Start(t), fresh(t)
				require.NoError(t, server.Create(configMap("a", 0)))
				require.NoError(t, server.Create(configMap("b", 0)))
				behind := server.ResourceVersion()
				advance := func() {
					require.NoError(t, server.Delete(configMap("b", 0)))
					require.NoError(t, server.Create(configMap("c", 0)))
				}
				advance()
				p := begin(t, path, server)
				p.stop = run(t, p.informer)
				require.NoError(t, p.informer.WaitForSync(t.Context()))
				<-time.After(2 * defaultDelay)
				p.end(t)

				require.NoError(t, server.Restore(behind))
				p = &process{store: openMaps(t, path)}
				var (
					mu          sync.Mutex // guards older and errs
					older, errs []error
				)
				reported := func() (all, early []error) {
					mu.Lock()
					defer mu.Unlock()
					return slices.Clone(errs), slices.Clone(older)
				}
				p.informer = informer.NewStored(clientOf(t, server).CoreV1().ConfigMaps("n"), p.store,
					informer.WithErrorHandler(func(_ context.Context, err error) {
						mu.Lock()
						defer mu.Unlock()
						errs = append(errs, err)
						if p.informer.Cache().Len() != 2 {
							older = append(older, err)
						}
					}))
				p.informer.Handle(informer.HandlerFunc[*corev1.ConfigMap](p.handle))
				if test.expired {
					server.Inject(reflectortest.Answer(http.StatusGone).On("watch", "configmaps").Times(1))
				}
				version := p.store.ResourceVersion()
				p.stop = run(t, p.informer)
				defer func() { p.stop() }()
				if !test.expired {
					<-time.After(4 * time.Minute)
					assert.Equal(t, version, p.store.ResourceVersion())
					assert.ElementsMatch(t, []string{"initial Addition n/a", "initial Addition n/c"}, p.events())
					all, _ := reported()
					assert.Empty(t, all)
				}
				if !test.restored {
					advance()
					require.NoError(t, server.Create(configMap("d", 0)))
					<-time.After(12 * time.Minute)
					all, _ := reported()
					assert.Empty(t, all)
					assert.Equal(t, []string{"Addition n/d"}, p.events())
					return
				}
				<-time.After(12 * time.Minute)
				synctest.Wait()
				all, early := reported()
				require.NotEmpty(t, all)
				said, ok := errors.AsType[*reflector.ProtocolError](all[len(all)-1])
				require.True(t, ok, "%v", all)
				assert.Equal(t, "ServerBehind", said.Reason)
				assert.Empty(t, early, "reported before the store takes the older state")
				_, found := p.informer.Cache().Get(store.Key{Namespace: "n", Name: "b"})
				assert.True(t, found)
			})
		})
	}
}
