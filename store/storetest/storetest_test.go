package storetest_test

import (
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/storetest"
)

// object is short for what the suite stores.
type object = *storetest.Object

// TestConformance runs the suite on a cache and on a partition of one. The other stores of
// this module have it in their own tests.
func TestConformance(t *testing.T) {
	for name, open := range map[string]func() (store.Store[object], store.Reader[object]){
		"cache": func() (store.Store[object], store.Reader[object]) {
			c := store.New(store.ObjectKey[object])
			return c, c
		},
		"cache of clusters": func() (store.Store[object], store.Reader[object]) {
			c := store.New(storetest.ClusterKey)
			return c, &c.View
		},
		"cache with an index": func() (store.Store[object], store.Reader[object]) {
			c := store.New(store.ObjectKey[object])
			_, err := store.AddIndex(c, "payload", func(o object) []string { return []string{o.Payload} })
			if err != nil {
				panic(err)
			}
			return c, c
		},
		"partition": func() (store.Store[object], store.Reader[object]) {
			c := store.New(store.ObjectKey[object])
			elsewhere, err := c.Partition(store.Scope{Cluster: "elsewhere"})
			if err != nil {
				panic(err)
			}
			if err := elsewhere.Replace(nil, "1000000"); err != nil {
				panic(err)
			}
			here, err := c.Partition(store.Scope{})
			if err != nil {
				panic(err)
			}
			return here, partitioned{Cache: c, version: here.ResourceVersion}
		},
	} {
		t.Run(name, func(t *testing.T) { storetest.RunBatches(t, open) })
	}
}

// partitioned reads a cache with the resource version of one of its partitions.
type partitioned struct {
	*store.Cache[object]
	version func() string
}

func (p partitioned) ResourceVersion() string { return p.version() }
