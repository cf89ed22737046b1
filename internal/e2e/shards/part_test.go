package shards

import (
	"context"
	"fmt"
	"math/bits"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/kubereflector/kubereflector/controller/shard"
)

// part is the objects of a shard: it asks the server for them, and filters what comes, in case the server did not.
type part struct {
	all      dynamic.ResourceInterface
	selector sharding.Selector
}

// partOf cuts the hashes of UIDs into equal ranges.
func partOf(all dynamic.ResourceInterface, s shard.Shard) part {
	bound := func(n int) string {
		if n == s.Of {
			return "0x10000000000000000"
		}
		hash, _ := bits.Div64(uint64(n), 0, uint64(s.Of))
		return fmt.Sprintf("0x%016x", hash)
	}
	return part{all, sharding.NewSelector(sharding.ShardRangeRequirement{
		Key: "object.metadata.uid", Start: bound(s.Index), End: bound(s.Index + 1),
	})}
}

func (p part) Get(ctx context.Context, name string, opts metav1.GetOptions) (*unstructured.Unstructured, error) {
	return p.all.Get(ctx, name, opts)
}

func (p part) List(ctx context.Context, opts metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	opts.ShardSelector = p.selector.String()
	list, err := p.all.List(ctx, opts)
	if err != nil {
		return nil, err
	}
	kept := list.Items[:0]
	for _, item := range list.Items {
		if p.has(&item) {
			kept = append(kept, item)
		}
	}
	list.Items = kept
	return list, nil
}

func (p part) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.ShardSelector = p.selector.String()
	events, err := p.all.Watch(ctx, opts)
	if err != nil {
		return nil, err
	}
	return watch.Filter(events, func(event watch.Event) (watch.Event, bool) {
		object, ok := event.Object.(*unstructured.Unstructured)
		return event, !ok || event.Type == watch.Bookmark || event.Type == watch.Error || p.has(object)
	}), nil
}

func (p part) has(object *unstructured.Unstructured) bool {
	matches, err := p.selector.Matches(object)
	return err == nil && matches
}
