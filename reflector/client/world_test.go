package client_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Bucket is a custom resource without generated code.
type Bucket struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              BucketSpec   `json:"spec"`
	Status            BucketStatus `json:"status,omitzero"`
}

type BucketSpec struct {
	Size int `json:"size,omitempty"`
}

type BucketStatus struct {
	Used int `json:"used,omitempty"`
}

func (b *Bucket) DeepCopyObject() runtime.Object { c := *b; return &c }

var (
	buckets    = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "buckets"}
	bucketKind = buckets.GroupVersion().WithKind("Bucket")
)

func serveBuckets(t *testing.T) *reflectortest.Server {
	t.Helper()
	return reflectortest.Start(t, reflectortest.WithResource(reflectortest.Resource{
		Group: buckets.Group, Version: buckets.Version, Kind: bucketKind.Kind, Plural: buckets.Resource,
		Namespaced: true, Status: true, Prototype: &Bucket{},
	}))
}

func named(namespace, name string) *Bucket {
	return &Bucket{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// withClients calls do with each kind of client of buckets, in all namespaces.
func withClients(t *testing.T, do func(t *testing.T, server *reflectortest.Server, all *client.Resource[*Bucket])) {
	for name, open := range map[string]func(*rest.Config) (*client.Resource[*Bucket], error){
		"For": func(c *rest.Config) (*client.Resource[*Bucket], error) {
			return client.For[*Bucket](c, client.WithKind(bucketKind))
		},
		"ForResource": func(c *rest.Config) (*client.Resource[*Bucket], error) {
			return client.ForResource[*Bucket](c, buckets, "", client.WithKind(bucketKind))
		},
		"ForType": func(c *rest.Config) (*client.Resource[*Bucket], error) {
			return client.ForType[*Bucket](c, buckets, &Bucket{}, client.WithKind(bucketKind))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := serveBuckets(t)
				all, err := open(server.Config())
				require.NoError(t, err)
				do(t, server, all)
			})
		})
	}
}

func second[T any](_ T, err error) error { return err }

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// over returns a client of buckets over a transport.
func over(t *testing.T, transport roundTrip, opts ...client.ResourceOption) *client.Resource[*Bucket] {
	t.Helper()
	config := &rest.Config{Host: "http://apiserver", Transport: transport, BearerToken: "secret"}
	of, err := client.ForResource[*Bucket](config, buckets, "ns", append(opts, client.WithKind(bucketKind))...)
	require.NoError(t, err)
	return of
}

// reply returns a response with a body.
func reply(r *http.Request, code int, body string) *http.Response {
	return &http.Response{StatusCode: code, Request: r, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}
}

// writes returns the errors of one request with each method that writes.
func writes(t *testing.T, of *client.Resource[*Bucket]) []error {
	return []error{
		second(of.Create(t.Context(), named("", "b"), metav1.CreateOptions{})),
		second(of.Update(t.Context(), named("", "b"), metav1.UpdateOptions{})),
		second(of.UpdateStatus(t.Context(), named("", "b"), metav1.UpdateOptions{})),
		second(of.Apply(t.Context(), named("", "b"), metav1.ApplyOptions{FieldManager: "me"})),
		second(of.Patch(t.Context(), "b", types.MergePatchType, []byte("{}"), metav1.PatchOptions{})),
		of.Delete(t.Context(), "b", metav1.DeleteOptions{}),
	}
}
