package faults

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

var (
	seed     = flag.Int64("faults.seed", 1, "decides what is written, and which faults come when")
	duration = flag.Duration("faults.duration", 0, "how long random faults come; 0 is each fault once")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	// patience is how long readers may take to agree with the server. A back-off alone can be half a minute, and the machine may be slow.
	patience = 3 * time.Minute
)

// hold returns how long a fault lasts. It may last twice as long.
func hold() time.Duration {
	if *duration == 0 {
		return time.Second
	}
	return 3 * time.Second
}

// world is two API servers over one etcd, with what reads from them and writes to them.
type world struct {
	*testing.T
	random     *rand.Rand
	servers    [2]*apiserver.Server
	admin      kubernetes.Interface // of the first
	namespaces []string
	last       []*corev1.ConfigMap
	readers    []*reader
	log        roundLog
}

// roundLog has what readers logged in a round. It is printed if the test fails.
type roundLog struct {
	mu sync.Mutex // protects the buffer
	bytes.Buffer
}

func (l *roundLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(line)
}

func (l *roundLog) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.Reset()
	return l.String()
}

func (w *world) logger(reader string) *zap.Logger {
	encoder := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
	return zap.New(zapcore.NewCore(encoder, zapcore.AddSync(&w.log), zap.InfoLevel)).With(zap.String("reader", reader))
}

func TestReadersAgreeWithTheServerAfterFaults(t *testing.T) {
	t.Logf("the same again: go test -C internal/e2e ./faults -v -faults.seed=%d -faults.duration=%v", *seed, *duration)
	w := newWorld(t)
	for _, add := range []func(*world){
		addTyped, addPages, addDynamic, addMetadata, addSelector, addShard, addNamespaces, addFactory, addReconciler, addByReference, addControllerRuntime,
	} {
		add(w)
	}
	w.round(nil, w.readers)
	if *duration == 0 {
		for _, n := range w.random.Perm(len(faults)) {
			w.round([]fault{faults[n]}, w.readers)
		}
	}
	for end := time.Now().Add(*duration); time.Now().Before(end); {
		chosen := []fault{faults[w.random.Intn(len(faults))]}
		// All readers must see what a restore will lose, so that it comes alone.
		if other := faults[w.random.Intn(len(faults))]; other.place != chosen[0].place && other.name != restore && chosen[0].name != restore {
			chosen = append(chosen, other)
		}
		slices.SortFunc(chosen, func(a, b fault) int { return int(a.place - b.place) })
		of := w.readers
		if w.random.Intn(2) == 0 {
			of = nil
			for _, n := range w.random.Perm(len(w.readers))[:len(w.readers)/2] {
				of = append(of, w.readers[n])
			}
		}
		w.round(chosen, of)
	}
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, random: rand.New(rand.NewSource(*seed))}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(w.log.take())
		}
	})
	w.servers[0] = apiserver.Start(t, apiserver.Options{APIServerFlags: map[string][]string{"feature-gates": {"ShardedListAndWatch=true"}}})
	w.servers[1] = w.servers[0].StartReplica(t)
	w.admin = w.client(w.servers[0])
	w.namespaces = []string{w.servers[0].Namespace(t), w.servers[0].Namespace(t)}
	_, err := w.admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	w.allow()
	w.createLast()
	return w
}

// client returns a client whose connections end with the test, and which waits for no answer for long.
func (w *world) client(server *apiserver.Server) kubernetes.Interface {
	config := server.Config()
	config.Timeout = 10 * time.Second
	connections, err := rest.HTTPClientFor(config)
	require.NoError(w, err)
	w.Cleanup(connections.CloseIdleConnections)
	made, err := kubernetes.NewForConfigAndClient(config, connections)
	require.NoError(w, err)
	return made
}

// eventually tries something until it works.
func (w *world) eventually(what string, try func(context.Context) error) {
	w.Helper()
	var last error
	err := wait.PollUntilContextTimeout(w.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		err := try(ctx)
		if err == nil || last == nil || ctx.Err() == nil { // what was wrong before says more than that there was no more time
			last = err
		}
		return err == nil, nil
	})
	require.NoError(w, err, "%s, seed %d: %v", what, *seed, last)
}

