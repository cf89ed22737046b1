package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/controller/leader"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// tasks is how many objects the replicas have to reconcile.
const tasks = 40

// world is a namespace of a server, with tasks, and all that has happened to them.
type world struct {
	*testing.T
	clients
	kubeconfig string
	namespace  string

	// mu protects the fields below it.
	mu      sync.Mutex
	history map[string][]*corev1.ConfigMap // of each task, in the order of resource versions
	leases  []*coordinationv1.Lease        // the states of the lease
}

func newWorld(t *testing.T) *world {
	server := shared.Server(t)
	w := &world{T: t, clients: newClients(t, server), kubeconfig: server.Kubeconfig(t), namespace: server.Namespace(t), history: map[string][]*corev1.ConfigMap{}}
	w.record(func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
		return w.CoreV1().ConfigMaps(w.namespace).Watch(ctx, opts)
	})
	w.record(func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
		return w.CoordinationV1().Leases(w.namespace).Watch(ctx, opts)
	})
	for n := range tasks {
		task := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("task-%02d", n)}, Data: map[string]string{wanted: "1"}}
		_, err := w.CoreV1().ConfigMaps(w.namespace).Create(t.Context(), task, metav1.CreateOptions{})
		w.must(err)
	}
	return w
}

func (w *world) must(err error) { w.Helper(); require.NoError(w.T, err) }

// record notes all that happens, from the beginning of an empty namespace on.
func (w *world) record(open func(context.Context, metav1.ListOptions) (watch.Interface, error)) {
	list, err := w.CoreV1().ConfigMaps(w.namespace).List(w.Context(), metav1.ListOptions{})
	w.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	events, err := open(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	w.must(err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for event := range events.ResultChan() {
			w.note(event)
		}
		if ctx.Err() == nil {
			w.Error("a watch ended, and so the history is not complete")
		}
	}()
	w.Cleanup(func() {
		cancel()
		events.Stop()
		<-ended
	})
}

func (w *world) note(event watch.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch object := event.Object.(type) {
	case *corev1.ConfigMap:
		w.history[object.Name] = append(w.history[object.Name], object)
	case *coordinationv1.Lease:
		w.leases = append(w.leases, object)
	}
}

// leader returns who holds the lease.
func (w *world) leader() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.leases) == 0 || w.leases[len(w.leases)-1].Spec.HolderIdentity == nil {
		return ""
	}
	return *w.leases[len(w.leases)-1].Spec.HolderIdentity
}

// writes returns how often a replica wrote.
func (w *world) writes(identity string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, states := range w.history {
		for _, task := range states {
			if written(task) == identity {
				n++
			}
		}
	}
	return n
}

// finished reports whether all that was wanted is done.
func (w *world) finished() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, states := range w.history {
		if last := states[len(states)-1]; last.Data[done] != last.Data[wanted] {
			return false
		}
	}
	return len(w.history) == tasks
}

