package persist

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/eventqueue"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/storetest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// noted is a ConfigMap and something that its methods know nothing of.
type noted struct {
	corev1.ConfigMap `json:",inline"`
	Note             string `json:"note"`
}

func TestWhatIsBesideAnEmbeddedTypeIsKept(t *testing.T) {
	path := fresh(t)
	s, err := Open(path, store.ObjectKey[*noted], Options[*noted]{})
	require.NoError(t, err)
	require.NoError(t, s.Replace([]*noted{{*configMap("a", 1), "more"}}, "9"))
	require.NoError(t, s.Close())
	s, err = Open(path, store.ObjectKey[*noted], Options[*noted]{})
	require.NoError(t, err)
	defer s.Close()
	for _, found := range s.All() {
		assert.Equal(t, "more", found.Note)
	}
	assert.Equal(t, 1, s.Len())
	_, ok := Protobuf[*corev1.ConfigMap]()
	assert.True(t, ok)
}

func TestTypesOfOneNameAreNotTakenForEachOther(t *testing.T) {
	path := fresh(t)
	s, err := Open(path, store.ObjectKey[*corev1.Event], Options[*corev1.Event]{Resource: "events"})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	refused(t, path, Options[*eventsv1.Event]{Resource: "events"}, ErrMismatch)
}

func TestInterfacesNeedACodec(t *testing.T) {
	_, err := Open(fresh(t), func(any) (store.Key, error) { return store.Key{Name: "a"}, nil }, Options[any]{})
	require.ErrorIs(t, err, ErrNoCodec)
}

func TestCodecsKeepObjects(t *testing.T) {
	want := configMap("a", 5)
	want.Labels = map[string]string{"app": "web"}
	want.TypeMeta.Kind, want.APIVersion = "ConfigMap", "v1"
	protobuf, ok := Protobuf[*corev1.ConfigMap]()
	require.True(t, ok)
	_, ok = Protobuf[*object]()
	assert.False(t, ok)
	for _, codec := range []Codec[*corev1.ConfigMap]{protobuf, JSON[*corev1.ConfigMap]()} {
		data, err := codec.Encode(want)
		require.NoError(t, err)
		got, err := codec.Decode(data)
		require.NoError(t, err)
		assert.Equal(t, want, got, codec.Name())
		_, err = codec.Decode(data[:len(data)-1])
		require.Error(t, err, codec.Name())
		_, err = codec.Decode(nil)
		require.Error(t, err, codec.Name())
	}
	own, err := defaultCodec[*corev1.ConfigMap]()
	require.NoError(t, err)
	assert.Equal(t, "protobuf", own.Name())
}

func TestErrorsOfDecodersQuoteNoValue(t *testing.T) {
	_, err := JSON[*corev1.ConfigMap]().Decode([]byte(`{"metadata":{"creationTimestamp":"s3"}}`))
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "s3")
	parsing, ok := errors.AsType[*time.ParseError](err)
	require.True(t, ok)
	assert.Contains(t, parsing.Error(), "s3", "the cause says what did not fit")
}

// picky is JSON, but for objects with a bad payload.
type picky struct{ Codec[*object] }

const bad = "bad"

func (p picky) Encode(o *object) ([]byte, error) {
	if o.Payload == bad {
		return nil, errors.New("no way")
	}
	return p.Codec.Encode(o)
}

func (o *pickyOptions) hook(err error) { o.told = append(o.told, err) }

// pickyOptions are the options of a store that keeps the calls of its hook.
type pickyOptions struct {
	Options[*object]
	told []error
}

func newPicky() *pickyOptions {
	o := &pickyOptions{}
	o.Options = Options[*object]{Codec: picky{JSON[*object]()}, ErrorHandler: o.hook}
	return o
}

