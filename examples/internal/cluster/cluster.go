package cluster

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Cluster is what an example works on.
type Cluster struct {
	kubernetes.Interface

	// Config is what clients of other kinds are made from.
	Config *rest.Config

	// Memory is the in-memory API server, which the demo changes. It is nil on a cluster that
	// -kubeconfig names.
	Memory Memory
}

// Memory is a *reflectortest.Server: see [Server]. Packages that name the server's own type compile
// its generic code again.
type Memory interface {
	Create(object metav1.Object) error
	Update(object metav1.Object) error
	Delete(object metav1.Object, policy ...metav1.DeletionPropagation) error
	Get(object metav1.Object) error
	Requests(filters ...reflectortest.RequestFilter) []reflectortest.Request
	ForgetRequests()
}

// Server returns the in-memory API server, for faults.
func Server(c Cluster) *reflectortest.Server { return c.Memory.(*reflectortest.Server) }

// Program is an example, or its demo. Its output goes to out, from any goroutine. It ends
// with ctx.
type Program func(ctx context.Context, out io.Writer, c Cluster) error

// With returns an example with a demo. In memory, the demo runs beside the example, which ends with
// the demo. On a cluster of -kubeconfig the example runs alone, until Ctrl-C.
func With(example, demo Program) Program {
	return func(ctx context.Context, out io.Writer, c Cluster) error {
		if c.Memory == nil {
			return example(ctx, out, c)
		}
		return While(ctx,
			func(ctx context.Context) error { return example(ctx, out, c) },
			func(ctx context.Context) error { return demo(ctx, out, c) })
	}
}

// While runs a program until do returns, and returns the errors of both. If the program ends first,
// the context of do ends.
func While(ctx context.Context, program, do func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	result := make(chan error, 1)
	go func() {
		defer stop()
		result <- program(ctx)
	}()
	err := do(ctx)
	stop()
	return errors.Join(<-result, err)
}

// InMemoryOnly returns an example that refuses -kubeconfig.
func InMemoryOnly(example Program) Program {
	return func(ctx context.Context, out io.Writer, c Cluster) error {
		if c.Memory == nil {
			return errors.New("this example runs in memory only: leave out -kubeconfig")
		}
		return example(ctx, out, c)
	}
}

// Serial returns a writer for several goroutines. The out of a [Program] is one.
func Serial(out io.Writer) io.Writer { return &serial{out: out} }

type serial struct {
	mu  sync.Mutex
	out io.Writer
}

func (s *serial) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(p)
}

// Of returns an in-memory API server as a cluster.
func Of(server *reflectortest.Server) (Cluster, error) {
	config := server.Config()
	clientset, err := kubernetes.NewForConfig(config)
	return Cluster{Interface: clientset, Config: config, Memory: server}, err
}

// Main is the main function of an example. It connects and runs the example, and exits with a
// message if that fails. The context ends at Ctrl-C and at SIGTERM. The options are for the in-memory API server.
func Main(example Program, opts ...reflectortest.Option) {
	kubeconfig := flag.String("kubeconfig", "", "run on the cluster of this file (default: an in-memory API server; KUBECONFIG is ignored)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, closeCluster, err := connect(ctx, *kubeconfig, opts...)
	if err == nil {
		err = example(ctx, Serial(os.Stdout), c)
		closeCluster()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

func connect(ctx context.Context, kubeconfig string, opts ...reflectortest.Option) (_ Cluster, closeCluster func(), err error) {
	if kubeconfig == "" {
		server, err := reflectortest.NewServer(opts...)
		if err != nil {
			return Cluster{}, nil, err
		}
		c, err := Of(server)
		return c, server.Close, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return Cluster{}, nil, fmt.Errorf("read -kubeconfig %s: %w", kubeconfig, err)
	}
	config.QPS = -1 // the server itself refuses what it cannot serve
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return Cluster{}, nil, fmt.Errorf("connect as -kubeconfig %s says: %w", kubeconfig, err)
	}
	c := Cluster{Interface: clientset, Config: config}
	return c, func() {}, c.reach(ctx)
}

// reach fails unless the API server answers within four seconds. A server that
// refuses to tell its version is reachable, too.
func (c Cluster) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	err := c.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error()
	if err == nil || apierrors.IsForbidden(err) {
		return nil
	}
	return fmt.Errorf("reach the API server %s: %w; check the file of -kubeconfig, or leave the flag out to run in memory", c.Config.Host, err)
}

// Pause is the time between two steps.
const Pause = 300 * time.Millisecond

// Steps runs the steps in order. It pauses before each step and after the last one, so that the
// example reacts to a step before the next one begins.
func Steps(ctx context.Context, steps ...func() error) error {
	for _, step := range append(steps, func() error { return nil }) {
		select {
		case <-time.After(Pause):
		case <-ctx.Done():
			return nil
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// Create returns a step that creates objects on the in-memory API server.
func (c Cluster) Create(objects ...metav1.Object) func() error {
	return each(objects, c.Memory.Create)
}

// Update returns a step that updates objects and their status on the in-memory API server.
func (c Cluster) Update(objects ...metav1.Object) func() error {
	return each(objects, c.Memory.Update)
}

// Delete returns a step that deletes objects from the in-memory API server.
func (c Cluster) Delete(objects ...metav1.Object) func() error {
	return each(objects, func(object metav1.Object) error { return c.Memory.Delete(object) })
}

func each(objects []metav1.Object, do func(metav1.Object) error) func() error {
	return func() error {
		for _, object := range objects {
			if err := do(object); err != nil {
				return err
			}
		}
		return nil
	}
}

// Say returns a step that prints a line.
func Say(out io.Writer, line string) func() error {
	return func() error {
		_, err := fmt.Fprintln(out, line)
		return err
	}
}
