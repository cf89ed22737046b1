package latebench

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

var draws = flag.Int("draws", 3, "how often each side meets each disturbance; the goals need 400")

var output = flag.String("results", "", "write the figures to this `file`, as JSON")

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // client-go reports each failure
	// The default handlers also remember the time of the last failure and wait a millisecond after
	// it, which takes days if that was in an earlier bubble.
	utilruntime.ErrorHandlers = nil
	goleak.VerifyTestMain(m)
}

// TestLateness prints a line for each disturbance. A goal that is missed is no failure of the test.
func TestLateness(t *testing.T) {
	out := t.Output()
	fmt.Fprintf(out, "%d draws a side; seconds\n", *draws)
	line := func(columns ...any) {
		fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("%-14s %8s %8s %8s %10s %8s %8s  %s", columns...), " "))
	}
	report := measure.NewReport(fmt.Sprintf("go test -C internal/bench ./latebench -run Lateness -v -draws %d -results %s", *draws, *output))
	line("name", "median", "p95", "maximum", "client-go", "p95", "maximum", "goal: median<=1.0, p95<=1.1")
	for _, d := range disturbances {
		var figures [2][3]time.Duration
		for i, prepare := range []func(*testing.T, *rest.Config) side{ours, clientGo} {
			synctest.Test(t, func(t *testing.T) {
				figures[i] = summary(d.measure(t, prepare))
			})
		}
		here, there := figures[0], figures[1]
		var missed []string
		for i, figure := range []string{"median", "p95", "maximum"} {
			m := measure.Measured{Name: d.name + "/" + figure, Unit: "s", Goal: goals[i].String(), Ours: here[i].Seconds(), Peer: there[i].Seconds()}
			m.Met = goals[i].Met(m.Ours, m.Peer)
			if !m.Met {
				missed = append(missed, figure+" MISSED")
			}
			report.Cases = append(report.Cases, m)
		}
		line(d.name, seconds(here[0]), seconds(here[1]), seconds(here[2]), seconds(there[0]), seconds(there[1]), seconds(there[2]), strings.Join(missed, ", "))
	}
	if *output != "" {
		require.NoError(t, report.WriteFile(*output))
	}
}

// goals are those of the median, the 95th percentile and the maximum.
var goals = [3]measure.Goal{measure.RatioAtMost(1), measure.RatioAtMost(1.1)}

// summary returns the median, the 95th percentile and the maximum.
func summary(late []time.Duration) [3]time.Duration {
	slices.Sort(late)
	at := func(percent int) time.Duration { return late[(len(late)-1)*percent/100] }
	return [3]time.Duration{at(50), at(95), at(100)}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }

// measure returns the lateness of each draw.
func (d disturbance) measure(t *testing.T, prepare func(*testing.T, *rest.Config) side) (late []time.Duration) {
	server := reflectortest.Start(t)
	config := server.Config()
	config.Timeout = d.timeout
	run := prepare(t, config)
	const there, news = "there", "news"
	require.NoError(t, server.Create(configMap(there)))
	for range *draws {
		ctx, stop := context.WithCancel(t.Context())
		entered := make(chan string, 10)
		done := make(chan struct{})
		go func() {
			defer close(done)
			run(ctx, func(name string) { entered <- name })
		}()
		expect(t, entered, there)
		<-time.After(between(10*time.Second, 2*time.Minute))
		d.disturb(server, func() { require.NoError(t, server.Create(configMap(news))) })
		began := time.Now()
		expect(t, entered, news)
		late = append(late, time.Since(began))
		stop()
		<-done
		server.ClearFaults()
		require.NoError(t, server.Delete(configMap(news)))
	}
	return late
}

// expect waits for an object in the cache.
func expect(t *testing.T, entered <-chan string, name string) {
	select {
	case got := <-entered:
		require.Equal(t, name, got)
	case <-time.After(10 * time.Minute):
		require.FailNow(t, "the cache lacks "+name)
	}
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}
