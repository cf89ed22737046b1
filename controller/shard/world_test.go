package shard

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"path"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// world is a server and those who share shards.
type world struct {
	*testing.T
	server *reflectortest.Server
	group  Group
	work   func(ctx context.Context, s Shard) error // nil waits for the end

	// mu protects the fields below it.
	mu      sync.Mutex
	holders map[int]string // who works a shard
	clashes []string
	takes   int // how often a RunFunc began
}

func newWorld(t *testing.T, shards int) *world {
	return &world{
		T: t, server: reflectortest.Start(t), holders: map[int]string{},
		group: Group{Namespace: "default", Name: "foos", Shards: shards},
	}
}

func (w *world) client() coordination.CoordinationV1Interface {
	clientset, err := kubernetes.NewForConfig(w.server.Config())
	require.NoError(w, err)
	return clientset.CoordinationV1()
}

// hold notes who works what.
func (w *world) hold(who string) RunFunc {
	return func(ctx context.Context, s Shard) error {
		w.mu.Lock()
		if other, ok := w.holders[s.Index]; ok {
			w.clashes = append(w.clashes, fmt.Sprintf("%s begins %s, which %s works", who, s, other))
		}
		w.holders[s.Index] = who
		w.takes++
		w.mu.Unlock()
		defer func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			delete(w.holders, s.Index)
		}()
		if w.work != nil {
			return w.work(ctx, s)
		}
		<-ctx.Done()
		return nil
	}
}

// started is a member that runs.
type started struct {
	*Member
	cancel context.CancelFunc
	ended  chan error
}

func (w *world) member(identity string, opts ...Option) *Member {
	m, err := New(w.client(), w.group, identity, w.hold(identity), opts...)
	require.NoError(w, err)
	return m
}

func (w *world) start(identity string, opts ...Option) *started {
	return w.run(w.member(identity, opts...))
}

func (w *world) run(m *Member) *started {
	ctx, cancel := context.WithCancel(w.Context())
	s := &started{Member: m, cancel: cancel, ended: make(chan error, 1)}
	go func() { s.ended <- m.Run(ctx) }()
	return s
}

func (s *started) stop() error { s.cancel(); return <-s.ended }

// load returns how many shards each works.
func (w *world) load() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	load := map[string]int{}
	for _, who := range w.holders {
		load[who]++
	}
	return load
}

func (w *world) taken() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.takes
}

func (w *world) clash() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clashes
}

func pass(d time.Duration) { <-time.After(d) }

// ghostMember creates the lease of a member that does not run.
func (w *world) ghostMember(shards, joined string, seconds int32) {
	w.create(memberLease("foos", "ghost"), map[string]string{groupLabel: "foos"},
		map[string]string{ofAnnotation: shards, joinedAnnotation: joined}, seconds, 0, "ghost")
}

// ghostShard creates the lease of shard 0 with a holder that is no member, or with none.
func (w *world) ghostShard(holder string, seconds, transitions int32) {
	w.create(shardLease("foos", 0), map[string]string{groupLabel: "foos", shardLabel: "0"},
		map[string]string{ofAnnotation: "2"}, seconds, transitions, holder)
}

func (w *world) create(name string, labels, annotations map[string]string, seconds, transitions int32, holder string) {
	require.NoError(w, w.server.Create(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels, Annotations: annotations},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, LeaseTransitions: &transitions},
	}))
}

const years = math.MaxInt32 // in seconds: 68

// deceived is a network that does something else with updates of certain leases.
type deceived struct {
	http.RoundTripper
	on     atomic.Bool
	leases string // the pattern of their names
	update func(next http.RoundTripper, r *http.Request) (*http.Response, error)
}

func (d *deceived) RoundTrip(r *http.Request) (*http.Response, error) {
	if matches, _ := path.Match(d.leases, path.Base(r.URL.Path)); matches && d.on.Load() && r.Method == http.MethodPut {
		return d.update(d.RoundTripper, r)
	}
	return d.RoundTripper.RoundTrip(r)
}

// lose sends nothing.
func lose(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// change nothing: the answer is the object as it is.
func changeNothing(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	get := r.Clone(r.Context())
	get.Method, get.Body, get.ContentLength = http.MethodGet, nil, 0
	return next.RoundTrip(get)
}

// over puts the network between a member and its server.
func (d *deceived) over(next http.RoundTripper) http.RoundTripper { d.RoundTripper = next; return d }

// startOn starts a member on a network.
func (w *world) startOn(identity string, network func(next http.RoundTripper) http.RoundTripper, opts ...Option) *started {
	config := w.server.Config()
	config.Wrap(network)
	clientset, err := kubernetes.NewForConfig(config)
	require.NoError(w, err)
	m, err := New(clientset.CoordinationV1(), w.group, identity, w.hold(identity), opts...)
	require.NoError(w, err)
	return w.run(m)
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
