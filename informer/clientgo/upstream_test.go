//go:build newest

// client-go has typed informers since 0.37. The table is of the tests of the same version.

package clientgo

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/cache"
)

// deletions are what a typed handler was told of deletions.
type deletions struct {
	mu  sync.Mutex
	all []cache.DeletedObject[*configMap]
}

func (d *deletions) note(deleted cache.DeletedObject[*configMap]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, deleted)
}

func TestTypedHandlersOfClientGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a", "x"), named("b"), named("c"))
		typed := cache.NewTypedSharedIndexInformer[*configMap](NewTyped(configMaps(t, server)))
		var plain, detailed diary
		var gone deletions
		funcs := cache.TypedResourceEventHandlerFuncs[*configMap]{
			AddFunc:    func(c *configMap) { plain.OnAdd(c, false) },
			UpdateFunc: func(prior, c *configMap) { plain.OnUpdate(prior, c) },
			DeleteFunc: gone.note,
		}
		_, err := typed.AddTypedEventHandler(funcs)
		require.NoError(t, err)
		_, err = typed.AddTypedEventHandler(cache.TypedResourceEventHandlerDetailedFuncs[*configMap]{
			AddFunc: func(c *configMap, initial bool) { detailed.OnAdd(c, initial) },
		})
		require.NoError(t, err)
		silent, err := typed.AddTypedEventHandler(cache.TypedResourceEventHandlerFuncs[*configMap]{})
		require.NoError(t, err)
		hour := time.Hour
		var resynced diary
		_, err = typed.AddTypedEventHandler(cache.TypedResourceEventHandlerFuncs[*configMap]{
			UpdateFunc: func(prior, c *configMap) { resynced.OnUpdate(prior, c) },
		}, cache.HandlerOptions{ResyncPeriod: &hour})
		require.NoError(t, err)
		_, err = typed.AddTypedEventHandler(funcs, cache.HandlerOptions{}, cache.HandlerOptions{})
		assert.Error(t, err, "one of them at most")

		run(t, typed)
		synctest.Wait()
		require.NoError(t, server.Update(named("a", "y")))
		require.NoError(t, server.Delete(named("b")))
		synctest.Wait()
		relist(t, server, func() { require.NoError(t, server.Delete(named("c"))) })
		assert.Equal(t, []string{"add a:x", "add b", "add c", "update a:x>a:y"}, plain.read())
		assert.Equal(t, []string{"initial a:x", "initial b", "initial c"}, detailed.read())
		assert.True(t, silent.HasSynced())
		require.Len(t, gone.all, 2)
		assert.Nil(t, gone.all[0].FinalStateUnknown)
		assert.Equal(t, "b", gone.all[0].OptionalObj.Name)
		require.NotNil(t, gone.all[1].FinalStateUnknown)
		assert.Equal(t, "c", gone.all[1].OptionalObj.Name)
		for n, key := range []string{"default/b", "default/c"} {
			assert.Equal(t, key, gone.all[n].GetKey())
			assert.Equal(t, key, gone.all[n].GetObjectName().String())
		}
		<-time.After(time.Hour)
		synctest.Wait()
		assert.Contains(t, resynced.read(), "resync a:y")
	})
}

func TestTypedFilteringHandlerOfClientGo(t *testing.T) {
	testFilteringHandler(t, func(s *shared, d *diary) error {
		_, err := cache.NewTypedSharedIndexInformer[*configMap](s).AddTypedEventHandler(cache.TypedFilteringResourceEventHandler[*configMap]{
			FilterFunc: func(c *configMap) bool { return c.Data["word"] == "in" },
			Handler: cache.TypedResourceEventHandlerDetailedFuncs[*configMap]{
				AddFunc:    func(c *configMap, initial bool) { d.OnAdd(c, initial) },
				UpdateFunc: func(prior, c *configMap) { d.OnUpdate(prior, c) },
				DeleteFunc: func(deleted cache.DeletedObject[*configMap]) { d.OnDelete(deleted.OptionalObj) },
			},
		})
		return err
	})
}

func TestTypedIndexersOfClientGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a", "xy"), named("b", "y"))
		informer := cache.NewTypedSharedIndexInformer[*configMap](NewTyped(configMaps(t, server)))
		words := func(c *configMap) ([]string, error) { return []string{c.Data["word"]}, nil }
		require.NoError(t, informer.AddTypedIndexers(cache.TypedIndexers[*configMap]{"word": words}))
		run(t, informer)
		synctest.Wait()
		indexer := informer.GetTypedIndexer()
		require.NoError(t, indexer.AddTypedIndexers(cache.TypedIndexers[*configMap]{"letters": func(c *configMap) ([]string, error) { return letters(c) }}))
		found, err := indexer.ByTypedIndex("word", "y")
		require.NoError(t, err)
		require.Len(t, found, 1)
		assert.Equal(t, "b", found[0].Name)
		found, err = indexer.TypedIndex("letters", found[0])
		require.NoError(t, err)
		assert.Len(t, found, 2)
		_, err = indexer.ByTypedIndex("none", "y")
		assert.ErrorIs(t, err, ErrNoIndex)
		_, err = indexer.TypedIndex("none", found[0])
		assert.ErrorIs(t, err, ErrNoIndex)
		assert.Error(t, informer.AddTypedIndexers(cache.TypedIndexers[*configMap]{"word": words}), "the name is taken")
		untyped := cache.TypedIndexersToIndexers(cache.TypedIndexers[*configMap]{"broken": func(*configMap) ([]string, error) { return nil, errors.New("broken") }})
		assert.ErrorContains(t, informer.AddIndexers(untyped), "broken")
	})
}

var testName = regexp.MustCompile(`\bTest\w+`)

// testsOf returns the names of the tests in some Go files.
func testsOf(t *testing.T, files []string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, declaration := range parsed.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv == nil && testName.MatchString(f.Name.Name) {
				found[f.Name.Name] = true
			}
		}
	}
	delete(found, "TestMain")
	require.NotEmpty(t, found)
	return found
}

func TestTableOfUpstreamTestsIsTrue(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "README.md"))
	require.NoError(t, err)
	listed, covering := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			continue
		}
		for _, name := range testName.FindAllString(cells[1], -1) {
			assert.False(t, listed[name], "%s is listed twice", name)
			listed[name] = true
		}
		names := testName.FindAllString(cells[2], -1)
		assert.Equal(t, testName.MatchString(cells[1]), len(names) > 0, "no test covers %s", cells[1])
		for _, name := range names {
			covering[name] = true
		}
	}

	own, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	tests := testsOf(t, own)
	for name := range covering {
		assert.True(t, tests[name], "there is no test %s here", name)
	}

	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/client-go").Output()
	require.NoError(t, err)
	var theirs []string
	for _, file := range []string{"shared_informer_test.go", "controller_test.go", "wait_test.go", "typed_test.go"} {
		theirs = append(theirs, filepath.Join(strings.TrimSpace(string(module)), "tools", "cache", file))
	}
	assert.Equal(t, testsOf(t, theirs), listed)
}
