package storetest_test

import (
	"iter"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
	"github.com/kubereflector/kubereflector/store/storetest"
)

func TestConformanceOfDecorators(t *testing.T) {
	for name, open := range map[string]func() (store.Store[object], store.Reader[object]){
		"transform": func() (store.Store[object], store.Reader[object]) {
			c := store.New(store.ObjectKey[object])
			return decorate.Transform(c, store.ObjectKey[object], func(o object) (object, error) { return o, nil }), c
		},
		"transform into what has no version": func() (store.Store[object], store.Reader[object]) {
			c := store.New(store.ObjectKey[*bare])
			return decorate.Transform(c, store.ObjectKey[object], func(o object) (*bare, error) { return &bare{o}, nil }), clothed{c}
		},
		"filter": func() (store.Store[object], store.Reader[object]) {
			c := store.New(store.ObjectKey[object])
			return decorate.Filter(c, func(object) bool { return true }), c
		},
		"tee, by its first store": func() (store.Store[object], store.Reader[object]) {
			c := store.New(store.ObjectKey[object])
			return decorate.Tee[object](c, store.New(store.ObjectKey[object])), c
		},
		"tee, by its last store": func() (store.Store[object], store.Reader[object]) {
			c := store.New(store.ObjectKey[object])
			return decorate.Tee[object](store.New(store.ObjectKey[object]), c), c
		},
		"filter of transform of tee": func() (store.Store[object], store.Reader[object]) {
			c, other := store.New(store.ObjectKey[*bare]), store.New(store.ObjectKey[*bare])
			transform := decorate.Transform(decorate.Tee[*bare](c, other), store.ObjectKey[object], func(o object) (*bare, error) { return &bare{o}, nil })
			return decorate.Filter(transform, func(object) bool { return true }), clothed{c}
		},
	} {
		t.Run(name, func(t *testing.T) { storetest.RunBatches(t, open) })
	}
	t.Run("filter in front of a store without batches", func(t *testing.T) {
		storetest.Run(t, func() (store.Store[object], store.Reader[object]) {
			c := store.New(store.ObjectKey[object])
			behind := &counting[object]{Store: c}
			return decorate.Filter(behind, func(object) bool { return true }), c
		})
	})
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
