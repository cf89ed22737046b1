package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/answer"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/mapper"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

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
	typed, err := client.ForType[metav1.Object](config, buckets, &Bucket{}, client.WithKind(bucketKind))
	require.NoError(t, err)
	stated := partial.DeepCopy()
	stated.SetGroupVersionKind(bucketKind)
	for name, tc := range map[string]struct {
		err  error
		want error
	}{
		"create in another namespace":   {second(of.Create(t.Context(), named("other", "b"), metav1.CreateOptions{})), client.ErrOtherObject},
		"update in another namespace":   {second(of.Update(t.Context(), named("other", "b"), metav1.UpdateOptions{})), client.ErrOtherObject},
		"apply in another namespace":    {second(of.Apply(t.Context(), named("other", "b"), metav1.ApplyOptions{})), client.ErrOtherObject},
		"another kind":                  {second(of.UpdateStatus(t.Context(), other, metav1.UpdateOptions{})), client.ErrOtherObject},
		"no kind":                       {second(plain.Create(t.Context(), named("ns", "b"), metav1.CreateOptions{})), client.ErrNoKind},
		"nil":                           {second(of.Create(t.Context(), nil, metav1.CreateOptions{})), nil},
		"metadata alone":                {second(metadata.Update(t.Context(), partial, metav1.UpdateOptions{})), nil},
		"metadata alone, new":           {second(metadata.Create(t.Context(), partial, metav1.CreateOptions{})), nil},
		"metadata of an interface":      {second(typed.Update(t.Context(), stated, metav1.UpdateOptions{})), nil},
		"metadata of an interface, new": {second(typed.Create(t.Context(), partial, metav1.CreateOptions{})), nil},
		"status of metadata":            {second(typed.UpdateStatus(t.Context(), stated, metav1.UpdateOptions{})), nil},
		"metadata in a struct":          {second(typed.Update(t.Context(), struct{ *metav1.PartialObjectMetadata }{stated}, metav1.UpdateOptions{})), nil},
		"apply of another type":         {second(typed.Apply(t.Context(), partial, metav1.ApplyOptions{})), client.ErrOtherObject},
		"another type":                  {second(typed.Create(t.Context(), &corev1.Secret{ObjectMeta: partial.ObjectMeta}, metav1.CreateOptions{})), client.ErrOtherObject},
		"no fields":                     {second(untyped.Create(t.Context(), &unstructured.Unstructured{}, metav1.CreateOptions{})), nil},
		"no patch":                      {second(of.Patch(t.Context(), "b", types.MergePatchType, nil, metav1.PatchOptions{})), nil},
		"scale by patch":                {second(of.Patch(t.Context(), "b", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}, "scale")), nil},
		"scale by apply":                {second(of.Apply(t.Context(), named("ns", "b"), metav1.ApplyOptions{}, "scale")), nil},
		"no name":                       {of.Delete(t.Context(), "", metav1.DeleteOptions{}), nil},
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
	assert.ErrorContains(t, second(typed.Create(t.Context(), &corev1.Secret{}, metav1.CreateOptions{})), "*v1.Secret")
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

func TestErrorOfALookupQuotesNoValue(t *testing.T) {
	of := over(t, func(r *http.Request) (*http.Response, error) {
		return reply(r, http.StatusOK, `{"kind":"Bucket","metadata":{"name":"b","creationTimestamp":"s3"}}`), nil
	})
	_, _, err := of.Source().(stream.Lookups).Lookup(t.Context(), store.Key{Namespace: "ns", Name: "b"})
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "s3")
	parsing, ok := errors.AsType[*time.ParseError](err)
	require.True(t, ok, "%v", err)
	assert.Contains(t, parsing.Error(), "s3", "the cause says what did not fit")
}

