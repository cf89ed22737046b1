package client_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
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

func TestResourceWritesAPlainStruct(t *testing.T) {
	withClients(t, func(t *testing.T, _ *reflectortest.Server, all *client.Resource[*Bucket]) {
		ctx, of := t.Context(), all.In("ns")
		made, err := all.Create(ctx, &Bucket{ObjectMeta: named("ns", "b").ObjectMeta, Spec: BucketSpec{Size: 1}, Status: BucketStatus{Used: 1}}, metav1.CreateOptions{})
		require.NoError(t, err)
		assert.NotEmpty(t, made.UID)
		want := Bucket{TypeMeta: made.TypeMeta, ObjectMeta: made.ObjectMeta, Spec: BucketSpec{Size: 1}}
		assert.Equal(t, want, *made, "the status has an endpoint of its own")
		_, err = of.Create(ctx, named("", "b"), metav1.CreateOptions{})
		assert.True(t, apierrors.IsAlreadyExists(err), "%v", err)
		assert.False(t, apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse), "the client reads the server's status")

		want.Spec.Size = 2
		updated, err := all.Update(ctx, &want, metav1.UpdateOptions{})
		require.NoError(t, err)
		assert.Equal(t, 2, updated.Spec.Size)
		_, err = all.Update(ctx, &want, metav1.UpdateOptions{})
		assert.True(t, apierrors.IsConflict(err), "%v", err)
		updated.Status.Used = 3
		updated, err = all.UpdateStatus(ctx, updated, metav1.UpdateOptions{})
		require.NoError(t, err)
		assert.Equal(t, 3, updated.Status.Used)

		patched, err := of.Patch(ctx, "b", types.MergePatchType, []byte(`{"spec":{"size":7}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		assert.Equal(t, 7, patched.Spec.Size)
		patched, err = of.Patch(ctx, "b", types.MergePatchType, []byte(`{"status":{"used":8}}`), metav1.PatchOptions{}, "status")
		require.NoError(t, err)
		assert.Equal(t, 8, patched.Status.Used)
		got, err := of.Get(ctx, "b", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, patched, got)

		err = of.Delete(ctx, "b", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("another")})
		assert.True(t, apierrors.IsConflict(err), "%v", err)
		require.NoError(t, of.Delete(ctx, "b", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(got.UID))}))
		for _, err := range []error{
			of.Delete(ctx, "b", metav1.DeleteOptions{}),
			second(of.Get(ctx, "b", metav1.GetOptions{})),
			second(of.Patch(ctx, "b", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})),
		} {
			assert.True(t, apierrors.IsNotFound(err), "%v", err)
		}
	})
}

func second[T any](_ T, err error) error { return err }

func TestGeneratedNameIsTheServersChoice(t *testing.T) {
	withClients(t, func(t *testing.T, _ *reflectortest.Server, all *client.Resource[*Bucket]) {
		made, err := all.In("ns").Create(t.Context(), &Bucket{ObjectMeta: metav1.ObjectMeta{GenerateName: "b-"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		assert.True(t, strings.HasPrefix(made.Name, "b-") && made.Name != "b-", made.Name)
	})
}

func TestDryRunWritesNothing(t *testing.T) {
	withClients(t, func(t *testing.T, server *reflectortest.Server, all *client.Resource[*Bucket]) {
		_, err := all.Create(t.Context(), named("ns", "b"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		require.NoError(t, err)
		asked := server.Requests()
		assert.Contains(t, asked[len(asked)-1].Query, "dryRun")
	})
}

func TestBuiltInKindsNeedNoKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		namespaces, err := client.For[*corev1.Namespace](server.Config())
		require.NoError(t, err)
		made, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		assert.NotEmpty(t, made.UID)
		_, err = namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "m"}}, metav1.CreateOptions{})
		require.ErrorIs(t, err, client.ErrClusterScoped)

		maps, err := client.ForResource[*corev1.ConfigMap](server.Config(), corev1.SchemeGroupVersion.WithResource("configmaps"), "shop")
		require.NoError(t, err)
		created, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		assert.Equal(t, "shop", created.Namespace)
	})
}

func TestUnstructuredObjectsAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serveBuckets(t)
		all, err := client.ForType[metav1.Object](server.Config(), buckets, &unstructured.Unstructured{})
		require.NoError(t, err)
		object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(4)}}}
		object.SetNamespace("ns")
		object.SetName("b")
		_, err = all.Create(t.Context(), object, metav1.CreateOptions{})
		require.ErrorIs(t, err, client.ErrNoKind)
		object.SetGroupVersionKind(bucketKind)
		made, err := all.Create(t.Context(), object, metav1.CreateOptions{})
		require.NoError(t, err)
		assert.NotEmpty(t, made.GetUID())
	})
}

// What does not fit the client fails before a request.
func TestObjectOfAnotherClientIsRefusedWithoutARequest(t *testing.T) {
	config := &rest.Config{Host: "http://localhost", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		t.Errorf("%s %s", r.Method, r.URL)
		return nil, http.ErrHandlerTimeout
	})}
	of, err := client.ForResource[*Bucket](config, buckets, "ns", client.WithKind(bucketKind))
	require.NoError(t, err)
	other := named("ns", "b")
	other.Kind, other.APIVersion = "Pail", buckets.GroupVersion().String()
	plain, err := client.ForResource[*Bucket](config, buckets, "ns")
	require.NoError(t, err)
	metadata, err := client.ForResource[*metav1.PartialObjectMetadata](config, buckets, "ns", client.WithKind(bucketKind))
	require.NoError(t, err)
	partial := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	untyped, err := client.ForType[metav1.Object](config, buckets, &unstructured.Unstructured{}, client.WithKind(bucketKind))
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		err  error
		want error
	}{
		"create in another namespace": {second(of.Create(t.Context(), named("other", "b"), metav1.CreateOptions{})), client.ErrOtherObject},
		"update in another namespace": {second(of.Update(t.Context(), named("other", "b"), metav1.UpdateOptions{})), client.ErrOtherObject},
		"apply in another namespace":  {second(of.Apply(t.Context(), named("other", "b"), metav1.ApplyOptions{})), client.ErrOtherObject},
		"another kind":                {second(of.UpdateStatus(t.Context(), other, metav1.UpdateOptions{})), client.ErrOtherObject},
		"no kind":                     {second(plain.Create(t.Context(), named("ns", "b"), metav1.CreateOptions{})), client.ErrNoKind},
		"nil":                         {second(of.Create(t.Context(), nil, metav1.CreateOptions{})), nil},
		"metadata alone":              {second(metadata.Update(t.Context(), partial, metav1.UpdateOptions{})), nil},
		"metadata alone, new":         {second(metadata.Create(t.Context(), partial, metav1.CreateOptions{})), nil},
		"no fields":                   {second(untyped.Create(t.Context(), &unstructured.Unstructured{}, metav1.CreateOptions{})), nil},
		"no patch":                    {second(of.Patch(t.Context(), "b", types.MergePatchType, nil, metav1.PatchOptions{})), nil},
		"scale by patch":              {second(of.Patch(t.Context(), "b", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}, "scale")), nil},
		"scale by apply":              {second(of.Apply(t.Context(), named("ns", "b"), metav1.ApplyOptions{}, "scale")), nil},
		"no name":                     {of.Delete(t.Context(), "", metav1.DeleteOptions{}), nil},
	} {
		require.Error(t, tc.err, name)
		if strings.Contains(name, "by") || name == "no patch" {
			assert.ErrorContains(t, tc.err, " ns/b: ", name)
		}
		if tc.want != nil {
			assert.ErrorIs(t, tc.err, tc.want, name)
		}
		assert.ErrorContains(t, tc.err, "buckets.example.com/v1", name)
	}
	var none *client.Resource[*Bucket]
	for _, err := range []error{
		second(none.Create(t.Context(), named("ns", "b"), metav1.CreateOptions{})), none.Delete(t.Context(), "b", metav1.DeleteOptions{}),
		second(none.Get(t.Context(), "b", metav1.GetOptions{})),
	} {
		assert.ErrorIs(t, err, reflector.ErrNoClient)
	}
}

func TestOneObjectOfANamespacedKindNeedsANamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, err := client.For[*Bucket](serveBuckets(t).Config(), client.WithKind(bucketKind))
		require.NoError(t, err)
		for _, err := range []error{
			second(all.Get(t.Context(), "b", metav1.GetOptions{})),
			second(all.Create(t.Context(), named("", "b"), metav1.CreateOptions{})),
			second(all.Patch(t.Context(), "b", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})),
			all.Delete(t.Context(), "b", metav1.DeleteOptions{}),
		} {
			assert.ErrorIs(t, err, client.ErrNoNamespace)
		}
	})
}

// A server knows the resource of a namespaced kind only in a namespace. Its 404 does not mean that
// the object is gone.
func TestRequestWithoutANamespaceDoesNotFindAnObjectGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serveBuckets(t)
		config := server.Config()
		ofResource, err := client.ForResource[*Bucket](config, buckets, "", client.WithKind(bucketKind))
		require.NoError(t, err)
		_, err = ofResource.Create(t.Context(), named("ns", "b"), metav1.CreateOptions{})
		require.NoError(t, err)
		ofType, err := client.ForType[*Bucket](config, buckets, &Bucket{}, client.WithKind(bucketKind))
		require.NoError(t, err)
		version := buckets.GroupVersion()
		config.APIPath, config.GroupVersion, config.NegotiatedSerializer = "/apis", &version, scheme.Codecs.WithoutConversion()
		rests, err := rest.RESTClientFor(config)
		require.NoError(t, err)
		ofREST, err := client.FromRESTClient[*Bucket](rests, buckets.Resource, "", client.WithKind(bucketKind))
		require.NoError(t, err)
		for name, all := range map[string]*client.Resource[*Bucket]{"ForResource": ofResource, "ForType": ofType, "FromRESTClient": ofREST} {
			for _, err := range []error{
				second(all.Get(t.Context(), "b", metav1.GetOptions{})),
				second(all.Patch(t.Context(), "b", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})),
				all.Delete(t.Context(), "b", metav1.DeleteOptions{}),
			} {
				require.ErrorIs(t, err, client.ErrNoNamespace, name)
				assert.False(t, apierrors.IsNotFound(err), "%s: %v", name, err)
			}
			assert.True(t, apierrors.IsNotFound(all.In("ns").Delete(t.Context(), "other", metav1.DeleteOptions{})), name)
		}
		namespaces, err := client.ForResource[*corev1.Namespace](server.Config(), corev1.SchemeGroupVersion.WithResource("namespaces"), "")
		require.NoError(t, err)
		assert.True(t, apierrors.IsNotFound(namespaces.Delete(t.Context(), "other", metav1.DeleteOptions{})))
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answer returns a response with a body.
func answer(r *http.Request, code int, body string) *http.Response {
	return &http.Response{StatusCode: code, Request: r, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}
}

func TestApplySendsTheStruct(t *testing.T) {
	var forced []string
	config := &rest.Config{Host: "http://localhost", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		assert.Equal(t, http.MethodPatch, r.Method)
		assert.Equal(t, "/apis/example.com/v1/namespaces/ns/buckets/b", r.URL.Path)
		assert.Equal(t, "me", r.URL.Query().Get("fieldManager"))
		assert.Equal(t, string(types.ApplyPatchType), r.Header.Get("Content-Type"))
		forced = append(forced, r.URL.Query().Get("force"))
		sent, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		return answer(r, http.StatusOK, string(sent)), nil
	})}
	all, err := client.ForResource[*Bucket](config, buckets, "", client.WithKind(bucketKind))
	require.NoError(t, err)
	want := named("ns", "b")
	want.Spec.Size = 3
	for _, force := range []bool{false, true} {
		got, err := all.Apply(t.Context(), want, metav1.ApplyOptions{FieldManager: "me", Force: force})
		require.NoError(t, err)
		assert.Equal(t, metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Bucket"}, got.TypeMeta)
		assert.Equal(t, want.Spec, got.Spec)
	}
	assert.Equal(t, []string{"false", "true"}, forced)
	assert.Empty(t, want.TypeMeta, "the client does not change the object")
}

// Without force, a controller would meet the same conflict for ever after one foreign edit.
func TestForcedApplyTakesFieldsOver(t *testing.T) {
	withClients(t, func(t *testing.T, server *reflectortest.Server, all *client.Resource[*Bucket]) {
		ctx, mine := t.Context(), metav1.ApplyOptions{FieldManager: "controller"}
		want := named("ns", "b")
		want.Spec.Size = 1
		_, err := all.Apply(ctx, want, mine)
		require.NoError(t, err)
		edited := named("ns", "b")
		require.NoError(t, server.Get(edited))
		edited.Spec.Size = 9
		require.NoError(t, server.Update(edited))

		_, err = all.Apply(ctx, want, mine)
		assert.True(t, apierrors.IsConflict(err), "%v", err)
		assert.ErrorContains(t, err, `conflict with "reflectortest" using example.com/v1: .spec.size`)
		mine.Force = true
		got, err := all.Apply(ctx, want, mine)
		require.NoError(t, err)
		assert.Equal(t, 1, got.Spec.Size)

		status := named("ns", "b")
		status.Status.Used = 3
		got, err = all.Apply(ctx, status, mine, "status")
		require.NoError(t, err)
		assert.Equal(t, Bucket{TypeMeta: got.TypeMeta, ObjectMeta: got.ObjectMeta, Spec: BucketSpec{Size: 1}, Status: BucketStatus{Used: 3}}, *got)
	})
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

// The outcome of a write is unknown after a 500, and client-go would repeat it up to ten times.
func TestWriteIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, code := range []int{429, 500, 503, 504} {
			sent := 0
			config := &rest.Config{Host: "http://localhost", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				sent++
				refused := answer(r, code, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":`+strconv.Itoa(code)+`,"details":{"retryAfterSeconds":3}}`)
				refused.Header.Set("Retry-After", "3")
				return refused, nil
			})}
			of, err := client.ForResource[*Bucket](config, buckets, "ns", client.WithKind(bucketKind))
			require.NoError(t, err)
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
		config := &rest.Config{Host: "http://apiserver", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet && r.URL.Path == "/other" {
				return answer(r, http.StatusOK, `{"metadata":{"namespace":"ns","name":"b"}}`), nil
			}
			return &http.Response{StatusCode: code, Request: r, Header: http.Header{"Location": {"/other"}}, Body: http.NoBody}, nil
		})}
		of, err := client.ForResource[*Bucket](config, buckets, "ns", client.WithKind(bucketKind))
		require.NoError(t, err)
		for _, err := range writes(t, of) {
			assert.ErrorContains(t, err, "redirects a write")
		}
		_, err = of.Get(t.Context(), "b", metav1.GetOptions{})
		assert.NoError(t, err)
	}
}

