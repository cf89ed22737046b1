package storetest_test

import (
	"iter"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
	"github.com/kubereflector/kubereflector/store/storetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
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
		"transform of transform": func() (store.Store[object], store.Reader[object]) {
			c := store.New(store.ObjectKey[*bare])
			transform := decorate.Transform(c, store.ObjectKey[object], func(o object) (*bare, error) { return &bare{o}, nil })
			return decorate.Transform(transform, store.ObjectKey[object], func(o object) (object, error) { return o, nil }), clothed{c}
		},
	} {
		t.Run(name, func(t *testing.T) { storetest.RunBatches(t, open) })
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

func TestObjectHasTheMetadataOfAKubernetesObject(t *testing.T) {
	o := storetest.New("n", "a", "u1", "1")
	key, err := store.ObjectKey(o)
	require.NoError(t, err)
	assert.Equal(t, store.Key{Namespace: "n", Name: "a"}, key)
	assert.EqualValues(t, "u1", o.GetUID())
	assert.Equal(t, "1", o.GetResourceVersion())
	assert.Panics(t, func() { (*storetest.Object)(nil).GetName() }, "as one from Kubernetes does")
}

func TestAtIsAnotherStateOfTheSameObject(t *testing.T) {
	o := storetest.New("n", "a", "u1", "1")
	later := o.At("2")
	assert.Equal(t, &storetest.Object{Namespace: "n", Name: "a", UID: "u1", ResourceVersion: "2", Payload: "2"}, later)
	assert.Equal(t, storetest.New("n", "a", "u1", "1"), o)
}

func TestClusterKeyHasTheCluster(t *testing.T) {
	o := storetest.New("n", "a", "u1", "1")
	o.Cluster = "c"
	key, err := storetest.ClusterKey(o)
	require.NoError(t, err)
	assert.Equal(t, store.Key{Cluster: "c", Namespace: "n", Name: "a"}, key)

	o.Name = ""
	key, err = storetest.ClusterKey(o)
	assert.ErrorIs(t, err, store.ErrBadKey)
	assert.Zero(t, key)
	_, err = storetest.ClusterKey(nil)
	assert.ErrorIs(t, err, store.ErrBadKey)
}

func TestObjectAsText(t *testing.T) {
	o := storetest.New("n", "a", "u1", "1")
	assert.Equal(t, `n/a(uid "u1", version "1")`, o.String())
	assert.Equal(t, `n/a(uid "u1", version "2")`, o.At("2").String())
	o.Payload = "p"
	assert.Equal(t, `n/a(uid "u1", version "1", payload "p")`, o.String())
	assert.Equal(t, "nil", (*storetest.Object)(nil).String())
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSuiteOfTheExample(t *testing.T) { suite(t) }
