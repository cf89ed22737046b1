package write

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"

	"github.com/kubereflector/kubereflector/internal/restguard"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Resource is a client that writes objects of one resource, in JSON. T is a pointer to a struct
// with metadata and JSON tags, without generated code. [client.Resource] is its counterpart for
// reading. All methods are safe for concurrent use.
//
// Its objects need not contain their kind: the Resource adds it to each request.
type Resource[T reflector.Object] struct {
	rest      rest.Interface
	resource  string
	kind      metav1.TypeMeta
	namespace string
}

var (
	meta = newMeta()
	// parameters encodes the options of requests into URLs.
	parameters = runtime.NewParameterCodec(meta)
	// refusals decodes error answers of the server.
	refusals = serializer.NewCodecFactory(meta).WithoutConversion()
)

func newMeta() *runtime.Scheme {
	s := runtime.NewScheme()
	metav1.AddToGroupVersion(s, schema.GroupVersion{Version: "v1"})
	return s
}

// ForResource returns a client of a resource with the given kind, without a namespace.
// [Resource.In] returns a client for a namespace. ForResource returns [client.ErrNoStruct]
// unless T is a pointer to a struct, and an error if the kind or the config is invalid. The client
// follows no redirect to another host or scheme, which would receive its credentials.
func ForResource[T reflector.Object](config *rest.Config, resource schema.GroupVersionResource, kind string) (*Resource[T], error) {
	if t := reflect.TypeFor[T](); t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("client of %s: %w", resource.Resource, client.ErrNoStruct)
	}
	if !isKind.MatchString(kind) {
		return nil, fmt.Errorf("client of %s: %.80q is no kind: pass the kind of the resource, such as Deployment, and the namespace to Resource.In", resource.Resource, kind)
	}
	own := restguard.Config(config)
	own.APIPath = "/apis"
	if resource.Group == "" {
		own.APIPath = "/api"
	}
	version := resource.GroupVersion()
	own.GroupVersion = &version
	own.NegotiatedSerializer = refusals
	own.ContentType, own.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	if own.UserAgent == "" {
		own.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	api, err := rest.RESTClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", resource.Resource, err)
	}
	return &Resource[T]{rest: api, resource: resource.Resource, kind: metav1.TypeMeta{APIVersion: version.String(), Kind: kind}}, nil
}

// isKind is the form of a kind: the name of an exported Go type.
var isKind = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)

// In returns the client for a namespace.
func (r *Resource[T]) In(namespace string) *Resource[T] {
	in := *r
	in.namespace = namespace
	return &in
}

// Create implements [Creator].
func (r *Resource[T]) Create(ctx context.Context, object T, opts metav1.CreateOptions) (T, error) {
	return r.send(ctx, r.to(r.rest.Post()).SpecificallyVersionedParams(&opts, parameters, schema.GroupVersion{Version: "v1"}), object)
}

// Update replaces an object by another state with the same resource version. [Patch] sends only the
// changed fields.
func (r *Resource[T]) Update(ctx context.Context, object T, opts metav1.UpdateOptions) (T, error) {
	return r.send(ctx, r.to(r.rest.Put()).Name(object.GetName()).SpecificallyVersionedParams(&opts, parameters, schema.GroupVersion{Version: "v1"}), object)
}

// UpdateStatus is Update for only the status.
func (r *Resource[T]) UpdateStatus(ctx context.Context, object T, opts metav1.UpdateOptions) (T, error) {
	return r.send(ctx, r.to(r.rest.Put()).Name(object.GetName()).SubResource("status").SpecificallyVersionedParams(&opts, parameters, schema.GroupVersion{Version: "v1"}), object)
}

// Patch implements [Patcher].
func (r *Resource[T]) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (T, error) {
	request := r.to(r.rest.Patch(kind)).Name(name).SubResource(subresources...).SpecificallyVersionedParams(&opts, parameters, schema.GroupVersion{Version: "v1"})
	return r.result(ctx, request.Body(data))
}

// Apply implements [Applier].
func (r *Resource[T]) Apply(ctx context.Context, object T, opts metav1.ApplyOptions) (T, error) {
	data, err := r.encode(object)
	if err != nil {
		var none T
		return none, err
	}
	return r.Patch(ctx, object.GetName(), types.ApplyPatchType, data, opts.ToPatchOptions())
}

// Delete implements [Deleter].
func (r *Resource[T]) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	data, err := json.Marshal(&opts)
	if err != nil {
		return err
	}
	return r.to(r.rest.Delete()).Name(name).SetHeader("Content-Type", runtime.ContentTypeJSON).Body(data).Do(ctx).Error()
}

func (r *Resource[T]) to(request *rest.Request) *rest.Request {
	return request.NamespaceIfScoped(r.namespace, r.namespace != "").Resource(r.resource)
}

func (r *Resource[T]) send(ctx context.Context, request *rest.Request, object T) (T, error) {
	data, err := r.encode(object)
	if err != nil {
		var none T
		return none, err
	}
	return r.result(ctx, request.SetHeader("Content-Type", runtime.ContentTypeJSON).Body(data))
}

// encode returns the JSON of an object, with its kind.
func (r *Resource[T]) encode(object T) ([]byte, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, err
	}
	for name, value := range map[string]string{"apiVersion": r.kind.APIVersion, "kind": r.kind.Kind} {
		if members[name], err = json.Marshal(value); err != nil {
			return nil, err
		}
	}
	return json.Marshal(members)
}

// result returns the object of the server's answer.
func (r *Resource[T]) result(ctx context.Context, request *rest.Request) (object T, err error) {
	answer := request.Do(ctx)
	if err := answer.Error(); err != nil { // Raw does not decode error answers
		return object, err
	}
	data, err := answer.Raw()
	if err != nil {
		return object, err
	}
	decoded := reflect.New(reflect.TypeFor[T]().Elem()).Interface()
	if err := json.Unmarshal(data, decoded); err != nil {
		return object, fmt.Errorf("what was written to %s is answered with something else: %w", r.resource, err)
	}
	return decoded.(T), nil
}
