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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Cluster is what an example works on.
type Cluster struct {
	kubernetes.Interface

	// Config is what clients of other kinds are made from.
	Config *rest.Config

	// Real is true if there is somebody's cluster behind it. Examples look at one
	// until they are interrupted, and change nothing in it.
	Real bool
}

// Of returns an API server in memory as a cluster.
func Of(server *reflectortest.Server) (Cluster, error) {
	config := server.Config()
	clientset, err := kubernetes.NewForConfig(config)
	return Cluster{Interface: clientset, Config: config}, err
}

// Main is the main function of an example: it connects, calls run, and ends the
// program with a message if run fails. The context ends when somebody presses
// Ctrl-C. The options are those of the cluster in memory, should it be one.
func Main(run func(ctx context.Context, out io.Writer, c Cluster) error, opts ...reflectortest.Option) {
	kubeconfig := flag.String("kubeconfig", "", "watch the cluster that this file names (default: what KUBECONFIG names, or else a cluster in memory)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c, closeCluster, err := connect(*kubeconfig, opts...)
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

func connect(kubeconfig string, opts ...reflectortest.Option) (_ Cluster, closeCluster func(), err error) {
	if kubeconfig == "" && os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		server, err := reflectortest.NewServer(opts...)
		if err != nil {
			return Cluster{}, nil, err
		}
		c, err := Of(server)
		return c, server.Close, err
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules() // they know KUBECONFIG
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return Cluster{}, nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS = -1 // a server says itself when it gets too much
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return Cluster{}, nil, fmt.Errorf("connect as the kubeconfig says: %w", err)
	}
	return Cluster{Interface: clientset, Config: config, Real: true}, func() {}, nil
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
