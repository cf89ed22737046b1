package ondemand

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/storetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

type object = storetest.Object

var aKey = store.Key{Namespace: "ns", Name: "a"}

func at(uid, version string) *object { return storetest.New("ns", "a", uid, version) }

// backend is a client of one namespace: answers says what it returns.
type backend struct {
	mu      sync.Mutex
	gets    int
	answers func(ctx context.Context, name string, nth int) (*object, error)
}

func (b *backend) Get(ctx context.Context, name string, _ metav1.GetOptions) (*object, error) {
	b.mu.Lock()
	b.gets++
	nth := b.gets
	b.mu.Unlock()
	return b.answers(ctx, name, nth)
}

func (b *backend) asked() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.gets
}

// always is a backend that has one state of an object.
func always(o *object) *backend {
	return &backend{answers: func(context.Context, string, int) (*object, error) { return o, nil }}
}

// on returns objects over a backend, and the cache of the metadata with some in it.
func on(t *testing.T, b *backend, metas []*object, opts ...Option) (*Objects[*object], *store.Cache[*object]) {
	t.Helper()
	cache := store.New(store.ObjectKey[*object])
	require.NoError(t, cache.Replace(metas, "1000"))
	o, err := New(Cluster(b), &cache.View, opts...)
	require.NoError(t, err)
	t.Cleanup(o.Close)
	return o, cache
}

func TestObjectIsFetchedOnceAndKept(t *testing.T) {
	b := always(at("u", "5"))
	o, _ := on(t, b, []*object{at("u", "5")})
	_, ok := o.Cached(aKey)
	assert.False(t, ok)
	for range 3 {
		got, err := o.Get(t.Context(), aKey)
		require.NoError(t, err)
		assert.Equal(t, at("u", "5"), got)
	}
	_, ok = o.Cached(aKey)
	assert.True(t, ok)
	assert.Equal(t, 1, b.asked())
	assert.Equal(t, Stats{Kept: 1, Hits: 3, Requests: 1}, o.Stats())
}

// The request of another caller may be answered after one found nothing, and before it asks.
func TestObjectThatCameMeanwhileIsNotFetched(t *testing.T) {
	b := always(at("u", "5"))
	o, _ := on(t, b, []*object{at("u", "5")})
	_, err := o.Get(t.Context(), aKey)
	require.NoError(t, err)
	got, _, err := o.fetch(t.Context(), aKey)
	require.NoError(t, err)
	assert.Equal(t, at("u", "5"), got)
	assert.Equal(t, 1, b.asked())
}

func TestObjectIsNeverOlderThanItsMetadata(t *testing.T) {
	b := always(at("u", "5"))
	o, cache := on(t, b, []*object{at("u", "5")})
	_, err := o.Get(t.Context(), aKey)
	require.NoError(t, err)
	require.NoError(t, cache.Update(at("u", "7")))
	assert.Zero(t, o.Stats().Kept, "what is old is not kept")
	_, ok := o.Cached(aKey)
	assert.False(t, ok)

	_, err = o.Get(t.Context(), aKey)
	require.ErrorIs(t, err, ErrStale)
	var failed *FetchError
	require.ErrorAs(t, err, &failed)
	assert.Equal(t, aKey, failed.Key)
	assert.Equal(t, 1+attempts, b.asked())

	b.answers = func(context.Context, string, int) (*object, error) { return at("u", "9"), nil }
	got, err := o.Get(t.Context(), aKey)
	require.NoError(t, err)
	assert.Equal(t, "9", got.ResourceVersion, "it may be newer")
	require.NoError(t, cache.Update(at("u", "9")))
	assert.Equal(t, 1, o.Stats().Kept)
	require.NoError(t, cache.Update(at("another", "9")))
	assert.Zero(t, o.Stats().Kept, "of two objects at one version neither is newer")
	require.NoError(t, cache.Update(at("u", "9")))
	_, err = o.Get(t.Context(), aKey)
	require.NoError(t, err)
	require.NoError(t, cache.Update(at("u", "not a number")))
	assert.Zero(t, o.Stats().Kept, "nobody knows which is newer")
}

