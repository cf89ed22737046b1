package wirebench

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"

	"github.com/kubereflector/kubereflector/internal/bench/apiserver"
	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
)

// readable is a contender whose cache is read as controllers do.
type readable interface {
	get(ctx context.Context, key crclient.ObjectKey, shared bool) error
	// list lists the objects with a value of the index, or all for the empty value.
	list(ctx context.Context, value string, shared bool) (crclient.ObjectList, error)
	// index adds an index.
	index(ctx context.Context, value func(name string) string) error
}

// parts is how many parts the lists divide all objects into.
const parts = 20

// part returns the part of an object, which has nothing to do with the order of names.
func part(name string) string {
	h := fnv.New32a()
	h.Write([]byte(name))
	return strconv.Itoa(int(h.Sum32() % parts))
}

// reads reads each object by each of the ways.
func (c *contenderProcess) reads(f measure.Figures, from readable) error {
	ctx := context.Background()
	if err := from.index(ctx, part); err != nil {
		return err
	}
	keys, err := keysOf(ctx, from)
	if err != nil {
		return err
	}
	if len(keys) != c.Objects {
		return fmt.Errorf("%d objects are in the cache, want %d", len(keys), c.Objects)
	}
	for _, way := range []struct {
		name         string
		shared, list bool
	}{{"get", false, false}, {"get-shared", true, false}, {"list", false, true}, {"list-shared", true, true}} {
		turns := copyTurns
		if way.shared {
			turns = sharedTurns
		}
		measure.LiveHeap() // collects the garbage of others
		err := f.Phase(c.Profiles, way.name, c.Objects*turns, func() error {
			for range turns {
				if err := c.read(ctx, from, keys, way.list, way.shared); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
	}
	return nil
}

func keysOf(ctx context.Context, from readable) (keys []crclient.ObjectKey, err error) {
	all, err := from.list(ctx, "", true)
	if err != nil {
		return nil, err
	}
	err = meta.EachListItem(all, func(object runtime.Object) error {
		keys = append(keys, crclient.ObjectKeyFromObject(object.(crclient.Object)))
		return nil
	})
	return keys, err
}

// Each object is read so often that a phase has many cycles of the garbage collector.
const (
	copyTurns   = 5
	sharedTurns = 25
)

// read reads each object once.
func (c *contenderProcess) read(ctx context.Context, from readable, keys []crclient.ObjectKey, lists, shared bool) error {
	if !lists {
		for i := range keys {
			if err := from.get(ctx, keys[i*apiserver.Stride%len(keys)], shared); err != nil {
				return err
			}
		}
		return nil
	}
	read := 0
	for i := range parts {
		list, err := from.list(ctx, strconv.Itoa(i), shared)
		if err != nil {
			return err
		}
		read += meta.LenList(list)
	}
	if read != len(keys) {
		return fmt.Errorf("%d objects were listed, want %d", read, len(keys))
	}
	return nil
}

const partField = "part"

func (r *runtimeCache) index(ctx context.Context, value func(name string) string) error {
	return r.cache.IndexField(ctx, r.example, partField, func(object crclient.Object) []string { return []string{value(object.GetName())} })
}

func (r *runtimeCache) get(ctx context.Context, key crclient.ObjectKey, shared bool) error {
	out := r.example.DeepCopyObject().(crclient.Object) // an empty object
	if shared {
		return r.cache.Get(ctx, key, out, crclient.UnsafeDisableDeepCopy)
	}
	return r.cache.Get(ctx, key, out)
}

func (r *runtimeCache) list(ctx context.Context, value string, shared bool) (crclient.ObjectList, error) {
	var opts []crclient.ListOption
	if value != "" {
		opts = append(opts, crclient.MatchingFields{partField: value})
	}
	if shared {
		opts = append(opts, crclient.UnsafeDisableDeepCopy)
	}
	out := r.lists.DeepCopyObject().(crclient.ObjectList)
	return out, r.cache.List(ctx, out, opts...)
}
