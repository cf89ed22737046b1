package persist

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/await"
	"github.com/kubereflector/kubereflector/store/persist"
)

type configMap = corev1.ConfigMap

// What a program is told by its environment: its file, the server, the namespace, what it calls itself, and up to which version it is to follow.
const (
	fileEnv      = "KUBEREFLECTOR_PERSIST_FILE"
	serverEnv    = "KUBEREFLECTOR_PERSIST_SERVER"
	namespaceEnv = "KUBEREFLECTOR_PERSIST_NAMESPACE"
	nameEnv      = "KUBEREFLECTOR_PERSIST_NAME"
	versionEnv   = "KUBEREFLECTOR_PERSIST_VERSION"
)

// live is the program: an informer over a file. It says what it hears of, and when all of it is in the file; then it waits to be killed.
func live(path string) int {
	if err := follow(path); err != nil {
		fmt.Println("failed", err)
		return 1
	}
	return 0
}

// notes says what changes in a cache after its start.
type notes struct{}

func (notes) Start(*store.Snapshot[*configMap]) {}

func (notes) Commit(commit *store.Commit[*configMap]) {
	for _, c := range commit.Changes {
		fmt.Println("change", c.Type, c.Key.Name)
	}
}

func follow(path string) error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv(serverEnv))
	if err != nil {
		return err
	}
	config.UserAgent = os.Getenv(nameEnv)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	begin := time.Now()
	s, err := persist.Open(path, store.ObjectKey[*configMap], persist.Options[*configMap]{Resource: "configmaps", Delay: 100 * time.Millisecond})
	if err != nil {
		return err
	}
	fmt.Println("loaded", s.State().Loaded, s.Len())
	fmt.Println("opened in", time.Since(begin))
	unfollow := s.Cache().Follow(notes{})
	defer unfollow()
	i := informer.NewStored(client.CoreV1().ConfigMaps(os.Getenv(namespaceEnv)), s)
	initial := 0
	i.Handle(informer.HandlerFuncs[*configMap]{
		OnAdd: func(c *configMap, first bool) {
			if first {
				initial++
			}
		},
		OnDelete: func(c *configMap, _ bool) { fmt.Println("deletion", c.Name) },
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	go func() { fmt.Println("ended", i.Run(ctx)) }()
	if err := i.WaitForSync(ctx); err != nil {
		return err
	}
	fmt.Println("synced in", time.Since(begin), "stale:", s.State().Stale)
	if err := await.Version(ctx, i.Cache(), os.Getenv(versionEnv)); err != nil {
		return err
	}
	unfollow() // it returns when all have been told of what can be read
	for s.State().Unwritten > 0 || i.Subscriptions()[0].Lag() > 0 {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	fmt.Println("initial", initial)
	fmt.Println("done")
	<-ctx.Done()
	return nil
}

// said is what a program said until it was killed.
type said []string

// about returns what it said that begins with a word, in no particular order.
func (s said) about(word string) []string {
	var all []string
	for _, line := range s {
		if rest, ok := strings.CutPrefix(line, word+" "); ok {
			all = append(all, rest)
		}
	}
	slices.Sort(all)
	return all
}

// start runs the program until it has followed the server up to a version, and kills it.
func (w *world) start(name, version string) said {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	program := exec.CommandContext(ctx, os.Args[0])
	program.Env = append(os.Environ(), fileEnv+"="+w.file, serverEnv+"="+w.kubeconfig, namespaceEnv+"="+w.namespace, nameEnv+"="+name, versionEnv+"="+version)
	program.Stderr = os.Stderr
	out, err := program.StdoutPipe()
	require.NoError(w, err)
	require.NoError(w, program.Start())
	kill := sync.OnceFunc(func() { program.Process.Kill() })
	defer kill()
	var all said
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() == "done" {
			kill()
		}
		all = append(all, lines.Text())
	}
	require.ErrorContains(w, program.Wait(), "killed", "%s said: %v", name, all)
	require.Contains(w, all, "done", "%s", name)
	w.Logf("%s: %d lines, loaded %v, opened %v, synced %v", name, len(all), all.about("loaded"), all.about("opened"), all.about("synced"))
	return all
}