func TestMetadataThatMovesDuringAFetch(t *testing.T) {
	var cache *store.Cache[*object]
	server := 5
	b := &backend{answers: func(context.Context, string, int) (*object, error) {
		answer := at("u", strconv.Itoa(server))
		server++ // another client writes while the answer is on its way
		if server < 8 {
			_ = cache.Update(at("u", strconv.Itoa(server)))
		}
		return answer, nil
	}}
	o, c := on(t, b, []*object{at("u", "5")})
	cache = c
	got, err := o.Get(t.Context(), aKey)
	require.NoError(t, err)
	assert.Equal(t, "7", got.ResourceVersion)
	assert.Equal(t, 3, b.asked())
}

func TestObjectThatChangesAllTheTimeIsAsNewAsWhenItWasAskedFor(t *testing.T) {
	var cache *store.Cache[*object]
	b := &backend{answers: func(_ context.Context, _ string, nth int) (*object, error) {
		answer := at("u", strconv.Itoa(5+nth))
		_ = cache.Update(at("u", strconv.Itoa(6+nth)))
		return answer, nil
	}}
	o, c := on(t, b, []*object{at("u", "5")})
	cache = c
	got, err := o.Get(t.Context(), aKey)
	require.NoError(t, err)
	assert.Equal(t, strconv.Itoa(5+attempts), got.ResourceVersion)
	assert.Zero(t, o.Stats().Kept)
}

func TestDeletedObjects(t *testing.T) {
	var cache *store.Cache[*object]
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, "a")
	for name, test := range map[string]struct {
		answers  func(context.Context, string, int) (*object, error)
		byServer bool
	}{
		"on the server": {func(context.Context, string, int) (*object, error) { return nil, gone }, true},
		"in the metadata, during the fetch": {func(context.Context, string, int) (*object, error) {
			_ = cache.DeleteKey(aKey)
			return at("u", "5"), nil
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := &backend{answers: test.answers}
			o, c := on(t, b, []*object{at("u", "5")})
			cache = c
			_, err := o.Get(t.Context(), aKey)
			var missing *NotFoundError
			require.ErrorAs(t, err, &missing)
			assert.Equal(t, aKey, missing.Key)
			assert.Equal(t, test.byServer, missing.Err != nil)
			assert.True(t, apierrors.IsNotFound(err))
			assert.Zero(t, o.Stats().Kept)
		})
	}
	t.Run("in the metadata, while it is kept", func(t *testing.T) {
		b := always(at("u", "5"))
		o, cache := on(t, b, []*object{at("u", "5")})
		_, err := o.Get(t.Context(), aKey)
		require.NoError(t, err)
		require.NoError(t, cache.Delete(at("u", "6")))
		assert.Zero(t, o.Stats().Kept)
		_, err = o.Get(t.Context(), aKey)
		_, ok := errors.AsType[*NotFoundError](err)
		assert.True(t, ok)
		assert.Equal(t, 1, b.asked())
	})
}

// The path may lack its namespace, or the server may not serve the version any more.
func TestMissingResourceIsNoMissingObject(t *testing.T) {
	noPath := apierrors.NewGenericServerResponse(http.StatusNotFound, "GET", schema.GroupResource{Resource: "things"}, "a", "404 page not found", 0, true)
	b := &backend{answers: func(context.Context, string, int) (*object, error) { return nil, noPath }}
	o, _ := on(t, b, []*object{at("u", "5")})
	_, err := o.Get(t.Context(), aKey)
	failed, ok := errors.AsType[*FetchError](err)
	require.True(t, ok, "%v", err)
	require.ErrorContains(t, failed, "server has no such path")
	assert.False(t, apierrors.IsNotFound(err), "%v", err)
}

// An answer that was on its way before an object was made anew says nothing of that.
func TestWhoComesLaterIsNotToldOfAnEarlierEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		b := &backend{answers: func(_ context.Context, _ string, nth int) (*object, error) {
			if nth > 1 {
				return at("new", "8"), nil
			}
			<-release
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "things"}, "a")
		}}
		o, cache := on(t, b, []*object{at("u", "5")})
		first, second := make(chan error, 1), make(chan error, 1)
		get := func(to chan error) {
			_, err := o.Get(t.Context(), aKey)
			to <- err
		}
		go get(first)
		synctest.Wait()
		require.NoError(t, cache.Update(at("new", "8")))
		go get(second)
		synctest.Wait()
		close(release)
		require.True(t, apierrors.IsNotFound(<-first))
		require.NoError(t, <-second)
		assert.Equal(t, 2, b.asked())
	})
}

