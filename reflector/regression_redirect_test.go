package reflector_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// redirecting answers requests to a path of apiserver with a redirect, and everything else as the
// server that it leads to. It notes which hosts got credentials.
type redirecting struct {
	code     int
	location string
	trusting []string // hosts
}

func (s *redirecting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Authorization") != "" {
		s.trusting = append(s.trusting, r.URL.Scheme+"://"+r.URL.Host)
	}
	answer := &http.Response{StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {"application/json"}}, Body: http.NoBody}
	if r.URL.Host == "apiserver" && r.URL.Path != "/moved" {
		answer.StatusCode = s.code
		answer.Header.Set("Location", s.location)
		return answer, nil
	}
	list := jsonList("7", jsonObject("stolen", "5", "red"))
	answer.Body = io.NopCloser(strings.NewReader(list.body))
	return answer, nil
}

func TestRedirectToAnotherServerGetsNoCredentials(t *testing.T) {
	requests := map[string]func(context.Context, *client.Resource[*Paint]) error{
		"get": func(ctx context.Context, r *client.Resource[*Paint]) error {
			_, err := r.Get(ctx, "a", metav1.GetOptions{})
			return err
		},
		"list": func(ctx context.Context, r *client.Resource[*Paint]) error {
			_, err := r.List(ctx, metav1.ListOptions{})
			return err
		},
		"watch": func(ctx context.Context, r *client.Resource[*Paint]) error {
			_, err := r.Watch(ctx, metav1.ListOptions{})
			return err
		},
	}
	clients := map[string]func(*rest.Config) (*client.Resource[*Paint], error){
		"own": func(c *rest.Config) (*client.Resource[*Paint], error) {
			return client.ForResource[*Paint](c, configMapResource, "default")
		},
		"of a kind": func(c *rest.Config) (*client.Resource[*Paint], error) {
			all, err := client.For[*Paint](c, client.WithKind(corev1.SchemeGroupVersion.WithKind("ConfigMap")))
			return all.In("default"), err
		},
		"over a REST client": func(c *rest.Config) (*client.Resource[*Paint], error) {
			return client.FromRESTClient[*Paint](kubernetes.NewForConfigOrDie(c).CoreV1().RESTClient(), "configmaps", "default")
		},
	}
	for _, code := range []int{301, 302, 303, 307, 308} {
		for _, location := range []string{"http://elsewhere/moved", "https://apiserver/moved", "http://apiserver:8080/moved", "//elsewhere/moved"} {
			for api, open := range clients {
				for verb, request := range requests {
					server := &redirecting{code: code, location: location}
					config := &rest.Config{Host: "http://apiserver", Transport: server, BearerToken: "secret", QPS: -1}
					resource, err := open(config)
					require.NoError(t, err)
					err = request(t.Context(), resource)
					var refused *client.RedirectError
					require.ErrorAs(t, err, &refused, "%d %s: %s by a client %s", code, location, verb, api)
					assert.Equal(t, "http://apiserver", refused.From)
					assert.NotContains(t, err.Error(), "secret")
					for _, host := range server.trusting {
						assert.Equal(t, "http://apiserver", host)
					}
				}
			}
		}
	}
}

func TestRedirectWithinTheServerIsFollowed(t *testing.T) {
	for _, location := range []string{"/moved", "http://apiserver/moved", "http://APISERVER:80/moved"} {
		server := &redirecting{code: http.StatusPermanentRedirect, location: location}
		config := &rest.Config{Host: "http://apiserver", BearerToken: "secret", QPS: -1}
		config.Wrap(func(http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				r = r.Clone(r.Context())
				r.URL.Host = strings.TrimSuffix(strings.ToLower(r.URL.Host), ":80")
				return server.RoundTrip(r)
			})
		})
		resource, err := client.ForResource[*Paint](config, configMapResource, "default")
		require.NoError(t, err)
		list, err := resource.List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		assert.Len(t, list.Items, 1)
	}
}

func TestBodyOfARefusalIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := &counted{from: endless{}}
		server := roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 500, Request: r, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}, nil
		})
		_, err := opened[*Paint](t, server, configMapResource, "default").List(t.Context(), metav1.ListOptions{})
		require.Error(t, err)
		assert.LessOrEqual(t, body.read, 1<<20)
		assert.LessOrEqual(t, len(err.Error()), 1<<10)
	})
}

func TestSilentBodyOfARefusalEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body, _ := io.Pipe()
		server := roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 500, Request: r, Header: http.Header{}, Body: body}, nil
		})
		m := followed(t, opened[*Paint](t, server, configMapResource, "default"))
		synctest.Wait()
		m.stop() // a test that hangs here is a deadlock of the bubble
	})
}

// counted counts the bytes that are read of a body, and ends it at 4 MiB.
type counted struct {
	from io.Reader
	read int
}

func (c *counted) Read(into []byte) (int, error) {
	if c.read >= 4<<20 {
		return 0, io.EOF
	}
	n, err := c.from.Read(into)
	c.read += n
	return n, err
}

func (c *counted) Close() error { return nil }

type endless struct{}

func (endless) Read(into []byte) (int, error) { clear(into); return len(into), nil }
