package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/kubereflector/kubereflector/internal/cut"
	"github.com/kubereflector/kubereflector/internal/discreet"
	"github.com/kubereflector/kubereflector/internal/ownwrites"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

var (
	// ErrOtherObject means that an object does not belong to the client: its namespace or kind is
	// another one, or it is of another Go type and states no kind. The client sends no request.
	ErrOtherObject = errors.New("object is not of the client")

	// ErrNoNamespace means that a request for one object of a kind with namespaces has no namespace.
	// A client without discovery, such as one of [ForResource], learns that from the server. It
	// cannot tell that case from a resource that the server does not serve.
	ErrNoNamespace = errors.New("kind has namespaces: set the object's namespace, or use Resource.In")
)

var (
	// errMetadataOnly protects the fields that the object lacks. Create would make an object without
	// them, and Update would delete them. Apply deletes only fields of the same manager.
	errMetadataOnly = errors.New("type has only metadata, so the object would have no other fields: use Patch or Apply")
	errNoFields     = errors.New("object has no fields, so its JSON is null")
	errNoPatch      = errors.New("patch has no data")
	errScale        = errors.New("subresource scale answers a Scale instead of the object: use package scale of client-go")
)

// Create creates an object, and returns the server's object. The request goes to the namespace of
// the client, or to the object's own if the client has none. The object need not state its kind, unless it
// has another Go type than those that the client reads.
func (r *Resource[T]) Create(ctx context.Context, object T, opts metav1.CreateOptions) (T, error) {
	return r.write(ctx, change[T]{what: "create", verb: "POST", object: object, opts: &opts, dryRun: len(opts.DryRun) > 0})
}

// Update replaces an object, and returns the server's object. The server returns a conflict if the
// stored object has another resource version. Many kinds accept an object without a resource version
// and replace any state. The server deletes each field that the object lacks, also fields that T
// does not have. Patch changes single fields.
func (r *Resource[T]) Update(ctx context.Context, object T, opts metav1.UpdateOptions) (T, error) {
	return r.write(ctx, change[T]{what: "update", verb: "PUT", object: object, opts: &opts, dryRun: len(opts.DryRun) > 0})
}

// UpdateStatus is Update for only the status of a resource with a status subresource.
func (r *Resource[T]) UpdateStatus(ctx context.Context, object T, opts metav1.UpdateOptions) (T, error) {
	return r.write(ctx, change[T]{what: "update the status of", verb: "PUT", object: object, opts: &opts, dryRun: len(opts.DryRun) > 0, subresources: []string{"status"}})
}

// Apply applies an object by server-side apply in the name of a field manager, and returns the
// server's object. The server creates the object if it does not exist. The options need the
// FieldManager. A field of another manager is a conflict, unless Force takes it over, which
// Kubernetes advises for controllers.
//
// The manager owns each field that the object's JSON contains. So make the object from the wanted
// fields alone, and never from a cached object. Apply states a whole intent: an atomic list, and each
// list for which the schema names no key, is replaced as a whole, with the members of its items that T
// does not show. write.Patch keeps these. [Resource.Reapply] sends nothing if nothing has changed since
// the last time. Apply refuses the subresource "scale", which answers another type.
func (r *Resource[T]) Apply(ctx context.Context, object T, opts metav1.ApplyOptions, subresources ...string) (T, error) {
	patch := opts.ToPatchOptions()
	return r.write(ctx, change[T]{what: "apply", verb: "PATCH", object: object, opts: &patch, dryRun: len(opts.DryRun) > 0, media: string(types.ApplyPatchType), subresources: subresources})
}

// Patch patches the object with a name, and returns the server's object. It refuses the subresource
// "scale", which answers another type.
func (r *Resource[T]) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (none T, err error) {
	if len(data) == 0 {
		return none, r.failed("patch", "", name, errNoPatch)
	}
	return r.write(ctx, change[T]{what: "patch", verb: "PATCH", name: name, data: data, opts: &opts, dryRun: len(opts.DryRun) > 0, media: string(kind), subresources: subresources})
}

