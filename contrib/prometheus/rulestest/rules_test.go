package rulestest

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// healthy is what a program shows that is well: it lists twice an hour, a watch in ten breaks, one
// call in fifty fails, and a kind without versions is polled until it has versions.
const healthy = `load 1m
  kubereflector_synced{informer="pods"} 0x3 1x60
  kubereflector_watch_broken_seconds{informer="pods"} 0 20 0x60
  kubereflector_contact_age_seconds{informer="pods"} 5+10x5 5+1x50
  kubereflector_cache_rejected_objects{informer="pods"} 0x10 1x8 0x40
  kubereflector_event_lag_seconds_bucket{informer="pods", le="1"} 0+98x60
  kubereflector_event_lag_seconds_bucket{informer="pods", le="30"} 0+100x60
  kubereflector_event_lag_seconds_bucket{informer="pods", le="+Inf"} 0+100x60
  kubereflector_list_duration_seconds_count{informer="pods", reason="ok", streamed="true"} 1x30 2x30
  kubereflector_list_duration_seconds_count{informer="metrics", reason="ok", streamed="false"} 0+2x40 80x20
  kubereflector_reflectors{informer="metrics", phase="Polling"} 1x40 0x20
  kubereflector_reflectors{informer="metrics", phase="Watching"} 0x40 1x20
  kubereflector_watch_duration_seconds_count{informer="pods", reason="ok"} 0+1x60
  kubereflector_watch_duration_seconds_count{informer="pods", reason="cut_off"} 0x9 1x9 2x9 3x9 4x9 5x20
  kubereflector_queue_oldest_seconds{informer="pods", subscriber="worker"} 0+60x10 0x50
  kubereflector_queue_panics_total{informer="pods", subscriber="worker"} 0x60
  kubereflector_reconcile_queue_oldest_seconds{reconciler="painter"} 0+60x10 0x50
  kubereflector_handler_duration_seconds_count{informer="pods", subscriber="worker", result="ok"} 0+98x60
  kubereflector_handler_duration_seconds_count{informer="pods", subscriber="worker", result="error"} 0+2x60
  kubereflector_reconcile_duration_seconds_count{reconciler="painter", result="ok"} 0+49x60
  kubereflector_reconcile_duration_seconds_count{reconciler="painter", result="requeue_after"} 0+49x60
  kubereflector_reconcile_duration_seconds_count{reconciler="painter", result="error"} 0+2x60
  kubereflector_reconcile_duration_seconds_count{reconciler="painter", result="panic"} 0x60
  kubereflector_leading{lease="painters", pod="a"} 0 1x30 0x30
  kubereflector_leading{lease="painters", pod="b"} 0x32 1x29
`

// fired is what an alert says, and after how many minutes it did first.
type fired struct {
	after   int
	summary string
}

// evaluate has the rules looked at each minute for an hour.
func evaluate(t *testing.T, series string) map[string]fired {
	t.Helper()
	group := load(t, series)
	all := map[string]fired{}
	for minute := range 61 {
		group.Eval(t.Context(), time.Unix(0, 0).Add(time.Duration(minute)*time.Minute))
		for _, rule := range group.AlertingRules() {
			require.NoError(t, rule.LastError())
			for _, alert := range rule.ActiveAlerts() {
				if _, already := all[rule.Name()]; !already && alert.State == rules.StateFiring {
					assert.NotEmpty(t, alert.Annotations.Get("description"))
					assert.Contains(t, []string{"warning", "critical"}, alert.Labels.Get("severity"))
					all[rule.Name()] = fired{minute, alert.Annotations.Get("summary")}
				}
			}
		}
	}
	return all
}

func TestNoAlertFiresWhereAllIsWell(t *testing.T) {
	assert.Empty(t, evaluate(t, healthy))
}

