// Program customresource follows a custom resource, a struct with metadata, without generated code.
package main

import (
	"context"
	"fmt"
	"io"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Telescope is the whole of the resource: there is no generated code for it.
type Telescope struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              TelescopeSpec   `json:"spec"`
	Status            TelescopeStatus `json:"status,omitzero"`
}

// TelescopeSpec is the wanted state.
type TelescopeSpec struct {
	Target string `json:"target"`
}

// TelescopeStatus is the observed state.
type TelescopeStatus struct {
	Pointing string `json:"pointing,omitempty"`
}

var telescopes = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "telescopes"}

func main() { cluster.Main(cluster.InMemoryOnly(cluster.With(run, demo)), custom) }

func run(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	// The client decodes the bytes of the server into the struct.
	resource, err := client.ForResource[*Telescope](c.Config, telescopes, "default")
	if err != nil {
		return err
	}
	inf := informer.New(resource)
	byTarget, err := store.AddIndex(inf.Cache(), "target", func(t *Telescope) []string { return []string{t.Spec.Target} })
	if err != nil {
		return err
	}
	inf.Handle(informer.HandlerFuncs[*Telescope]{
		OnAdd: func(t *Telescope, _ bool) { fmt.Fprintf(out, "%s %s looks at %s\n", t.Kind, t.Name, t.Spec.Target) },
		OnUpdate: func(prior, t *Telescope) {
			fmt.Fprintf(out, "%s %s turns from %s to %s\n", t.Kind, t.Name, prior.Spec.Target, t.Spec.Target)
			for key := range byTarget.Get("Deneb") {
				fmt.Fprintln(out, "by target Deneb:", key)
			}
		},
	})
	return inf.Run(ctx)
}
