package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
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

func (l *listed) find(ctx context.Context, kind schema.GroupVersionKind) (found, error) {
	if err := l.ask(ctx, kind); err != nil {
		return found{}, err
	}
	all := slices.DeleteFunc(slices.Clone(l.resources), func(r metav1.APIResource) bool {
		return r.Kind != kind.Kind || strings.Contains(r.Name, "/")
	})
	if len(all) > 1 {
		all = slices.DeleteFunc(all, func(r metav1.APIResource) bool { return !slices.Contains(r.Verbs, "list") })
	}
	switch len(all) {
	case 0:
		return found{}, fmt.Errorf("%w: no resource of %s has the kind %s", protocol.ErrNotServed, kind.GroupVersion(), kind.Kind)
	case 1:
		return found{all[0].Name, all[0].Namespaced}, nil
	}
	return found{}, errSeveralResources
}

// kindOf returns the kind of a resource, or an empty string if the list does not have the resource.
func (l *listed) kindOf(ctx context.Context, resource schema.GroupVersionResource) (string, error) {
	if err := l.ask(ctx, resource.GroupVersion().WithKind("")); err != nil {
		return "", err
	}
	i := slices.IndexFunc(l.resources, func(r metav1.APIResource) bool { return r.Name == resource.Resource })
	if i < 0 {
		return "", nil
	}
	return l.resources[i].Kind, nil
}

// ask requests the list unless it is known. client-go's discovery client takes no context in 0.36.
func (l *listed) ask(ctx context.Context, kind schema.GroupVersionKind) error {
	if l.answered {
		return nil
	}
	path := "/apis/" + kind.GroupVersion().String()
	if kind.Group == "" {
		path = "/api/" + kind.Version
	}
	result := l.rest.Get().AbsPath(path).SetHeader("Accept", "application/json").Do(ctx)
	answer, err := result.Raw()
	if err != nil {
		err = cmp.Or(result.Error(), err) // Raw does not read the server's Status, which says why
	}
	var list metav1.APIResourceList
	if err == nil {
		err = json.Unmarshal(answer, &list)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return &DiscoveryError{Kind: kind, Path: path, Err: stream.Bound(err)}
	}
	l.answered, l.resources = true, list.APIResources
	return nil
}

func (l *listed) renew(context.Context) bool {
	l.answered, l.resources = false, nil
	return true
}
