// Program customresource follows a resource of its own: a struct with metadata and JSON
// tags is all that it takes.
//
// With client-go, the same begins with a code generator: it writes DeepCopy methods into
// the package of the type, a scheme to register it in, and packages with a clientset, with
// listers and with informers for it, thousands of lines that have to be made anew with
// each change. The other way there is a dynamic informer: without generated code, and
// without types, since its objects are maps.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
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

// custom tells the API server in memory what a CustomResourceDefinition tells a real one.
var custom = reflectortest.WithResource(reflectortest.Resource{
	Group: telescopes.Group, Version: telescopes.Version, Kind: "Telescope", Plural: telescopes.Resource,
	Namespaced: true, Prototype: &Telescope{},
})

func main() {
	server, err := reflectortest.NewServer(custom)
	if err == nil {
		err = run(context.Background(), os.Stdout, server)
		server.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, server *reflectortest.Server) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()

	// What is sent is decoded into the struct: there is nothing in between.
	resource, err := client.ForResource[*Telescope](server.Config(), telescopes, "default")
	if err != nil {
		return err
	}
	inf := informer.New(resource)
	byTarget, err := store.AddIndex(inf.Cache(), "target", func(t *Telescope) []string { return []string{t.Spec.Target} })
	if err != nil {
		return err
	}
	told := make(chan struct{})
	inf.Handle(informer.HandlerFuncs[*Telescope]{
		OnAdd: func(t *Telescope, _ bool) {
			fmt.Fprintf(out, "%s %s should look at %s\n", t.Kind, t.Name, t.Spec.Target)
			told <- struct{}{}
		},
		OnUpdate: func(_, t *Telescope) {
			fmt.Fprintf(out, "%s %s should look at %s now\n", t.Kind, t.Name, t.Spec.Target)
			told <- struct{}{}
		},
	})
	result := make(chan error, 1)
	go func() { result <- inf.Run(ctx) }()

	vega := &Telescope{Spec: TelescopeSpec{Target: "Vega"}}
	vega.Namespace, vega.Name = "default", "hale"
	if err := server.Create(vega); err != nil {
		return err
	}
	<-told
	vega.Spec.Target = "Deneb"
	if err := server.Update(vega); err != nil {
		return err
	}
	<-told
	for _, t := range byTarget.Get("Deneb") {
		fmt.Fprintf(out, "%s looks at Deneb\n", t.Name)
	}
	stop()
	return <-result
}
