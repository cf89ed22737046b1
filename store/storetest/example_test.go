package storetest_test

import (
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/storetest"
)

// tallying is a user's own store: a cache that counts additions.
type tallying struct {
	*store.Cache[*storetest.Object]
	added int
}

// Add is the one method that differs.
func (c *tallying) Add(object *storetest.Object) error {
	c.added++
	return c.Cache.Add(object)
}

// suite is the test: in a program it is called TestTallying.
func suite(t *testing.T) {
	storetest.Run(t, func() (store.Store[*storetest.Object], store.Reader[*storetest.Object]) {
		c := &tallying{Cache: store.New(storetest.ClusterKey)}
		return c, c
	})
}

// One call in a test checks your own store against the contract.
func ExampleRun() {
	_ = suite // go test calls it
}
