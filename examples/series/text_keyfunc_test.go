package series_test

import (
	"errors"
	"testing"

	"github.com/kubereflector/kubereflector/examples/series"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

type book struct{ author, title string }

// Two different books: the slash of the key is also in a name.
var acdc, ac = book{"AC/DC", "Live"}, book{"AC", "DC/Live"}

func TestTextTwoBooksShareAKeyOfText(t *testing.T) {
	both(t, func(t *testing.T) {
		books := series.NewKeyedStore(func(b book) (string, error) { return b.author + "/" + b.title, nil })
		require.NoError(t, errors.Join(books.Add(acdc), books.Add(ac)))
		assert.Equal(t, []string{"AC/DC/Live"}, books.ListKeys(), "one book is lost")
	}, func(t *testing.T) {
		books := store.New(func(b book) (store.Key, error) { return store.Key{Namespace: b.author, Name: b.title}, nil })
		require.NoError(t, errors.Join(books.Add(acdc), books.Add(ac)))
		assert.Equal(t, 2, books.Len())
	})
}

func TestTextAnObjectWithoutANameHasNoKey(t *testing.T) {
	both(t, func(t *testing.T) {
		pods := series.NewKeyedStore(series.ObjectKey[*corev1.Pod])
		assert.Error(t, pods.Add(&corev1.Pod{}))
	}, func(t *testing.T) {
		pods := store.New(store.ObjectKey[*corev1.Pod])
		assert.ErrorIs(t, pods.Add(&corev1.Pod{}), store.ErrBadKey)
	})
}
