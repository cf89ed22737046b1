// Program discovery finds the endpoint of a kind, as kubectl does. It reads the discovery API by its
// paths. A REST mapper then reads the same, and keeps a cache for the next process.
package main

import (
	"context"
	"fmt"
	"io"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/mapper"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

func main() { cluster.Main(demo) }

// getDeployments does the work of "kubectl get deployments". The directory has the discovery cache.
func getDeployments(ctx context.Context, out io.Writer, config *rest.Config, directory string) error {
	m, err := mapper.OnDisk(config, mapper.WithDirectory(directory))
	if err != nil {
		return err
	}
	// From the word on the command line to its group, version and resource, and to its kind.
	resource, err := m.ResourceForWithContext(ctx, schema.GroupVersionResource{Resource: "deployments"})
	if err != nil {
		return err
	}
	kind, err := m.KindForWithContext(ctx, resource)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  \"deployments\" is %s\n  its kind is %s\n", resource, kind)

	// From a kind to its endpoint. client.For does this for the kind of a Go type.
	mapping, err := m.RESTMappingWithContext(ctx, kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  its objects have a %s\n", mapping.Scope.Name())
	deployments, err := client.For[*appsv1.Deployment](config, client.WithRESTMapper(m))
	if err != nil {
		return err
	}
	list, err := deployments.In("default").List(ctx, metav1.ListOptions{})
	if err == nil {
		fmt.Fprintf(out, "  Deployments: %d\n", len(list.Items))
	}
	return err
}
