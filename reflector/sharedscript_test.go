package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// dictated is a client of a server that does what a test says.
type dictated struct {
	list  func() (*corev1.ConfigMapList, error)
	watch func(n int, ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)

	mu    sync.Mutex // protects the fields below
	asked []metav1.ListOptions
}

func (c *dictated) Get(context.Context, string, metav1.GetOptions) (*corev1.ConfigMap, error) {
	return nil, errors.New("nothing is to be had alone")
}

func (c *dictated) List(context.Context, metav1.ListOptions) (*corev1.ConfigMapList, error) {
	if c.list == nil {
		return nil, errors.New("no lists")
	}
	return c.list()
}

func (c *dictated) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	c.mu.Lock()
	c.asked = append(c.asked, opts)
	n := len(c.asked)
	c.mu.Unlock()
	return c.watch(n, ctx, opts)
}

// requests returns the requests so far.
func (c *dictated) requests() []metav1.ListOptions {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.asked)
}

// dictation is a watch that brings what a function sends, and then nothing.
type dictation struct {
	events chan watch.Event
	cancel context.CancelFunc
}

func tell(ctx context.Context, what func(send func(watch.EventType, *corev1.ConfigMap))) watch.Interface {
	ctx, cancel := context.WithCancel(ctx)
	w := &dictation{make(chan watch.Event), cancel}
	go func() {
		defer close(w.events)
		what(func(kind watch.EventType, object *corev1.ConfigMap) {
			select {
			case w.events <- watch.Event{Type: kind, Object: object}:
			case <-ctx.Done():
			}
		})
		<-ctx.Done()
	}()
	return w
}

func (w *dictation) Stop()                          { w.cancel() }
func (w *dictation) ResultChan() <-chan watch.Event { return w.events }

// inShard returns the nth object of a shard.
func inShard(shard store.Shard, n int, version string) *corev1.ConfigMap {
	for i := 0; ; i++ {
		uid := fmt.Sprint("uid-", i)
		if !shard.Contains(store.ShardHash(uid)) {
			continue
		}
		if n--; n < 0 {
			object := paint(uid, "red")
			object.UID, object.ResourceVersion = types.UID(uid), version
			return object
		}
	}
}

func closing(version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version, Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
}

// gathered starts the reflectors of three shards. The last two share a watch-list.
func gathered(t *testing.T, resource *dictated, all []store.Shard, version string, brings func(ctx context.Context, send func(watch.EventType, *corev1.ConfigMap))) *team[*corev1.ConfigMap] {
	release := make(chan struct{})
	resource.watch = func(n int, ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
		switch {
		case n == 1:
			<-release
		case n == 2:
			return tell(ctx, func(send func(watch.EventType, *corev1.ConfigMap)) { brings(ctx, send) }), nil
		}
		return tell(ctx, func(send func(watch.EventType, *corev1.ConfigMap)) {
			if opts.SendInitialEvents != nil {
				send(watch.Bookmark, closing(version))
			}
		}), nil
	}
	shared := client.SharedWatch[*corev1.ConfigMap, *corev1.ConfigMapList](resource)
	m := &team[*corev1.ConfigMap]{all: all}
	for _, shard := range all {
		join(t, m, shared, shard)
	}
	close(release)
	synctest.Wait()
	return m
}

func TestObjectsOfOthersShowThatASharedWatchListGoesOn(t *testing.T) {
	for name, of := range map[string]int{"nobody's": 0, "another's": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				resource, all := &dictated{}, store.Shards(store.ByUID, 3)
				shards := gathered(t, resource, all, "100", func(_ context.Context, send func(watch.EventType, *corev1.ConfigMap)) {
					for n := range 10 {
						<-time.After(10 * time.Second)
						send(watch.Added, inShard(all[of], n, fmt.Sprint(1+n)))
					}
					send(watch.Bookmark, closing("100"))
				})
				defer shards.stop()
				<-time.After(105 * time.Second)
				synctest.Wait()
				lists := slices.DeleteFunc(resource.requests(), func(opts metav1.ListOptions) bool { return opts.SendInitialEvents == nil })
				assert.Len(t, lists, 2, "nobody gave up")
				for i, r := range shards.own {
					assert.NoError(t, r.State().Err)
					assert.Equal(t, "100", shards.stores[i].ResourceVersion())
				}
				if of == 1 {
					assert.Equal(t, 10, shards.stores[1].Len())
				}
			})
		})
	}
}