// The server was put back to a backup: what is kept has later versions, of a history that
// is lost.
func TestHistoryThatIsLostIsNotKept(t *testing.T) {
	for name, listed := range map[string]string{"a state of before": "4", "the state that the metadata has": "5"} {
		t.Run(name, func(t *testing.T) {
			b := always(at("u", "7"))
			o, cache := on(t, b, []*object{at("u", "5")})
			_, err := o.Get(t.Context(), aKey)
			require.NoError(t, err)
			require.NoError(t, cache.Replace([]*object{at("u", listed)}, "6"))
			assert.Zero(t, o.Stats().Kept)
			b.answers = func(context.Context, string, int) (*object, error) { return at("u", listed), nil }
			got, err := o.Get(t.Context(), aKey)
			require.NoError(t, err)
			assert.Equal(t, listed, got.ResourceVersion)
			require.NoError(t, cache.Replace([]*object{at("u", listed)}, "9"))
			assert.Zero(t, o.Stats().Kept, "a later list may follow another definition: see ondemand-D7")
		})
	}
}

func TestCloseTellsThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{answers: func(ctx context.Context, _ string, _ int) (*object, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		o, _ := on(t, b, []*object{at("u", "5")})
		ended := make(chan error, 1)
		go func() {
			_, err := o.Get(t.Context(), aKey)
			ended <- err
		}()
		synctest.Wait()
		o.Close()
		require.ErrorIs(t, <-ended, ErrClosed)
	})
}

func TestCloseWaitsForRequestsAndKeepsNothingOfThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answered := make(chan struct{})
		b := &backend{answers: func(ctx context.Context, _ string, _ int) (*object, error) {
			<-ctx.Done()
			<-time.After(time.Second) // too late to stop
			close(answered)
			return at("u", "5"), nil
		}}
		o, _ := on(t, b, []*object{at("u", "5")})
		go func() { _, _ = o.Get(t.Context(), aKey) }()
		synctest.Wait()
		o.Close()
		select {
		case <-answered:
		default:
			t.Error("the request goes on")
		}
		assert.Zero(t, o.Stats().Kept)
	})
}

func TestObjectThatWasCreatedAnewIsFetchedAnew(t *testing.T) {
	b := always(at("u", "5"))
	o, cache := on(t, b, []*object{at("u", "5")})
	_, err := o.Get(t.Context(), aKey)
	require.NoError(t, err)
	require.NoError(t, cache.Delete(at("u", "6")))
	require.NoError(t, cache.Add(at("other", "7")))
	b.answers = func(context.Context, string, int) (*object, error) { return at("other", "7"), nil }
	got, err := o.Get(t.Context(), aKey)
	require.NoError(t, err)
	assert.Equal(t, at("other", "7"), got)

	// The server knows of a third one, which the metadata does not show yet.
	require.NoError(t, cache.Update(at("other", "8")))
	b.answers = func(context.Context, string, int) (*object, error) { return at("third", "10"), nil }
	got, err = o.Get(t.Context(), aKey)
	require.NoError(t, err)
	assert.Equal(t, at("third", "10"), got)
	require.NoError(t, cache.Delete(at("other", "9")))
	got, err = o.Get(t.Context(), aKey)
	require.NoError(t, err)
	assert.Equal(t, at("third", "10"), got, "the deletion of another object says nothing about it")
	require.NoError(t, cache.Add(at("third", "10")))
	assert.Equal(t, 1, o.Stats().Kept)
	require.NoError(t, cache.Delete(at("third", "11")))
	assert.Zero(t, o.Stats().Kept, "the metadata does not have it")
}

func TestNobodyKnowsBeforeTheMetadataIsThere(t *testing.T) {
	cache := store.New(store.ObjectKey[*object])
	o, err := New(Cluster(always(at("u", "1"))), &cache.View)
	require.NoError(t, err)
	defer o.Close()
	_, err = o.Get(t.Context(), aKey)
	require.ErrorIs(t, err, ErrNotSynced)
	require.NoError(t, cache.Replace(nil, "3"))
	_, err = o.Get(t.Context(), aKey)
	_, ok := errors.AsType[*NotFoundError](err)
	assert.True(t, ok)
}

func TestCallersShareARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		b := &backend{answers: func(ctx context.Context, _ string, _ int) (*object, error) {
			select {
			case <-release:
				return at("u", "5"), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}
		o, _ := on(t, b, []*object{at("u", "5")})
		first, leave := context.WithCancelCause(t.Context())
		results := make(chan error, 10)
		for i := range 10 {
			ctx := t.Context()
			if i == 0 {
				ctx = first
			}
			go func() {
				_, err := o.Get(ctx, aKey)
				results <- err
			}()
			synctest.Wait()
		}
		leave(assert.AnError)
		require.ErrorIs(t, <-results, assert.AnError, "who leaves does not wait")
		close(release)
		for range 9 {
			require.NoError(t, <-results)
		}
		assert.Equal(t, 1, b.asked())
	})
}

func TestRequestEndsWhenAllHaveLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		b := &backend{answers: func(ctx context.Context, _ string, nth int) (*object, error) {
			if nth > 1 {
				return at("u", "5"), nil
			}
			<-ctx.Done()
			ended <- ctx.Err()
			return nil, ctx.Err()
		}}
		o, _ := on(t, b, []*object{at("u", "5")})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			synctest.Wait()
			cancel()
		}()
		_, err := o.Get(ctx, aKey)
		require.Equal(t, context.Canceled, err)
		require.Error(t, <-ended)
		_, err = o.Get(t.Context(), aKey)
		require.NoError(t, err, "the next one begins another")
	})
}

func TestNoMoreIsKeptThanAllowed(t *testing.T) {
	var metas []*object
	for i := range 10 {
		metas = append(metas, storetest.New("ns", strconv.Itoa(i), "u"+strconv.Itoa(i), "5"))
	}
	b := &backend{}
	b.answers = func(_ context.Context, name string, _ int) (*object, error) {
		whole := storetest.New("ns", name, "u"+name, "5")
		whole.Payload = strings.Repeat("x", 1000)
		if name == "9" {
			whole.Payload = strings.Repeat("x", 100_000)
		}
		return whole, nil
	}
	key := func(i int) store.Key { return store.Key{Namespace: "ns", Name: strconv.Itoa(i)} }
	for name, test := range map[string]struct {
		opt  Option
		most int
	}{
		"objects": {WithMaxObjects(3), 3},
		"bytes":   {WithMaxBytes(4500), 3},
		"nothing": {WithMaxObjects(0), 0},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := on(t, b, metas, test.opt)
			before := b.asked()
			for i := range 9 {
				_, err := o.Get(t.Context(), key(i))
				require.NoError(t, err)
				if test.most > 0 {
					_, err = o.Get(t.Context(), key(0)) // used again and again
					require.NoError(t, err)
				}
			}
			assert.Equal(t, test.most, o.Stats().Kept)
			assert.Equal(t, 9, b.asked()-before, "each one once")
			_, ok := o.Cached(key(0))
			assert.Equal(t, test.most > 0, ok)
			_, ok = o.Cached(key(2))
			assert.False(t, ok, "it was used least recently")
			if name == "bytes" {
				assert.LessOrEqual(t, o.Stats().Bytes, int64(4500))
				_, err := o.Get(t.Context(), key(9))
				require.NoError(t, err)
				assert.Equal(t, test.most, o.Stats().Kept, "one that is too large drives nobody out")
			}
		})
	}
}

func TestFailuresOfTheClient(t *testing.T) {
	for name, test := range map[string]struct {
		fails func() (*object, error)
		want  error
	}{
		"an error":    {func() (*object, error) { return nil, assert.AnError }, assert.AnError},
		"a panic":     {func() (*object, error) { panic("bad client") }, store.ErrPanic},
		"no object":   {func() (*object, error) { return nil, nil }, store.ErrBadKey},
		"an ending":   {func() (*object, error) { runtime.Goexit(); return nil, nil }, errAbandoned},
		"its own end": {func() (*object, error) { return nil, context.DeadlineExceeded }, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			b := &backend{answers: func(_ context.Context, _ string, nth int) (*object, error) {
				if nth == 1 {
					return test.fails()
				}
				return at("u", "5"), nil
			}}
			o, _ := on(t, b, []*object{at("u", "5")})
			_, err := o.Get(t.Context(), aKey)
			var failed *FetchError
			require.ErrorAs(t, err, &failed)
			require.ErrorIs(t, err, test.want)
			_, err = o.Get(t.Context(), aKey)
			require.NoError(t, err, "a failure is not kept")
		})
	}
}

