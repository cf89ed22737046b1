package recorder

import (
	"errors"
	"net/http"
	"testing"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
)

// loseAnswers returns a recorder whose first requests of a method get no answer, although
// the server serves them.
func loseAnswers(t *testing.T, method string, times int, opts ...Option) (*reflectortest.Server, *Recorder) {
	server := reflectortest.Start(t)
	config := server.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if r.Method != method || times == 0 || err != nil {
				return response, err
			}
			times--
			_ = response.Body.Close()
			return nil, errors.New("connection reset")
		})
	})
	clientset, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return server, New(clientset.EventsV1(), "test", opts...)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
