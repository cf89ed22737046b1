package client

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// acceptIdentity asks for the metadata of an object: the rest may be a megabyte, and may not fit T. An
// old extension server cannot convert, and sends the object.
const acceptIdentity = mediaJSON + ";as=PartialObjectMetadata;g=" + metav1.GroupName + ";v=v1," + mediaJSON

// Lookup implements [source.Lookups], also for another namespace than the client's.
func (s resourceSource[T]) Lookup(ctx context.Context, key store.Key) (types.UID, bool, error) {
	r := s.In(key.Namespace)
	resource, namespace, err := r.place(ctx, key.Namespace)
	switch {
	case errors.Is(err, ErrNoNamespace), errors.Is(err, ErrClusterScoped):
		return "", false, nil // discovery says that no object of the kind has such a key
	case err != nil:
		return "", false, r.failed("get", key.Namespace, key.Name, err)
	}
	request := r.rest.Get().NamespaceIfScoped(namespace, namespace != "").Resource(resource).Name(key.Name).SetHeader("Accept", acceptIdentity)
	a, err := r.ask(ctx, "GET", request)
	switch {
	case source.IsObjectMissing(err):
		return "", false, nil
	case err != nil:
		return "", false, r.failed("get", namespace, key.Name, r.failedOne(resource, namespace, err))
	}
	defer a.Close()
	data, err := a.ReadAll(r.options.maxObjectBytes)
	if err != nil {
		return "", false, r.failed("get", namespace, key.Name, err)
	}
	var object metav1.PartialObjectMetadata
	switch err := json.Unmarshal(data, &object); {
	case err != nil:
		return "", false, r.failed("get", namespace, key.Name, a.Fail(nil, err))
	case object.Name != key.Name:
		want, got := stream.Cut(key.Name, stream.MaxName), stream.Cut(object.Name, stream.MaxName)
		return "", false, r.failed("get", namespace, key.Name, a.Fail(nil, &MismatchError{What: "name", Want: want, Got: got}))
	}
	return object.UID, true, nil
}
