package factory

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/kubereflector/kubereflector/informer/clientgo"
	"github.com/kubereflector/kubereflector/internal/restguard"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/client"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// wire makes informers that decode the responses of the server, with the HTTP client of a clientset.
type wire struct {
	config    *rest.Config
	options   []client.ResourceOption
	namespace string
}

// newWire returns nil for a clientset whose methods have to send the requests.
func newWire(clientset kubernetes.Interface, o options) *wire {
	own, ok := clientset.(*kubernetes.Clientset)
	if !ok || own == nil {
		return nil
	}
	core, ok := own.CoreV1().RESTClient().(*rest.RESTClient)
	if !ok || core == nil || core.Client == nil {
		return nil
	}
	host := *core.Get().URL()
	host.Path, host.RawQuery = strings.TrimSuffix(strings.TrimSuffix(host.Path, "/"), "/api/v1"), ""
	w := &wire{config: &rest.Config{Host: host.String(), RateLimiter: core.GetRateLimiter()}, namespace: o.namespace}
	headers, ok := w.takeFrom(reflect.ValueOf(core).Elem(), reflect.ValueOf(core.Get().UseProtobufAsDefault()).Elem())
	if !ok {
		klog.Background().Info("the clientset decodes: this library does not know its fields in this version of client-go")
		return nil
	}
	requests := core.Client
	if o.tweak != nil {
		requests = restguard.Client(core.Client, func(to http.RoundTripper) http.RoundTripper { return tweaking{to, o.tweak} })
	}
	w.options = []client.ResourceOption{client.WithHTTPClient(requests)}
	// The generated methods ask for protobuf unless the config of the clientset says otherwise.
	if accept := headers.Get("Accept"); accept != "" && !strings.Contains(accept, runtime.ContentTypeProtobuf) {
		w.options = append(w.options, client.WithoutProtobuf())
	}
	return w
}

// takeFrom copies what only unexported fields of the REST client and of its requests have. Without them, the
// informers could neither call the clientset's handler of warnings nor ask for its content types.
func (w *wire) takeFrom(client, request reflect.Value) (headers http.Header, ok bool) {
	ok = read(client, "warningHandler", &w.config.WarningHandlerWithContext) && read(request, "headers", &headers)
	return headers, ok
}

// informer returns an informer in place of a generated one, or nil if that is not possible.
func (w *wire) informer(theirs cache.SharedIndexInformer) cache.SharedIndexInformer {
	if w == nil {
		return nil
	}
	parts, ok := partsOf(theirs)
	if !ok {
		return nil
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(parts.example)
	if err != nil || len(kinds) != 1 {
		return nil
	}
	plural, _ := meta.UnsafeGuessKindToResource(kinds[0]) // right for all built-in kinds
	if w.namespace != "" && !slices.Contains(namespaced, plural.GroupResource().String()) {
		return nil // the generated methods know whether the kind has namespaces
	}
	resource, err := client.ForType[clientgo.Object](w.config, plural, parts.example, w.options...)
	if err != nil {
		return nil
	}
	o := parts.options(theirs)
	if o.ObjectDescription == "" {
		o.ObjectDescription = fmt.Sprintf("%T", parts.example) // as without the wire
	}
	return clientgo.FromClient(resource.In(w.namespace), o)
}

// namespaced are the kinds that are certain to have namespaces: neither the scheme nor a generated
// informer says so. A kind that is missing here costs what it costs in client-go.
var namespaced = []string{
	"configmaps", "endpoints", "events", "limitranges", "persistentvolumeclaims", "pods", "podtemplates",
	"replicationcontrollers", "resourcequotas", "secrets", "serviceaccounts", "services",
	"controllerrevisions.apps", "daemonsets.apps", "deployments.apps", "replicasets.apps", "statefulsets.apps",
	"horizontalpodautoscalers.autoscaling",
	"cronjobs.batch", "jobs.batch",
	"podcertificaterequests.certificates.k8s.io",
	"leasecandidates.coordination.k8s.io", "leases.coordination.k8s.io",
	"endpointslices.discovery.k8s.io",
	"events.events.k8s.io",
	"ingresses.networking.k8s.io", "networkpolicies.networking.k8s.io",
	"poddisruptionbudgets.policy",
	"rolebindings.rbac.authorization.k8s.io", "roles.rbac.authorization.k8s.io",
	"resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io",
	"podgroups.scheduling.k8s.io", "workloads.scheduling.k8s.io",
	"csistoragecapacities.storage.k8s.io",
}

// optionsVersion is a version in which the scheme of client-go has ListOptions.
var optionsVersion = schema.GroupVersion{Version: "v1"}

// tweaking is a transport that applies a tweak to the options of each list and watch. It leaves other requests
// as they are, such as for one object.
type tweaking struct {
	http.RoundTripper
	tweak func(*metav1.ListOptions)
}

// WrappedRoundTripper is for client-go, which looks for the transport inside.
func (t tweaking) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

// SelectsObjects implements [stream.Selecting].
func (t tweaking) SelectsObjects() bool { return true }

func (t tweaking) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Context().Value(stream.HasOptions{}) == nil {
		return t.RoundTripper.RoundTrip(r)
	}
	query := r.URL.Query()
	var o metav1.ListOptions
	if err := scheme.ParameterCodec.DecodeParameters(query, optionsVersion, &o); err != nil {
		return nil, err
	}
	before, err := scheme.ParameterCodec.EncodeParameters(&o, optionsVersion)
	if err != nil {
		return nil, err
	}
	watch := o.Watch
	o.Watch = false // as in client-go, whose generated methods set it after the tweak
	t.tweak(&o)
	o.Watch = watch
	after, err := scheme.ParameterCodec.EncodeParameters(&o, optionsVersion)
	if err != nil {
		return nil, err
	}
	for name := range before {
		query.Del(name)
	}
	for name, values := range after {
		query[name] = values
	}
	r = r.Clone(r.Context())
	r.URL.RawQuery = query.Encode()
	return t.RoundTripper.RoundTrip(r)
}

