package persist

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
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
