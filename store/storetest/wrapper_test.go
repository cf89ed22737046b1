package storetest_test

import (
	"sync/atomic"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/storetest"
)

// counting is a store as a user writes one: it embeds another, and overrides what
// it is interested in.
type counting[T any] struct {
	store.Store[T]
	deleted atomic.Int64
}

func (c *counting[T]) Delete(object T) error {
	err := c.Store.Delete(object)
	if err == nil {
		c.deleted.Add(1)
	}
	return err
}

func (c *counting[T]) DeleteKey(key store.Key) error {
	err := c.Store.DeleteKey(key)
	if err == nil {
		c.deleted.Add(1)
	}
	return err
}

// TestCountingFulfilsTheContract is all that a user has to write.
func TestCountingFulfilsTheContract(t *testing.T) {
	storetest.Run(t, func() (store.Store[*storetest.Object], store.Reader[*storetest.Object]) {
		cache := store.New(store.ObjectKey[*storetest.Object])
		return &counting[*storetest.Object]{Store: cache}, cache
	})
}
