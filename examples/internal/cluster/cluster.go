package cluster

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Cluster is what an example works on.
type Cluster struct {
	kubernetes.Interface

	// Config is what clients of other kinds are made from.
	Config *rest.Config

	// Real is true for a cluster that -kubeconfig names. Examples watch it until
	// Ctrl-C; only the controllers write to it.
	Real bool
}

// Of returns an API server in memory as a cluster.
func Of(server *reflectortest.Server) (Cluster, error) {
	config := server.Config()
	clientset, err := kubernetes.NewForConfig(config)
	return Cluster{Interface: clientset, Config: config}, err
}

// Main is the main function of an example: it connects, calls run, and ends the
// program with a message if run fails. The context ends on Ctrl-C. The options are
// the ones of the API server in memory, if the example runs on it.
func Main(run func(ctx context.Context, out io.Writer, c Cluster) error, opts ...reflectortest.Option) {
	kubeconfig := flag.String("kubeconfig", "", "run on the cluster that this file names (default: an API server in memory; KUBECONFIG is ignored)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c, closeCluster, err := connect(ctx, *kubeconfig, opts...)
	if err == nil {
		err = run(ctx, os.Stdout, c)
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
	c := Cluster{Interface: clientset, Config: config, Real: true}
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

// Steps runs one step after the other, with a pause before each that lets a reader
// follow, and what was printed catch up.
func Steps(ctx context.Context, steps ...func() error) error {
	for _, step := range append(steps, func() error { return nil }) {
		select {
		case <-time.After(300 * time.Millisecond):
		case <-ctx.Done():
			return nil
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
