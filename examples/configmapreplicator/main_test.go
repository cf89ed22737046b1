package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestConfigMapReplicator(t *testing.T) {
	assert.Equal(t, `The settings are for the namespaces of team blue:
  bank/settings has the colour navy
  default/settings has the colour navy
  shop/settings has the colour navy
The settings change:
  bank/settings has the colour azure
  default/settings has the colour azure
  shop/settings has the colour azure
Another client changes a copy:
  bank/settings has the colour azure
  default/settings has the colour azure
  shop/settings has the colour azure
Another client deletes a copy:
  bank/settings has the colour azure
  default/settings has the colour azure
  shop/settings has the colour azure
The namespace zoo joins team blue:
  bank/settings has the colour azure
  default/settings has the colour azure
  shop/settings has the colour azure
  zoo/settings has the colour azure
The namespace shop leaves team blue:
  bank/settings has the colour azure
  default/settings has the colour azure
  zoo/settings has the colour azure
The settings are deleted:
  there are none
`, clustertest.Output(t, cluster.With(control, demonstrate)))
}

// world is a controller that runs, and a user.
type world struct {
	*testing.T
	demo
	server *reflectortest.Server
}

// start runs the controller until the end of the test, when nothing may be left that failed. There are namespaces of two teams.
func start(t *testing.T) *world {
	server := reflectortest.Start(t)
	c, err := cluster.Of(server)
	require.NoError(t, err)
	w := &world{T: t, demo: demo{Cluster: c}, server: server}
	w.must(w.namespaces(t.Context(), map[string]string{"default": "blue", "shop": "blue", "bank": "blue", "zoo": "red"}))
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- control(ctx, io.Discard, c) }()
	t.Cleanup(func() {
		cancel()
		w.must(<-result)
	})
	return w
}

func (w *world) must(err error) { w.Helper(); require.NoError(w, err) }

// where returns the namespaces that have settings, after some time.
func (w *world) where() string {
	<-time.After(time.Minute)
	all, err := reflectortest.List[*corev1.ConfigMap](w.server, "")
	w.must(err)
	var names []string
	for _, c := range all {
		names = append(names, c.Namespace)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// writes returns how many requests there were that write to a resource.
func (w *world) writes(verb string) int {
	return len(w.server.Requests(reflectortest.Verb(verb), reflectortest.ForResource("configmaps")))
}

func TestNothingIsWrittenWithoutAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		w.must(w.create(t.Context(), "settings", "team=blue"))
		require.Equal(t, "bank default shop", w.where())
		<-time.After(time.Hour)
		w.must(w.label(t.Context(), "zoo", "green"))
		<-time.After(time.Hour)
		assert.Equal(t, 1+2, w.writes("create"), "by the user, and a copy for each")
		assert.Equal(t, 1, w.writes("patch"), "the finalizer")
		assert.Zero(t, w.writes("delete"))
		w.must(w.patch(t.Context(), "default", `{"data":{"colour":"azure"}}`))
		<-time.After(time.Hour)
		assert.Equal(t, 1+1+2, w.writes("patch"), "the user's, and each copy once")
	})
}

func TestSourceStaysUntilItsCopiesAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		w.must(w.create(t.Context(), "settings", "team=blue"))
		require.Equal(t, "bank default shop", w.where())
		w.server.Inject(reflectortest.Answer(500).On("delete", "configmaps"))
		require.Error(t, w.CoreV1().ConfigMaps("default").Delete(t.Context(), "settings", metav1.DeleteOptions{}))
		w.must(w.server.Delete(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}}))
		assert.Equal(t, "bank default shop", w.where(), "no copy can be deleted")
		w.server.ClearFaults()
		<-time.After(10 * time.Minute)
		assert.Empty(t, w.where())
	})
}

func TestWhatIsNoSourceAnyMoreCanBeDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		w.must(w.create(t.Context(), "settings", "team=blue"))
		require.Equal(t, "bank default shop", w.where())
		w.must(w.patch(t.Context(), "default", `{"metadata":{"annotations":{"`+copyTo+`":null}}}`))
		assert.Equal(t, "default", w.where())
		settings, err := w.CoreV1().ConfigMaps("default").Get(t.Context(), "settings", metav1.GetOptions{})
		w.must(err)
		assert.Empty(t, settings.Finalizers)
	})
}

func TestConfigMapOfSomebodyElseIsLeftAloneAndTheOthersAreCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "settings"}, Data: map[string]string{"colour": "gold"}}
		w.must(w.server.Create(theirs))
		w.must(w.create(t.Context(), "settings", "team=blue"))
		require.Equal(t, "bank default shop", w.where())
		w.must(w.server.Get(theirs))
		assert.Equal(t, "gold", theirs.Data["colour"])
		w.must(w.server.Delete(theirs))
		<-time.After(10 * time.Minute)
		require.Equal(t, "bank default shop", w.where(), "it is copied when there is room")
	})
}

func TestSelectorThatMakesNoSenseChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		w.must(w.create(t.Context(), "settings", "team=blue"))
		require.Equal(t, "bank default shop", w.where())
		_, err := w.CoreV1().ConfigMaps("default").Patch(t.Context(), "settings", types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"`+copyTo+`":"team in"}}}`), metav1.PatchOptions{})
		w.must(err)
		assert.Equal(t, "bank default shop", w.where())
		assert.Equal(t, 1+1, w.writes("patch"), "the finalizer, and the user's")
	})
}
