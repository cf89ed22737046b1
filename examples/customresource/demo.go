package main

import (
	"context"
	"io"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// custom is for the in-memory API server what a CustomResourceDefinition is for a real one.
var custom = reflectortest.WithResource(reflectortest.Resource{
	Group: telescopes.Group, Version: telescopes.Version, Kind: "Telescope", Plural: telescopes.Resource,
	Namespaced: true, Prototype: &Telescope{},
})

// demo creates a telescope and turns it.
func demo(ctx context.Context, _ io.Writer, c cluster.Cluster) error {
	hale := func(target string) *Telescope {
		return &Telescope{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hale"}, Spec: TelescopeSpec{Target: target}}
	}
	return cluster.Steps(ctx, c.Create(hale("Vega")), c.Update(hale("Deneb")))
}
