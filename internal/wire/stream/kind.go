package stream

import (
	"bytes"

	"github.com/kubereflector/kubereflector/internal/wire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kinded is an object that can state its kind.
type kinded interface{ GetObjectKind() schema.ObjectKind }

// setKind sets the kind of an object that states none. Protobuf has the kind in the envelope, and a
// list of a built-in type states the kind once for all items.
func setKind(object any, kind metav1.TypeMeta) {
	kinded, ok := object.(kinded)
	if !ok || kind.Kind == "" {
		return
	}
	switch own := kinded.GetObjectKind().(type) {
	case *metav1.TypeMeta:
		if own != nil && own.Kind == "" && own.APIVersion == "" {
			*own = kind
		}
	case *unstructured.Unstructured:
		if own.Object != nil && own.GetKind() == "" && own.GetAPIVersion() == "" {
			own.SetKind(kind.Kind)
			own.SetAPIVersion(kind.APIVersion)
		}
	}
}

// kinds caches the last kind and apiVersion as strings.
type kinds struct{ last metav1.TypeMeta }

// of returns the kind in a frame's envelope.
func (k *kinds) of(frame *wire.Frame) metav1.TypeMeta {
	if string(frame.Kind) != k.last.Kind || string(frame.APIVersion) != k.last.APIVersion {
		k.last = metav1.TypeMeta{Kind: string(frame.Kind), APIVersion: string(frame.APIVersion)}
	}
	return k.last
}

// kindOfObject returns the kind that an object states. It returns false if T has no field for it.
func kindOfObject(object any) (metav1.TypeMeta, bool) {
	if kinded, ok := object.(kinded); ok {
		switch own := kinded.GetObjectKind().(type) {
		case *metav1.TypeMeta:
			if own != nil {
				return *own, true
			}
		case *unstructured.Unstructured:
			return metav1.TypeMeta{Kind: own.GetKind(), APIVersion: own.GetAPIVersion()}, true
		}
	}
	return metav1.TypeMeta{}, false
}

// kindOfBytes returns the kind that the bytes of an object state. It returns nothing for protobuf,
// which has the kind in the envelope. It reuses the strings of last if they are equal.
func kindOfBytes(format wire.Format, data []byte, last metav1.TypeMeta) (kind metav1.TypeMeta) {
	if format != wire.JSON {
		return kind
	}
	if data = trimSpace(data); len(data) == 0 || data[0] != '{' {
		return kind
	}
	for b := data[1:]; kind.Kind == "" || kind.APIVersion == ""; b = b[1:] {
		b = trimSpace(b)
		n := wire.ValueLength(b)
		if n < 2 || b[0] != '"' {
			return kind
		}
		name := b[1 : n-1]
		if b = trimSpace(b[n:]); len(b) == 0 || b[0] != ':' {
			return kind
		}
		b = trimSpace(b[1:])
		if n = wire.ValueLength(b); n <= 0 {
			return kind
		}
		if b[0] == '"' && string(name) == "kind" {
			kind.Kind = textOr(b[1:n-1], last.Kind)
		} else if b[0] == '"' && string(name) == "apiVersion" {
			kind.APIVersion = textOr(b[1:n-1], last.APIVersion)
		}
		if b = trimSpace(b[n:]); len(b) == 0 || b[0] != ',' {
			return kind
		}
	}
	return kind
}

// textOr returns b as a string. It returns last if both are equal, to save an allocation.
func textOr(b []byte, last string) string {
	if string(b) == last {
		return last
	}
	return string(b)
}

func trimSpace(b []byte) []byte { return bytes.TrimLeft(b, " \t\r\n") }
