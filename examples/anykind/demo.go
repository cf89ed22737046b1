package main

import (
	"context"
	"io"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// demo adds a rule before its kind exists, defines the kind, and deletes the definition and the rule again.
func demo(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	return cluster.Steps(ctx,
		c.Create(rule("configmaps-have-owners", "", "ConfigMap"), rule("widgets-have-owners", "example.com", "Widget")),
		cluster.Say(out, "-- Widgets are defined"),
		c.Create(widgets()),
		c.Create(widget("blue"), widget("red", "owner")),
		cluster.Say(out, "-- the definition is deleted"),
		c.Delete(widgets()),
		cluster.Say(out, "-- and made again"),
		c.Create(widgets()),
		c.Create(widget("green")),
		cluster.Say(out, "-- the rule about Widgets is deleted"),
		c.Delete(rule("widgets-have-owners", "", "")),
		c.Create(widget("yellow")),
	)
}

func rule(name, group, kind string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "rules", Name: name},
		Data:       map[string]string{"group": group, "kind": kind, "label": "owner"},
	}
}

func widget(name string, labels ...string) *unstructured.Unstructured {
	w := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget"}}
	w.SetNamespace("default")
	w.SetName(name)
	set := map[string]string{}
	for _, label := range labels {
		set[label] = "me"
	}
	w.SetLabels(set)
	return w
}

// widgets is the definition of Widget.
func widgets() *unstructured.Unstructured {
	anything := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets.example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced",
			"names":    map[string]any{"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": anything}}},
		},
	}}
}
