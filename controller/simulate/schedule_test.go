package simulate

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestALineIsReadAsItIsWritten(t *testing.T) {
	const at = "update sites/status default/a#2"
	for _, line := range []string{
		"slow",
		"compact",
		"crash before " + at,
		"stop after create pods default/a-*#1; standby behind " + at,
		"lease lost at " + at,
		"restore before " + at,
		"crash after create pods default/a-*#1; restart behind " + at,
		"lose delete nodes n#1",
		"step before " + at + "; step after " + at,
		"annotate after " + at,
		"steps 2 and 3 together",
		"fail " + at + " with 409",
		"fail get secrets default/a#1 with 500",
		"fail " + at + " with denied for 10m",
		"fail " + at + " with 500 for 1h30m",
		"hold pods from " + at + " for 3 writes; expire pods at " + at,
		"hold * from " + at + " for 30s",
	} {
		s, err := parse(line)
		require.NoError(t, err)
		assert.Equal(t, line, s.String())
	}
	s, err := parse(" slow ;; steps 1 and 2 together; ")
	require.NoError(t, err)
	assert.Equal(t, "slow; steps 1 and 2 together", s.String())
	s, err = parse("fail " + at + " with 429 for 90s")
	require.NoError(t, err)
	assert.Equal(t, schedule{{verb: fail, at: at, what: "429", since: 90 * time.Second}}, s)
}

func TestEachScheduleOfAnExplorationIsALine(t *testing.T) {
	s := Scenario{Steps: make([]Step, 3), OldServers: true}
	all := s.disturbances(&result{
		writes: []string{"create leases default/a#1", "create pods default/a#1", "update sites/status default/a#1", "delete pods default/a#1"}, steps: []int{0, 1, 1, 2},
		watched: []string{"pods", "sites"}, elects: true,
	})
	seen := map[string]bool{}
	for _, one := range all {
		line := one.String()
		assert.False(t, seen[line], "%q is played twice", line)
		seen[line] = true
		read, err := parse(line)
		require.NoError(t, err)
		assert.Equal(t, one, read)
	}
	for _, line := range []string{"steps 2 and 3 together", "restart behind create pods default/a#1", "with 500 for 10m", "expire sites at",
		"crash after delete pods default/a#1; standby behind create pods default/a#1", "stop after create pods default/a#1; standby behind create pods default/a#1", "lease lost at create pods default/a#1",
	} {
		assert.True(t, strings.Contains(join(all), line), line)
	}
	assert.NotContains(t, join(all), "steps 3 and 4")
	assert.NotContains(t, join(all), "lease lost at create leases default/a#1", "there is no second process before the first step")
	assert.NotContains(t, join(all), "delete pods default/a#1; standby behind update sites/status", "it is behind the last write, or all since a step")
	s.OldServers = false
	assert.NotContains(t, join(s.disturbances(&result{writes: []string{"create pods default/a#1", "delete pods default/a#1"}, steps: []int{1, 2}, elects: true})),
		"delete pods default/a#1; standby behind create pods", "behind an earlier step, a correct operator does what the user no longer wants")
	alone := s.disturbances(&result{writes: []string{"create pods default/a#1"}, steps: []int{1}})
	assert.NotContains(t, join(alone), "standby", "without a lease, both processes would act")
}

func TestSeedsInARowChooseAllSchedules(t *testing.T) {
	for n := 1; n < 40; n++ {
		var all []schedule
		for i := range n {
			all = append(all, schedule{{verb: together, n: i}})
		}
		for most := range n + 2 {
			_, part, parts := thin(all, most, 0)
			assert.Equal(t, 1, part, "the same part each time")
			chosen := map[int]bool{}
			for seed := range uint64(parts) {
				kept, part, of := thin(all, most, seed)
				assert.Equal(t, []int{int(seed) + 1, parts}, []int{part, of})
				assert.LessOrEqual(t, len(kept), max(most, n/parts))
				for _, s := range kept {
					chosen[s[0].n] = true
				}
				again, part, _ := thin(all, most, math.MaxUint64/uint64(parts)*uint64(parts)-uint64(parts)+seed)
				assert.Equal(t, kept, again)
				assert.Equal(t, int(seed)+1, part)
			}
			assert.Len(t, chosen, n, "%d of %d", most, n)
		}
	}
}

func TestAPartBeginsWithTheWorstDisturbanceOfEachWrite(t *testing.T) {
	var s Scenario
	undisturbed := &result{watched: []string{"configmaps", "jobs", "secrets", "services"}}
	for n := range 30 {
		undisturbed.writes = append(undisturbed.writes, fmt.Sprintf("create pods default/a#%d", n+1))
	}
	all := s.disturbances(undisturbed)
	kept, _, _ := thin(all, 40, 0)
	writes, verbs := map[string]bool{}, map[string]bool{}
	for _, one := range kept {
		assert.Len(t, one, 1)
		assert.NotContains(t, []string{holdEvents, expire, stepBefore}, one[0].verb)
		writes[one[0].at], verbs[one[0].verb] = true, true
	}
	for _, at := range undisturbed.writes {
		assert.True(t, writes[at], at)
	}
	for _, verb := range []string{crashBefore, crashAfter, lose, fail} {
		assert.True(t, verbs[verb], verb)
	}
	_, _, parts := thin(all, 40, 0)
	last, _, _ := thin(all, 40, uint64(parts-1))
	assert.Equal(t, 2, last[len(last)-1].rank())
}

func join(all []schedule) string {
	var b strings.Builder
	for _, s := range all {
		b.WriteString(s.String() + "\n")
	}
	return b.String()
}

func TestABadLineSaysWhatIsWrong(t *testing.T) {
	for line, says := range map[string]string{
		"crash":                                                "is no clause: one begins with crash before, crash after",
		"crash before noon":                                    `"noon" is no write such as "update sites/status default/a#1"`,
		"crash after update sites default/a":                   "is no write",
		"crash after read sites default/a#1":                   "is no write",
		"crash after update sites default/a#0":                 "is no write",
		"lose update sites default/a#one":                      "is no write",
		"crash after get sites default/a#1":                    "is no write",
		"fail get sites default/a with 500":                    "is no read such as",
		"steps 2 and 4 together":                               `want "steps N and N+1 together"`,
		"slow down":                                            "is no clause",
		"fail update sites default/a#1":                        `want "fail WRITE with 409, 429, 500 or denied"`,
		"fail update sites default/a#1 with 404":               `a write fails with 409, 429, 500, denied, not with "404"`,
		"fail update sites default/a#1 with 500 for ever":      `"ever" is no duration such as 10m`,
		"hold pods from update sites default/a#1":              `want "hold RESOURCE from WRITE for N writes"`,
		"hold pods from update sites default/a#1 for 0 writes": `want "hold RESOURCE from WRITE for N writes"`,
		"expire pods":                                          `want "expire RESOURCE at WRITE"`,
	} {
		_, err := parse("slow; " + line)
		require.Error(t, err, line)
		assert.ErrorContains(t, err, says)
	}
	_, err := parse(strings.Repeat("x", 5000))
	require.Error(t, err)
	assert.Less(t, len(err.Error()), 1024)
}
