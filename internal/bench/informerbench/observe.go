package informerbench

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/contrib/otel"
	"github.com/kubereflector/kubereflector/contrib/prometheus"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/inspect"
	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/sdk/trace"
	corev1 "k8s.io/api/core/v1"
)

// instruments is what looks at an informer while it is measured.
type instruments struct {
	page    bool // the page is open in a browser
	metrics bool // are scraped
	traces  traces
}

// traces says which calls of handlers have spans that are kept.
type traces string

const (
	noTraces traces = ""
	// chosenTraces traces one change in a hundred, from the commit on. Other calls have no spans.
	chosenTraces traces = "traces-1%"
	// sampledTraces are one in a hundred, by the sampler. All calls have spans.
	sampledTraces traces = "sampler-1%"
	allTraces     traces = "traces-100%"
)

// glance is the interval at which the page is renewed and metrics are scraped. It is the default of
// the page; a real scrape interval is longer.
const glance = time.Second

// name is what the instruments are called in a table.
func (i instruments) name() string {
	name := ""
	for _, part := range []struct {
		on   bool
		name string
	}{{i.page, "page"}, {i.metrics, "metrics"}, {i.traces != noTraces, string(i.traces)}} {
		if part.on {
			name += "+" + part.name
		}
	}
	if name == "" {
		return "nothing"
	}
	return name[1:]
}

// nowhere discards spans. The benchmark measures the creation of spans, not their export.
type nowhere struct{}

func (nowhere) ExportSpans(context.Context, []trace.ReadOnlySpan) error { return nil }
func (nowhere) Shutdown(context.Context) error                          { return nil }

// tracing returns the tracer that makes the spans, and the provider to shut down after it.
func (t traces) tracing() (*trace.TracerProvider, *otel.Tracing) {
	sampler, opts := trace.AlwaysSample(), []otel.Option(nil)
	switch t {
	case chosenTraces:
		opts = append(opts, otel.WithChosenOnly())
	case sampledTraces:
		sampler = trace.TraceIDRatioBased(0.01)
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(nowhere{}), trace.WithSampler(sampler))
	return provider, otel.New(provider, opts...)
}

// observe opens an informer of ours with what looks at it.
func observe(with instruments, handlers int, from *server) (*subject, error) {
	var opts []informer.Option
	metrics := prometheus.New()
	if with.metrics {
		opts = append(opts, metrics.Options("pods")...)
	}
	var provider *trace.TracerProvider
	var tracing *otel.Tracing
	if with.traces != noTraces {
		provider, tracing = with.traces.tracing()
		opts = append(opts, tracing.Options("pods")...)
	}
	routes := http.NewServeMux()
	var cleanup []func()
	s, err := watchOurs(handlers, from, opts, func(pods *informer.Informer[*corev1.Pod]) {
		if with.page {
			page := inspect.New(inspect.WithInterval(glance))
			cleanup = append(cleanup, inspect.Add(page, pods), page.Close)
			routes.Handle("/page/", http.StripPrefix("/page", page))
		}
		if with.traces == chosenTraces {
			cleanup = append(cleanup, otel.Add(tracing, pods, 100))
		}
		if with.metrics {
			registry := prom.NewRegistry()
			registry.MustRegister(metrics)
			cleanup = append(cleanup, prometheus.Add(metrics, pods))
			routes.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
		}
	})
	web := httptest.NewServer(routes)
	users := &users{web: web}
	ctx, stop := context.WithCancel(context.Background())
	if with.page {
		users.begin(func(seen func()) { users.read(ctx, seen) })
	}
	if with.metrics {
		users.begin(func(seen func()) { users.scrape(ctx, seen) })
	}
	if provider != nil {
		s.cleanup = slices.Insert(s.cleanup, 0, func() { _ = provider.Shutdown(context.Background()) })
	}
	s.cleanup = append(s.cleanup, cleanup...)
	s.cleanup = append(s.cleanup, web.Close, users.group.Wait, stop)
	return s, err
}

// users are the browser and the Prometheus.
type users struct {
	web   *httptest.Server
	group sync.WaitGroup
}

// begin waits for the first look, which takes longest.
func (u *users) begin(user func(seen func())) {
	seen := make(chan struct{})
	u.group.Go(func() { user(sync.OnceFunc(func() { close(seen) })) })
	<-seen
}

// read is a page that is open.
func (u *users) read(ctx context.Context, seen func()) {
	defer seen()
	body, err := u.get(ctx, "/page/stream")
	if err != nil {
		return
	}
	defer func() { _ = body.Close() }()
	for lines := bufio.NewScanner(body); lines.Scan(); {
		seen() // a browser would show it, in another process
	}
}

// scrape is a Prometheus.
func (u *users) scrape(ctx context.Context, seen func()) {
	every := time.NewTicker(glance)
	defer every.Stop()
	for {
		if body, err := u.get(ctx, "/metrics"); err == nil {
			_, _ = io.Copy(io.Discard, body)
			_ = body.Close()
		}
		seen()
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
	}
}

func (u *users) get(ctx context.Context, path string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.web.URL+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := u.web.Client().Do(request)
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}