// Delete deletes the object with a name. It returns as soon as the server has accepted the
// deletion: finalizers may keep the object. Delete does not know the object's last state, so it does
// not report the deletion to a reconciler. Call write.Delete in a reconcile function, or report it
// with reconcile.RecordDelete.
func (r *Resource[T]) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	resource, namespace, err := r.place(ctx, "")
	if err != nil {
		return r.failed("delete", "", name, err)
	}
	data, err := json.Marshal(&opts)
	if err != nil {
		return r.failed("delete", "", name, err)
	}
	request := r.one("DELETE", resource, namespace).Name(name).SetHeader("Accept", mediaJSON).SetHeader("Content-Type", mediaJSON).Body(data)
	a, err := r.ask(ctx, "DELETE", request)
	if err != nil {
		return r.failed("delete", namespace, name, r.failedOne(resource, namespace, outcome("DELETE", err)))
	}
	defer a.Close()
	_, _ = io.CopyN(io.Discard, a.Body, mostDiscarded) // so that the connection can be used again
	return nil
}

// mostDiscarded is the most that is read of a response without a use for it, in bytes.
const mostDiscarded = 64 << 10

// change is one write of one object.
type change[T any] struct {
	what, verb string
	name       string // only if there is no object
	object     T
	data       []byte // nil means that the object is sent
	opts       runtime.Object
	media      string // empty is JSON
	dryRun     bool

	subresources []string
}

// write sends a change, and returns the object of the response.
func (r *Resource[T]) write(ctx context.Context, c change[T]) (object T, err error) {
	if err := r.check(); err != nil {
		return object, r.failed(c.what, "", c.name, err)
	}
	namespace := ""
	if c.data == nil {
		if stream.IsNil(c.object) {
			return object, r.failed(c.what, "", "", errors.New("object is nil"))
		}
		namespace, c.name = c.object.GetNamespace(), c.object.GetName()
		if c.verb != "PATCH" && r.isMetadata(c.object) {
			return object, r.failed(c.what, namespace, c.name, errMetadataOnly)
		}
		if c.data, err = r.encode(c.object); err != nil {
			return object, r.failed(c.what, namespace, c.name, err)
		}
	}
	if slices.Contains(c.subresources, "scale") {
		return object, r.failed(c.what, namespace, c.name, errScale)
	}
	resource, namespace, err := r.place(ctx, namespace)
	if err != nil {
		return object, r.failed(c.what, namespace, c.name, err)
	}
	request := r.one(c.verb, resource, namespace)
	if c.verb != "POST" {
		request.Name(c.name)
	}
	if c.media == "" {
		c.media = mediaJSON
	}
	request.SubResource(c.subresources...).SpecificallyVersionedParams(c.opts, parameters, metaVersion).
		SetHeader("Content-Type", c.media).Body(c.data)
	object, code, err := r.object(ctx, c.verb, resource, request, namespace, c.name)
	if err != nil {
		return object, r.failed(c.what, namespace, c.name, err)
	}
	if !c.dryRun && ownwrites.Wanted(ctx) {
		write := ownwrites.Write{Object: object, Created: c.verb == "POST" || code == http.StatusCreated}
		if !write.Created {
			write.Replaced = precondition(types.PatchType(c.media), c.data)
		}
		ownwrites.Report(ctx, write)
	}
	return object, nil
}

// one returns a request for one object. client-go repeats a request after a 429 or a 5xx with
// Retry-After, up to ten times. The outcome of a write is unknown after a 5xx, so a write is sent
// once.
func (r *Resource[T]) one(verb, resource, namespace string) *rest.Request {
	request := r.rest.Verb(verb).NamespaceIfScoped(namespace, namespace != "").Resource(resource).
		SetHeader("Accept", r.accept("PartialObjectMetadata", mediaJSON))
	if verb != "GET" {
		request.MaxRetries(0)
	}
	return request
}

// object sends a request for one object, and checks its key. An empty name fits every name. code is
// the HTTP status, or 0 if it is not known.
func (r *Resource[T]) object(ctx context.Context, verb, resource string, request *rest.Request, namespace, name string) (object T, code int, err error) {
	var none T
	a, err := r.ask(ctx, verb, request)
	if err != nil {
		return none, 0, r.failedOne(resource, namespace, outcome(verb, err))
	}
	defer a.Close()
	object, key, err := r.oneReader().Object(a)
	switch {
	case err != nil:
	case name != "" && key.Name != name:
		err = a.Fail(nil, &MismatchError{What: "name", Want: cut.Text(name, cut.MaxName), Got: cut.Text(key.Name, cut.MaxName)})
	case namespace != "" && key.Namespace != namespace:
		err = a.Fail(nil, &MismatchError{What: "namespace", Want: cut.Text(namespace, cut.MaxName), Got: cut.Text(key.Namespace, cut.MaxName)})
	default:
		return object, a.Code, nil
	}
	if verb != "GET" {
		err = fmt.Errorf("the server accepted the request, but its answer is of no use: %w", err)
	}
	return none, a.Code, err
}

