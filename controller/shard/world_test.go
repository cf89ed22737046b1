package shard

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/require"
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
	takes   int // how often a Hold began
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
func (w *world) hold(who string) Hold {
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
