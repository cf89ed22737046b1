package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// ErrNotGenerated means that [FromTypedClient] received a client that does not expose its REST
// client. Clients from client-go's generator expose it since Kubernetes 1.31. Clients of fake
// clientsets have none, and wrappers hide it.
var ErrNotGenerated = errors.New("client does not show its REST client: use FromRESTClient or ForResource")

// errSeveralResources means that several resources have the same kind.
var errSeveralResources = errors.New("kind is that of several resources: use FromRESTClient or ForResource")

// FromTypedClient is [FromRESTClient] for a typed client of a generated clientset. It keeps the
// client's namespace:
//
//	pods, err := client.FromTypedClient(clientset.CoreV1().Pods("default"))
//
// A typed client does not reveal its resource. So the first request asks the server for the list of
// resources in the client's group and version. [WithKind] or [WithScheme] determine the kind.
// Without them, the kind is the name of T's type, which code generators set to the kind. If the
// server does not serve the kind, the reflector behaves as with [For].
//
// A reflector does not use FromTypedClient by itself for every generated client. A type that embeds
// such a client would look like the client, and the reflector would bypass its overridden methods.
// The program should also choose it, because these objects share values and state their kind.
func FromTypedClient[T source.Object, L any](client source.Client[T, L], opts ...ResourceOption) (*Resource[T], error) {
	own, ok := any(client).(interface {
		GetClient() rest.Interface
		GetNamespace() string
	})
	if !ok || source.IsNil(client) || source.IsNil(own.GetClient()) {
		return nil, fmt.Errorf("%T: %w", client, ErrNotGenerated)
	}
	r, err := FromRESTClient[T](own.GetClient(), "", own.GetNamespace(), opts...)
	if err != nil {
		return nil, err
	}
	version := own.GetClient().APIVersion()
	kind := version.WithKind(reflect.TypeFor[T]().Elem().Name())
	if !r.options.kind.Empty() || r.options.scheme != nil {
		if kind, err = kindOf(reflect.TypeFor[T](), &r.options); err != nil {
			return nil, err
		}
		kind = version.WithKind(kind.Kind)
	}
	r.name = kind.GroupKind().String() + "/" + kind.Version
	r.kind, r.expected.given = kind, kind.Kind
	r.finder = newFinder(kind, &listed{rest: r.rest})
	return r, nil
}

// listed is a directory that uses the server's list of resources in a group and version. It keeps
// the answer, also that there is no such group and version.
type listed struct {
	rest      rest.Interface
	answered  bool
	resources []metav1.APIResource
}

func (l *listed) find(ctx context.Context, kind schema.GroupVersionKind) (string, bool, error) {
	if err := l.ask(ctx, kind.GroupVersion()); err != nil {
		return "", false, err
	}
	found := slices.DeleteFunc(slices.Clone(l.resources), func(r metav1.APIResource) bool {
		return r.Kind != kind.Kind || strings.Contains(r.Name, "/")
	})
	if len(found) > 1 {
		found = slices.DeleteFunc(found, func(r metav1.APIResource) bool { return !slices.Contains(r.Verbs, "list") })
	}
	switch len(found) {
	case 0:
		return "", false, fmt.Errorf("%w: no resource of %s has the kind %s", protocol.ErrNotServed, kind.GroupVersion(), kind.Kind)
	case 1:
		return found[0].Name, found[0].Namespaced, nil
	}
	return "", false, errSeveralResources
}

// ask requests the list unless it is known. client-go's discovery client takes no context in 0.36.
func (l *listed) ask(ctx context.Context, version schema.GroupVersion) error {
	if l.answered {
		return nil
	}
	path := "/apis/" + version.String()
	if version.Group == "" {
		path = "/api/" + version.Version
	}
	var list metav1.APIResourceList
	answer, err := l.rest.Get().AbsPath(path).SetHeader("Accept", "application/json").Do(ctx).Raw()
	if err == nil {
		err = json.Unmarshal(answer, &list)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	l.answered, l.resources = true, list.APIResources
	return nil
}

func (l *listed) renew(context.Context) bool {
	l.answered, l.resources = false, nil
	return true
}