// openPicky opens a file without closing it at the end of the test, if that was done.
func openPicky(t *testing.T, path string, o *pickyOptions) *Store[*object] {
	t.Helper()
	s, err := Open(path, storetest.ClusterKey, o.Options)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// lacks requires that an error says that one object could not be encoded.
func lacks(t *testing.T, err error, key store.Key, more int) {
	t.Helper()
	failure, ok := errors.AsType[*EncodeError](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, key, failure.Key)
	assert.Equal(t, more, failure.More)
	_, ok = errors.AsType[*FileError](err)
	assert.True(t, ok)
}

func worse(name, uid, version string) *object {
	o := storetest.New("n", name, uid, version)
	o.Payload = bad
	return o
}

func keyOf(name string) store.Key { return store.Key{Namespace: "n", Name: name} }

func TestObjectThatCannotBeEncodedStopsNoOther(t *testing.T) {
	path, options := fresh(t), newPicky()
	s := openPicky(t, path, options)
	a, b, c := storetest.New("n", "a", "1", "5"), storetest.New("n", "b", "2", "6"), storetest.New("n", "c", "3", "12")
	require.NoError(t, s.Replace([]*object{a, b, worse("d", "4", "7")}, "9"))
	lacks(t, s.Flush(), keyOf("d"), 0)
	require.NoError(t, s.Update(worse("a", "1", "10")))
	require.NoError(t, s.Update(b.At("11")))
	require.NoError(t, s.Add(c))
	lacks(t, s.Flush(), keyOf("a"), 1)
	lacks(t, options.told[1], keyOf("a"), 1)
	require.Len(t, options.told, 2)
	state := s.State()
	assert.True(t, state.Lasting)
	assert.Zero(t, state.Unwritten)
	assert.Equal(t, 2, state.Unencoded)
	lacks(t, s.Close(), keyOf("a"), 1)

	next := openPicky(t, path, newPicky())
	assert.Equal(t, map[store.Key]object{keyOf("a"): *a, keyOf("b"): *b.At("11"), keyOf("c"): *c}, held(next), "a is as it was")
	assert.Empty(t, next.ResourceVersion(), "so that it is listed")
	queues := eventqueue.Follow(next.Cache())
	defer queues.Close()
	assert.Len(t, nextEvents(t, queues, 3), 3, "the state that it starts with")
	require.NoError(t, next.Replace([]*object{a.At("10"), b.At("11"), c, storetest.New("n", "d", "4", "7")}, "20"))
	assert.Equal(t, []string{"Modification a", "Addition d"}, nextEvents(t, queues, 2), "what differs")
	assert.Zero(t, queues.Len())
	require.NoError(t, next.Close())
	assert.Equal(t, "20", openPicky(t, path, newPicky()).ResourceVersion())
}

func nextEvents(t *testing.T, queues *eventqueue.Collection[*object], n int) (told []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for e := range queues.Consume(ctx) {
		if told = append(told, fmt.Sprintf("%v %v", e.Type, e.Key.Name)); len(told) == n {
			cancel()
		}
	}
	return told
}

func TestVersionComesBackWithTheLastObjectThatIsLacking(t *testing.T) {
	for name, mend := range map[string]func(*Store[*object]) error{
		"it can be encoded": func(s *Store[*object]) error { return s.Update(storetest.New("n", "a", "1", "15")) },
		"it is deleted":     func(s *Store[*object]) error { return s.Delete(worse("a", "1", "15")) },
	} {
		t.Run(name, func(t *testing.T) {
			path := fresh(t)
			s := openPicky(t, path, newPicky())
			require.NoError(t, s.Replace([]*object{worse("a", "1", "5")}, "9"))
			require.Error(t, s.Flush())
			require.NoError(t, s.Bookmark("10"))
			require.NoError(t, s.flush(false), "it is not tried again for a bookmark")
			assert.Empty(t, s.saved.Version)
			require.NoError(t, mend(s))
			require.NoError(t, s.Flush())
			assert.Equal(t, "15", s.saved.Version)
			assert.Zero(t, s.State().Unencoded)
			want := held(s)
			require.NoError(t, s.Close())
			assert.Equal(t, want, held(openPicky(t, path, newPicky())))
		})
	}
}

// What is written under the key is another object, of which it is known that it is gone.
func TestObjectThatWasReplacedByOneThatCannotBeEncodedIsGone(t *testing.T) {
	path := fresh(t)
	s := openPicky(t, path, newPicky())
	require.NoError(t, s.Replace([]*object{storetest.New("n", "a", "1", "5"), storetest.New("n", "b", "2", "6")}, "9"))
	require.NoError(t, s.Flush())
	require.NoError(t, s.Update(worse("a", "3", "10")))
	require.Error(t, s.Close())
	assert.Equal(t, map[store.Key]object{keyOf("b"): *storetest.New("n", "b", "2", "6")}, held(openPicky(t, path, newPicky())))
}

func TestOnlyTheScopeOfWhatCannotBeEncodedHasNoVersion(t *testing.T) {
	path := fresh(t)
	s := openPicky(t, path, newPicky())
	for n, cluster := range []string{"east", "west"} {
		part, err := s.Partition(store.Scope{Cluster: cluster})
		require.NoError(t, err)
		o := worse("a", "1", "5")
		if n == 1 {
			o = storetest.New("n", "a", "1", "5")
		}
		require.NoError(t, part.Replace([]*object{o}, "9"))
	}
	require.Error(t, s.Close())
	next := openPicky(t, path, newPicky())
	assert.Equal(t, 1, next.Len())
	for _, part := range next.Cache().Partitions() {
		want := map[string]string{"east": "", "west": "9"}[part.Scope().Cluster]
		assert.Equal(t, want, part.ResourceVersion(), part.Scope())
	}
}

// A codec may fail for a while.
func TestWhatCouldNotBeEncodedIsTriedAgainByFlush(t *testing.T) {
	path, options := fresh(t), newPicky()
	now := true
	options.Codec = sometimes{options.Codec, &now}
	s := openPicky(t, path, options)
	require.NoError(t, s.Replace([]*object{storetest.New("n", "a", "1", "5")}, "9"))
	err := s.Flush()
	lacks(t, err, keyOf("a"), 0)
	assert.ErrorIs(t, err, store.ErrPanic)
	now = false
	require.NoError(t, s.Flush())
	assert.Equal(t, "9", s.saved.Version)
	want := held(s)
	require.NoError(t, s.Close())
	assert.Equal(t, want, held(openPicky(t, path, newPicky())))
}

type sometimes struct {
	Codec[*object]
	fails *bool
}

func (c sometimes) Encode(o *object) ([]byte, error) {
	if *c.fails {
		panic("no way")
	}
	return c.Codec.Encode(o)
}

func TestWhatIsLackingSurvivesATransactionThatFailedAtItsVeryEnd(t *testing.T) {
	s := openPicky(t, fresh(t), newPicky())
	require.NoError(t, s.Replace([]*object{worse("a", "1", "5"), storetest.New("n", "b", "2", "6")}, "9"))
	failAfterCommit(s, 1)
	require.ErrorContains(t, s.Flush(), "no fsync")
	require.NoError(t, s.flush(false))
	assert.Equal(t, 1, s.State().Unencoded)
	assert.Empty(t, s.saved.Version)
	assert.Equal(t, 1, s.saved.Objects)
}

func TestRunKeepsItsPaceWhateverCannotBeEncoded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openPicky(t, fresh(t), newPicky())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		require.NoError(t, s.Replace(nil, "9"))
		for n := range 20 {
			require.NoError(t, s.Add(worse(fmt.Sprint(n), "1", fmt.Sprint(n+10))))
			<-time.After(defaultDelay)
			synctest.Wait()
			require.Equal(t, n+1, s.State().Unencoded)
		}
		cancel()
		lacks(t, <-ended, keyOf("0"), 19)
	})
}

