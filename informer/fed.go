package informer

import (
	"context"

	"github.com/kubereflector/kubereflector/internal/feed"
	"github.com/kubereflector/kubereflector/store"
	"go.uber.org/zap"
)

// NewFed returns an informer that another feed than one reflector fills. It is for packages of this
// repository: others cannot name its types, and use package scoped or package clientgo instead.
// NewFed calls makeFeed once. If there is no backing, key is the KeyFunc of the cache.
func NewFed[T any](backing Backing[T], key store.KeyFunc[T], makeFeed func(feed.Target[T]) feed.Group, opts ...Option) *Informer[T] {
	var i *Informer[T]
	if backing != nil {
		i = newStored(backing, opts)
	} else {
		i = newInformer(store.New(key), opts)
	}
	i.feed = makeFeed(feed.Target[T]{
		Name: i.name, Cache: i.cache, Into: i.into, Partition: i.part, Report: i.report, Reflector: i.reflectorOptions(),
	})
	return i
}

// report reports a failure of a feed.
func (i *Informer[T]) report(ctx context.Context, err error) {
	i.logger.Warn("feed failed", zap.String("resourceVersion", i.cache.ResourceVersion()), zap.Error(err))
	i.tell(ctx, err)
}