// outcome adds to the error of a request without a usable answer that its outcome is not known.
func outcome(verb string, err error) error {
	if verb == "GET" || !errors.Is(err, ErrContentType) {
		return err
	}
	return fmt.Errorf("the server may have accepted the request, but something else answered: %w", err)
}

// place returns the resource and the namespace of a request for one object in a namespace. An empty
// namespace means that the object has none of its own.
func (r *Resource[T]) place(ctx context.Context, own string) (resource, namespace string, err error) {
	if err := r.check(); err != nil {
		return "", own, err
	}
	namespace = own
	switch {
	case own == "":
		namespace = r.namespace
	case r.namespace != "" && r.namespace != own:
		return "", own, fmt.Errorf("the client is of the namespace %q: %w", r.namespace, ErrOtherObject)
	}
	resource, err = r.plural(ctx, namespace, true)
	return resource, namespace, err
}

// isMetadata reports whether an object is only metadata: a PartialObjectMetadata, or a type around one such as
// informer.Metadata, where T is an interface. A T that embeds one may have other fields.
func (r *Resource[T]) isMetadata(object T) bool {
	_, is := any(object).(interface {
		DeepCopy() *metav1.PartialObjectMetadata
	})
	return is && (r.expected.partial || reflect.TypeOf(object) != r.codec.Type())
}

// encode returns the JSON of an object, with its kind. An object of another Go type than the client's may be of
// another kind, so it has to state its own.
func (r *Resource[T]) encode(object T) ([]byte, error) {
	kind := kindOfObject(object)
	if kind.GroupVersion().Empty() {
		kind.Group, kind.Version = r.expected.version.Group, r.expected.version.Version
	}
	if kind.Kind == "" {
		if t := reflect.TypeOf(object); t != r.codec.Type() { // T is an interface
			return nil, fmt.Errorf("it is a %s that states no kind, and the client reads %s: %w", t, r.codec.Type(), ErrOtherObject)
		}
		kind.Kind = r.kind.Kind
	}
	if kind.Kind == "" || kind.Version == "" {
		return nil, ErrNoKind
	}
	switch {
	case !r.kind.Empty() && kind != r.kind:
		return nil, fmt.Errorf("its kind is %s, and that of the client %s: %w", kind, r.kind, ErrOtherObject)
	case kind.GroupVersion() != r.expected.version:
		return nil, fmt.Errorf("its kind is %s, and the client is of %s: %w", kind, r.expected.version, ErrOtherObject)
	}
	data, err := json.Marshal(object)
	if err != nil {
		// Managed fields that were read by protobuf need not be JSON. The server keeps its own where a request
		// has none.
		if bare := withoutManagedFields(object); bare != nil {
			data, err = json.Marshal(bare)
		}
	}
	if err != nil {
		return nil, discreet.Error(err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, discreet.Error(err)
	}
	if members == nil {
		return nil, errNoFields
	}
	apiVersion, name := kind.ToAPIVersionAndKind()
	for member, value := range map[string]string{"apiVersion": apiVersion, "kind": name} {
		if members[member], err = json.Marshal(value); err != nil {
			return nil, err
		}
	}
	return json.Marshal(members)
}

// withoutManagedFields returns a shallow copy of a struct with metadata that has no managed fields, or nil.
func withoutManagedFields(object any) metav1.ObjectMetaAccessor {
	v := reflect.ValueOf(object)
	if _, free := object.(runtime.Unstructured); free || v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return nil
	}
	copied := reflect.New(v.Type().Elem())
	copied.Elem().Set(v.Elem())
	bare, ok := copied.Interface().(metav1.ObjectMetaAccessor)
	if from, _ := object.(metav1.ObjectMetaAccessor); !ok || from.GetObjectMeta() == bare.GetObjectMeta() {
		return nil // the metadata is behind a pointer, which the copy shares
	}
	bare.GetObjectMeta().SetManagedFields(nil)
	return bare
}

// kindOfObject returns the kind that an object states, if it can.
func kindOfObject(object any) (kind schema.GroupVersionKind) {
	if o, ok := object.(interface{ GetObjectKind() schema.ObjectKind }); ok {
		if of := o.GetObjectKind(); !stream.IsNil(of) {
			kind = of.GroupVersionKind()
		}
	}
	return kind
}

