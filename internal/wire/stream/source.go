package stream

import (
	"context"
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"time"

	"github.com/kubereflector/kubereflector/internal/missing"
	"github.com/kubereflector/kubereflector/store"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/watchlist"
)

var (
	// ErrNoClient means that the program made a reflector with a nil client.
	ErrNoClient = errors.New("reflector has no client: pass one to New, such as clientset.CoreV1().Pods(namespace)")

	// ErrNoGet means that a client cannot get single objects.
	ErrNoGet = errors.New("client cannot get single objects")

	// ErrAwake means that the caller's timer ended the wait for items.
	ErrAwake = errors.New("wake delivered a value")
)

// Source is a client as a reflector sees it, without the type of its lists.
type Source[T Object] interface {
	// Check returns an error if the source cannot work.
	Check() error
	About() About
	// List and Watch may leave out objects that the reflector does not want. The reflector itself
	// leaves out the items of other shards.
	List(ctx context.Context, opts metav1.ListOptions, w Wants[T]) (Page, error)
	Watch(ctx context.Context, opts metav1.ListOptions, w Wants[T]) (Items[T], error)
}

// Items is an open watch. The reflector pulls its items. One goroutine at a time calls the methods.
type Items[T Object] interface {
	// Next waits for items that arrived together. They stay valid until the next call, which tells
	// the source that the reflector has handled them. Next returns io.EOF if the server closed the
	// watch, ErrAwake if wake delivers a value first, and the error of ctx.
	Next(ctx context.Context, wake <-chan time.Time) ([]Item[T], error)
	// Close ends the watch, and waits for its end. It fails after CloseTimeout.
	Close() error
}

// Wants tells a source which objects the reflector needs. The zero value is all of them.
type Wants[T Object] struct {
	// Holds, if it is not nil, lets the source skip objects of a list, or of the beginning of a watch-list,
	// that the store holds with the same content. The store does not change before the reflector has
	// received all of them.
	Holds  HoldsFunc
	Shards *Shards // skip objects outside these shards
	// Take receives the items of a list in order, while the list arrives; nil drops them. They are Put,
	// Unchanged and Outside. If the list fails, the items that Take received are void.
	Take func(*Item[T])
}

// HoldsFunc reports whether the store holds an object at a version, and with the content that has a
// hash, so that the decoder can skip it.
type HoldsFunc func(key store.Key, version store.Version, hash uint64) bool

// Page is the end of one answer to a list request, whose items have been taken.
type Page struct {
	Version  string
	Continue string // the token of the next page; empty on the last one
	Sharded  bool   // the server says that it sends only the shard
}

// MaxDetailed is how many undecodable objects of a list keep their own error.
const MaxDetailed = 100

// About describes a source.
type About struct {
	Resource  string // the name of the resource, if the client knows it
	Namespace string // the namespace of all objects; empty for all namespaces, or if it is not known
	// Claimed says that Namespace comes from a method of a client of another package. A type that embeds the
	// client may list other objects.
	Claimed bool
	// Selects says that the client selects objects by itself, such as by a tweak of the options, so that
	// the server has objects that the source never sees.
	Selects    bool
	Scope      Scope // as far as the client knows it now
	WatchLists bool  // the client can ask for watch-lists
	Double     bool  // the client is known to be a test double
}

// Selecting is a client, or the transport of one, that selects objects by itself if the method returns true.
type Selecting interface{ SelectsObjects() bool }

// HasOptions is a context key whose value is true in requests for lists and watches, so that a transport
// can tell them from others.
type HasOptions struct{}

// NamespaceOf returns the namespace of a client, which is empty for all namespaces, and whether it is known. A
// wrapper of a client hides it.
func NamespaceOf(client any) (namespace string, known bool) {
	if IsNil(client) {
		return "", false
	}
	switch of := client.(type) {
	case interface { // of this module
		KnownNamespace() (namespace string, known bool)
	}:
		return of.KnownNamespace()
	case interface { // of a generated clientset
		GetClient() rest.Interface
		GetNamespace() string
	}:
		return of.GetNamespace(), true
	case interface { // embeds a client.Resource
		Namespace() string
		GetJSON(ctx context.Context, name string, opts metav1.GetOptions) ([]byte, error)
	}:
		return of.Namespace(), true
	case interface { // of a fake one
		Namespace() string
		Kind() schema.GroupVersionKind
	}:
		return of.Namespace(), true
	}
	// The dynamic and the metadata client have no such method. Reading a field changes nothing, and a
	// client that has none of this name is one whose namespace is not known.
	v := reflect.Indirect(reflect.ValueOf(client))
	if v.Kind() != reflect.Struct || !slices.Contains(untypedClients, v.Type().PkgPath()) {
		return "", false
	}
	field := v.FieldByName("namespace")
	if field.Kind() != reflect.String {
		return "", false
	}
	return field.String(), true
}