// round has faults while objects are written, and checks all readers after them.
func (w *world) round(chosen []fault, of []*reader) {
	var names []string
	for _, f := range chosen {
		names = append(names, f.name)
	}
	if chosen == nil {
		names = []string{"no fault"}
	}
	name := fmt.Sprintf("%s for %d of %d readers", strings.Join(names, " with "), len(of), len(w.readers))
	begin := time.Now()
	w.log.take()
	for _, r := range w.readers {
		r.mu.Lock()
		if r.restored { // only now, because a read that began before the restore may have been noted after the check
			r.history.forget()
			r.restored = false
		}
		r.mu.Unlock()
	}
	stop := w.write()
	pause(w.Context(), hold()/3)
	// Owned selectors go before some faults, and come back while they last.
	var owners []*reader
	for _, r := range w.readers {
		if r.own != nil && w.random.Intn(2) == 0 {
			owners = append(owners, r)
			r.own(false)
		}
	}
	var ends []func()
	for _, f := range chosen {
		ends = append(ends, f.begin(w, of))
	}
	pause(w.Context(), hold()/2+time.Duration(w.random.Int63n(int64(hold()))))
	for _, r := range owners {
		r.own(true)
	}
	pause(w.Context(), hold()/2)
	// Later writes would hide that an earlier one was lost, so that half of the rounds have none.
	late := w.random.Intn(2) == 0 && !slices.Contains(names, restore)
	if !late {
		stop()
	}
	for _, end := range slices.Backward(ends) {
		end()
	}
	if late {
		pause(w.Context(), hold()/3)
		stop()
	}
	over := time.Now()
	w.check(name)
	w.Logf("%s: %.1f s, readers agreed after %.1f s", name, over.Sub(begin).Seconds(), time.Since(over).Seconds())
}

// write has a writer on each server, until stop is called. Many writes fail: nobody counts them.
func (w *world) write() (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	var writers sync.WaitGroup
	for n := range w.servers {
		clients, random := w.client(w.servers[n]), rand.New(rand.NewSource(w.random.Int63()))
		writers.Go(func() {
			for ctx.Err() == nil {
				one, done := context.WithTimeout(ctx, 2*time.Second)
				w.writeOne(one, clients, random)
				done()
				pause(ctx, time.Duration(5+random.Intn(20))*time.Millisecond)
			}
		})
	}
	return func() { cancel(); writers.Wait() }
}

func (w *world) writeOne(ctx context.Context, clients kubernetes.Interface, random *rand.Rand) {
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("object-", random.Intn(12)), Labels: map[string]string{"app": apps[random.Intn(len(apps))]}},
		Data:       map[string]string{"n": fmt.Sprint(random.Int63())},
	}
	if steady(object.Name) {
		object.Labels["app"] = apps[0]
	}
	client := clients.CoreV1().ConfigMaps(w.namespaces[random.Intn(2)])
	action := random.Intn(10)
	if action < 3 {
		_ = client.Delete(ctx, object.Name, metav1.DeleteOptions{})
	}
	if action > 0 { // and at once again, or more often a change
		if _, err := client.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
			_, _ = client.Create(ctx, object, metav1.CreateOptions{})
		}
	}
}

// steady reports whether an object always has the first label, so that a reconciler of that label is called when it is deleted.
func steady(name string) bool { return name == "object-0" || name == "object-1" }

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// check waits until each reader has what the server has, and fails if one did what it never should.
func (w *world) check(round string) {
	var all objects
	w.eventually(round, func(ctx context.Context) error {
		list, err := w.admin.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{}) // at no version: by a quorum
		if err != nil {
			return err
		}
		all = objects{}
		for i := range list.Items {
			all[keyOf(&list.Items[i])] = &list.Items[i]
		}
		for _, r := range w.readers {
			if err := r.compare(ctx, all); err != nil {
				return fmt.Errorf("reader %q: %w", r.name, err)
			}
		}
		return nil
	})
	for _, r := range w.readers {
		r.mu.Lock()
		for key, object := range all {
			if how, gone := r.gone[object.UID]; gone && !r.restored && !r.selects {
				r.wrongLocked("%s, but %s exists", how, key)
			}
		}
		for _, wrong := range r.wrong {
			w.Errorf("%s, seed %d, reader %q: %s", round, *seed, r.name, wrong)
		}
		r.wrong, r.gone = nil, map[types.UID]string{}
		r.mu.Unlock()
	}
	if w.Failed() {
		w.FailNow() // the log is that of this round
	}
}

// compare compares what a reader has, and what its events add up to, with the objects of the server.
func (r *reader) compare(ctx context.Context, all objects) error {
	got, err := r.content(ctx, all)
	if err != nil {
		return err
	}
	have, events := map[store.Key]state{}, map[store.Key]state{}
	for key, object := range all {
		if r.covers(object) {
			have[key] = stateOf(object, r.metadata)
			events[key] = stateOf(object, r.partial(object))
		}
	}
	if err := difference(have, got); err != nil {
		return fmt.Errorf("content: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := difference(events, r.shown); err != nil {
		return fmt.Errorf("events: %w", err)
	}
	return nil
}

// difference returns an error about one of the keys whose states differ.
func difference(want, got map[store.Key]state) error {
	keys := map[store.Key]bool{}
	for _, each := range []map[store.Key]state{want, got} {
		for key := range each {
			keys[key] = true
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(keys), store.Key.Compare) {
		if want[key] != got[key] {
			return fmt.Errorf("%s is %v, and on the server %v", key, got[key], want[key])
		}
	}
	return nil
}
