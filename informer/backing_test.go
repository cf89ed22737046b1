package informer

import (
	"context"
	goruntime "runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
)

// exitingBacking is a Backing whose Run ends its goroutine, as FailNow of a test does.
type exitingBacking struct {
	store.BatchStore[*corev1.Pod]
	cache *store.Cache[*corev1.Pod]
}

func (b exitingBacking) Cache() *store.Cache[*corev1.Pod] { return b.cache }

func (b exitingBacking) Partition(scope store.Scope) (store.BatchStore[*corev1.Pod], error) {
	return b.cache.Partition(scope)
}

func (b exitingBacking) Run(context.Context) error {
	goruntime.Goexit()
	return nil
}

func TestGoexitOfTheBackingEndsTheInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache := store.New(store.ObjectKey[*corev1.Pod])
		i := NewStored(clientOf(t, reflectortest.Start(t)).CoreV1().Pods("default"), exitingBacking{cache, cache})
		ctx := within(t, time.Minute)
		assert.ErrorIs(t, i.Run(ctx), errBackingAbandoned)
		assert.NoError(t, ctx.Err())
	})
}
