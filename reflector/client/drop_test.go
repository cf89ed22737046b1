package client_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// dropping is the way of a server with the parameter "drop" of the Accept header. It is a transport
// before a server that does not know the parameter.
type dropping struct {
	to      http.RoundTripper
	refuses bool // it answers 406
	drops   bool // in lists
	streams bool // drops also in watches

	asked []string // the Accept headers of lists and watches
	bytes int      // of lists
}

func (d *dropping) RoundTrip(r *http.Request) (*http.Response, error) {
	accept := r.Header.Get("Accept")
	if strings.HasSuffix(r.URL.Path, "/configmaps") && r.Method == http.MethodGet {
		d.asked = append(d.asked, accept)
	}
	first, _, _ := strings.Cut(accept, ",")
	_, params, _ := mime.ParseMediaType(first)
	wanted := params["drop"] == "metadata.managedFields"
	if wanted && d.refuses {
		return reply(r, http.StatusNotAcceptable, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotAcceptable","code":406}`), nil
	}
	answer, err := d.to.RoundTrip(r)
	if err != nil || answer.Header.Get("Content-Type") != "application/json" {
		return answer, err
	}
	switch watching := r.URL.Query().Get("watch") != ""; {
	case watching && wanted && d.streams:
		answer.Body = frames{json.NewDecoder(answer.Body), &bytes.Buffer{}, answer.Body}
	case !watching:
		body, err := io.ReadAll(answer.Body)
		if err = errors.Join(err, answer.Body.Close()); err != nil {
			return nil, err
		}
		if wanted && d.drops {
			body = withoutManagedFields(body)
		}
		d.bytes = len(body)
		answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		answer.Header.Del("Content-Length")
	}
	return answer, nil
}

func (d *dropping) WrappedRoundTripper() http.RoundTripper { return d.to }

// frames is the body of a watch whose objects have no managed fields.
type frames struct {
	from *json.Decoder
	rest *bytes.Buffer
	io.Closer
}

func (f frames) Read(to []byte) (int, error) {
	if f.rest.Len() == 0 {
		var frame json.RawMessage
		if err := f.from.Decode(&frame); err != nil {
			return 0, err
		}
		f.rest.Write(append(withoutManagedFields(frame), '\n'))
	}
	return f.rest.Read(to)
}

func withoutManagedFields(from []byte) []byte {
	var tree any
	if json.Unmarshal(from, &tree) != nil {
		return from
	}
	var drop func(any)
	drop = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			if metadata, ok := v["metadata"].(map[string]any); ok {
				delete(metadata, "managedFields")
			}
			for _, inner := range v {
				drop(inner)
			}
		case []any:
			for _, inner := range v {
				drop(inner)
			}
		}
	}
	drop(tree)
	out, _ := json.Marshal(tree)
	return out
}

func TestServerIsAskedToDropManagedFields(t *testing.T) {
	for name, row := range map[string]struct {
		server *dropping
		lists  int // requests for one list
	}{
		"a server that drops":               {&dropping{drops: true, streams: true}, 1},
		"a server that drops only in lists": {&dropping{drops: true}, 1},
		"a server that does not know it":    {&dropping{}, 1},
		"a server that refuses it":          {&dropping{refuses: true}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			server := reflectortest.Start(t)
			require.NoError(t, server.Create(managed("a")))
			config := rest.CopyConfig(server.Config())
			config.Wrap(func(to http.RoundTripper) http.RoundTripper {
				row.server.to = to
				return row.server
			})
			for _, in := range []struct {
				kind string
				open func(opts ...client.ResourceOption) (lists func() []metav1.Object, watches func() metav1.Object)
			}{
				{"typed", func(opts ...client.ResourceOption) (func() []metav1.Object, func() metav1.Object) {
					return opened(t, must(client.For[*corev1.ConfigMap](config, append(opts, client.WithoutProtobuf())...)))
				}},
				{"unstructured", func(opts ...client.ResourceOption) (func() []metav1.Object, func() metav1.Object) {
					return opened(t, must(client.ForResource[*unstructured.Unstructured](config, corev1.SchemeGroupVersion.WithResource("configmaps"), "", opts...)))
				}},
			} {
				t.Run(in.kind, func(t *testing.T) {
					row.server.asked = nil
					lists, watches := in.open(client.WithoutManagedFields())
					listed := lists()
					require.Len(t, listed, 1)
					assert.Empty(t, listed[0].GetManagedFields())
					assert.Equal(t, "a", listed[0].GetName())
					require.Len(t, row.server.asked, row.lists)
					assert.Contains(t, row.server.asked[0], "drop=metadata.managedFields")
					dropped := row.server.bytes
					assert.Empty(t, watches().GetManagedFields())
					require.Len(t, row.server.asked, row.lists+1, "a refusal is remembered")
					assert.Equal(t, !row.server.refuses, strings.Contains(row.server.asked[row.lists], "drop="))

					lists, watches = in.open()
					assert.NotEmpty(t, lists()[0].GetManagedFields())
					assert.NotEmpty(t, watches().GetManagedFields())
					for _, accept := range row.server.asked[row.lists+1:] {
						assert.NotContains(t, accept, "drop=", "the user wants them")
					}
					if row.server.drops {
						assert.Less(t, dropped, row.server.bytes)
					}
				})
			}
		})
	}
}

func TestProtobufIsKeptWhereDroppingIsRefused(t *testing.T) {
	server := reflectortest.Start(t)
	require.NoError(t, server.Create(managed("a")))
	config := rest.CopyConfig(server.Config())
	refusing := &dropping{refuses: true}
	config.Wrap(func(to http.RoundTripper) http.RoundTripper {
		refusing.to = to
		return refusing
	})
	of, err := client.For[*corev1.ConfigMap](config, client.WithoutManagedFields())
	require.NoError(t, err)
	for range 2 {
		list, err := of.List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		assert.Empty(t, list.Items[0].ManagedFields)
	}
	require.Len(t, refusing.asked, 3)
	assert.Contains(t, refusing.asked[0], "protobuf;drop=metadata.managedFields,")
	assert.NotContains(t, refusing.asked[2], "drop=")
	assert.Contains(t, refusing.asked[2], "protobuf")
}

func managed(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, ManagedFields: []metav1.ManagedFieldsEntry{{
		Manager: "test", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:a":{}}}`),
	}}}, Data: map[string]string{"a": "b"}}
}

// must returns the value of a call that must not fail.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// opened returns functions that list, and that return the first object of a watch.
func opened[T interface {
	comparable
	metav1.Object
}](t *testing.T, of *client.Resource[T]) (lists func() []metav1.Object, watches func() metav1.Object) {
	return func() (all []metav1.Object) {
			list, err := of.List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			for _, one := range list.Items {
				all = append(all, one)
			}
			return all
		}, func() metav1.Object {
			w, err := of.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
			require.NoError(t, err)
			defer w.Stop()
			event := <-w.ResultChan()
			require.Equal(t, watch.Added, event.Type)
			return event.Object.(metav1.Object)
		}
}
