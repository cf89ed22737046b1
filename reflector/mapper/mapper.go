package mapper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/kubereflector/kubereflector/internal/restguard"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/disk"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/util/homedir"
)

// DefaultLife is how long what a server told is used.
const DefaultLife = 10 * time.Minute

// Option configures [OnDisk].
type Option interface{ apply(*options) }

type options struct {
	directory string
	life      time.Duration
}

type optionFunc func(*options)

func (f optionFunc) apply(o *options) { f(o) }

// WithDirectory sets the directory, in which each server has its own. The default is
// kubectl's, so that both share what they know: KUBECACHEDIR if that is set, and else
// .kube/cache in the home directory.
func WithDirectory(path string) Option {
	return optionFunc(func(o *options) { o.directory = path })
}

// WithLife sets how long what a server told is used. The default is [DefaultLife]; 0 or
// less is never: the server is asked once by each process.
func WithLife(d time.Duration) Option {
	return optionFunc(func(o *options) { o.life = d })
}

// ErrNoDirectory means that nobody said where to keep what a server told.
var ErrNoDirectory = errors.New("there is no home directory and no KUBECACHEDIR: pass WithDirectory, or use InMemory")

// Mapper is a REST mapper. Get one from [OnDisk] or [InMemory]. Each method that is not
// given a context is the one that is, with [context.Background].
type Mapper struct {
	// turn has room for one, who uses the mapper below. That has a lock while it asks the
	// server, and who waits for a lock does not hear that ctx ended.
	turn chan struct{}
	of   *restmapper.DeferredDiscoveryRESTMapper
}

var (
	_ meta.ResettableRESTMapper            = (*Mapper)(nil)
	_ meta.ResettableRESTMapperWithContext = (*Mapper)(nil)
)

// OnDisk returns a mapper that keeps what the server told in files, by client-go's cached
// discovery client. It returns an error if the config is of no use, and [ErrNoDirectory].
func OnDisk(config *rest.Config, opts ...Option) (*Mapper, error) {
	o := options{directory: defaultDirectory(), life: DefaultLife}
	for _, opt := range opts {
		opt.apply(&o)
	}
	if o.directory == "" {
		return nil, ErrNoDirectory
	}
	told := filepath.Join(o.directory, "discovery", directoryOf(config.Host))
	client, err := disk.NewCachedDiscoveryClientForConfig(restguard.Config(config), told, filepath.Join(o.directory, "http"), o.life)
	if err != nil {
		return nil, fmt.Errorf("discovery at %s: %w", config.Host, err)
	}
	return over(client), nil
}

// InMemory returns a mapper that forgets what the server told when the process ends. It
// returns an error if the config is of no use.
func InMemory(config *rest.Config) (*Mapper, error) {
	client, err := discovery.NewDiscoveryClientForConfig(restguard.Config(config))
	if err != nil {
		return nil, fmt.Errorf("discovery at %s: %w", config.Host, err)
	}
	return over(memory.NewMemCacheClientWithContext(client)), nil
}

func over(client discovery.CachedDiscoveryInterfaceWithContext) *Mapper {
	return &Mapper{turn: make(chan struct{}, 1), of: restmapper.NewDeferredDiscoveryRESTMapperWithContext(client)}
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

// strange is what kubectl does not want in the names of directories either: both must
// have the same name for a host.
var strange = regexp.MustCompile(`[^(\w/.)]`)

func directoryOf(host string) string {
	host = strings.TrimPrefix(strings.TrimPrefix(host, "https://"), "http://")
	return strange.ReplaceAllString(host, "_")
}

// use has the mapper below do something when it is its turn.
func use[R any](ctx context.Context, m *Mapper, ask func(meta.RESTMapperWithContext) (R, error)) (result R, err error) {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return result, context.Cause(ctx)
	}
	result, err = ask(m.of)
	if ctx.Err() != nil {
		// What was told of only a part of the groups is not to be taken for the whole.
		m.of.ResetWithContext(context.WithoutCancel(ctx))
	}
	return result, err
}