func TestVersionsWithoutAnOrderInASharedWatchList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resource, all := &dictated{}, store.Shards(store.ByUID, 3)
		shards := gathered(t, resource, all, "z", func(_ context.Context, send func(watch.EventType, *corev1.ConfigMap)) {
			for n := range 10 {
				send(watch.Added, inShard(all[n%3], n, fmt.Sprint("v", n)))
			}
			send(watch.Bookmark, closing("z"))
			send(watch.Modified, inShard(all[2], 2, "zz"))
		})
		defer shards.stop()
		assert.Len(t, resource.requests(), 2, "nobody gave up")
		for i, want := range []int{0, 3, 3} {
			assert.NoError(t, shards.own[i].State().Err)
			assert.Equal(t, want, shards.stores[i].Len())
		}
		assert.Equal(t, "zz", shards.stores[2].ResourceVersion())
	})
}

func TestRefusalIsHeardByAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resource := &dictated{
			list: func() (*corev1.ConfigMapList, error) {
				return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "100"}, Items: []corev1.ConfigMap{
					*inShard(store.Shards(store.ByUID, 8)[0], 0, "5"), *inShard(store.Shards(store.ByUID, 8)[7], 0, "6"),
				}}, nil
			},
			watch: func(_ int, ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
				select {
				case <-time.After(30 * time.Second):
					return nil, errors.New("dial: timeout")
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			},
		}
		shards := newTeam(t, client.SharedWatch[*corev1.ConfigMap, *corev1.ConfigMapList](resource), store.ByUID, 8, reflector.WithoutWatchList())
		defer shards.stop()
		<-time.After(65 * time.Second)
		synctest.Wait()
		for i, r := range shards.own {
			assert.Error(t, r.State().Err, i)
		}
	})
}

func TestClientThatEndsTheGoroutineHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := store.Shards(store.ByUID, 2)
		resource := &dictated{
			list: func() (*corev1.ConfigMapList, error) {
				return &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "100"}, Items: []corev1.ConfigMap{*inShard(all[0], 0, "5"), *inShard(all[1], 0, "6")}}, nil
			},
			watch: func(n int, ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
				if n == 1 {
					runtime.Goexit()
				}
				return tell(ctx, func(send func(watch.EventType, *corev1.ConfigMap)) { send(watch.Bookmark, closing("101")) }), nil
			},
		}
		shards := newTeam(t, client.SharedWatch[*corev1.ConfigMap, *corev1.ConfigMapList](resource), store.ByUID, 2, reflector.WithoutWatchList())
		defer shards.stop()
		<-time.After(10 * time.Second)
		synctest.Wait()
		for _, s := range shards.stores {
			assert.Equal(t, "101", s.ResourceVersion())
		}
	})
}

func TestSelectorOfManyShardsIsNotTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		resource := &dictated{watch: func(n int, ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			if n == 1 {
				<-release
			}
			return tell(ctx, func(send func(watch.EventType, *corev1.ConfigMap)) {
				if opts.SendInitialEvents != nil {
					send(watch.Bookmark, closing("100"))
				}
			}), nil
		}}
		shared := client.SharedWatch[*corev1.ConfigMap, *corev1.ConfigMapList](resource)
		all := store.Shards(store.ByUID, 256)
		for i := range 16 {
			defer start(t, reflector.New(shared, newCache(), reflector.WithShard(all[16*i:16*i+16]...)))()
		}
		close(release)
		synctest.Wait()
		most := 0
		for _, opts := range resource.requests() {
			most = max(most, strings.Count(opts.ShardSelector, "shardRange"))
		}
		assert.Equal(t, 32, most, "of two reflectors")
	})
}
