package informerbench

import (
	"bufio"
	"context"
	"fmt"
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
	page    bool    // is open, in somebody's browser
	metrics bool    // are scraped
	sampled float64 // of the traces, if traced
	traced  bool
}

// glance is how often the page is renewed and metrics are scraped: four times as often as usual, so that it happens
// several times while something is measured.
const glance = 250 * time.Millisecond

// name is what the instruments are called in a table.
func (i instruments) name() string {
	name := ""
	for _, part := range []struct {
		on   bool
		name string
	}{{i.page, "page"}, {i.metrics, "metrics"}, {i.traced, fmt.Sprintf("traces-%g%%", 100*i.sampled)}} {
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
	traces *trace.TracerProvider
}

var _ subject = (*watched)(nil)

// nowhere is where spans go: to make them and to hand them over is what is measured, not to send them.
type nowhere struct{}

func (nowhere) ExportSpans(context.Context, []trace.ReadOnlySpan) error { return nil }
func (nowhere) Shutdown(context.Context) error                          { return nil }

func newWatched(with instruments, handlers int, server *server) (subject, error) {
	w := &watched{}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	metrics := prometheus.New()
	var opts []informer.Option
	if with.metrics {
		opts = append(opts, metrics.Options("pods")...)
	}
	if with.traced {
		w.traces = trace.NewTracerProvider(trace.WithBatcher(nowhere{}), trace.WithSampler(trace.TraceIDRatioBased(with.sampled)))
		opts = append(opts, otel.New(w.traces).Options("pods")...)
	}
	var err error
	w.ours, err = openOurs(handlers, server, opts, func(pods *informer.Informer[*corev1.Pod]) {
		routes := http.NewServeMux()
		if with.page {
			w.page = inspect.New(inspect.WithInterval(glance))
			w.remove = append(w.remove, inspect.Add(w.page, pods))
			routes.Handle("/page/", http.StripPrefix("/page", w.page))
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
	if w.traces != nil {
		_ = w.traces.Shutdown(context.Background())
	}
}
