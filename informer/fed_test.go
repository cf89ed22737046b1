package informer

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/internal/feed"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
)

// oneByOne is a feed that stores what comes from a channel.
type oneByOne struct {
	into   store.Store[*corev1.Pod]
	report func(context.Context, error)
	pods   chan *corev1.Pod
	synced chan struct{}
	once   sync.Once
}

func (f *oneByOne) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case p := <-f.pods:
			if p == nil {
				return errors.New("no more pods")
			}
			if err := f.into.Replace([]*corev1.Pod{p}, p.ResourceVersion); err != nil {
				f.report(ctx, err)
			}
			f.once.Do(func() { close(f.synced) })
		}
	}
}

func (f *oneByOne) State() reflector.State                  { return reflector.State{Phase: reflector.Watching} }
func (f *oneByOne) Changed(reflector.State) <-chan struct{} { return nil }
func (f *oneByOne) Synced() <-chan struct{}                 { return f.synced }

func TestFeedOfYourOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &oneByOne{pods: make(chan *corev1.Pod), synced: make(chan struct{})}
		logged, logs := observer.New(zap.WarnLevel)
		var told []error
		i := NewFed(nil, store.ObjectKey[*corev1.Pod], func(target feed.Target[*corev1.Pod]) feed.Group {
			f.into, f.report = target.Into, target.Report
			return feed.New(f)
		}, WithName("fed"), WithLogger(zap.New(logged)), WithErrorHandler(func(_ context.Context, err error) {
			told = append(told, err)
			panic("ouch")
		}))
		var d diary
		i.Handle(d.funcs())
		result := make(chan error, 1)
		go func() { result <- i.Run(t.Context()) }()
		f.pods <- pod("a", "u1", 1)
		require.NoError(t, i.WaitForSync(t.Context()))
		assert.Equal(t, reflector.Watching, i.State().Phase)
		f.pods <- pod("", "u2", 2)
		f.pods <- pod("b", "u3", 3)
		f.pods <- nil
		assert.ErrorContains(t, <-result, "no more pods")

		assert.Equal(t, []string{"initial a@1", "missing a@1", "add b@3"}, d.read())
		require.Len(t, told, 1)
		assert.ErrorIs(t, told[0], store.ErrBadKey)
		require.Equal(t, 2, logs.Len())
		assert.Equal(t, "fed", logs.All()[0].ContextMap()["informer"])
		assert.Equal(t, "error handler panicked", logs.All()[1].Message)
	})
}