// untypedClients are the packages of client-go's clients without generated types, and of their doubles.
var untypedClients = []string{
	"k8s.io/client-go/dynamic", "k8s.io/client-go/dynamic/fake", "k8s.io/client-go/metadata", "k8s.io/client-go/metadata/fake",
}

// Scope says whether the objects of a kind have namespaces.
type Scope int

const (
	UnknownScope Scope = iota
	Namespaced
	ClusterScoped
)

// Versioned is a Source that can ask its server for the version of Kubernetes.
type Versioned interface {
	// ListsConsistently reports whether the API server answers lists of the newest state in pages
	// from its watch cache, as Kubernetes 1.34 and later do. It returns false if the server does
	// not tell, and an error if the server does not answer.
	ListsConsistently(ctx context.Context) (bool, error)
}

// Lookups is a Source that can ask its server for single objects.
type Lookups interface {
	// Lookup asks for the object under a key, and returns its UID. It returns false without an error
	// only if the server says that there is no such object, and not if it does not know the resource.
	// The cluster of the key does not count.
	Lookup(ctx context.Context, key store.Key) (uid types.UID, exists bool, err error)
}

// CloseTimeout is how long a source waits for a watch to close its channel after Stop.
const CloseTimeout = 5 * time.Second

var errNotClosed = errors.New("client did not close the channel of its watch after Stop")

// Drain receives from a channel until it is closed, as watch.Interface requires after Stop.
// apimachinery's ProxyWatcher never closes its channel, so Drain gives up after CloseTimeout.
func Drain[E any](events <-chan E) error {
	timeout := time.NewTimer(CloseTimeout)
	defer timeout.Stop()
	for {
		select {
		case _, open := <-events:
			if !open {
				return nil
			}
		case <-timeout.C:
			return errNotClosed
		}
	}
}

// IsNil reports whether value is nil, or an interface that holds a nil pointer.
func IsNil(value any) bool {
	if value == nil {
		return true
	}
	v := reflect.ValueOf(value)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// CanStream reports whether a client can serve watch-lists. Test doubles over an object tracker
// cannot: they send no closing bookmark. client-go's fake clientsets declare this, but their typed
// clients do not.
func CanStream(client any) bool {
	if IsNil(client) {
		return false // Run reports the missing client
	}
	return !watchlist.DoesClientNotSupportWatchListSemantics(client) && !IsFake(client)
}

// IsFake recognizes the typed clients of client-go's fake clientsets by their package name, fake.
func IsFake(client any) bool {
	t := reflect.TypeOf(client)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return path.Base(t.PkgPath()) == "fake"
}

// ErrDouble means that a client is a test double whose watch-list sends no closing bookmark. It has the
// class of a server that does not know watch-lists.
var ErrDouble error = doubleError{fmt.Errorf("client is a test double that answers a watch-list like a watch: %w",
	apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "objects"}, "watch-list"))}

type doubleError struct{ error }

func (e doubleError) Unwrap() error { return e.error }

// TestDouble marks the error for the protocol.
func (e doubleError) TestDouble() {}

// IsObjectMissing reports whether an error says that the server knows the resource and has no such
// object.
func IsObjectMissing(err error) bool {
	return apierrors.IsNotFound(err) && !IsResourceMissing(err) && !missing.Denial(err)
}

// IsResourceMissing reports whether an error says that the server does not know a resource. If only
// the object is missing, the status is the API server's own and names the object.
func IsResourceMissing(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) || missing.Denial(err) {
		return false
	}
	return status.Status().Details == nil || missing.Path(err)
}
