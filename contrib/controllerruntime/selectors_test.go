package controllerruntime

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/clientgo"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var theirs = labels.SelectorFromSet(labels.Set{"app": "theirs"})

// bySelectors caches Secrets by several selectors.
func bySelectors(s *informer.Selectors) Options {
	return Options{Selectors: map[client.Object]*informer.Selectors{&corev1.Secret{}: s}}
}

func TestSelectorsOfAKindComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := secretServer(t)
		var selectors informer.Selectors
		selectors.Add(mine)
		c := startedWith(t, bySelectors(&selectors), server.Config(), cache.Options{
			DefaultNamespaces: map[string]cache.Config{"a": {}},
			ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {Transform: func(o any) (any, error) {
				o.(metav1.Object).SetAnnotations(map[string]string{"transformed": "yes"})
				return o, nil
			}}},
		})
		names := func() string {
			t.Helper()
			var list corev1.SecretList
			require.NoError(t, c.List(t.Context(), &list))
			var all []string
			for i := range list.Items {
				assert.Equal(t, "yes", list.Items[i].Annotations["transformed"])
				all = append(all, list.Items[i].Name)
			}
			return strings.Join(all, " ")
		}
		assert.Equal(t, "owned", names())
		var metas metav1.PartialObjectMetadataList
		metas.SetGroupVersionKind(secretKind)
		require.NoError(t, c.List(t.Context(), &metas))
		assert.Len(t, metas.Items, 1)

		var events []string
		i, err := c.GetInformer(t.Context(), &corev1.Secret{})
		require.NoError(t, err)
		_, err = i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { events = append(events, "add "+o.(client.Object).GetName()) },
			UpdateFunc: func(_, o any) { events = append(events, "update "+o.(client.Object).GetName()) },
			DeleteFunc: func(any) { events = append(events, "delete") },
		})
		require.NoError(t, err)
		synctest.Wait()

		selectors.Add(theirs)
		require.NoError(t, selectors.WaitForSync(t.Context()))
		assert.Equal(t, "other owned", names())
		require.NoError(t, c.List(t.Context(), &metas))
		assert.Len(t, metas.Items, 2)
		assert.Equal(t, "1", token(t, c, "a", "other"))
		synctest.Wait()
		selectors.Remove(mine)
		assert.Equal(t, "other", names())
		synctest.Wait()
		assert.Equal(t, []string{"add owned", "add other", "delete"}, events)
	})
}

func TestCacheWithoutSelectorsIsSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startedWith(t, bySelectors(new(informer.Selectors)), secretServer(t).Config(), cache.Options{})
		var list corev1.SecretList
		require.NoError(t, c.List(t.Context(), &list))
		assert.Empty(t, list.Items)
	})
}

func TestSelectorsThatCannotBe(t *testing.T) {
	config := secretServer(t).Config()
	selectors := new(informer.Selectors)
	for text, test := range map[string]struct {
		with Options
		opts cache.Options
	}{
		"the options have a NewInformer": {bySelectors(selectors), cache.Options{NewInformer: clientgo.NewSharedIndexInformer}},
		"the entry is nil":               {with: bySelectors(nil)},
		"two entries have this kind":     {with: Options{Selectors: map[client.Object]*informer.Selectors{&corev1.Secret{}: selectors, &corev1.Secret{}: selectors}}},
		"it is cached by reference": {with: Options{
			ByReference: map[client.Object]Reference{&corev1.Secret{}: {}}, Selectors: map[client.Object]*informer.Selectors{&corev1.Secret{}: selectors},
		}},
	} {
		test.opts.Mapper = mapper()
		_, err := test.with.NewCache(config, test.opts)
		require.ErrorIs(t, err, ErrSelectors)
		require.ErrorContains(t, err, text)
	}

	c := startedWith(t, bySelectors(selectors), config, cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {Label: mine}}})
	err := c.List(t.Context(), &corev1.SecretList{})
	require.ErrorIs(t, err, ErrSelectors)
	assert.ErrorContains(t, err, `cache.Options have the label selector "app=mine"`)
}

func TestSelectorsThatImplyOthers(t *testing.T) {
	for _, test := range []struct {
		selector, other string
		want            bool
	}{
		{"a=1", "a=1", true},
		{"a=1,b=2", "a=1", true},
		{"a=1", "a=1,b=2", false},
		{"a=1", "a=2", false},
		{"b=1", "a=1", false},
		{"a in (1,2)", "a in (1,2,3)", true},
		{"a in (1,4)", "a in (1,2,3)", false},
		{"a=1", "a", true},
		{"a=1", "a!=2", true},
		{"a=1", "a!=1", false},
		{"a=1", "!a", false},
		{"!a", "!a", true},
		{"!a", "a!=1", true},
		{"!a", "a", false},
		{"a notin (1,2)", "a!=1", true},
		{"a!=1", "a notin (1,2)", false},
		{"a!=1", "a", false},
		{"a", "a", true},
		{"a", "a!=1", false},
		{"a>5", "a>5", true},
		{"a>5", "a", true},
		{"a>6", "a>5", false}, // not known
		{"a=7", "a>5", true},
		{"a in (4,7)", "a>5", false},
		{"", "a=1", false},
		{"a=1", "", true},
	} {
		selector, err := labels.Parse(test.selector)
		require.NoError(t, err)
		other, err := labels.Parse(test.other)
		require.NoError(t, err)
		assert.Equal(t, test.want, implies(selector, other), "%s implies %s", test.selector, test.other)
	}
	assert.False(t, implies(nil, mine))
	assert.False(t, implies(mine, labels.Nothing()))
	assert.True(t, implies(labels.Nothing(), mine))
}
