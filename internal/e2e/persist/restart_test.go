package persist

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/contrib/persist"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/await"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// auditPolicy has all reads of ConfigMaps noted: lists when they are answered, watches when they begin.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [list, watch]
  resources: [{group: "", resources: [configmaps]}]
- level: None
`

// world is a server, a namespace of it, and a file that programs have one after the other.
type world struct {
	*testing.T
	server     *apiserver.Server
	audit      string
	kubeconfig string
	namespace  string
	file       string
	configMaps typedcorev1.ConfigMapInterface
}

func newWorld(t *testing.T) *world {
	folder := t.TempDir()
	policy := filepath.Join(folder, "policy.yaml")
	require.NoError(t, os.WriteFile(policy, []byte(auditPolicy), 0o600))
	w := &world{T: t, audit: filepath.Join(folder, "audit.log"), file: filepath.Join(folder, "cache", "configmaps")}
	w.server = apiserver.Start(t, apiserver.Options{APIServerFlags: map[string][]string{"audit-policy-file": {policy}, "audit-log-path": {w.audit}}})
	w.kubeconfig, w.namespace = w.server.Kubeconfig(t), w.server.Namespace(t)
	config := w.server.Config()
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	clientset, err := kubernetes.NewForConfigAndClient(config, client)
	require.NoError(t, err)
	w.configMaps = clientset.CoreV1().ConfigMaps(w.namespace)
	return w
}

// size returns how many objects there are.
func size() int {
	if os.Getenv("KUBEREFLECTOR_STORM") == "full" {
		return 20_000
	}
	return 1_500
}

func name(n int) string { return fmt.Sprintf("%06d", n) }

func (w *world) fill(n int) {
	w.Helper()
	group, ctx := errgroup.WithContext(w.Context())
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error {
			c := &configMap{ObjectMeta: metav1.ObjectMeta{Name: name(i)}, Data: map[string]string{"key": strings.Repeat("x", 1<<10)}}
			_, err := w.configMaps.Create(ctx, c, metav1.CreateOptions{})
			return err
		})
	}
	require.NoError(w, group.Wait())
}

// insist does something until the server does not refuse it: one that was just started again may for a moment.
func (w *world) insist(do func(context.Context) error) {
	w.Helper()
	err := wait.PollUntilContextTimeout(w.Context(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		return do(ctx) == nil, nil
	})
	require.NoError(w, err)
}

// version returns the one that the server is at.
func (w *world) version() (version string) {
	w.Helper()
	w.insist(func(ctx context.Context) error {
		list, err := w.configMaps.List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil {
			version = list.ResourceVersion
		}
		return err
	})
	return version
}

// change makes changes of each kind, to objects of its own for each round, and returns what somebody has to hear of, and which objects are gone for good.
func (w *world) change(round int) (changes, gone []string) {
	w.Helper()
	base := 100 * round
	for i := range 30 {
		n := name(base + i)
		switch {
		case i < 10:
			_, err := w.configMaps.Patch(w.Context(), n, "application/merge-patch+json", fmt.Appendf(nil, `{"data":{"round":"%d"}}`, round), metav1.PatchOptions{})
			require.NoError(w, err)
			changes = append(changes, "Modification "+n)
		case i < 20:
			require.NoError(w, w.configMaps.Delete(w.Context(), n, metav1.DeleteOptions{}))
			changes, gone = append(changes, "Deletion "+n), append(gone, n)
		default:
			require.NoError(w, w.configMaps.Delete(w.Context(), n, metav1.DeleteOptions{}))
			_, err := w.configMaps.Create(w.Context(), &configMap{ObjectMeta: metav1.ObjectMeta{Name: n}}, metav1.CreateOptions{})
			require.NoError(w, err)
			changes = append(changes, "Deletion "+n, "Addition "+n)
		}
	}
	for i := range 10 {
		n := fmt.Sprintf("new-%d-%d", round, i)
		_, err := w.configMaps.Create(w.Context(), &configMap{ObjectMeta: metav1.ObjectMeta{Name: n}}, metav1.CreateOptions{})
		require.NoError(w, err)
		changes = append(changes, "Addition "+n)
	}
	slices.Sort(changes)
	return changes, gone
}

// asked is what a program asked the server for, as that noted it.
type asked struct{ lists, watches, expired int }

func (w *world) asked(program string) (a asked) {
	w.Helper()
	file, err := os.Open(w.audit)
	require.NoError(w, err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Buffer(nil, 1<<20); lines.Scan(); {
		var e struct {
			Stage, Verb, UserAgent, RequestURI string
			ResponseStatus                     struct{ Code int }
		}
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.UserAgent != program {
			continue // a server that is killed leaves half a line
		}
		request, err := url.Parse(e.RequestURI)
		require.NoError(w, err)
		switch {
		case e.ResponseStatus.Code == 410:
			a.expired++
		case e.Verb == "list" && e.Stage == "ResponseComplete", e.Stage == "ResponseStarted" && request.Query().Get("sendInitialEvents") == "true":
			a.lists++
		case e.Verb == "watch" && e.Stage == "ResponseStarted":
			a.watches++
		}
	}
	require.NoError(w, lines.Err())
	return a
}

func TestProgramThatIsKilledAndStartedAgainListsNothing(t *testing.T) {
	w := newWorld(t)
	n := size()
	w.fill(n)
	first := w.start("first", w.version())
	assert.Len(t, first.about("change"), n)
	assert.Equal(t, 1, w.asked("first").lists, "there was nothing in the file")

	// The history lasts: what happened comes from the watch.
	changes, gone := w.change(0)
	second := w.start("second", w.version())
	assert.Equal(t, []string{fmt.Sprintf("%d %d", n, n)}, second.about("loaded"))
	assert.Equal(t, changes, second.about("change"), "and nothing else")
	assert.Subset(t, second.about("deletion"), gone)
	asked := w.asked("second")
	assert.Zero(t, asked.lists, "full lists, as the server noted them")
	assert.Positive(t, asked.watches)

	// It does not: what happened comes from comparing a list with the file.
	changes, gone = w.change(1)
	version := w.version()
	require.NoError(t, w.server.Forget(t.Context()))
	third := w.start("third", version)
	assert.Equal(t, []string{fmt.Sprintf("%d %d", n, n)}, third.about("loaded"))
	assert.Equal(t, changes, third.about("change"), "exactly what was missed")
	assert.Subset(t, third.about("deletion"), gone)
	assert.Equal(t, 1, w.asked("third").lists)

	// And the file is where the server is.
	version = w.version()
	fourth := w.start("fourth", version)
	assert.Empty(t, fourth.about("change"))
	assert.Equal(t, []string{fmt.Sprint(n)}, fourth.about("initial"))
	assert.Zero(t, w.asked("fourth").lists)
	t.Logf("asked: %+v, %+v, %+v, %+v", w.asked("first"), w.asked("second"), w.asked("third"), w.asked("fourth"))
}

func TestMain(m *testing.M) {
	if path := os.Getenv(fileEnv); path != "" {
		os.Exit(live(path))
	}
	goleak.VerifyTestMain(m)
}

// patience is how long anything may take before a test fails. A back-off alone can be half a minute, and the machine may be slow.
const patience = 3 * time.Minute

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
