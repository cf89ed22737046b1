package storetest_test

import (
	"testing"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/storetest"
)

// object is short for what the suite stores.
type object = *storetest.Object

// TestConformance runs the suite on everything in this module that fulfils the
// contract.
func TestConformance(t *testing.T) {
	for name, open := range map[string]func() (store.Store[object], store.Reader[object]){
		"cache": func() (store.Store[object], store.Reader[object]) {
			c := store.New(store.ObjectKey[object])
			return c, c
		},
		"cache of clusters": func() (store.Store[object], store.Reader[object]) {
			c := store.New(storetest.ClusterKey)
			return c, c.View()
		},
		"cache with an index": func() (store.Store[object], store.Reader[object]) {
			c := store.New(store.ObjectKey[object])
			_, err := store.AddIndex(c, "payload", func(o object) []string { return []string{o.Payload} })
			if err != nil {
				panic(err)
			}
			return c, c
		},
		"collection": func() (store.Store[object], store.Reader[object]) {
			c := eventqueue.New(storetest.ClusterKey)
			return c, c.Cache()
		},
		"collection that keeps the latest": func() (store.Store[object], store.Reader[object]) {
			c := eventqueue.New(storetest.ClusterKey, eventqueue.WithCompaction(eventqueue.KeepLatest))
			return c, c.Cache()
		},
	} {
		t.Run(name, func(t *testing.T) { storetest.Run(t, open) })
	}
}
