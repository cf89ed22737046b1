package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/internal/e2e/apiserver"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/reflector/reflectortest/conformance"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// garbage are scenarios. A line is an object to create, or a command:
//
//	p < o!, q [x]     the ConfigMap p with the owners o, whose deletion p blocks, and q, and with the finalizer example.com/x
//	widget/p@b        a Widget in another namespace; the other kinds are role (without a namespace), pod and job
//	p < absent        an owner that never was; role/absent is one without a namespace
//	p < o#            an owner with another UID
//	p < ?             an owner of an unknown kind
//	delete p Orphan   a deletion, with or without a policy
//	adopt p < o!      gives p other owners
//	terminate b       deletes the other namespace
//	release p         takes the finalizers away
//	rest              waits until the collector has nothing to do, as a deletion does first
//
// The scenarios leave out what the real collector's own races decide. For example, it deletes a dependent that has dependents in the foreground, but in the
// background if the owner, which that dependent does not block, is gone by then.
var garbage = map[string]string{
	"an owner":                            "o; p < o; delete o Background",
	"an owner that stays":                 "o; p < o",
	"an owner that never was":             "p < absent; widget/q < absent; role/r < role/absent",
	"two owners, one stays":               "o; q; p < o!, q; widget/w < o, q; delete o Background",
	"two owners, both go":                 "o; q; p < o, q; delete o Background; rest; delete q Background",
	"another namespace":                   "o; p@b < o",
	"another UID":                         "o; p < o#",
	"an unknown kind":                     "o; p < ?; q < o, ?; delete o Background",
	"an owner without a namespace":        "role/o; p < role/o; q@b < role/o; rest; delete role/o Background",
	"an owner of one without a namespace": "o; role/p < o; delete o Background",
	"a chain":                             "o; p < o; widget/q < p; delete o Background",
	"a chain with a finalizer":            "o; p < o [x]; q < p; delete o Background; rest; release p",
	"a dependent with a finalizer":        "o; p < o [x]; delete o Background",
	"foreground":                          "o; p < o!; delete o Foreground",
	"foreground, blocked":                 "o; p < o! [x]; q < o!; delete o Foreground",
	"foreground, released":                "o; p < o! [x]; delete o Foreground; rest; release p",
	"foreground, not blocked":             "o; p < o [x]; q < o; delete o Foreground",
	"foreground, without a dependent":     "o; delete o Foreground",
	"foreground, a chain":                 "o; p < o!; q < p! [x]; delete o Foreground",
	"foreground, a chain, released":       "o; p < o!; widget/q < p!; r < widget/q! [x]; delete o Foreground; rest; release r",
	"foreground, two owners":              "o; q; p < o!, q; delete o Foreground",
	"foreground, another namespace":       "o; p@b < o! [x]; delete o Foreground",
	"foreground, a cycle":                 "o; p < o!; q < p!; adopt o < q!; delete o Foreground",
	"orphan":                              "o; p < o!; q < o; widget/r < o; delete o Orphan",
	"orphan, two owners":                  "o; q; p < o, q; delete o Orphan",
	"orphan, a finalizer":                 "o [x]; p < o; delete o Orphan",
	"a finalizer says orphan":             "o; p < o [orphan]; q < p; delete o Background",
	"a finalizer says foreground":         "o; p < o [foregroundDeletion]; q < p! [x]; delete o Background",
	"a job":                               "job/o; pod/p < job/o!; delete job/o",
	"a job in the background":             "job/o; pod/p < job/o!; delete job/o Background",
	"a pod on a node":                     "o; pod/p < o; delete o Background",
	"a namespace":                         "p@b; widget/q@b; job/o@b; terminate b",
	"a namespace, a finalizer":            "p@b [x]; q@b; terminate b; rest; release p@b",
	"a namespace, a pod on a node":        "pod/p@b; q@b; terminate b",
	"a namespace, owners":                 "o@b; p@b < o@b! [x]; widget/q@b < p@b; terminate b; rest; release p@b",
}

var garbageKinds = map[string]schema.GroupVersionKind{
	"":       {Version: "v1", Kind: "ConfigMap"},
	"pod":    {Version: "v1", Kind: "Pod"},
	"job":    {Group: "batch", Version: "v1", Kind: "Job"},
	"role":   {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	"ns":     {Version: "v1", Kind: "Namespace"},
	"widget": {Group: "conformance.example.com", Version: "v1", Kind: "Widget"},
}

// TestGarbageCollection compares what Kubernetes' own garbage collector and its controller of namespaces leave on a kube-apiserver with what reflectortest leaves. The collector's version
// is the one of internal/controlplane. It also has to come to the same result on reflectortest's server.
func TestGarbageCollection(t *testing.T) {
	skipUnderRace(t)
	program := buildController(t, "collector")

	server := apiserver.Start(t, apiserver.Options{})
	conformance.InstallWidgets(t, server.Config())
	startController(t, program, server.Config())
	double := reflectortest.Start(t, reflectortest.OnPort(), reflectortest.WithResource(conformance.Widget))
	startController(t, program, double.Config())
	t.Run("scenarios", func(t *testing.T) {
		for name, script := range garbage {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				own := reflectortest.Start(t, reflectortest.WithResource(conformance.Widget))
				w := newCollection(t, own.Config(), func(*collection, []string) {
					for own.CollectGarbage() {
					}
				})
				states := w.run(script, nil)
				newCollection(t, double.Config(), (*collection).await).run(script, states)
				newCollection(t, server.Config(), (*collection).await).run(script, states)
			})
		}
	})
}

