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
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/kubereflector/kubereflector/controller/leader"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/store"
)

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
	reads  atomic.Int32 // requests that list or watch tasks
}

// RoundTrip implements [http.RoundTripper].
func (r *replica) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet && path.Base(request.URL.Path) == "configmaps" {
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
		reconcile.ExpectWrite(ctx, written)
	}
	return reconcile.Result{}, err
}

// write says of a task what has become of it.
func (r *replica) write(ctx context.Context, task *corev1.ConfigMap, what string) (*corev1.ConfigMap, error) {
	patch := fmt.Appendf(nil, `{"data":{%q:%q,%q:%q,%q:%q}}`, what, task.Data[wanted], author, r.Identity, read, task.ResourceVersion)
	return r.client.CoreV1().ConfigMaps(task.Namespace).Patch(ctx, task.Name, types.MergePatchType, patch, metav1.PatchOptions{})
}