func TestEmptyObjectIsNoList(t *testing.T) {
	for body, want := range map[string]error{`{}`: client.ErrMalformed, `{"metadata":{}}`: client.ErrMalformed, `{"metadata":{"resourceVersion":"7"}}`: nil, `{"kind":"BucketList"}`: nil, `{"items":[]}`: client.ErrMalformed} {
		of := over(t, func(r *http.Request) (*http.Response, error) { return reply(r, http.StatusOK, body), nil })
		list, err := of.List(t.Context(), metav1.ListOptions{})
		if want == nil {
			require.NoError(t, err, body)
			assert.Empty(t, list.Items, body)
			continue
		}
		require.ErrorIs(t, err, want, body)
		_, ok := errors.AsType[*answer.ResponseError](err)
		assert.True(t, ok, body)
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
			of := over(t, func(r *http.Request) (*http.Response, error) {
				return reply(r, tc.code, tc.body), nil
			}, client.WithMaxObjectBytes(1<<20))
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

// The outcome of a write is unknown after a 500, and client-go would repeat it up to ten times.
func TestWriteIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, code := range []int{429, 500, 503, 504} {
			sent := 0
			of := over(t, func(r *http.Request) (*http.Response, error) {
				sent++
				refused := reply(r, code, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":`+strconv.Itoa(code)+`,"details":{"retryAfterSeconds":3}}`)
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

// client-go's Do bounds a whole call by that timeout, with the pauses that the server asked for; its Stream does not.
func TestGetEndsWithTheTimeoutOfTheConfig(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := &rest.Config{Host: "http://apiserver", Timeout: 10 * time.Second, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			refused := reply(r, 429, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":429}`)
			refused.Header.Set("Retry-After", "4")
			return refused, nil
		})}
		of, err := client.ForResource[*Bucket](config, buckets, "ns", client.WithKind(bucketKind))
		require.NoError(t, err)
		for what, get := range map[string]func() error{
			"Get":     func() error { _, err := of.Get(t.Context(), "b", metav1.GetOptions{}); return err },
			"GetJSON": func() error { _, err := of.GetJSON(t.Context(), "b", metav1.GetOptions{}); return err },
		} {
			began := time.Now()
			err := get()
			require.ErrorIs(t, err, context.DeadlineExceeded, what)
			assert.Equal(t, 10*time.Second, time.Since(began), what)
		}
	})
}

func TestTimeoutOfTheConfigBeginsAfterTheRateLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := &rest.Config{Host: "http://apiserver", Timeout: time.Second, QPS: 1, Burst: 1, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			return reply(r, 200, `{"metadata":{"namespace":"ns","name":"b"}}`), nil
		})}
		of, err := client.ForResource[*Bucket](config, buckets, "ns", client.WithKind(bucketKind))
		require.NoError(t, err)
		began := time.Now()
		var gets sync.WaitGroup
		for range 5 {
			gets.Go(func() {
				_, err := of.Get(t.Context(), "b", metav1.GetOptions{})
				assert.NoError(t, err)
			})
		}
		gets.Wait()
		assert.Equal(t, 4*time.Second, time.Since(began), "one a second")
	})
}

func TestEachAttemptOfAGetWaitsForTheRateLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []time.Duration
		began := time.Now()
		config := &rest.Config{Host: "http://apiserver", Timeout: time.Minute, QPS: 1, Burst: 1, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if sent = append(sent, time.Since(began)); len(sent) == 4 {
				return reply(r, 200, `{"metadata":{"namespace":"ns","name":"b"}}`), nil
			}
			refused := reply(r, 429, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":429}`)
			refused.Header.Set("Retry-After", "0")
			return refused, nil
		})}
		of, err := client.ForResource[*Bucket](config, buckets, "ns", client.WithKind(bucketKind))
		require.NoError(t, err)
		_, err = of.Get(t.Context(), "b", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}, sent)
	})
}

