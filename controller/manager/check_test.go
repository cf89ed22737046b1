package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func get(handler http.Handler, target string) (int, string) {
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, target, nil))
	return answer.Code, answer.Body.String()
}

func TestChecksTellOfEachMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes journal
		m := New(nil)
		var ready, alive error
		m.Add(&member{name: "informer", notes: &notes, ready: func() error { return ready }})
		m.AddLeaderElected(&member{name: "reconciler", notes: &notes, alive: func() error { return alive }})
		code, text := get(m.Readyz(), "/readyz")
		assert.Equal(t, 503, code)
		assert.Contains(t, text, "[-] manager: does not run\n")
		code, _ = get(m.Healthz(), "/healthz")
		assert.Equal(t, 200, code)

		stop := start(t, m)
		synctest.Wait()
		code, text = get(m.Readyz(), "/readyz")
		assert.Equal(t, 200, code)
		assert.Equal(t, "ok\n", text)
		_, text = get(m.Readyz(), "/readyz?verbose")
		assert.Equal(t, "[+] manager: runs\n[+] informer: ready\n[+] reconciler: ready\nok\n", text)
		_, text = get(m.Healthz(), "/healthz?verbose")
		assert.Equal(t, "[+] informer: alive\n[+] reconciler: alive\nok\n", text)

		ready, alive = errors.New("no\nwatch"), errors.New("dead")
		code, text = get(m.Readyz(), "/readyz")
		assert.Equal(t, 503, code)
		assert.Equal(t, "[+] manager: runs\n[-] informer: no; watch\n[+] reconciler: ready\nfailed\n", text)
		code, text = get(m.Healthz(), "/healthz")
		assert.Equal(t, 503, code)
		assert.Equal(t, "[+] informer: alive\n[-] reconciler: dead\nfailed\n", text)
		var failed *RunnableError
		require.ErrorAs(t, m.Alive(), &failed)
		assert.Equal(t, RunnableError{Name: "reconciler", Err: alive}, *failed)
		assert.ErrorIs(t, m.Ready(), ready)
		require.NoError(t, stop())
	})
}

func TestManagerIsNotReadyWhileItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes journal
		m := New(nil)
		m.AddLeaderElected(&member{name: "led", notes: &notes, run: func(ctx context.Context) error {
			<-ctx.Done()
			synctest.Wait()
			_, text := get(m.Readyz(), "/readyz")
			assert.Contains(t, text, "[-] manager: is ending\n")
			assert.NoError(t, m.Alive())
			return nil
		}})
		stop := start(t, m)
		synctest.Wait()
		require.NoError(t, stop())
		assert.ErrorIs(t, m.Ready(), errNotRunning)
	})
}

func TestMemberThatCallsGoexitHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notes := &journal{}
		m, quit := New(nil), make(chan struct{})
		goexit := func(context.Context) error { <-quit; runtime.Goexit(); return nil }
		m.Add(&member{name: "worker", notes: notes, run: goexit})
		m.Add(&member{name: "other", notes: notes})
		result := make(chan error, 1)
		go func() { result <- m.Run(t.Context()) }()
		synctest.Wait()
		close(quit)
		var failed *RunnableError
		require.ErrorAs(t, <-result, &failed)
		assert.Equal(t, "worker", failed.Name)
		assert.ErrorContains(t, failed, "runtime.Goexit")
		assert.Contains(t, notes.take(), "other ends")
	})
}

// The signal may come before Run, while main asks the server for what it serves.
func TestServerOfAProgramThatHasBeenToldToEndIsNoFailure(t *testing.T) {
	if _, err := net.LookupHost("localhost"); err != nil {
		t.Skip("this machine has no name localhost")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 { // net looks at the context, or does not
		require.NoError(t, New(nil, WithServer("localhost:0")).Run(ended))
	}
}

func TestMemberThatEndsByItselfIsNotAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes journal
		m := New(nil)
		ends := true
		m.Add(&member{name: "short", notes: &notes, run: func(ctx context.Context) error {
			if !ends {
				<-ctx.Done()
			}
			return nil
		}})
		stop := start(t, m)
		synctest.Wait()
		assert.ErrorIs(t, m.Alive(), ErrEnded)
		assert.ErrorIs(t, m.Ready(), ErrEnded)
		require.NoError(t, stop())
		ends = false
		stop = start(t, m)
		synctest.Wait()
		assert.NoError(t, m.Alive(), "it runs again")
		require.NoError(t, stop())
	})
}

func TestMemberThatDoesNotAnswerIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes journal
		m := New(nil)
		release, asked := make(chan struct{}), make(chan struct{}, 9)
		m.Add(&member{name: "locked", notes: &notes, ready: func() error { asked <- struct{}{}; <-release; return nil }})
		m.Add(&member{name: "fine", notes: &notes})
		stop := start(t, m)
		synctest.Wait()
		for range 2 {
			before := time.Now()
			code, text := get(m.Healthz(), "/healthz")
			assert.Equal(t, 503, code)
			assert.Contains(t, text, "[-] locked: no answer for 5s")
			assert.Contains(t, text, "[+] fine: alive")
			assert.Equal(t, answerLimit, time.Since(before))
		}
		assert.ErrorIs(t, m.Alive(), ErrStuck)
		assert.Len(t, asked, 1)
		close(release)
		synctest.Wait()
		assert.NoError(t, m.Alive(), "it answers again")
		require.NoError(t, stop())
	})
}

