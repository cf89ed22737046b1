package write

import (
	"errors"
	"net/http"
	"testing"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

func TestRedirectToAnotherServerGetsNoWrite(t *testing.T) {
	for _, code := range []int{301, 302, 303, 307, 308} {
		config := &rest.Config{Host: "http://apiserver", BearerToken: "secret", QPS: -1}
		config.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host != "apiserver" {
				t.Errorf("%s %s with %q", r.Method, r.URL, r.Header.Get("Authorization"))
			}
			return &http.Response{StatusCode: code, Request: r, Header: http.Header{"Location": {"http://elsewhere/"}}, Body: http.NoBody}, nil
		})
		client := opened[*Bucket](t, config)
		object := &Bucket{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
		_, created := client.Create(t.Context(), object, metav1.CreateOptions{})
		_, updated := client.Update(t.Context(), object, metav1.UpdateOptions{})
		_, patched := client.Patch(t.Context(), "b", "application/merge-patch+json", []byte("{}"), metav1.PatchOptions{})
		deleted := client.Delete(t.Context(), "b", metav1.DeleteOptions{})
		for _, err := range []error{created, updated, patched, deleted} {
			var refused *reflector.RedirectError
			assert.True(t, errors.As(err, &refused), "%v", err)
		}
	}
}