// cases are what goes wrong, and which alerts say so.
var cases = map[string]struct {
	series string
	want   map[string]fired
}{
	"not synced": {`kubereflector_synced{informer="pods"} 0x60`, map[string]fired{
		"KubereflectorNotSynced": {10, "The cache of pods has not been filled for 10 minutes."},
	}},
	"watch broken": {`kubereflector_watch_broken_seconds{informer="pods"} 0 0+60x59`, map[string]fired{
		"KubereflectorWatchBroken": {8, "The informer pods has had no watch for 7m 0s."},
	}},
	"silent server": {`kubereflector_contact_age_seconds{informer="pods"} 0+60x60`, map[string]fired{
		"KubereflectorCacheStale": {7, "The informer pods has not heard of the API server for 7m 0s."},
	}},
	"rejected objects": {`kubereflector_cache_rejected_objects{informer="pods"} 0x10 2x50`, map[string]fired{
		"KubereflectorObjectsRejected": {21, "The cache of pods rejects 2 objects."},
	}},
	"late events": {`kubereflector_event_lag_seconds_bucket{informer="pods", le="30"} 0+90x60
  kubereflector_event_lag_seconds_bucket{informer="pods", le="60"} 0+100x60
  kubereflector_event_lag_seconds_bucket{informer="pods", le="+Inf"} 0+100x60`, map[string]fired{
		"KubereflectorEventsLate": {11, "Changes of pods reach the cache 57s late."},
	}},
	"relists": {`kubereflector_list_duration_seconds_count{informer="pods", reason="ok", streamed="true"} 0x10 1+1x50`, map[string]fired{
		"KubereflectorRelistsOften": {26, "The informer pods has listed 16 times in 30 minutes."},
	}},
	"broken watches": {`kubereflector_watch_duration_seconds_count{informer="pods", reason="ok"} 0x60
  kubereflector_watch_duration_seconds_count{informer="pods", reason="cut_off"} 0x10 1+1x50`, map[string]fired{
		"KubereflectorWatchesBreak": {26, "16 watches of pods broke in 30 minutes."},
	}},
	"slow handler": {`kubereflector_queue_oldest_seconds{informer="pods", subscriber="worker"} 0+60x60`, map[string]fired{
		"KubereflectorSubscriberBehind": {16, "The subscriber worker of pods is 16m 0s behind."},
	}},
	"panics of a handler": {`kubereflector_queue_panics_total{informer="pods", subscriber="worker"} 0x20 1x40`, map[string]fired{
		"KubereflectorHandlerPanics": {21, "The handler worker of pods panicked."},
	}},
	"failing handler": {`kubereflector_handler_duration_seconds_count{informer="pods", subscriber="worker", result="ok"} 0+3x60
  kubereflector_handler_duration_seconds_count{informer="pods", subscriber="worker", result="error"} 0+1x60`, map[string]fired{
		"KubereflectorHandlerErrors": {16, "25% of the calls of worker of pods fail."},
	}},
	"slow reconciler": {`kubereflector_reconcile_queue_oldest_seconds{reconciler="painter"} 0+60x60`, map[string]fired{
		"KubereflectorReconcilerBehind": {16, "The reconciler painter is 16m 0s behind."},
	}},
	"panics of a reconciler": {`kubereflector_reconcile_duration_seconds_count{reconciler="painter", result="ok"} 0+100x60
  kubereflector_reconcile_duration_seconds_count{reconciler="painter", result="panic"} 0x20 1x40`, map[string]fired{
		"KubereflectorReconcilePanics": {21, "The reconciler painter panicked."},
	}},
	"failing reconciler": {`kubereflector_reconcile_duration_seconds_count{reconciler="painter", result="requeue_after"} 0+3x60
  kubereflector_reconcile_duration_seconds_count{reconciler="painter", result="permanent"} 0+1x60`, map[string]fired{
		"KubereflectorReconcileErrors": {16, "25% of the calls of painter fail."},
	}},
	"no leader": {`kubereflector_leading{lease="painters", pod="a"} 1x10 0x50
  kubereflector_leading{lease="painters", pod="b"} 0x60`, map[string]fired{
		"KubereflectorNoLeader": {16, "No process has led by the lease painters for 5 minutes."},
	}},
	"two leaders": {`kubereflector_leading{lease="painters", pod="a"} 1x60
  kubereflector_leading{lease="painters", pod="b"} 0x10 1x50
  kubereflector_leading{lease="others", pod="b"} 1x60`, map[string]fired{
		"KubereflectorManyLeaders": {16, "2 processes lead by the lease painters."},
	}},
}

func TestAlertsFireWhenTheyShould(t *testing.T) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, evaluate(t, fmt.Sprintf("load 1m\n  %s\n", c.series)))
		})
	}
}

func TestEveryAlertIsTried(t *testing.T) {
	tried := map[string]bool{}
	for _, c := range cases {
		for name := range c.want {
			tried[name] = true
		}
	}
	var all []string
	for _, rule := range load(t, healthy).Rules() {
		all = append(all, rule.Name())
	}
	assert.ElementsMatch(t, all, slices.Collect(maps.Keys(tried)))
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	alerts    = "../alerts/kubereflector.yaml"
	dashboard = "../dashboard/kubereflector.json"
)

var promql = parser.NewParser(parser.Options{})

// load loads the alerts as Prometheus does, over samples in the notation of its tests.
func load(t *testing.T, series string) *rules.Group {
	t.Helper()
	storage := promqltest.LoadedStorage(t, series)
	t.Cleanup(func() { require.NoError(t, storage.Close()) })
	engine := promqltest.NewTestEngine(t, false, 0, 100_000)
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(engine, storage), Appendable: storage, Queryable: storage,
		Context: t.Context(), Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {}, ExternalURL: &url.URL{},
	})
	groups, errs := manager.LoadGroups(time.Minute, labels.EmptyLabels(), "", nil, false, alerts)
	require.Empty(t, errs)
	require.Len(t, groups, 1)
	for _, group := range groups {
		return group
	}
	return nil
}