// parts are what client-go made an informer of. A generated informer has no method that returns its
// ListerWatcher, and a list of all kinds here would be that of one version of client-go.
type parts struct {
	from        cache.ListerWatcher
	example     runtime.Object
	description string
	identifier  cache.InformerNameAndResource
	metrics     cache.InformerMetricsProvider
	resync      time.Duration
}

// The arguments are as if the informer were to run, because a later version may read them here.
var plain = reflect.TypeOf(cache.NewSharedIndexInformer(&cache.ListWatch{}, &metav1.PartialObjectMetadata{}, 0, nil))

// partsOf returns the parts of an informer of client-go, and false for any other informer, or if
// client-go's informer has no longer the fields that it has in 0.36 to 0.38.
func partsOf(informer cache.SharedIndexInformer) (p parts, ok bool) {
	of := reflect.ValueOf(informer)
	for of.Kind() == reflect.Pointer && !of.IsNil() && of.Type() != plain && of.Type().Elem().PkgPath() == plain.Elem().PkgPath() {
		// Generated informers of client-go 0.37 are in structs that add typed methods.
		if !read(of.Elem(), "SharedIndexInformer", &informer) {
			return p, false
		}
		of = reflect.ValueOf(informer)
	}
	if !of.IsValid() || of.Type() != plain || of.IsNil() {
		return p, false
	}
	ok = read(of.Elem(), "listerWatcher", &p.from) && read(of.Elem(), "objectType", &p.example) &&
		read(of.Elem(), "objectDescription", &p.description) && read(of.Elem(), "identifier", &p.identifier) &&
		read(of.Elem(), "informerMetricsProvider", &p.metrics) && read(of.Elem(), "defaultEventHandlerResyncPeriod", &p.resync)
	return p, ok && p.from != nil && p.example != nil
}

// read copies an unexported field.
func read[F any](of reflect.Value, name string, into *F) bool {
	field := of.FieldByName(name)
	if !field.IsValid() || field.Type() != reflect.TypeFor[F]() {
		return false
	}
	*into = *(*F)(unsafe.Pointer(field.UnsafeAddr()))
	return true
}

// options returns the options of an informer in place of the one with the parts.
func (p parts) options(informer cache.SharedIndexInformer) cache.SharedIndexInformerOptions {
	return cache.SharedIndexInformerOptions{
		ResyncPeriod: p.resync, Indexers: informer.GetIndexer().GetIndexers(), ObjectDescription: p.description,
		Identifier: p.identifier, InformerMetricsProvider: p.metrics,
	}
}