func TestErrorOfAPanicNamesTheFunctionAndNoValue(t *testing.T) {
	b := &backend{answers: func(context.Context, string, int) (*object, error) { panic("bad token s3") }}
	o, _ := on(t, b, []*object{at("u", "5")})
	_, err := o.Get(t.Context(), aKey)
	failed, ok := errors.AsType[*FetchError](err)
	require.True(t, ok, "%v", err)
	assert.NotContains(t, err.Error(), "s3")
	assert.ErrorContains(t, err, "TestErrorOfAPanicNamesTheFunctionAndNoValue")
	assert.ErrorContains(t, errors.Unwrap(failed.Err), "bad token s3")
	assert.ErrorContains(t, errors.Unwrap(failed.Err), "objects_test.go:", "the stack")
}

// sized is an object that says its size.
type sized struct {
	*object
	size func() int64
}

func (s *sized) MemorySize() int64 { return s.size() }

type sizedClient func() *sized

func (c sizedClient) Get(context.Context, string, metav1.GetOptions) (*sized, error) { return c(), nil }

func TestMethodsThatPanicFailTheRequest(t *testing.T) {
	for name, of := range map[string]*sized{
		"its size":    {at("u", "5"), func() int64 { panic("no size") }},
		"its version": {nil, func() int64 { return 1 }},
	} {
		cache := store.New(store.ObjectKey[*object])
		require.NoError(t, cache.Replace([]*object{at("u", "5")}, "1000"))
		o, err := New(Cluster(sizedClient(func() *sized { return of })), &cache.View, WithMaxBytes(100))
		require.NoError(t, err)
		_, err = o.Get(t.Context(), aKey)
		assert.ErrorIs(t, err, store.ErrPanic, name)
		o.Close()
	}
}

func TestNegativeSizesMakeNoRoom(t *testing.T) {
	cache := store.New(store.ObjectKey[*object])
	names := []string{"a", "b", "c"}
	require.NoError(t, cache.Replace([]*object{storetest.New("ns", "a", "u", "5"), storetest.New("ns", "b", "u", "5"), storetest.New("ns", "c", "u", "5")}, "1000"))
	sizes := map[string]int64{"a": -1000, "b": 60, "c": 60}
	name := ""
	o, err := New(Cluster(sizedClient(func() *sized {
		size := sizes[name]
		return &sized{storetest.New("ns", name, "u", "5"), func() int64 { return size }}
	})), &cache.View, WithMaxBytes(100))
	require.NoError(t, err)
	defer o.Close()
	for _, name = range names {
		_, err := o.Get(t.Context(), store.Key{Namespace: "ns", Name: name})
		require.NoError(t, err)
	}
	_, ok := o.Cached(store.Key{Namespace: "ns", Name: "b"})
	assert.False(t, ok)
}

func TestClose(t *testing.T) {
	o, cache := on(t, always(at("u", "5")), []*object{at("u", "5")})
	_, err := o.Get(t.Context(), aKey)
	require.NoError(t, err)
	o.Close()
	_, err = o.Get(t.Context(), aKey)
	require.ErrorIs(t, err, ErrClosed)
	_, err = o.Get(t.Context(), store.Key{Namespace: "n", Name: "unknown"})
	require.ErrorIs(t, err, ErrClosed)
	require.NoError(t, cache.Update(at("u", "6")))

	_, err = New[*object, *backend](nil, &cache.View)
	require.ErrorIs(t, err, ErrNoClient)
	_, err = New[*object, *backend, *object](Cluster(always(nil)), nil)
	require.ErrorIs(t, err, ErrNoMetadata)
}

