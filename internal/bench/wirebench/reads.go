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
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"
)

// runtimeCache is a cache of controller-runtime, and examples of its objects.
type runtimeCache struct {
	crcache.Cache
	example crclient.Object
	lists   crclient.ObjectList
}

// Each object is read so often that a phase has many cycles of the garbage collector.
const (
	copyTurns   = 5
	sharedTurns = 25
)

// The index divides the objects into parts, independently of the order of their names.
const (
	partField = "part"
	parts     = 20
)

func part(object crclient.Object) []string {
	h := fnv.New32a()
	h.Write([]byte(object.GetName()))
	return []string{strconv.Itoa(int(h.Sum32() % parts))}
}

// measure reads each object alone and in lists, copied and shared.
func (r *runtimeCache) measure(a assignment, f measure.Figures) error {
	ctx := context.Background()
	if err := r.IndexField(ctx, r.example, partField, part); err != nil {
		return err
	}
	all := r.lists.DeepCopyObject().(crclient.ObjectList)
	if err := r.List(ctx, all, crclient.UnsafeDisableDeepCopy); err != nil {
		return err
	}
	var keys []crclient.ObjectKey
	err := meta.EachListItem(all, func(object runtime.Object) error {
		keys = append(keys, crclient.ObjectKeyFromObject(object.(crclient.Object)))
		return nil
	})
	if err != nil || len(keys) != a.Objects {
		return fmt.Errorf("%d objects are in the cache, want %d: %w", len(keys), a.Objects, err)
	}
	all = nil
	for _, way := range []struct {
		name   string
		shared bool
		read   func(context.Context, []crclient.ObjectKey, bool) error
	}{{"get", false, r.get}, {"get-shared", true, r.get}, {"list", false, r.list}, {"list-shared", true, r.list}} {
		turns := copyTurns
		if way.shared {
			turns = sharedTurns
		}
		measure.LiveHeap() // collects the garbage of others
		err := f.Phase(a.Profiles, way.name, a.Objects*turns, func() error {
			for range turns {
				if err := way.read(ctx, keys, way.shared); err != nil {
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

func (r *runtimeCache) get(ctx context.Context, keys []crclient.ObjectKey, shared bool) error {
	var opts []crclient.GetOption
	if shared {
		opts = append(opts, crclient.UnsafeDisableDeepCopy)
	}
	for i := range keys {
		out := r.example.DeepCopyObject().(crclient.Object) // an empty object
		if err := r.Get(ctx, keys[i*apiserver.Stride%len(keys)], out, opts...); err != nil {
			return err
		}
	}
	return nil
}

func (r *runtimeCache) list(ctx context.Context, keys []crclient.ObjectKey, shared bool) error {
	read := 0
	for i := range parts {
		opts := []crclient.ListOption{crclient.MatchingFields{partField: strconv.Itoa(i)}}
		if shared {
			opts = append(opts, crclient.UnsafeDisableDeepCopy)
		}
		list := r.lists.DeepCopyObject().(crclient.ObjectList)
		if err := r.List(ctx, list, opts...); err != nil {
			return err
		}
		read += meta.LenList(list)
	}
	if read != len(keys) {
		return fmt.Errorf("%d objects were listed, want %d", read, len(keys))
	}
	return nil
}