// buildController builds a program of testdata with the versions of internal/controlplane.
func buildController(t *testing.T, name string) string {
	t.Helper()
	folder := t.TempDir()
	for _, file := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join("..", "..", "controlplane", file))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, file), content, 0o644))
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, "main.go"), shim(t, name, "package main"), 0o644))
	runGo(t, folder, "build", "-trimpath", "-ldflags=-s -w", "-o", name, ".")
	return filepath.Join(folder, name)
}

// startController runs a program of buildController until the test ends.
func startController(t *testing.T, program string, config *rest.Config) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, program, apiserver.WriteKubeconfig(t, config))
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 30 * time.Second
	var output strings.Builder
	command.Stdout, command.Stderr = &output, &output
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		cancel()
		_ = command.Wait()
		if t.Failed() {
			lines := strings.Split(output.String(), "\n")
			t.Logf("the controller's last lines:\n%s", strings.Join(lines[max(0, len(lines)-30):], "\n"))
		}
	})
}

// collection is one scenario on one server.
type collection struct {
	t      *testing.T
	client dynamic.Interface
	label  string // of all objects, and the namespace
	uids   map[string]types.UID
	rest   func(w *collection, want []string) // waits until the collector has nothing to do
}

func newCollection(t *testing.T, config *rest.Config, rest func(*collection, []string)) *collection {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	w := &collection{t: t, client: client, label: "garbage-" + utilrand.String(8), uids: map[string]types.UID{}, rest: rest}
	for _, namespace := range []string{w.label, w.label + "-b"} {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
		u.SetName(namespace)
		u.SetLabels(map[string]string{"scenario": w.label})
		_, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(t.Context(), u, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	return w
}

// run runs a scenario and returns the states at rest. wanted are those of another server.
func (w *collection) run(script string, wanted [][]string) (states [][]string) {
	w.t.Helper()
	for line := range strings.SplitSeq(script+"; rest", ";") {
		words := strings.Fields(line)
		// Before a deletion, too: the collector hears of each kind in a watch of its own, and an orphan that it does not know yet is lost.
		if words[0] == "rest" || words[0] == "delete" || words[0] == "terminate" {
			var want []string
			if wanted != nil {
				want = wanted[len(states)]
			}
			w.rest(w, want)
			state := w.state()
			if wanted != nil {
				require.Equal(w.t, want, state, "%s: %s", script, line)
			}
			states = append(states, state)
		}
		switch words[0] {
		case "rest":
		case "terminate":
			require.NoError(w.t, w.at("ns/"+words[1]).Delete(w.t.Context(), w.name("ns/"+words[1]), metav1.DeleteOptions{}))
		case "delete":
			var options metav1.DeleteOptions
			if len(words) > 2 {
				options.PropagationPolicy = new(metav1.DeletionPropagation(words[2]))
			}
			require.NoError(w.t, w.at(words[1]).Delete(w.t.Context(), w.name(words[1]), options))
		case "adopt":
			_, id, refs, _ := w.parse(strings.TrimPrefix(strings.TrimSpace(line), "adopt"))
			patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": refs}})
			require.NoError(w.t, err)
			_, err = w.at(id).Patch(w.t.Context(), w.name(id), types.MergePatchType, patch, metav1.PatchOptions{})
			require.NoError(w.t, err)
		case "release":
			_, err := w.at(words[1]).Patch(w.t.Context(), w.name(words[1]), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			require.NoError(w.t, err)
		default:
			w.create(line)
		}
	}
	return states
}

// parse reads a line that describes an object.
func (w *collection) parse(line string) (kind, id string, refs []metav1.OwnerReference, finalizers []string) {
	line, finalizer, _ := strings.Cut(line, "[")
	id, owners, _ := strings.Cut(line, "<")
	id = strings.TrimSpace(id)
	kind, _, _ = parts(id)
	if finalizer = strings.Trim(finalizer, "[] "); finalizer == "x" {
		finalizer = "example.com/x"
	}
	if finalizer != "" {
		finalizers = []string{finalizer}
	}
	for owner := range strings.SplitSeq(owners, ",") {
		if owner = strings.TrimSpace(owner); owner != "" {
			refs = append(refs, w.reference(owner))
		}
	}
	return kind, id, refs, finalizers
}

func (w *collection) create(line string) {
	w.t.Helper()
	kind, id, refs, finalizers := w.parse(line)
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(garbageKinds[kind])
	pod := map[string]any{"restartPolicy": "Never", "nodeName": "none", "containers": []any{map[string]any{"name": "c", "image": "i"}}}
	switch kind {
	case "pod":
		u.Object["spec"] = pod
	case "job":
		u.Object["spec"] = map[string]any{"template": map[string]any{"spec": pod}}
	}
	u.SetName(w.name(id))
	u.SetLabels(map[string]string{"scenario": w.label})
	u.SetFinalizers(finalizers)
	if refs != nil {
		u.SetOwnerReferences(refs)
	}
	made, err := w.at(id).Create(w.t.Context(), u, metav1.CreateOptions{})
	require.NoError(w.t, err)
	w.uids[id] = made.GetUID()
}

// reference makes the reference to an owner, which may be none.
func (w *collection) reference(owner string) metav1.OwnerReference {
	id := strings.TrimRight(owner, "!#")
	kind, _, _ := parts(id)
	gvk := garbageKinds[kind]
	ref := metav1.OwnerReference{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Name: w.name(id), UID: w.uids[id]}
	if strings.HasSuffix(owner, "!") {
		ref.BlockOwnerDeletion = new(true)
	}
	switch {
	case id == "?":
		ref = metav1.OwnerReference{APIVersion: "none.example.com/v1", Kind: "Unknown", Name: "unknown", UID: "unknown"}
	case ref.UID == "" || strings.HasSuffix(owner, "#"):
		ref.UID = types.UID("absent-" + w.label + "-" + id)
	}
	return ref
}

// parts takes kind/name@b apart.
func parts(id string) (kind, name, namespace string) {
	name, namespace, _ = strings.Cut(id, "@")
	if before, after, ok := strings.Cut(name, "/"); ok {
		kind, name = before, after
	}
	return kind, name, namespace
}

// name is the name of an object. Those without a namespace need one of their own.
func (w *collection) name(id string) string {
	kind, name, _ := parts(id)
	if kind == "role" || kind == "ns" {
		return w.label + "-" + name
	}
	return strings.ReplaceAll(name, "?", "unknown")
}

func (w *collection) at(id string) dynamic.ResourceInterface {
	kind, _, namespace := parts(id)
	gvk := garbageKinds[kind]
	resource := w.client.Resource(gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s"))
	switch {
	case kind == "role" || kind == "ns":
		return resource
	case namespace != "":
		return resource.Namespace(w.label + "-" + namespace)
	}
	return resource.Namespace(w.label)
}

// state shows all that the collector can change of the objects.
func (w *collection) state() []string {
	w.t.Helper()
	all := []string{}
	for _, gvk := range garbageKinds {
		list, err := w.client.Resource(gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind)+"s")).List(w.t.Context(), metav1.ListOptions{LabelSelector: "scenario=" + w.label})
		require.NoError(w.t, err)
		for _, u := range list.Items {
			text := fmt.Sprintf("%s %s/%s of", gvk.Kind, u.GetNamespace(), u.GetName())
			for _, ref := range u.GetOwnerReferences() {
				text += fmt.Sprintf(" %s %s", ref.Kind, ref.Name)
				if ref.BlockOwnerDeletion != nil {
					text += fmt.Sprintf(" blocked=%t", *ref.BlockOwnerDeletion)
				}
			}
			grace := "none"
			if u.GetDeletionGracePeriodSeconds() != nil {
				grace = fmt.Sprint(*u.GetDeletionGracePeriodSeconds())
			}
			text += fmt.Sprintf(", held by %q, deleting %t, grace %s", u.GetFinalizers(), u.GetDeletionTimestamp() != nil, grace)
			all = append(all, strings.ReplaceAll(text, w.label, "a"))
		}
	}
	slices.Sort(all)
	return all
}

// await waits until a collector that runs by itself has reached the wanted state. Since what must not happen takes time, too, it then waits until the
// collector has found objects without an owner that are newer than all others.
func (w *collection) await(want []string) {
	w.t.Helper()
	assert.EventuallyWithT(w.t, func(c *assert.CollectT) { assert.Equal(c, want, w.state()) }, time.Minute, 50*time.Millisecond)
	for i := range 4 {
		id := fmt.Sprintf("last-%d-%s", i, utilrand.String(5))
		if i%2 == 1 {
			id = "widget/" + id
		}
		w.create(id + " < " + strings.Replace(id, "last", "absent", 1))
		require.Eventually(w.t, func() bool {
			_, err := w.at(id).Get(w.t.Context(), w.name(id), metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		}, time.Minute, 20*time.Millisecond)
	}
}