// release is an object with free-form data, as Helm's values are.
type release struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Values            map[string]any `json:"values"`
}

// TestNumbersOfFreeFormDataKeepTypeAndDigits is about persist-P2: the numbers are those that the
// decoders of a reflector make.
func TestNumbersOfFreeFormDataKeepTypeAndDigits(t *testing.T) {
	values := func() map[string]any {
		return map[string]any{
			"int": int64(3), "beyond 2^53": int64(9007199254740993), "least": int64(math.MinInt64),
			"float": 3.0, "fraction": 0.5, "beyond int64": 18446744073709551615.0, "huge": 1e300,
			"deep": map[string]any{"list": []any{int64(1), 1.0, map[string]any{"n": int64(-9007199254740993)}}},
		}
	}
	typed := &release{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", ResourceVersion: "5"}, Values: values()}
	loose := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": "n", "name": "a", "resourceVersion": "5"}, "values": values(),
	}}
	comesBack(t, typed)
	comesBack(t, loose)
}

// comesBack requires that the next store of a file holds an equal object.
func comesBack[T metav1.Object](t *testing.T, object T) {
	t.Helper()
	path, options := fresh(t), Options[T]{Resource: "releases"}
	s, err := Open(path, store.ObjectKey[T], options)
	require.NoError(t, err)
	require.NoError(t, s.Replace([]T{object}, "9"))
	require.NoError(t, s.Close())
	s, err = Open(path, store.ObjectKey[T], options)
	require.NoError(t, err)
	defer s.Close()
	got, ok := s.Get(keyOf("a"))
	require.True(t, ok)
	assert.Equal(t, object, got)
}
