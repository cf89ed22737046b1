package main

import (
	"slices"
	"strings"

	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
)

const (
	copyTo    = "example.com/copy-to" // of a source: which namespaces it is for, as a label selector
	copyOf    = "example.com/copy-of" // of a copy: namespace/name of its source
	finalizer = "example.com/configmapreplicator"
)

// isSource reports whether a ConfigMap has copies, or had some that may be left.
func isSource(c *corev1.ConfigMap) bool {
	return c.Annotations[copyTo] != "" || slices.Contains(c.Finalizers, finalizer)
}

// sourceOf returns the key of the source of a copy.
func sourceOf(c *corev1.ConfigMap) []store.Key {
	namespace, name, ok := strings.Cut(c.Annotations[copyOf], "/")
	if !ok {
		return nil
	}
	return []store.Key{{Namespace: namespace, Name: name}}
}
