package overlay

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/storetest"
)

// The regression tests reach the package through these functions.

// reject gives a cache an object that it rejects.
func reject(t *testing.T, cache *store.Cache[*object], resourceVersion string) {
	t.Helper()
	require.Error(t, cache.Add(storetest.New("ns", "", "nameless", resourceVersion)))
}

// wrote tells an overlay of a write.
func wrote(t *testing.T, o *Overlay[*object], written *object) {
	t.Helper()
	require.NoError(t, o.Wrote(written))
}
