package eventqueue

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kubereflector/kubereflector/store"
)

func TestFilterInFrontOfACollectionRejectsUnderItsKeys(t *testing.T) {
	c := New(func(name string) (store.Key, error) { return store.Key{Name: name}, nil })
	names := store.Filter(c, func(name string) bool { panic(name) })
	var rejected *store.RejectedError
	require.ErrorAs(t, names.Add("a"), &rejected)
	assert.Equal(t, store.Key{Name: "a"}, rejected.Rejections[0].Key)
}
