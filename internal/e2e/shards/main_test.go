package shards

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/controller/shard"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
	"github.com/kubereflector/kubereflector/internal/e2e/network"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// TestMain is also the main function of replicas.
func TestMain(m *testing.M) {
	if os.Getenv(replicaVariable) != "" {
		if err := runReplica(os.Getenv(replicaVariable)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(servers[true].Tests(servers[false].Tests(m)))
}

// servers select shards, or ignore the selector.
var servers = map[bool]*apiserver.Shared{true: withGate(true), false: withGate(false)}

func withGate(gate bool) *apiserver.Shared {
	return &apiserver.Shared{Options: apiserver.Options{APIServerFlags: map[string][]string{
		"feature-gates": {fmt.Sprint("ShardedListAndWatch=", gate)},
	}}}
}

// patience is how long anything may take before a test fails: the machine may be slow.
const patience = 4 * time.Minute

// eventually waits until something is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) { return so(), nil })
	require.NoError(t, err, "waited for: %s", what)
}

// process is a replica.
type process struct {
	t        *testing.T
	identity string
	line     *network.Line
	command  *exec.Cmd
	input    io.WriteCloser
	output   *bufio.Reader
	wait     func() error // may be called again
}

func (w *world) start(identity string) *process {
	w.Helper()
	config := w.server.Config()
	p := &process{t: w.T, identity: identity, line: network.Listen(w.T, config)}
	text, err := json.Marshal(map[string]string{"Identity": identity, "Kubeconfig": apiserver.WriteKubeconfig(w.T, config), "Namespace": w.namespace})
	require.NoError(w, err)
	program, err := os.Executable()
	require.NoError(w, err)
	p.command = exec.Command(program)
	p.command.Env = append(os.Environ(), replicaVariable+"="+string(text))
	p.command.Stderr = os.Stderr
	p.input, err = p.command.StdinPipe()
	require.NoError(w, err)
	output, err := p.command.StdoutPipe()
	require.NoError(w, err)
	p.output = bufio.NewReader(output)
	require.NoError(w, p.command.Start())
	p.wait = sync.OnceValue(p.command.Wait)
	w.Cleanup(p.kill)
	return p
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	_ = p.command.Process.Kill() // or it has ended
	_ = p.wait()
}

// interrupt ends the process as a rollout does.
func (p *process) interrupt() {
	p.t.Helper()
	require.NoError(p.t, p.command.Process.Signal(os.Interrupt))
	require.NoError(p.t, p.wait())
}

// ask asks a replica how it is.
func (p *process) ask() (said report) {
	p.t.Helper()
	_, err := io.WriteString(p.input, "\n")
	require.NoError(p.t, err)
	line, err := p.output.ReadBytes('\n')
	require.NoError(p.t, err)
	require.NoError(p.t, json.Unmarshal(line, &said))
	return said
}

// replicaVariable is that by which this program knows that it is a replica, and which.
const replicaVariable = "KUBEREFLECTOR_E2E_SHARDS_REPLICA"

// The times of the leases: short, so that a takeover does not take long, and not so short that a member on a busy machine loses its own.
const (
	leaseDuration = 8 * time.Second
	renewDeadline = 5 * time.Second
	renewPeriod   = 500 * time.Millisecond

	groupName = "plots"
	shards    = 16
)

// replica is one of several processes that share plots.
type replica struct {
	Identity, Kubeconfig, Namespace string

	plots dynamic.ResourceInterface

	mu     sync.Mutex
	caches map[int]*informer.Informer[*unstructured.Unstructured]
}

// report is what a replica says of itself when it is asked.
type report struct {
	Objects int    // in its caches
	Heap    uint64 // bytes, after a collection
	Shards  int
}

// runReplica is the main function of a replica, which ends with its input or when it is interrupted. Each line of the input asks for a report.
func runReplica(text string) error {
	r := replica{caches: map[int]*informer.Informer[*unstructured.Unstructured]{}}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", r.Kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	resource, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	r.plots = objects.Resource(plots).Namespace(r.Namespace)
	group := shard.Group{Namespace: r.Namespace, Name: groupName, Shards: shards}
	member, err := shard.New(resource.CoordinationV1(), group, r.Identity, shard.Working(r.work),
		shard.WithTimes(leaseDuration, renewDeadline, renewPeriod))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	go func() {
		defer stop()
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			_ = json.NewEncoder(os.Stdout).Encode(r.report(member))
		}
	}()
	return member.Run(ctx)
}

