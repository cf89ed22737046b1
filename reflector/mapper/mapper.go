package mapper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/disk"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/homedir"
)

// DefaultTTL is the default lifetime of cached discovery results.
const DefaultTTL = 10 * time.Minute

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

// WithTTL sets the lifetime of cached discovery results. The default is [DefaultTTL]. With 0 or
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
	o := options{directory: defaultDirectory(), ttl: DefaultTTL}
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
