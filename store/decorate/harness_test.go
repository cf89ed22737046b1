package decorate

import (
	"fmt"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func pod(namespace, name, uid, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(uid), ResourceVersion: version,
	}}
}

func newPods() *store.Cache[*corev1.Pod] { return store.New(store.ObjectKey[*corev1.Pod]) }

func keyA() store.Key { return inN("a") }

// inN returns a key in the namespace n.
func inN(name string) store.Key { return store.Key{Namespace: "n", Name: name} }

// names returns the keys of a walk, as text.
func names[T any](seq func(func(store.Key, T) bool)) []string {
	all := []string{}
	for key := range seq {
		all = append(all, key.String())
	}
	return all
}

func has[T any](s store.Store[T], key store.Key, version store.Version, hash uint64) bool {
	return s.(store.BatchStore[T]).Has(key, version, hash)
}

// versionIn returns the version at which a cache holds a key.
func versionIn[T any](c *store.Cache[T], key store.Key) store.Version {
	for change := range c.Snapshot().Changes() {
		if change.Key == key {
			return change.Version
		}
	}
	return store.Version{}
}

// plain is a store as a user writes one: it has no batches, and does not tell how
// it derives keys.
type plain[T any] struct{ store.Store[T] }

func adding[T any](object T) store.Write[T] {
	return store.Write[T]{Type: store.Addition, Object: object}
}

func updating[T any](object T) store.Write[T] {
	return store.Write[T]{Type: store.Modification, Object: object}
}

func deleting[T any](object T) store.Write[T] {
	return store.Write[T]{Type: store.Deletion, Object: object, FinalStateKnown: true}
}

// apply makes writes of a watch one commit.
func apply[T any](s store.Store[T], resourceVersion string, writes ...store.Write[T]) error {
	b, _ := BeginWatch(s)
	return commit(b, resourceVersion, writes...)
}

func commit[T any](b store.Batch[T], resourceVersion string, writes ...store.Write[T]) error {
	defer b.Discard()
	for _, w := range writes {
		_ = b.Write(w) // Commit returns the error
	}
	return b.Commit(resourceVersion)
}

// recorder is a follower that keeps the commits, and the resulting state.
type recorder struct {
	state   map[store.Key]*corev1.Pod
	commits int
	illegal []string
}

func follow(c *store.Cache[*corev1.Pod]) *recorder {
	r := &recorder{}
	c.Follow(r)
	return r
}

func (r *recorder) Start(s *store.Snapshot[*corev1.Pod]) {
	r.state = map[store.Key]*corev1.Pod{}
	for key, p := range s.All() {
		r.state[key] = p
	}
}

func (r *recorder) Commit(c *store.Commit[*corev1.Pod]) {
	r.commits++
	for _, ch := range c.Changes {
		held, known := r.state[ch.Key]
		if known == (ch.Type == store.Addition) || held != ch.Prior {
			r.illegal = append(r.illegal, fmt.Sprintf("%v of %v: held %v, prior %v", ch.Type, ch.Key, held, ch.Prior))
		}
		if ch.Type == store.Deletion {
			delete(r.state, ch.Key)
		} else {
			r.state[ch.Key] = ch.Object
		}
	}
}

// requireRefused requires that nothing was stored because of one object.
func requireRefused(t *testing.T, err, cause error) {
	t.Helper()
	require.ErrorContains(t, err, "nothing was stored, because 1 object(s)")
	require.ErrorContains(t, err, cause.Error())
	require.NotErrorIs(t, err, cause, "which may be a RejectedError")
	var rejected *store.RejectedError
	require.NotErrorAs(t, err, &rejected, "which would mean that the others were stored")
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