// net/http answers a 301, 302 or 303 to a write with a GET, whose answer would look like a success.
func TestRedirectDoesNotTurnAWriteIntoARead(t *testing.T) {
	for _, code := range []int{301, 302, 303} {
		of := over(t, func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet && r.URL.Path == "/other" {
				return reply(r, http.StatusOK, `{"metadata":{"namespace":"ns","name":"b"}}`), nil
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
			var refused *answer.RedirectError
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

// Where T is an interface, an object may have another Go type than the example, if it says what it is.
func TestObjectOfAnotherTypeIsWrittenIfItStatesTheKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := serveBuckets(t).Config()
		typed, err := client.ForType[metav1.Object](config, buckets, &Bucket{}, client.WithKind(bucketKind))
		require.NoError(t, err)
		free := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(3)}}}
		free.SetGroupVersionKind(bucketKind)
		free.SetNamespace("ns")
		free.SetName("b")
		_, err = typed.Create(t.Context(), free, metav1.CreateOptions{})
		require.NoError(t, err)
		stated := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", Labels: map[string]string{"a": "b"}}}
		stated.SetGroupVersionKind(bucketKind)
		made, err := typed.Apply(t.Context(), stated, metav1.ApplyOptions{FieldManager: "me"})
		require.NoError(t, err)
		assert.Equal(t, 3, made.(*Bucket).Spec.Size, "an apply deletes no field of another manager")
		metadata, err := client.ForType[metav1.Object](config, buckets, &metav1.PartialObjectMetadata{}, client.WithKind(bucketKind))
		require.NoError(t, err)
		whole := made.(*Bucket)
		whole.Spec.Size++
		_, err = metadata.Update(t.Context(), whole, metav1.UpdateOptions{})
		require.NoError(t, err)
	})
}

// vault is a Bucket whose own method does not encode it, and quotes why.
type vault struct{ Bucket }

var errSecret = errors.New("bad password s3cret")

func (*vault) MarshalJSON() ([]byte, error) { return nil, errSecret }

func TestErrorOfAnObjectThatDoesNotEncodeQuotesNoValue(t *testing.T) {
	of, err := client.ForResource[*vault](&rest.Config{Host: "http://localhost"}, buckets, "ns", client.WithKind(bucketKind))
	require.NoError(t, err)
	object := &vault{*named("ns", "b")}
	for _, err := range []error{
		second(of.Create(t.Context(), object, metav1.CreateOptions{})), second(of.Update(t.Context(), object, metav1.UpdateOptions{})),
		second(of.Apply(t.Context(), object, metav1.ApplyOptions{})), second(of.Reapply(t.Context(), nil, object, metav1.ApplyOptions{})),
	} {
		require.ErrorIs(t, err, errSecret)
		assert.NotContains(t, err.Error(), "s3cret")
		assert.ErrorContains(t, err, " buckets.example.com/v1 ns/b: ")
	}
}

// A proxy may answer without the empty line below the head. net/http quotes what it then reads as a part of the head.
func TestErrorOfDiscoveryQuotesNoBytesOfABrokenAnswer(t *testing.T) {
	for _, quoting := range []string{"malformed HTTP response %q", "malformed MIME header line: %q"} {
		config := &rest.Config{Host: "http://apiserver", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("net/http: HTTP/1.x transport connection broken: "+quoting, `{"a":"s3cret"}`)
		})}
		m, err := mapper.InMemory(config)
		require.NoError(t, err)
		for _, opts := range [][]client.ResourceOption{nil, {client.WithRESTMapper(m)}} {
			all, err := client.For[*Bucket](config, append(opts, client.WithKind(bucketKind))...)
			require.NoError(t, err)
			_, err = all.List(t.Context(), metav1.ListOptions{})
			_, ok := errors.AsType[*client.DiscoveryError](err)
			require.True(t, ok, "%v", err)
			assert.NotContains(t, err.Error(), "s3cret")
			assert.ErrorContains(t, err, "the port may speak TLS, HTTP/2")
		}
	}
}
