package reflector

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// ErrNotGenerated means that [ForClient] was given a client that does not show its REST
// client. Those of client-go's generator do since Kubernetes 1.31; those of fake clientsets
// have none, and wrappers hide it.
var ErrNotGenerated = errors.New("client does not show its REST client: use ForREST or ForResource")

// errSeveralResources means that a kind does not say which resource it is.
var errSeveralResources = errors.New("kind is that of several resources: use ForREST")

// ForClient is [ForREST] for a client of a generated clientset, in whose namespace it stays:
//
//	client, err := reflector.ForClient(clientset.CoreV1().Pods("default"))
//
// Which resource it is about, a client does not tell. The server is asked when the first
// request is made: one list of the resources of the client's group and version. The kind is
// that of [WithKind] or [WithScheme] if they are given, and else the name of T's type, as it
// is where types and clients are generated. That the kind is not served is as with [ForKind].
//
// It is not done for every generated client that a reflector is given: to hold whatever embeds one
// for the client itself would bypass the methods that it overrides, and objects that share values
// and say their kind should be asked for.
func ForClient[T Object, L any](client Client[T, L], opts ...ResourceOption) (*Resource[T], error) {
	own, ok := any(client).(interface {
		GetClient() rest.Interface
		GetNamespace() string
	})
	if !ok || isNil(client) || isNil(own.GetClient()) {
		return nil, fmt.Errorf("%T: %w", client, ErrNotGenerated)
	}
	r, err := ForREST[T](own.GetClient(), "", own.GetNamespace(), opts...)
	if err != nil {
		return nil, err
	}
	version := own.GetClient().APIVersion()
	kind := version.WithKind(reflect.TypeFor[T]().Elem().Name())
	if !r.options.kind.Empty() || r.options.scheme != nil {
		if kind, err = kindOf[T](&r.options); err != nil {
			return nil, err
		}
		kind = version.WithKind(kind.Kind)
	}
	r.name = kind.GroupKind().String() + "/" + kind.Version
	r.expected.given = kind.Kind
	r.finder = newFinder(kind, r.namespace != "", listed{r.rest})
	return r, nil
}

// listed is the directory that a server's list of the resources of a group and version is.
type listed struct{ rest rest.Interface }

func (l listed) find(ctx context.Context, kind schema.GroupVersionKind) (string, bool, error) {
	list, err := discovery.NewDiscoveryClient(l.rest).ServerResourcesForGroupVersionWithContext(ctx, kind.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return "", false, fmt.Errorf("%w: %w", ErrNotServed, err)
	}
	if err != nil {
		return "", false, err
	}
	var found []metav1.APIResource
	for _, r := range list.APIResources {
		if r.Kind == kind.Kind && !strings.Contains(r.Name, "/") && slices.Contains(r.Verbs, "list") {
			found = append(found, r)
		}
	}
	switch len(found) {
	case 0:
		return "", false, fmt.Errorf("%w: no resource has the kind %s", ErrNotServed, kind)
	case 1:
		return found[0].Name, found[0].Namespaced, nil
	}
	return "", false, errSeveralResources
}

func (l listed) renew(context.Context) bool { return false } // it asks the server each time
