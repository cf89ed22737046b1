// Program secretsbyreference reads the few Secrets that Ingresses name. It caches the metadata of
// all Secrets, and fetches a whole Secret at its first use.
package main

import (
	"context"
	"fmt"
	"io"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func main() { cluster.Main(cluster.With(run, demo)) }

func run(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	m := manager.New(c.Config)
	ingresses, err := manager.Informer[*networkingv1.Ingress](m, manager.Selection{})
	if err != nil {
		return err
	}
	bySecret, err := store.AddIndexFunc(ingresses.Cache(), "secret", secretsOf, store.Key.Compare)
	if err != nil {
		return err
	}
	secrets, metadata, err := manager.ByReference[*corev1.Secret](m, manager.Selection{})
	if err != nil {
		return err
	}
	// The metadata says that a Secret changed. The Ingresses that name it are reconciled.
	users := reconcile.ByIndex(bySecret, func(secret *metav1.PartialObjectMetadata) []store.Key {
		return []store.Key{{Namespace: secret.Namespace, Name: secret.Name}}
	})
	manager.Reconcile(m, "ingresses", ingresses, func(ctx context.Context, key store.Key, ingress *networkingv1.Ingress) (reconcile.Result, error) {
		for _, name := range secretsOf(ingress) {
			secret, err := secrets.Get(ctx, name) // a request only if the cache has no current one
			if apierrors.IsNotFound(err) {
				continue // its creation is a new call
			}
			if err != nil {
				return reconcile.Result{}, err
			}
			fmt.Fprintf(out, "  Ingress %s has the certificate %s\n", key, secret.Data[corev1.TLSCertKey])
		}
		fmt.Fprintf(out, "  Secrets in the cluster: %d, whole in memory: %d\n", metadata.Cache().Len(), secrets.Stats().Kept)
		return reconcile.Result{}, nil
	}, reconcile.Watch(metadata, users))
	return m.Run(ctx)
}

// secretsOf returns the keys of the Secrets that an Ingress names. It takes nil for a deleted one.
func secretsOf(ingress *networkingv1.Ingress) (keys []store.Key) {
	if ingress == nil {
		return nil
	}
	for _, tls := range ingress.Spec.TLS {
		keys = append(keys, store.Key{Namespace: ingress.Namespace, Name: tls.SecretName})
	}
	return keys
}
