package reflector

import (
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/internal/source"
)

// Object is the metadata of a Kubernetes object, which the reflector needs. Object omits
// comparable, so that one piece of machine code serves all pointer types.
type Object = source.Object

// Client lists and watches one resource. Every typed client from Kubernetes' code generator is a
// Client: clientset.CoreV1().Pods("default") is a Client[*corev1.Pod, *corev1.PodList].
//
// Get determines T for the compiler, which List and Watch do not. The compiler then infers T, and
// refuses a store of another type. The reflector itself calls Get only for a lookup: see
// [KubernetesResourceReflector.Lookup].
type Client[T, L any] = source.Client[T, L]

var (
	// ErrNoClient means that the program made a reflector with a nil client.
	ErrNoClient = source.ErrNoClient

	// ErrTable means that the server sent a Table, a format for display, instead of objects.
	ErrTable = stream.ErrTable
)

// TypeError means that a watch event carried something other than an object of the reflector's
// type.
type TypeError = source.TypeError

// ListTypeError means that a client's list type differs from the output of Kubernetes' code
// generator: a pointer to a struct whose field Items is a slice of the objects.
type ListTypeError = source.ListTypeError

// Sharding says whether the server or the reflector drops objects outside the reflector's shards:
// see [WithShard].
type Sharding = source.Sharding

const (
	// ShardingUnknown means that the server has sent no evidence yet.
	ShardingUnknown = source.ShardingUnknown
	// ShardedByServer means that the server said that it filters, or that it has sent only objects
	// in the shards since the last list began.
	ShardedByServer = source.ShardedByServer
	// ShardedByClient means that the server did not get the selector or ignored it. The server
	// sends all objects, and the reflector drops those outside the shards, usually before it
	// decodes them.
	ShardedByClient = source.ShardedByClient
)
