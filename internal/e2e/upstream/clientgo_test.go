package upstream

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// clientGoFiles are those of tools/cache whose tests make informers and stores.
var clientGoFiles = []string{"shared_informer", "controller", "index", "listers", "store", "util", "main"}

const (
	internals = "reads unexported fields of client-go"
	notOurs   = "does not use what this library replaces"
)

// clientGoDropped are tests that are not built.
var clientGoDropped = map[string]string{
	"Example":                                      internals,
	"TestProcessDeltasInBatch":                     internals,
	"TestReplaceEvents":                            internals,
	"TestResetWatch":                               internals,
	"TestResyncCheckPeriod":                        internals,
	"TestStoreResourceVersion":                     internals,
	"TestWithStoreMetricsDefaulting":               internals,
	"TestStoreResourceVersionWithNonMetaTransform": internals,

	"TestCacheTransactionShouldIndexErrors": notOurs,
	"TestCacheWithTransformer":              notOurs,
	"TestDeletedObjectGetKey":               notOurs,
	"TestDeletedObjectGetObjectName":        notOurs,
	"TestDeletionHandlingObjectToName":      notOurs,
	"TestFIFOCache":                         notOurs,
	"TestKeyError":                          notOurs,
	"TestUndeltaStore":                      notOurs,

	"TestListAll": "lists two million objects, which takes minutes on a busy machine",
}

// clientGoDiffers are tests that fail, with the reason. They are not run: two wait for half a minute.
var clientGoDiffers = map[string]string{
	"TestEventPanics/many":          "wants one call for each panic; a handler that panicked is called again for the same event, after a back-off",
	"TestPanicPropagated":           "wants a handler's panic to end the program; here it is an error of the event",
	"TestSharedInformerTransformer": "changes the key of an object in a transform, which is rejected",
}

// clientGoPasses are the tests that pass, and their subtests.
var clientGoPasses = []string{
	"ExampleNewInformer",
	"TestAddOnStoppedSharedInformer",
	"TestAddWhileActive",
	"TestCache",
	"TestEventPanics",
	"TestEventPanics/simple",
	"TestGetIndexFuncValues",
	"TestHammerController",
	"TestIndex",
	"TestIndexer",
	"TestListenerResyncPeriods",
	"TestListenerResyncPeriodsDelayed",
	"TestMultiIndexKeys",
	"TestRemoveEventHandler_AsynchronousPanic",
	"TestRemoveEventHandler_SynchronousShutdown",
	"TestRemoveOnStoppedSharedInformer",
	"TestRemoveWhileActive",
	"TestRemovingRemovedSharedInformer",
	"TestSharedInformerErrorHandling",
	"TestSharedInformerHandlerAbuse",
	"TestSharedInformerInitializationRace",
	"TestSharedInformerMultipleRegistration",
	"TestSharedInformerRemoveForeignHandler",
	"TestSharedInformerRemoveHandler",
	"TestSharedInformerStartRace",
	"TestSharedInformerWatchDisruption",
	"TestShutDownEventHandler_Lifecycles",
	"TestShutDownEventHandler_Lifecycles/AddedThenStartedThenShutDown",
	"TestShutDownEventHandler_Lifecycles/InformerNeverStarted",
	"TestShutDownEventHandler_Lifecycles/StartedThenAddedThenShutDown",
	"TestShutdown",
	"TestShutdown/no-context",
	"TestShutdown/no-context-later",
	"TestShutdown/no-run",
	"TestStateSharedInformer",
	"TestTransformingInformer",
	"TestTransformingInformerRace",
	"TestUpdate",
}

var passedTest = regexp.MustCompile(`(?m)^ *--- PASS: (\S+)`)

// TestClientGoInformerTests runs client-go's own tests of shared informers on informers of this library.
func TestClientGoInformerTests(t *testing.T) {
	skipUnderRace(t)
	b := newBuild(t)
	program := b.program(t, "clientgo", b.clientGo(t))

	differs := slices.Sorted(maps.Keys(clientGoDiffers))
	output, err := b.start(t, program, b.folder, nil, "-test.v", "-test.skip="+pattern(differs))
	assert.NoError(t, err, "%s", output)
	var passed []string
	for _, found := range passedTest.FindAllStringSubmatch(output, -1) {
		passed = append(passed, found[1])
	}
	assert.ElementsMatch(t, clientGoPasses, passed)
}

// pattern selects tests and subtests.
func pattern(names []string) string {
	var patterns []string
	for _, name := range names {
		patterns = append(patterns, "^"+strings.ReplaceAll(name, "/", "$/^")+"$")
	}
	return strings.Join(patterns, "|")
}

// clientGo makes a package of the tests and returns its path.
func (b *build) clientGo(t *testing.T) string {
	t.Helper()
	const clause = "package upstreamtests"
	as := rewriting{
		clause: clause + `; import . "k8s.io/client-go/tools/cache"`, suffix: "\nvar _ Store\n", drop: clientGoDropped,
		rename: map[string]string{},
	}
	for _, name := range []string{"NewSharedIndexInformer", "NewSharedInformer", "NewInformer", "NewTransformingInformer", "NewStore", "NewIndexer"} {
		as.rename[name] = "shim" + name
	}
	folder, err := filepath.Abs("upstreamtests") // is not there but for the overlay
	require.NoError(t, err)
	source := b.source(t, clientGoModule)
	for _, name := range clientGoFiles {
		content, err := os.ReadFile(filepath.Join(source, "tools", "cache", name+"_test.go"))
		require.NoError(t, err)
		file := name + "_test.go"
		b.overlay[filepath.Join(folder, file)] = b.write(t, filepath.Join("clientgo", file), as.apply(t, file, content))
	}
	b.overlay[filepath.Join(folder, "clientgo_test.go")] = b.write(t, filepath.Join("clientgo", "clientgo_shim_test.go"), shim(t, "clientgo", clause))
	return "./upstream/upstreamtests"
}

// shim returns a file of testdata as one of another package.
func shim(t *testing.T, name, clause string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name+".go"))
	require.NoError(t, err)
	return []byte(strings.Replace(string(content), "\npackage shim\n", "\n"+clause+"\n", 1))
}
