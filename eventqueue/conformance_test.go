package eventqueue_test

import (
	"testing"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/decorate"
	"github.com/kubereflector/kubereflector/store/storetest"
)

func TestConformance(t *testing.T) {
	type (
		object = *storetest.Object
		opened = func() (store.Store[object], store.Reader[object])
	)
	collection := func(compaction eventqueue.Compaction) opened {
		return func() (store.Store[object], store.Reader[object]) {
			c := eventqueue.New(storetest.ClusterKey, eventqueue.WithCompaction(compaction))
			return c, c.Cache()
		}
	}
	for name, open := range map[string]opened{
		"keeps all":        collection(eventqueue.KeepAll),
		"keeps the latest": collection(eventqueue.KeepLatest),
		"behind a tee": func() (store.Store[object], store.Reader[object]) {
			c := store.New(store.ObjectKey[object])
			return decorate.Tee[object](c, eventqueue.New(store.ObjectKey[object])), c
		},
	} {
		t.Run(name, func(t *testing.T) { storetest.RunBatches(t, open) })
	}
}
