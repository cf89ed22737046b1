package storetest_test

import (
	"iter"
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
		"collection": func() (store.Store[object], store.Reader[object]) {
			c := eventqueue.New(storetest.ClusterKey)
			return c, c.Cache()
		},
		"collection that keeps the latest": func() (store.Store[object], store.Reader[object]) {
			c := eventqueue.New(storetest.ClusterKey, eventqueue.WithCompaction(eventqueue.KeepLatest))
			return c, c.Cache()
		},
		"transform": func() (store.Store[object], store.Reader[object]) {
			c := store.New(store.ObjectKey[object])
			return store.Transform(c, store.ObjectKey[object], func(o object) (object, error) { return o, nil }), c
		},
		"transform into what has no version": func() (store.Store[object], store.Reader[object]) {
			c := store.New(store.ObjectKey[*bare])
			return store.Transform(c, store.ObjectKey[object], func(o object) (*bare, error) { return &bare{o}, nil }), clothed{c}
		},
		"filter": func() (store.Store[object], store.Reader[object]) {
			c := store.New(store.ObjectKey[object])
			return store.Filter(c, func(object) bool { return true }), c
		},
		"tee, by its first store": func() (store.Store[object], store.Reader[object]) {
			c := store.New(store.ObjectKey[object])
			return store.Tee[object](c, eventqueue.New(store.ObjectKey[object])), c
		},
		"tee, by its last store": func() (store.Store[object], store.Reader[object]) {
			c := store.New(store.ObjectKey[object])
			return store.Tee[object](eventqueue.New(store.ObjectKey[object]), c), c
		},
		"filter of transform of tee": func() (store.Store[object], store.Reader[object]) {
			c, other := store.New(store.ObjectKey[*bare]), store.New(store.ObjectKey[*bare])
			transform := store.Transform(store.Tee[*bare](c, other), store.ObjectKey[object], func(o object) (*bare, error) { return &bare{o}, nil })
			return store.Filter(transform, func(object) bool { return true }), clothed{c}
		},
		"filter in front of a store without batches": func() (store.Store[object], store.Reader[object]) {
			c := store.New(store.ObjectKey[object])
			behind := &counting[object]{Store: c}
			return store.Filter(behind, func(object) bool { return true }), c
		},
	} {
		t.Run(name, func(t *testing.T) { storetest.Run(t, open) })
	}
}

// bare is an object that does not say its version.
type bare struct{ of object }

func (b *bare) GetName() string      { return b.of.Name }
func (b *bare) GetNamespace() string { return b.of.Namespace }

// clothed reads bare objects as what they were made of.
type clothed struct{ *store.Cache[*bare] }

func (c clothed) Get(key store.Key) (object, bool) {
	b, ok := c.Cache.Get(key)
	if !ok {
		return nil, false
	}
	return b.of, true
}

func (c clothed) All() iter.Seq2[store.Key, object] { return clothe(c.Cache.All()) }

func (c clothed) Namespace(namespace string) iter.Seq2[store.Key, object] {
	return clothe(c.Cache.Namespace(namespace))
}

func clothe(walk iter.Seq2[store.Key, *bare]) iter.Seq2[store.Key, object] {
	return func(yield func(store.Key, object) bool) {
		for key, b := range walk {
			if !yield(key, b.of) {
				return
			}
		}
	}
}

// partitioned reads a cache with the resource version of one of its partitions.
type partitioned struct {
	*store.Cache[object]
	version func() string
}

func (p partitioned) ResourceVersion() string { return p.version() }
