package rulestest

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/contrib/prometheus"
	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	prom "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// exported returns the metrics of a program with an informer and a reconciler, as they are
// named where they are asked for, and the names of their labels.
func exported(t *testing.T) map[string][]string {
	all := map[string][]string{}
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}))
		clientset, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		metrics := prometheus.New()
		registry := prom.NewPedanticRegistry()
		registry.MustRegister(metrics)
		cms := informer.New(clientset.CoreV1().ConfigMaps("default"), metrics.Options("maps")...)
		cms.Handle(informer.HandlerFunc[*corev1.ConfigMap](func(context.Context, eventqueue.Event[*corev1.ConfigMap]) error {
			return errors.New("no")
		}))
		prometheus.Add(metrics, cms)
		program := manager.New(nil)
		registry.MustRegister(prometheus.NewLeader("painters", program))
		program.Add(cms)
		painter := reconcile.New("painter", cms, func(context.Context, store.Key, *corev1.ConfigMap) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		}, metrics.ReconcilerOptions()...)
		prometheus.AddReconciler(metrics, painter)
		program.Add(painter)
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = program.Run(ctx) })
		<-time.After(time.Hour)
		families, err := registry.Gather()
		require.NoError(t, err)
		for _, f := range families {
			maps.Copy(all, namesOf(f))
		}
		stop()
		running.Wait()
	})
	return all
}

// namesOf returns the names under which a metric is asked for.
func namesOf(f *dto.MetricFamily) map[string][]string {
	var labels []string
	for _, l := range f.GetMetric()[0].GetLabel() {
		labels = append(labels, l.GetName())
	}
	if f.GetType() != dto.MetricType_HISTOGRAM {
		return map[string][]string{f.GetName(): labels}
	}
	return map[string][]string{
		f.GetName() + "_bucket": append(slices.Clone(labels), "le"), f.GetName() + "_sum": labels, f.GetName() + "_count": labels,
	}
}

// added are the labels that Prometheus itself adds.
var added = []string{"pod", "instance"}

// check fails unless an expression names metrics and labels that there are, and returns the
// metrics.
func check(t *testing.T, all map[string][]string, expression string) (named []string) {
	t.Helper()
	expr, err := promql.ParseExpr(strings.ReplaceAll(expression, "$__rate_interval", "5m"))
	require.NoError(t, err, expression)
	labelsIn := func(in parser.Node) (labels []string) {
		parser.Inspect(in, func(node parser.Node, _ []parser.Node) error {
			if selector, ok := node.(*parser.VectorSelector); ok {
				labels = append(labels, all[selector.Name]...)
			}
			return nil
		})
		return append(labels, added...)
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch node := node.(type) {
		case *parser.VectorSelector:
			assert.Contains(t, all, node.Name, "no such metric: %s", expression)
			for _, m := range node.LabelMatchers {
				assert.Contains(t, append(labelsIn(node), "__name__"), m.Name, "no such label: %s", expression)
			}
			named = append(named, node.Name)
		case *parser.AggregateExpr:
			assert.Subset(t, labelsIn(node.Expr), node.Grouping, "no such label: %s", expression)
		}
		return nil
	})
	assert.NotEmpty(t, named, "nothing is asked for: %s", expression)
	return named
}

// board is what matters of a dashboard.
type board struct {
	Panels []struct {
		Title, Type string
		GridPos     struct{ H, W, X, Y int }
		Targets     []struct{ Expr, LegendFormat string }
	}
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
}

func readBoard(t *testing.T) (b board) {
	text, err := os.ReadFile(dashboard)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &b))
	return b
}

func TestAlertsAndDashboardNameMetricsThatThereAre(t *testing.T) {
	all := exported(t)
	for _, rule := range load(t, healthy).AlertingRules() {
		check(t, all, rule.Query().String())
	}
	b := readBoard(t)
	labelOf := regexp.MustCompile(`\{\{(\w+)\}\}`)
	panels := 0
	for _, panel := range b.Panels {
		if panel.Type == "row" {
			continue
		}
		panels++
		require.NotEmpty(t, panel.Targets, panel.Title)
		for _, target := range panel.Targets {
			named := check(t, all, target.Expr)
			for _, label := range labelOf.FindAllStringSubmatch(target.LegendFormat, -1) {
				assert.Contains(t, all[named[0]], label[1], panel.Title)
			}
		}
	}
	assert.Positive(t, panels)
	values := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
	for _, variable := range b.Templating.List {
		if variable.Type == "query" {
			parts := values.FindStringSubmatch(variable.Definition)
			require.Len(t, parts, 3, variable.Definition)
			assert.Contains(t, all[check(t, all, parts[1])[0]], parts[2])
		}
	}
}

func TestPanelsOfTheDashboardDoNotOverlap(t *testing.T) {
	taken := map[[2]int]string{}
	for _, panel := range readBoard(t).Panels {
		at := panel.GridPos
		require.LessOrEqual(t, at.X+at.W, 24, panel.Title)
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				assert.Empty(t, taken[[2]int{x, y}], panel.Title)
				taken[[2]int{x, y}] = panel.Title
			}
		}
	}
}