func TestLedMemberThatWorksOnWithoutTheLeaseIsNotAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes journal
		server := reflectortest.Start(t)
		m := New(nil, WithElection(newLock(t, server, "one")))
		m.Add(&member{name: "informer", notes: &notes})
		release := make(chan struct{})
		m.AddLeaderElected(&member{name: "deaf", notes: &notes, run: func(ctx context.Context) error { <-ctx.Done(); <-release; return nil }})
		m.AddLeaderElected(&member{name: "reconciler", notes: &notes})
		stop := start(t, m)
		<-time.After(time.Minute)
		assert.NoError(t, m.Alive())
		server.Inject(reflectortest.Answer(500).On("", "leases"))
		<-time.After(time.Minute)
		code, text := get(m.Healthz(), "/healthz")
		assert.Equal(t, 503, code)
		assert.Contains(t, text, "[+] reconciler: alive\n[-] election: lease default/lease was lost, and deaf works on for")
		server.ClearFaults()
		close(release)
		<-time.After(time.Minute)
		assert.NoError(t, m.Alive())
		require.NoError(t, stop())
	})
}

func TestStoppedMemberThatWorksOnWithoutTheLeaseIsNotAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		m := New(nil, WithElection(newLock(t, server, "one")))
		release := make(chan struct{})
		deaf := m.AddLeaderElected(&member{name: "deaf", notes: &journal{}, run: func(context.Context) error { <-release; return nil }})
		stop := start(t, m)
		<-time.After(time.Minute)
		deaf.Stop()
		server.Inject(reflectortest.Answer(500).On("", "leases"))
		<-time.After(time.Minute)
		assert.ErrorContains(t, m.Alive(), "and a member that was stopped works on for")
		server.ClearFaults()
		close(release)
		require.NoError(t, stop())
	})
}

func TestCallThatDoesNotEndIsNotAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(configMap("ns", "a")))
		require.NoError(t, server.Create(configMap("ns", "b")))
		m := New(server.Config(), WithStuckAfter(time.Minute))
		configMaps, err := Informer[*corev1.ConfigMap](m, Selection{})
		require.NoError(t, err)
		release := make(chan struct{})
		Reconcile(m, "test", configMaps, func(_ context.Context, key store.Key, _ *corev1.ConfigMap) (reconcile.Result, error) {
			if key.Name == "a" {
				<-release
			}
			return reconcile.Result{}, nil
		}, reconcile.WithWorkers(2))
		stop := start(t, m)
		<-time.After(59 * time.Second)
		assert.NoError(t, m.Alive())
		<-time.After(2 * time.Second)
		assert.ErrorIs(t, m.Alive(), ErrStuck)
		assert.ErrorContains(t, m.Alive(), "ns/a")
		close(release)
		synctest.Wait()
		assert.NoError(t, m.Alive())
		require.NoError(t, stop())
	})
}

func TestTheOldestCallCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watch := &stopwatch{limit: time.Minute, running: map[*running]struct{}{}}
		old := &running{key: store.Key{Name: "old"}, since: time.Now()}
		watch.running[old] = struct{}{}
		<-time.After(2 * time.Minute)
		for range 20 {
			watch.running[&running{since: time.Now()}] = struct{}{}
		}
		assert.ErrorContains(t, watch.Alive(), "old")
	})
}

func TestServerRunsForAsLongAsAnythingDoes(t *testing.T) {
	var notes journal
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	m := New(nil, WithServer("127.0.0.1:0"), WithHandler("/metrics", hello))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(path string) (int, string) {
		answer, err := client.Get("http://" + m.Address() + path)
		require.NoError(t, err)
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, string(body)
	}
	up, address := make(chan struct{}, 9), ""
	m.Add(&member{name: "base", notes: &notes, run: func(ctx context.Context) error {
		up <- struct{}{}
		<-ctx.Done()
		code, _ := ask("/healthz")
		assert.Equal(t, 200, code)
		code, _ = ask("/readyz")
		assert.Equal(t, 503, code, "it is ending")
		return nil
	}})
	for range 2 {
		assert.Empty(t, m.Address())
		stop := start(t, m)
		<-up
		address = m.Address()
		code, text := ask("/readyz?verbose")
		assert.Equal(t, 200, code)
		assert.Contains(t, text, "base")
		_, text = ask("/metrics")
		assert.Equal(t, "hello", text)

		busy := New(nil, WithServer(address))
		busy.Add(&member{name: "never", notes: &notes})
		assert.ErrorContains(t, busy.Run(t.Context()), address)
		require.NoError(t, stop())
	}
	_, err := client.Get("http://" + address + "/healthz")
	assert.Error(t, err, "it is shut down")
	assert.NotContains(t, notes.take(), "never begins")
}

func TestHandlerOfAPatternThatIsTakenPanics(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	m := New(nil, WithServer(address), WithHandler("/healthz", http.NotFoundHandler()))
	assert.Panics(t, func() { _ = m.Run(t.Context()) })
	again, err := net.Listen("tcp", address)
	require.NoError(t, err, "the address is left alone")
	require.NoError(t, again.Close())
}

func TestEndOfTheServerWaitsForItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped := false
		end, err := New(nil, WithServer("127.0.0.1:0")).serve(t.Context(), func() { <-time.After(time.Minute); stopped = true })
		require.NoError(t, err)
		require.NoError(t, end())
		assert.True(t, stopped, "so that the goroutine does not outlive Run")
	})
}