func TestRedirectToAnotherServerGetsNoWrite(t *testing.T) {
	for _, code := range []int{301, 302, 303, 307, 308} {
		config := &rest.Config{Host: "http://apiserver", BearerToken: "secret"}
		config.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host != "apiserver" {
				t.Errorf("%s %s with %q", r.Method, r.URL, r.Header.Get("Authorization"))
			}
			return &http.Response{StatusCode: code, Request: r, Header: http.Header{"Location": {"http://elsewhere/"}}, Body: http.NoBody}, nil
		})
		of, err := client.ForResource[*Bucket](config, buckets, "ns", client.WithKind(bucketKind))
		require.NoError(t, err)
		for _, err := range writes(t, of) {
			var refused *client.RedirectError
			assert.True(t, errors.As(err, &refused), "%v", err)
		}
	}
}

func TestObjectMayStateAPartOfItsKind(t *testing.T) {
	withClients(t, func(t *testing.T, _ *reflectortest.Server, all *client.Resource[*Bucket]) {
		for name, part := range map[string]metav1.TypeMeta{"kind": {Kind: bucketKind.Kind}, "version": {APIVersion: buckets.GroupVersion().String()}} {
			object := named("ns", name)
			object.TypeMeta = part
			made, err := all.Create(t.Context(), object, metav1.CreateOptions{})
			require.NoError(t, err)
			assert.Equal(t, metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Bucket"}, made.TypeMeta)
		}
	})
}

// The server deletes only fields of the same manager.
func TestMetadataIsApplied(t *testing.T) {
	var sent []byte
	config := &rest.Config{Host: "http://localhost", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		var err error
		sent, err = io.ReadAll(r.Body)
		assert.NoError(t, err)
		return answer(r, http.StatusOK, `{"kind":"Bucket","apiVersion":"example.com/v1","metadata":{"namespace":"ns","name":"b","labels":{"a":"b"}},"spec":{"size":1}}`), nil
	})}
	of, err := client.ForResource[*metav1.PartialObjectMetadata](config, buckets, "ns", client.WithKind(bucketKind))
	require.NoError(t, err)
	got, err := of.Apply(t.Context(), &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: map[string]string{"a": "b"}}}, metav1.ApplyOptions{FieldManager: "me"})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"a": "b"}, got.Labels)
	assert.JSONEq(t, `{"kind":"Bucket","apiVersion":"example.com/v1","metadata":{"name":"b","labels":{"a":"b"}}}`, string(sent))
}

