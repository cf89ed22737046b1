package rulestest

import (
	"context"
	"log/slog"
	"net/url"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

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
