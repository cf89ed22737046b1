package wirebench

import (
	"context"

	"github.com/kubereflector/kubereflector/contrib/controllerruntime"
	"github.com/kubereflector/kubereflector/internal/bench/apiserver"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
)

// contender is a way to get from the bytes of a server to a store and a handler, in a process of its own.
type contender interface {
	// run lists and watches until ctx ends, and then returns after everything it started has ended. The handler of the contender calls handled for
	// each object of the first list, and for each change.
	run(ctx context.Context, handled func()) error
	// version returns the resource version that is held.
	version() string
}

// builder makes a contender for a server with one data set.
type builder func(config *rest.Config, r schema.GroupVersionResource) (contender, error)

// contenders are all of them, by the names that the cases use.
var contenders = map[string]builder{
	"ours-json":              oursTyped(false, asJSON()...),
	"ours-json-unshared":     oursTyped(false, asJSON(unshared)...),
	"ours-protobuf":          oursTyped(false),
	"ours-protobuf-unshared": oursTyped(false, unshared),
	"ours-unstructured":      oursUnstructured,
	"ours-struct":            oursApplications,
	"ours-few-fields":        oursFewFields,

	// Without a queue and a handler: the same work as the floors.
	"store-json":          oursTyped(true, asJSON()...),
	"store-json-unshared": oursTyped(true, asJSON(unshared)...),
	"store-protobuf":      oursTyped(true),

	"typed-json":     typedInformer(apiserver.InJSON),
	"typed-protobuf": typedInformer(apiserver.InProtobuf),
	"dynamic":        dynamicInformer,

	"factory":           factoryInformer(func(c *kubernetes.Clientset) kubernetes.Interface { return c }),
	"factory-generated": factoryInformer(func(c *kubernetes.Clientset) kubernetes.Interface { return struct{ kubernetes.Interface }{c} }),

	"controller-runtime": controllerRuntime(crcache.New, ""),
	"ours-in-runtime":    controllerRuntime(controllerruntime.NewCache, ""),

	"floor-json":     floor(apiserver.InJSON),
	"floor-protobuf": floor(apiserver.InProtobuf),
}

func floor(f apiserver.Format) builder {
	return func(config *rest.Config, _ schema.GroupVersionResource) (contender, error) {
		return floorLoop{apiserver.NewFloor(config.Host, f)}, nil
	}
}

type floorLoop struct{ *apiserver.Floor }

func (f floorLoop) run(ctx context.Context, handled func()) error { return f.Run(ctx, handled) }

// version is not known: there is no relist.
func (floorLoop) version() string { return "" }
