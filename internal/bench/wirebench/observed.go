package wirebench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/kubereflector/kubereflector/contrib/otel"
	"github.com/kubereflector/kubereflector/contrib/prometheus"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/inspect"
	"github.com/kubereflector/kubereflector/reflector/client"
	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/sdk/trace"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// observation is what observes an informer.
type observation struct {
	page    bool // the page is open in a browser
	metrics bool // Prometheus scrapes the metrics
	every   int  // every so manieth change is traced; 0 for no traces
	traces  []otel.Option
}

// refresh is the interval of the page and of scrapes. It is the default of the page; a real scrape
// interval is longer.
const refresh = time.Second

// discarded discards spans. The benchmark measures the creation of spans, not their export.
type discarded struct{}

func (discarded) ExportSpans(context.Context, []trace.ReadOnlySpan) error { return nil }
func (discarded) Shutdown(context.Context) error                          { return nil }

// observed is an informer of pods in JSON that is observed.
func observed(by observation) builder {
	return func(config *rest.Config, r schema.GroupVersionResource) (*contender, error) {
		api, err := client.ForResource[*corev1.Pod](config, r, "", asJSON)
		if err != nil {
			return nil, err
		}
		metrics, provider := prometheus.New(), trace.NewTracerProvider(trace.WithBatcher(discarded{}))
		tracing := otel.New(provider, by.traces...)
		var opts []informer.Option
		if by.metrics {
			opts = append(opts, metrics.Options("pods")...)
		}
		if by.every > 0 {
			opts = append(opts, tracing.Options("pods")...)
		}
		pods := informer.New(api, opts...)
		c := handling(pods)
		run := c.run
		c.run = func(ctx context.Context, handled func()) (err error) {
			defer func() { err = errors.Join(err, provider.Shutdown(context.Background())) }()
			ctx, stop := context.WithCancel(ctx)
			observing := make(chan error, 1)
			switch {
			case by.page:
				page := inspect.New(inspect.WithInterval(refresh))
				defer page.Close()
				defer inspect.Add(page, pods)()
				go func() { observing <- visit(ctx, page, "/stream") }()
			case by.metrics:
				registry := prom.NewRegistry()
				registry.MustRegister(metrics)
				defer prometheus.Add(metrics, pods)()
				go func() { observing <- scrape(ctx, promhttp.HandlerFor(registry, promhttp.HandlerOpts{})) }()
			default:
				if by.every > 1 {
					defer otel.Add(tracing, pods, by.every)()
				}
				observing <- nil
			}
			defer func() {
				stop()
				err = errors.Join(err, <-observing)
			}()
			return run(ctx, handled)
		}
		return c, nil
	}
}

func scrape(ctx context.Context, metrics http.Handler) error {
	for every := time.Tick(refresh); ; {
		if err := visit(ctx, metrics, "/metrics"); err != nil {
			return err
		}
		select {
		case <-every:
		case <-ctx.Done():
			return nil
		}
	}
}

// visit reads a page until its end, without a connection.
func visit(ctx context.Context, page http.Handler, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		return err
	}
	response := &httptest.ResponseRecorder{Code: http.StatusOK} // discards the body
	page.ServeHTTP(response, request)
	if response.Code != http.StatusOK {
		return fmt.Errorf("%s answers %d", path, response.Code)
	}
	return nil
}
