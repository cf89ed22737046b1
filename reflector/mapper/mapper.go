package mapper

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kubereflector/kubereflector/internal/cut"
	"github.com/kubereflector/kubereflector/internal/restguard"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/disk"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/homedir"
)

// defaultTTL is the default of [WithTTL].
const defaultTTL = 10 * time.Minute

// Option configures [OnDisk].
type Option interface{ apply(*options) }

type options struct {
	directory string
	ttl       time.Duration
}

type optionFunc func(*options)

func (f optionFunc) apply(o *options) { f(o) }

// WithDirectory sets the cache directory. Each server has a directory of its own below it. The
// default is kubectl's directory, so that both share their caches: KUBECACHEDIR if that is set, and
// else .kube/cache in the home directory.
func WithDirectory(path string) Option {
	return optionFunc(func(o *options) { o.directory = path })
}

// WithTTL sets the lifetime of cached discovery results. The default is 10 minutes. With 0 or
// less the mapper does not use the results of other processes: each process requests discovery
// once.
func WithTTL(d time.Duration) Option {
	return optionFunc(func(o *options) { o.ttl = d })
}

// ErrNoDirectory means that there is no cache directory: no option, no KUBECACHEDIR, no home
// directory.
var ErrNoDirectory = errors.New("there is no home directory and no KUBECACHEDIR: pass WithDirectory, or use InMemory")

// Mapper is a REST mapper. Create one with [OnDisk] or [InMemory]. Each method without a context
// calls the method with a context and passes [context.Background].
type Mapper struct {
	// turn is a semaphore that protects the fields of answers. The client holds a lock while it
	// sends requests, and a goroutine that waits for that lock would not notice the end of its
	// context.
	turn   chan struct{}
	client discovery.CachedDiscoveryInterface
	// live is nil for a client in memory. The client on disk does not say which groups of an
	// aggregated answer are stale.
	live discovery.AggregatedDiscoveryInterface
	answers

	caller  atomic.Pointer[context.Context] // the context of the goroutine that has the turn
	refused atomic.Pointer[refusal]         // the last refused request of the current discovery
}

var _ meta.ResettableRESTMapper = (*Mapper)(nil)

// OnDisk returns a mapper that caches discovery results in files, with client-go's cached discovery
// client. It returns [ErrNoDirectory] without a cache directory, and an error if the config is
// invalid.
func OnDisk(config *rest.Config, opts ...Option) (*Mapper, error) {
	o := options{directory: defaultDirectory(), ttl: defaultTTL}
	for _, opt := range opts {
		opt.apply(&o)
	}
	if o.directory == "" {
		return nil, ErrNoDirectory
	}
	m := &Mapper{turn: make(chan struct{}, 1)}
	directory := filepath.Join(o.directory, "discovery", directoryOf(config.Host))
	client, err := disk.NewCachedDiscoveryClientForConfig(m.config(config), directory, filepath.Join(o.directory, "http"), o.ttl)
	if err != nil {
		return nil, fmt.Errorf("discovery at %s: %w", config.Host, err)
	}
	m.client = client
	if m.live, err = discovery.NewDiscoveryClientForConfig(m.config(config)); err != nil {
		return nil, fmt.Errorf("discovery at %s: %w", config.Host, err)
	}
	return m, nil
}

// InMemory returns a mapper that keeps discovery results in memory. It returns an error if the
// config is invalid.
func InMemory(config *rest.Config) (*Mapper, error) {
	m := &Mapper{turn: make(chan struct{}, 1)}
	client, err := discovery.NewDiscoveryClientForConfig(m.config(config))
	if err != nil {
		return nil, fmt.Errorf("discovery at %s: %w", config.Host, err)
	}
	m.client = memory.NewMemCacheClient(client)
	return m, nil
}

func defaultDirectory() string {
	if set := os.Getenv("KUBECACHEDIR"); set != "" {
		return set
	}
	home := homedir.HomeDir()
	if home == "" {
		return ""
	}
	return filepath.Join(home, ".kube", "cache")
}

// strange matches the characters that kubectl replaces in directory names. The mapper and kubectl
// must use the same directory for a host.
var strange = regexp.MustCompile(`[^(\w/.)]`)

func directoryOf(host string) string {
	host = strings.TrimPrefix(strings.TrimPrefix(host, "https://"), "http://")
	return strange.ReplaceAllString(host, "_")
}

// config returns a copy of a config. The requests of its clients end with the context of the
// mapper's caller: the discovery clients of client-go 0.36 take no context.
func (m *Mapper) config(config *rest.Config) *rest.Config {
	own := restguard.Config(config)
	own.Wrap(func(to http.RoundTripper) http.RoundTripper { return transport{to, m} })
	return own
}

type transport struct {
	http.RoundTripper
	mapper *Mapper
}

// WrappedRoundTripper is for client-go, which looks for the transport inside.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	caller := context.Background()
	if in := t.mapper.caller.Load(); in != nil {
		caller = *in
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := context.AfterFunc(caller, func() { cancel(context.Cause(caller)) })
	end := func() { stop(); cancel(nil) }
	response, err := t.RoundTripper.RoundTrip(r.WithContext(ctx))
	if err != nil {
		end()
		return nil, err
	}
	if response.StatusCode >= http.StatusBadRequest {
		t.mapper.note(response)
	}
	response.Body = &body{ReadCloser: restguard.Bounded(response.Body), end: sync.OnceFunc(end)}
	if response.StatusCode == http.StatusNotModified {
		_ = response.Body.Close() // client-go's cache on disk drops it for its own
	}
	return response, nil
}

// body releases the context of its request when it is closed.
type body struct {
	io.ReadCloser
	end func()
}

func (b *body) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

// refusal is a request that the server refused.
type refusal struct {
	path string
	err  *apierrors.StatusError
}

// note keeps why the server refused a request. client-go's discovery client drops the message, which
// says what the server forbids, or why it cannot answer. For a Retry-After it would sleep, whatever the
// context of the caller, and then forget the answer. So the response has none, and the Status has it, also the one
// in the body, which becomes the error of a group.
func (m *Mapper) note(response *http.Response) {
	seconds, _ := strconv.ParseInt(response.Header.Get("Retry-After"), 10, 32)
	response.Header.Del("Retry-After")
	data, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(data))
	if err != nil {
		return
	}
	var status metav1.Status
	if json.Unmarshal(data, &status) != nil || status.Kind != "Status" { // such as the text of priority and fairness
		status = apierrors.NewGenericServerResponse(response.StatusCode, "get", schema.GroupResource{}, "", "", 0, true).ErrStatus
	}
	if seconds > 0 {
		status.Details = cmp.Or(status.Details, &metav1.StatusDetails{})
		status.Details.RetryAfterSeconds = cmp.Or(status.Details.RetryAfterSeconds, int32(seconds))
	}
	status.Message = cut.Text(status.Message, cut.MaxText)
	if seconds > 0 {
		status.TypeMeta, status.Status = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, metav1.StatusFailure
		data, _ = json.Marshal(&status) // a Status has no errors
		response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
		response.Header.Set("Content-Type", "application/json")
	}
	m.refused.Store(&refusal{response.Request.URL.Path, &apierrors.StatusError{ErrStatus: status}})
}