// A caller changes the object of Get or of a write, and updates it. The cached objects stay as they are.
func TestObjectOfGetAndOfWritesSharesNothing(t *testing.T) {
	withClients(t, func(t *testing.T, server *reflectortest.Server, all *client.Resource[*Bucket]) {
		other, err := client.ForResource[*Bucket](server.Config(), buckets, "ns", client.WithKind(bucketKind))
		require.NoError(t, err)
		sharesNothing(t, other, all.In("ns"), func(name string) *Bucket {
			object := named("ns", name)
			object.Labels = map[string]string{"app": "shop"}
			return object
		})
	})
	synctest.Test(t, func(t *testing.T) {
		config := serveBuckets(t).Config()
		other, err := client.ForType[metav1.Object](config, buckets, &unstructured.Unstructured{}, client.WithKind(bucketKind))
		require.NoError(t, err)
		all, err := client.ForType[metav1.Object](config, buckets, &unstructured.Unstructured{}, client.WithKind(bucketKind), client.Intern[map[string]any]())
		require.NoError(t, err)
		sharesNothing(t, other.In("ns"), all.In("ns"), func(name string) metav1.Object {
			return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
				"namespace": "ns", "name": name, "labels": map[string]any{"app": "shop"}, "annotations": map[string]any{"app": "shop"},
			}}}
		})
	})
}