// want has something to be done all the time, until the returned function is called.
func (w *world) want() (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for n := 2; ctx.Err() == nil; n++ {
			name, patch := fmt.Sprintf("task-%02d", n*7%tasks), fmt.Appendf(nil, `{"data":{%q:%q,%q:""}}`, wanted, strconv.Itoa(n), author)
			_, err := w.CoreV1().ConfigMaps(w.namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
			if err != nil && ctx.Err() == nil {
				w.Errorf("want something of %s: %v", name, err)
			}
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	return func() { cancel(); running.Wait() }
}

// written returns who made a task be in a state: a replica, or nobody of them.
func written(task *corev1.ConfigMap) string { return task.Data[author] }

func TestAnotherReplicaTakesOverFromALeaderThatIsKilled(t *testing.T) {
	w := newWorld(t)
	stop := w.want()
	defer stop()
	const replicas = 4
	running := map[string]*process{}
	start := func(n int) { identity := fmt.Sprint("replica-", n); running[identity] = w.startReplica(identity) }
	start(0)
	start(1)
	var order []string // of the leaders
	for n := 2; ; n++ {
		eventually(t, "a new leader to work", func() bool {
			now := w.leader()
			return running[now] != nil && w.writes(now) >= tasks
		})
		order = append(order, w.leader())
		if n == replicas {
			break
		}
		running[w.leader()].kill()
		delete(running, w.leader())
		start(n)
	}
	stop()
	eventually(t, "all to be done", w.finished)
	last := w.leader()
	for identity, replica := range running {
		if identity != last {
			replica.interrupt()
		}
	}
	running[last].interrupt()
	assert.Contains(t, running[last].errors.String(), fmt.Sprintf(reads, 1), "it kept its cache warm, and did not read it again to lead")
	eventually(t, "the lease to be given up", func() bool { return w.leader() == "" })

	w.mu.Lock()
	defer w.mu.Unlock()
	w.checkLeases(order)
	for name, states := range w.history {
		w.checkHistory(name, states)
	}
	w.checkTerms(order)
}

// checkLeases checks the order of the leaders, and that no leader takes the lease before it expires.
func (w *world) checkLeases(order []string) {
	var terms []string
	for n, lease := range w.leases {
		holder := *lease.Spec.HolderIdentity
		if n > 0 && holder == *w.leases[n-1].Spec.HolderIdentity {
			continue
		}
		terms = append(terms, holder)
		if n == 0 || holder == "" {
			continue
		}
		took := lease.Spec.AcquireTime.Sub(w.leases[n-1].Spec.RenewTime.Time)
		w.Logf("%s took over %v after the last renewal", holder, took)
		assert.GreaterOrEqual(w, took, leaseDuration-time.Second, "the lease was still held")
	}
	assert.Equal(w, slices.Concat([]string{""}, order, []string{""}), terms, "a candidate announces the lease first, the last leader gives it up")
}

// checkHistory requires that nobody wrote to a task between the beginning and the end of what another replica did there.
func (w *world) checkHistory(name string, states []*corev1.ConfigMap) {
	at := "" // work
	for n, state := range states {
		if n > 0 {
			w.older(states[n-1].ResourceVersion, state.ResourceVersion)
		}
		who := written(state)
		if n == 0 || who == "" {
			continue // the test
		}
		w.older(state.Data[read], state.ResourceVersion)
		before := states[n-1]
		switch {
		case state.Data[begun] != before.Data[begun]:
			assert.NotEqual(w, at, who, "%s: somebody begins twice, at last at version %s", name, state.ResourceVersion)
			at = who
		case state.Data[done] != before.Data[done]:
			assert.Equal(w, at, who, "%s: somebody ends at version %s what another one has begun", name, state.ResourceVersion)
			assert.Equal(w, state.Data[begun], state.Data[done], "%s: what ends at version %s is not what was begun last", name, state.ResourceVersion)
			at = ""
		default:
			at = who // it begins again what somebody who was killed had begun
		}
	}
	assert.Empty(w, at, "%s: somebody has not ended", name)
}

// checkTerms requires that no leader wrote after the first write of the next one, to any task, and that it knew all that was written before.
func (w *world) checkTerms(order []string) {
	first, last := map[string]string{}, map[string]string{}
	for _, states := range w.history {
		for _, state := range states {
			who := written(state)
			if who == "" {
				continue
			}
			if first[who] == "" || compare(w.T, state.ResourceVersion, first[who]) < 0 {
				first[who] = state.ResourceVersion
			}
			if last[who] == "" || compare(w.T, state.ResourceVersion, last[who]) > 0 {
				last[who] = state.ResourceVersion
			}
		}
	}
	assert.Len(w, first, len(order), "only leaders write")
	for n := 1; n < len(order); n++ {
		assert.Negative(w, compare(w.T, last[order[n-1]], first[order[n]]), "%s wrote after %s had begun", order[n-1], order[n])
	}
}

func (w *world) older(a, b string) {
	w.Helper()
	assert.Negative(w, compare(w.T, a, b), "%s and %s", a, b)
}

func compare(t *testing.T, a, b string) int {
	t.Helper()
	order, err := resourceversion.CompareResourceVersion(a, b)
	require.NoError(t, err)
	return order
}

// replicaVariable is that by which this program knows that it is a replica, and which.
const replicaVariable = "KUBEREFLECTOR_E2E_REPLICA"

// The times of the lease: short, so that a takeover does not take long, and not so short that a leader on a busy machine loses it.
const (
	leaseDuration = 5 * time.Second
	renewDeadline = 4 * time.Second
	retryPeriod   = 500 * time.Millisecond

	leaseName = "tasks"
)

// reads is what a replica says at its end.
const reads = "Requests that read all tasks: %d\n"

// What is in a task, which is a ConfigMap. A replica that reconciles one writes twice: when it begins, and when it has done what is wanted. It does so
// without preconditions, so that the server would take what two replicas write at once, and its history shows it.
const (
	wanted = "wanted" // a number, by the test
	begun  = "begun"  // the number, and by whom
	done   = "done"   // the same, at the end
	author = "author" // of the last write
	read   = "read"   // the resource version of what the author had read
)

// replica is one of several processes of which one reconciles.
type replica struct {
	Identity   string
	Kubeconfig string
	Namespace  string

	next   http.RoundTripper
	client kubernetes.Interface
	tasks  *informer.Informer[*corev1.ConfigMap]
	reads  atomic.Int32 // requests whose answer has all tasks
}

// RoundTrip implements [http.RoundTripper].
func (r *replica) RoundTrip(request *http.Request) (*http.Response, error) {
	// Before a term, the informer asks for the server's version by a list of one object. If its own watch does not reach that version soon, a short
	// second watch goes on where the cache is. Neither has all tasks.
	query := request.URL.Query()
	resumes := query.Get("watch") != "" && query.Get("sendInitialEvents") != "true"
	if request.Method == http.MethodGet && path.Base(request.URL.Path) == "configmaps" && query.Get("limit") != "1" && !resumes {
		r.reads.Add(1)
	}
	return r.next.RoundTrip(request)
}

// startReplica starts a replica as a process.
func (w *world) startReplica(identity string) *process {
	w.Helper()
	text, err := json.Marshal(replica{Identity: identity, Kubeconfig: w.kubeconfig, Namespace: w.namespace})
	w.must(err)
	program, err := os.Executable()
	w.must(err)
	command := exec.Command(program)
	command.Env = append(os.Environ(), replicaVariable+"="+string(text))
	return startProcess(w.T, command)
}

// runReplica is the main function of a replica, which ends with its input or when it is interrupted.
func runReplica(text string) error {
	var r replica
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", r.Kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { r.next = next; return &r })
	if r.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	r.tasks = informer.New(r.client.CoreV1().ConfigMaps(r.Namespace))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: r.Namespace, Name: leaseName},
		Client:     r.client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: r.Identity},
	}
	reconciler := reconcile.New("tasks", r.tasks, r.reconcile, reconcile.WithWorkers(4))
	// The caches outlive what reads them.
	reading, stopReading := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.tasks.Run(reading) }()
	err = leader.New(lock, reconciler, leader.WithTimes(leaseDuration, renewDeadline, retryPeriod)).Run(ctx)
	fmt.Fprintf(os.Stderr, reads, r.reads.Load())
	stopReading()
	if caches := <-ended; err == nil {
		err = caches
	}
	return err
}

// reconcile does what a task wants.
func (r *replica) reconcile(ctx context.Context, _ store.Key, task *corev1.ConfigMap) (reconcile.Result, error) {
	if task == nil || task.Data[wanted] == "" || task.Data[done] == task.Data[wanted] {
		return reconcile.Result{}, nil
	}
	if _, err := r.write(ctx, task, begun); err != nil {
		return reconcile.Result{}, err
	}
	select {
	case <-time.After(20 * time.Millisecond): // it is work
	case <-ctx.Done():
		return reconcile.Result{}, context.Cause(ctx)
	}
	written, err := r.write(ctx, task, done)
	if err == nil {
		reconcile.RecordWrite(ctx, written)
	}
	return reconcile.Result{}, err
}

// write says of a task what has become of it.
func (r *replica) write(ctx context.Context, task *corev1.ConfigMap, what string) (*corev1.ConfigMap, error) {
	patch := fmt.Appendf(nil, `{"data":{%q:%q,%q:%q,%q:%q}}`, what, task.Data[wanted], author, r.Identity, read, task.ResourceVersion)
	return r.client.CoreV1().ConfigMaps(task.Namespace).Patch(ctx, task.Name, types.MergePatchType, patch, metav1.PatchOptions{})
}