func (r *replica) report(member *shard.Member) report {
	r.mu.Lock()
	defer r.mu.Unlock()
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	said := report{Heap: memory.HeapAlloc, Shards: len(member.Owned())}
	for _, cache := range r.caches {
		said.Objects += cache.Cache().Len()
	}
	return said
}

// work is what there is to do for a shard.
func (r *replica) work(_ context.Context, s shard.Shard) (shard.Work, error) {
	objects := informer.New(client.Dynamic(r.plots), informer.WithName(s.String()),
		informer.WithReflector(reflector.WithShard(store.Shards(store.ByUID, s.Of)[s.Index])))
	reconciler := reconcile.New("plots "+s.String(), objects, func(ctx context.Context, key store.Key, _ *unstructured.Unstructured) (reconcile.Result, error) {
		return r.reconcile(ctx, objects, key)
	}, reconcile.WithWorkers(2), reconcile.WithDrainTimeout(2*time.Second))
	return shard.Work{Caches: objects, Led: remembered{r, s.Index, objects, reconciler}}, nil
}

// remembered is a reconciler whose cache is counted while it runs.
type remembered struct {
	of      *replica
	index   int
	objects *informer.Informer[*unstructured.Unstructured]
	controller.Runner
}

func (m remembered) Run(ctx context.Context) error {
	m.of.mu.Lock()
	m.of.caches[m.index] = m.objects
	m.of.mu.Unlock()
	defer func() {
		m.of.mu.Lock()
		defer m.of.mu.Unlock()
		delete(m.of.caches, m.index)
	}()
	return m.Runner.Run(ctx)
}

// What is in a plot. A replica that reconciles one writes twice, without preconditions, so that the server would take what two write at once, and its
// history shows it.
const (
	wanted = "wanted" // a number, by the test
	begun  = "begun"  // the number
	done   = "done"   // the same, at the end
	author = "author" // of the last write
	term   = "term"   // of the shard that the author held
)

// reconcile does what a plot wants.
func (r *replica) reconcile(ctx context.Context, objects *informer.Informer[*unstructured.Unstructured], key store.Key) (reconcile.Result, error) {
	plot, ok := objects.Cache().Get(key)
	if !ok || field(plot, done) == field(plot, wanted) {
		return reconcile.Result{}, nil
	}
	if _, err := r.write(ctx, plot, begun); err != nil {
		return reconcile.Result{}, err
	}
	written, err := r.write(ctx, plot, done)
	if err == nil {
		reconcile.RecordWrite(ctx, written)
	}
	return reconcile.Result{}, err
}

// write says of a plot what has become of it.
func (r *replica) write(ctx context.Context, plot *unstructured.Unstructured, what string) (*unstructured.Unstructured, error) {
	if err := shard.CheckHeld(ctx); err != nil {
		return nil, err
	}
	s, _ := shard.FromContext(ctx)
	patch := fmt.Appendf(nil, `{"spec":{%q:%q,%q:%q,%q:"%d"}}`, what, field(plot, wanted), author, r.Identity, term, s.Generation)
	return r.plots.Patch(ctx, plot.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
}

// field returns one of the fields above.
func field(plot *unstructured.Unstructured, name string) string {
	text, _, _ := unstructured.NestedString(plot.Object, "spec", name)
	return text
}
