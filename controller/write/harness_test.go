package write

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// The regression tests reach the package through this file alone.

// answering returns a config of a client whose requests are answered by a function.
func answering(t *testing.T, answer func(*http.Request) (status int, location string)) *rest.Config {
	return &rest.Config{Host: "http://api.example.com", BearerToken: "t", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		status, location := answer(r)
		response := &http.Response{StatusCode: status, Request: r, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(`{}`))}
		if location != "" {
			response.Header.Set("Location", location)
		}
		return response, nil
	})}
}

// openBuckets returns a client of buckets of a namespace, for a kind.
func openBuckets(config *rest.Config, kind string) (*Resource[*Bucket], error) {
	all, err := ForResource[*Bucket](config, buckets, kind)
	if err != nil {
		return nil, err
	}
	return all.In("ns"), nil
}

// patchBucket makes one bucket of another one.
func patchBucket(ctx context.Context, client Patcher[*Bucket], held, want *Bucket) (*Bucket, error) {
	return Patch(ctx, client, held, want)
}

// opened returns a client of buckets in the namespace ns.
func opened[T reflector.Object](t *testing.T, config *rest.Config) *Resource[T] {
	t.Helper()
	client, err := ForResource[T](config, buckets, "Bucket")
	require.NoError(t, err)
	return client.In("ns")
}