// failed wraps the error of a request with the resource and the key.
func (r *Resource[T]) failed(what, namespace, name string, err error) error {
	key := name
	if r != nil && namespace == "" {
		namespace = r.namespace
	}
	if namespace != "" {
		key = namespace + "/" + name
	}
	if r != nil {
		what += " " + r.name
	}
	return cut.Error(what+" "+cut.Text(key, cut.MaxName), err)
}

// precondition returns the resource version without which the server refuses a write. It returns ""
// unless that is certain, because with a wrong version a reconciler would take another writer's state
// for its own.
func precondition(kind types.PatchType, data []byte) string {
	if kind == types.JSONPatchType {
		return testedVersion(data)
	}
	// Names are compared as the server does. A struct would also match "resourceversion".
	var members, metadata map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil || json.Unmarshal(members["metadata"], &metadata) != nil {
		return "" // such as the YAML of an apply
	}
	if hasDirective(members) || hasDirective(metadata) {
		return ""
	}
	var version string
	if json.Unmarshal(metadata["resourceVersion"], &version) != nil {
		return ""
	}
	return version
}

// hasDirective reports whether a strategic merge patch may delete or replace what it names.
func hasDirective(members map[string]json.RawMessage) bool {
	for name := range members {
		if strings.HasPrefix(name, "$") {
			return true
		}
	}
	return false
}

const versionPath = "/metadata/resourceVersion"

// testedVersion returns the precondition of a JSON patch. The operation replace sets the version that
// the server compares at the end. The server repeats the operation test whenever it applies the patch
// again, to an object that changed meanwhile.
func testedVersion(data []byte) string {
	var operations []map[string]json.RawMessage
	if json.Unmarshal(data, &operations) != nil {
		return ""
	}
	tested := ""
	for _, o := range operations {
		what, path, from := text(o["op"]), text(o["path"]), text(o["from"])
		switch {
		case path != "" && path[0] != '/':
			return "" // servers ignore all before the first slash
		case what == "test" && path != versionPath:
			continue
		case !changesVersion(path) && (what != "move" || !changesVersion(from)):
			continue
		case path != versionPath || what != "test" && what != "replace" && what != "add":
			return ""
		}
		version := text(o["value"])
		if version == "" || tested != "" && tested != version {
			return ""
		}
		tested = version
	}
	return tested
}

// changesVersion reports whether an operation at a path changes the resource version.
func changesVersion(path string) bool {
	return path == "" || strings.HasPrefix(versionPath+"/", path+"/")
}

// text returns a JSON string; empty for any other value.
func text(data json.RawMessage) (s string) {
	_ = json.Unmarshal(data, &s)
	return s
}

// Reapply is [Resource.Apply], except that it sends no request if server-side apply would change
// nothing. held is the object of a cache, or nil if the cache has none. Reapply returns held if the last
// Reapply of this client to the same object, with the same field manager and subresource, was equal (the
// same bytes and options), and held is the state that the server answered.
//
// Reapply sends the request if anyone has written the object since, so that it also undoes what others
// changed in the fields of the intent; if a definition or a conversion has changed what its version
// shows; if the object was deleted and created again; if the last request failed or its answer was lost; and in the first call of a
// process. Where an informer's transform changes what held shows of an answer, it sends one request more,
// and then remembers what held shows instead. It does not notice that the server now stores a field that it
// dropped before, if nothing else shows that: an Apply is needed then. All views of a client share what
// they remember: hashes of the last answers for 8,192 to 16,384 objects, in at most 2 MiB. So take held from one
// cache in all calls for an object: if two caches show it differently, each change between them costs a request.
//
// Do not change the object that Reapply returns: it may be held, which the cache and all its readers
// share.
func (r *Resource[T]) Reapply(ctx context.Context, held, object T, opts metav1.ApplyOptions, subresources ...string) (T, error) {
	if r == nil || stream.IsNil(object) || len(opts.DryRun) > 0 {
		return r.Apply(ctx, object, opts, subresources...)
	}
	data, err := r.encode(object)
	if err != nil {
		return *new(T), r.failed("apply", object.GetNamespace(), object.GetName(), err)
	}
	target := digest(cmp.Or(object.GetNamespace(), r.namespace), object.GetName(), opts.FieldManager, subresources)
	intent := digest(data, opts)
	isHeld := !stream.IsNil(held) && held.GetUID() != "" && held.GetResourceVersion() != ""
	var last, shown applied
	isLast := false // whether held has the version of the last answer
	if isHeld {
		shown.version = versionOf(intent, held)
		last, isLast = r.answers.get(target)
		isLast = isLast && last.version == shown.version
		if isLast {
			shown.content, shown.contradicted = contentOf(held), last.contradicted
		}
		if isLast && (last.content == shown.content || last.content == sum{}) {
			if last.contradicted == maxContradicted {
				shown.content = sum{}
			}
			r.answers.confirm(target, last, shown)
			return held, nil
		}
	}
	// If no answer comes, the object may be in a state that neither held nor what is remembered shows.
	r.answers.remove(target)
	written, err := r.Apply(ctx, object, opts, subresources...)
	if err != nil {
		return written, err
	}
	next := applied{version: versionOf(intent, written)}
	switch {
	case isHeld && next.version == shown.version:
		next.content = contentOf(held) // which a transform may have changed
	case isLast:
		// Only the content differed. If a transform made the difference, and a webhook makes a version of each
		// apply, it would differ from each answer. So the content is what held shows next. If that is contradicted
		// again and again, two caches show the object differently, and the versions alone decide.
		next.contradicted = last.contradicted + 1
	default:
		next.content = contentOf(written)
	}
	r.answers.add(target, next)
	return written, nil
}

