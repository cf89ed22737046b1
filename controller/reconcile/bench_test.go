package reconcile

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"github.com/kubereflector/kubereflector/store"
)

// BenchmarkKey is a key's way from a trigger to the end of a call that does nothing.
func BenchmarkKey(b *testing.B) {
	for name, opts := range map[string][]Option{"own writes count": nil, "own writes do not": {IgnoreOwnWrites()}} {
		b.Run(name, func(b *testing.B) {
			var calls sync.WaitGroup
			o := newOptions(opts)
			r := newRun(b.Context(), &o, "bench", func(context.Context, store.Key) (Result, error) {
				calls.Done()
				return Result{}, nil
			}, nil)
			ctx, stop := context.WithCancel(b.Context())
			var working sync.WaitGroup
			working.Go(func() { _ = r.work(ctx, func() {}) })
			defer func() { stop(); working.Wait(); r.close() }()
			keys := make([]store.Key, 1000)
			for i := range keys {
				keys[i] = store.Key{Namespace: "ns", Name: strconv.Itoa(i)}
			}
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += len(keys) {
				calls.Add(len(keys))
				for _, key := range keys {
					r.trigger(trigger{key: key})
				}
				calls.Wait()
			}
		})
	}
}
