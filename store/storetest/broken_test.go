package storetest_test

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kubereflector/kubereflector/store/storetest"
)

// mutant is a store with one mistake, and the clause that has to find it.
type mutant struct {
	name   string
	clause string
	// unseen is why the random writes cannot find the mistake, if they cannot.
	unseen string
	// impatient shortens the wait for what never ends.
	impatient bool
	mutate    func(*cache, *writes, *reads)
}

// inChild is set in the process in which the suite runs on broken stores.
const inChild = "KUBEREFLECTOR_STORETEST_BROKEN"

// sound is the mutant without a mistake.
const sound = "nothing is broken"

// TestSuiteCatchesBrokenStores runs the suite on stores that are wrong in one
// point each, in another process, because the suite fails its test; and demands
// that the clause about that point failed, and that there is such a store for
// every clause.
func TestSuiteCatchesBrokenStores(t *testing.T) {
	all := slices.Concat(brokenStoring, brokenReplacing, brokenReading, brokenVersions, brokenRejecting, brokenBatching, brokenConcurrency)
	if os.Getenv(inChild) != "" {
		for _, m := range append(all, mutant{name: sound, mutate: func(*cache, *writes, *reads) {}}) {
			t.Run(m.name, func(t *testing.T) {
				if m.impatient {
					defer storetest.SetPatience(time.Second)()
				}
				storetest.RunBatches(t, m.open)
			})
		}
		return
	}

	results := childResults(t)
	require.Contains(t, results, sound, "the other process ended too early")
	unbroken := slices.Sorted(maps.Keys(results[sound]))
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			clauses := results[m.name]
			require.Contains(t, clauses, m.clause, "no such clause")
			assert.Equal(t, "FAIL", clauses[m.clause], "%q finds nothing", m.clause)
			if m.unseen == "" {
				assert.Equal(t, "FAIL", clauses[storetest.ModelClause], "writes at random find nothing")
			}
		})
	}
	for _, clause := range unbroken {
		assert.Equal(t, "PASS", results[sound][clause], "%q fails for a sound store", clause)
		broken := slices.ContainsFunc(all, func(m mutant) bool { return m.clause == clause })
		assert.True(t, broken || clause == storetest.ModelClause, "no broken store shows that %q can fail", clause)
	}
}

var resultLine = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): TestSuiteCatchesBrokenStores/([^/\n]+)/(.+) \([0-9.]+s\)$`)

// childResults returns what became of each clause of each mutant.
func childResults(t *testing.T) map[string]map[string]string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	limit := time.Duration(0) // none, or what is left for this process, whose end would not end the other one
	if deadline, ok := t.Deadline(); ok {
		limit = max(time.Until(deadline)-10*time.Second, time.Second)
	}
	command := exec.CommandContext(t.Context(), self, "-test.run=^TestSuiteCatchesBrokenStores$", "-test.v", "-test.timeout="+limit.String(),
		// The same sequences each time, and no search for shorter ones.
		"-rapid.seed=1", "-rapid.nofailfile", "-rapid.shrinktime=1ms")
	command.Env = append(os.Environ(), inChild+"=yes")
	out, err := command.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "broken stores passed the suite:\n%s", out)
	require.False(t, bytes.Contains(out, []byte("\npanic: ")) || bytes.Contains(out, []byte("\nfatal error: ")),
		"the suite did not survive a broken store:\n%s", out)

	results := map[string]map[string]string{}
	for _, line := range resultLine.FindAllSubmatch(out, -1) {
		name := strings.ReplaceAll(string(line[2]), "_", " ")
		if results[name] == nil {
			results[name] = map[string]string{}
		}
		results[name][strings.ReplaceAll(string(line[3]), "_", " ")] = string(line[1])
	}
	return results
}
