package informerbench

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
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

// watched is an informer of ours that is looked at.
type watched struct {
	*ours
	stop   context.CancelFunc
	web    *httptest.Server
	page   *inspect.Page
	remove []func()
	users  sync.WaitGroup

	provider *trace.TracerProvider
}

var _ subject = (*watched)(nil)

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

func newWatched(with instruments, handlers int, server *server) (subject, error) {
	w := &watched{}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	metrics := prometheus.New()
	var opts []informer.Option
	if with.metrics {
		opts = append(opts, metrics.Options("pods")...)
	}
	var tracing *otel.Tracing
	if with.traces != noTraces {
		w.provider, tracing = with.traces.tracing()
		opts = append(opts, tracing.Options("pods")...)
	}
	var err error
	w.ours, err = openOurs(handlers, server, opts, func(pods *informer.Informer[*corev1.Pod]) {
		routes := http.NewServeMux()
		if with.page {
			w.page = inspect.New(inspect.WithInterval(glance))
			w.remove = append(w.remove, inspect.Add(w.page, pods))
			routes.Handle("/page/", http.StripPrefix("/page", w.page))
		}
		if with.traces == chosenTraces {
			w.remove = append(w.remove, otel.Add(tracing, pods, 100))
		}
		if with.metrics {
			registry := prom.NewRegistry()
			registry.MustRegister(metrics)
			w.remove = append(w.remove, prometheus.Add(metrics, pods))
			routes.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
		}
		w.web = httptest.NewServer(routes)
	})
	if with.page {
		seen := make(chan struct{})
		w.users.Go(func() { w.read(ctx, sync.OnceFunc(func() { close(seen) })) })
		<-seen // the first look takes longest
	}
	if with.metrics {
		seen := make(chan struct{})
		w.users.Go(func() { w.scrape(ctx, sync.OnceFunc(func() { close(seen) })) })
		<-seen
	}
	return w, err
}

// read is a page that is open.
func (w *watched) read(ctx context.Context, seen func()) {
	defer seen()
	body, err := w.get(ctx, "/page/stream")
	if err != nil {
		return
	}
	defer func() { _ = body.Close() }()
	for lines := bufio.NewScanner(body); lines.Scan(); {
		seen() // a browser would show it, in another process
	}
}

// scrape is a Prometheus.
func (w *watched) scrape(ctx context.Context, seen func()) {
	every := time.NewTicker(glance)
	defer every.Stop()
	for {
		if body, err := w.get(ctx, "/metrics"); err == nil {
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

func (w *watched) get(ctx context.Context, path string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.web.URL+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := w.web.Client().Do(request)
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

func (w *watched) close() {
	w.stop()
	w.users.Wait()
	if w.page != nil {
		w.page.Close()
	}
	w.web.Close()
	for _, remove := range w.remove {
		remove()
	}
	w.ours.close()
	if w.provider != nil {
		_ = w.provider.Shutdown(context.Background())
	}
}