// The answer to a request shows the object as it was when the server got the request.
func TestNobodyJoinsARequestOfBeforeARelist(t *testing.T) {
	for name, change := range map[string]func(*store.Cache[*object]) error{
		"a list": func(metas *store.Cache[*object]) error { return metas.Replace([]*object{at("u", "5")}, "2000") },
		"a change of the metadata under its version": func(metas *store.Cache[*object]) error {
			other := at("u", "5")
			other.Payload = "another form"
			return metas.Update(other)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				b := &backend{answers: func(_ context.Context, _ string, nth int) (*object, error) {
					answer := at("u", "5")
					answer.Payload = strconv.Itoa(nth)
					if nth == 1 {
						<-release
					}
					return answer, nil
				}}
				o, metas := on(t, b, []*object{at("u", "5")})
				read := func() string {
					got, err := o.Get(t.Context(), aKey)
					assert.NoError(t, err)
					return got.Payload
				}
				var early sync.WaitGroup
				early.Go(func() { assert.Equal(t, "1", read()) })
				synctest.Wait()
				require.NoError(t, change(metas))
				assert.Equal(t, "2", read(), "the first request is not joined")
				close(release)
				early.Wait()
				assert.Equal(t, "2", read(), "its answer is not kept")
				assert.Equal(t, 2, b.asked())
				require.NoError(t, change(metas))
				if name == "a list" {
					assert.Equal(t, "3", read(), "each later list begins an epoch")
				}
			})
		})
	}
}

// The server is restored while a request is open, whose answer belongs to the lost history.
func TestAnswerOfBeforeARelistIsNoDemandOnTheServer(t *testing.T) {
	for _, scope := range []string{"", "ns", "other"} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			b := &backend{answers: func(_ context.Context, _ string, nth int) (*object, error) {
				if nth == 1 {
					<-release
					return at("u", "1100"), nil
				}
				return at("u", "51"), nil
			}}
			metas := store.New(store.ObjectKey[*object])
			listed := store.Store[*object](metas)
			if scope != "" {
				require.NoError(t, partition(t, metas, "ns").Replace([]*object{at("u", "5")}, "1000"))
				listed = partition(t, metas, scope)
			}
			var own []*object
			if scope != "other" {
				own = []*object{at("u", "5")}
			}
			require.NoError(t, listed.Replace(own, "1000"))
			o, err := New(Cluster(b), &metas.View)
			require.NoError(t, err)
			defer o.Close()
			var early sync.WaitGroup
			early.Go(func() {
				got, err := o.Get(t.Context(), aKey)
				assert.NoError(t, err)
				assert.Equal(t, "1100", got.ResourceVersion)
			})
			synctest.Wait()
			require.NoError(t, listed.Replace(own, "50"))
			close(release)
			early.Wait()
			if scope == "other" {
				assert.Equal(t, 1, o.agreed.Open(), "the list was one of other objects")
				return
			}
			got, err := o.Get(t.Context(), aKey)
			require.NoError(t, err)
			assert.Equal(t, "51", got.ResourceVersion)
		})
	}
}

// A request that nobody may join any more still ends with Close.
func TestCloseEndsARequestOfBeforeARelist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &backend{answers: func(ctx context.Context, _ string, _ int) (*object, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}
		o, metas := on(t, b, []*object{at("u", "5")})
		var readers sync.WaitGroup
		for range 2 {
			readers.Go(func() {
				_, err := o.Get(t.Context(), aKey)
				assert.ErrorIs(t, err, ErrClosed)
			})
			synctest.Wait()
			require.NoError(t, metas.Replace([]*object{at("u", "5")}, "2000"))
		}
		assert.Equal(t, 2, b.asked())
		o.Close()
		readers.Wait()
	})
}

func TestListOfOneScopeLeavesTheOtherObjects(t *testing.T) {
	cache := store.New(store.ObjectKey[*object])
	var parts []*store.Partition[*object]
	for _, namespace := range []string{"m", "n"} {
		p, err := cache.Partition(store.Scope{Namespace: namespace})
		require.NoError(t, err)
		require.NoError(t, p.Replace([]*object{storetest.New(namespace, "a", "u"+namespace, "5")}, "5"))
		parts = append(parts, p)
	}
	clients := func(namespace string) *backend { return always(storetest.New(namespace, "a", "u"+namespace, "5")) }
	o, err := New(clients, &cache.View)
	require.NoError(t, err)
	defer o.Close()
	for _, namespace := range []string{"m", "n"} {
		_, err := o.Get(t.Context(), store.Key{Namespace: namespace, Name: "a"})
		require.NoError(t, err)
	}
	require.NoError(t, parts[0].Replace([]*object{storetest.New("m", "a", "um", "5")}, "6"))
	_, ok := o.Cached(store.Key{Namespace: "m", Name: "a"})
	assert.False(t, ok)
	_, ok = o.Cached(store.Key{Namespace: "n", Name: "a"})
	assert.True(t, ok)
}