// answers has the last answer for each object, field manager and subresource. The maps have no pointers, so
// the garbage collector does not look into them.
type answers struct {
	mu sync.Mutex // protects the fields below
	// recent gets new answers, up to maxAnswers. It then replaces old.
	recent, old map[sum]applied
}

// applied identifies the last intent that was applied and the one state of one object that it made. A version
// alone is no state: see store-S9.
type applied struct {
	version sum // of the intent, the UID and the resource version
	content sum // zero if the content is not known
	// contradicted counts the applies, since one for another reason, that were sent only because held had
	// another content, and that made a new version. At maxContradicted, content stays zero.
	contradicted uint8
}

// maxContradicted is 1 for a transform, and some more for conversions that change.
const maxContradicted = 3

type sum [16]byte

const maxAnswers = 8 << 10

func (a *answers) get(target sum) (last applied, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last, ok = a.recent[target]; !ok {
		last, ok = a.old[target]
	}
	return last, ok
}

func (a *answers) remove(target sum) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.recent, target)
	delete(a.old, target)
}

func (a *answers) add(target sum, last applied) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.addLocked(target, last)
}

// confirm is add if nobody has added or removed an answer since last was read.
func (a *answers) confirm(target sum, last, shown applied) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if is, ok := a.recent[target]; ok && is == last || !ok && a.old[target] == last {
		a.addLocked(target, shown)
	}
}

func (a *answers) addLocked(target sum, last applied) {
	if a.recent == nil || len(a.recent) >= maxAnswers {
		a.old, a.recent = a.recent, map[sum]applied{}
	}
	a.recent[target] = last
}

func versionOf(intent sum, object metav1.Object) sum {
	return digest(intent[:], string(object.GetUID()), object.GetResourceVersion())
}

// contentOf identifies what an object shows besides managed fields and its kind, which caches and lists drop.
func contentOf(object metav1.Object) sum {
	if bare := withoutManagedFields(object); bare != nil && dropKind(bare, object) {
		data, _ := json.Marshal(bare) // without content, the version has to do
		return sumOf(data)
	}
	data, _ := json.Marshal(object)
	var members, metadata map[string]json.RawMessage
	_ = json.Unmarshal(data, &members)
	_ = json.Unmarshal(members["metadata"], &metadata)
	for _, name := range [...]string{"metadata", "apiVersion", "kind"} {
		delete(members, name)
	}
	delete(metadata, "managedFields")
	return digest(metadata, members)
}

// dropKind drops the kind of a shallow copy. It returns false if the original shares its kind, or it has none.
func dropKind(copied, original any) bool {
	type kinded interface{ GetObjectKind() schema.ObjectKind }
	c, ok := copied.(kinded)
	o, _ := original.(kinded)
	if !ok || stream.IsNil(c.GetObjectKind()) || c.GetObjectKind() == o.GetObjectKind() {
		return false
	}
	c.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return true
}

// digest is the hash of values that are distinct in JSON.
func digest(values ...any) sum {
	data, err := json.Marshal(values)
	if err != nil {
		panic(err) // no value has errors: strings, bytes, options, and JSON itself
	}
	return sumOf(data)
}

func sumOf(data []byte) sum {
	whole := sha256.Sum256(data)
	return sum(whole[:])
}
