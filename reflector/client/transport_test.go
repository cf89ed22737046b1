package client_test

import (
	"errors"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The outcome of a write is unknown after a 500, and client-go would repeat it up to ten times.
func TestWriteIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, code := range []int{429, 500, 503, 504} {
			sent := 0
			of := over(t, func(r *http.Request) (*http.Response, error) {
				sent++
				refused := answer(r, code, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":`+strconv.Itoa(code)+`,"details":{"retryAfterSeconds":3}}`)
				refused.Header.Set("Retry-After", "3")
				return refused, nil
			})
			errs := writes(t, of)
			assert.Equal(t, len(errs), sent, code)
			for _, err := range errs {
				seconds, _ := apierrors.SuggestsClientDelay(err)
				assert.Equal(t, 3, seconds, "%v", err)
			}
		}
	})
}

// net/http answers a 301, 302 or 303 to a write with a GET, whose answer would look like a success.
func TestRedirectDoesNotTurnAWriteIntoARead(t *testing.T) {
	for _, code := range []int{301, 302, 303} {
		of := over(t, func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet && r.URL.Path == "/other" {
				return answer(r, http.StatusOK, `{"metadata":{"namespace":"ns","name":"b"}}`), nil
			}
			return &http.Response{StatusCode: code, Request: r, Header: http.Header{"Location": {"/other"}}, Body: http.NoBody}, nil
		})
		for _, err := range writes(t, of) {
			assert.ErrorContains(t, err, "redirects a write")
		}
		_, err := of.Get(t.Context(), "b", metav1.GetOptions{})
		assert.NoError(t, err)
	}
}

func TestRedirectToAnotherServerGetsNoWrite(t *testing.T) {
	for _, code := range []int{301, 302, 303, 307, 308} {
		of := over(t, func(r *http.Request) (*http.Response, error) {
			if r.URL.Host != "apiserver" {
				t.Errorf("%s %s with %q", r.Method, r.URL, r.Header.Get("Authorization"))
			}
			return &http.Response{StatusCode: code, Request: r, Header: http.Header{"Location": {"http://elsewhere/"}}, Body: http.NoBody}, nil
		})
		for _, err := range writes(t, of) {
			var refused *client.RedirectError
			assert.True(t, errors.As(err, &refused), "%v", err)
		}
	}
}

// client-go's default of five requests a second would make 100 requests last 18 seconds.
func TestRequestsAreNotThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serveBuckets(t)
		config := server.Config()
		config.QPS, config.RateLimiter = 0, nil
		all, err := client.For[*Bucket](config, client.WithKind(bucketKind))
		require.NoError(t, err)
		of := all.In("ns")
		_, err = of.Create(t.Context(), named("", "b"), metav1.CreateOptions{})
		require.NoError(t, err)
		started := time.Now()
		for range 100 {
			_, err := of.Get(t.Context(), "b", metav1.GetOptions{})
			require.NoError(t, err)
		}
		assert.Zero(t, time.Since(started))
		assert.Zero(t, config.QPS, "the caller's config is not changed")
	})
}