// sharesNothing changes the labels of an object in place. Another client creates the objects, so that
// the decoders of lists are the first ones.
func sharesNothing[T metav1.Object](t *testing.T, other, of *client.Resource[T], object func(name string) T) {
	relabel := func(o T) {
		if u, ok := any(o).(*unstructured.Unstructured); ok {
			u.Object["metadata"].(map[string]any)["labels"].(map[string]any)["app"] = "stock"
			return
		}
		o.GetLabels()["app"] = "stock"
	}
	for _, name := range []string{"a", "b"} {
		_, err := other.Create(t.Context(), object(name), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	var items []T
	for range 3 { // a decoder keeps a value for others when it reads the value a second time
		list, err := of.List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		items = append(items, list.Items...)
	}
	got, err := of.Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
	relabel(got)
	patched, err := of.Patch(t.Context(), "b", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	require.NoError(t, err)
	assert.Equal(t, "shop", patched.GetLabels()["app"])
	relabel(patched)
	again, err := of.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	last, err := of.Get(t.Context(), "b", metav1.GetOptions{})
	require.NoError(t, err)
	for _, o := range append(append(items, again.Items...), last) {
		assert.Equal(t, "shop", o.GetLabels()["app"], o.GetName())
	}
}

// The texts have at most 1 KiB, and nothing of an object. They name the resource and the key.
func TestErrorsOfWritesAreShortAndNameTheKey(t *testing.T) {
	secret := strings.Repeat("s3cret", 1000)
	object := named("ns", "b")
	object.Annotations = map[string]string{"a": secret}
	long, err := json.Marshal(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: 409, Reason: metav1.StatusReasonConflict, Message: strings.Repeat("m", 1<<20)})
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		code  int
		body  string
		check func(error) bool
	}{
		"a long status":      {409, string(long), apierrors.IsConflict},
		"another object":     {200, `{"metadata":{"namespace":"ns","name":"` + secret + `"}}`, isMismatch},
		"another namespace":  {200, `{"metadata":{"namespace":"other","name":"b"}}`, isMismatch},
		"another kind":       {200, `{"kind":"` + secret + `","apiVersion":"example.com/v1","metadata":{"namespace":"ns","name":"b"}}`, isMismatch},
		"something else":     {200, secret, nil},
		"a part of the body": {200, `{"metadata":{"annotations":{"a":"` + secret, nil},
		"a page of a proxy":  {503, secret, apierrors.IsServiceUnavailable},
		"an endless answer":  {200, `{"metadata":{"annotations":{"a":"` + strings.Repeat("s3cret", 200_000) + `"}}}`, func(err error) bool { return errors.Is(err, client.ErrTooLarge) }},
	} {
		t.Run(name, func(t *testing.T) {
			config := &rest.Config{Host: "http://localhost", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				return answer(r, tc.code, tc.body), nil
			})}
			of, err := client.ForResource[*Bucket](config, buckets, "ns", client.WithKind(bucketKind), client.WithMaxObjectBytes(1<<20))
			require.NoError(t, err)
			_, err = of.Update(t.Context(), object, metav1.UpdateOptions{})
			require.Error(t, err)
			assert.LessOrEqual(t, len(err.Error()), 1<<10)
			assert.Contains(t, err.Error(), "update buckets.example.com/v1 ns/b: ")
			if tc.code == 200 && !isMismatch(err) {
				assert.NotContains(t, err.Error(), "s3cret")
			}
			assert.Equal(t, tc.code == 200, strings.Contains(err.Error(), "the server accepted the request, but"), "%v", err)
			if tc.check != nil {
				assert.True(t, tc.check(err), "%v", err)
			}
		})
	}
}

func isMismatch(err error) bool {
	_, ok := errors.AsType[*client.MismatchError](err)
	return ok
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
