package write

import (
	"testing"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// The regression tests reach the package through this file alone.

// opened returns a client of buckets in the namespace ns.
func opened[T reflector.Object](t *testing.T, config *rest.Config) *Resource[T] {
	t.Helper()
	client, err := ForResource[T](config, buckets, "Bucket")
	require.NoError(t, err)
	return client.In("ns")
}
