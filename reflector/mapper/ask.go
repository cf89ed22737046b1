package mapper

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Reset discards the cached discovery results. The mapper then requests them from the server again.
func (m *Mapper) Reset() { m.ResetWithContext(context.Background()) }

// ResetWithContext is [Mapper.Reset]. It does nothing if ctx ends while another goroutine uses the
// mapper.
func (m *Mapper) ResetWithContext(ctx context.Context) {
	select {
	case m.turn <- struct{}{}:
		m.client.Invalidate()
		m.answers = answers{waits: m.waits}
		<-m.turn
	case <-ctx.Done():
	}
}

// KindFor returns the kind of a resource.
func (m *Mapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return m.KindForWithContext(context.Background(), resource)
}

// KindForWithContext returns the kind of a resource.
func (m *Mapper) KindForWithContext(ctx context.Context, resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return use(ctx, m, ofResource(resource), func(of meta.RESTMapper) (schema.GroupVersionKind, error) {
		return of.KindFor(resource)
	})
}

// KindsFor returns the possible kinds of a resource, the preferred one first.
func (m *Mapper) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return m.KindsForWithContext(context.Background(), resource)
}

// KindsForWithContext returns the possible kinds of a resource, the preferred one first.
func (m *Mapper) KindsForWithContext(ctx context.Context, resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return use(ctx, m, ofResource(resource), func(of meta.RESTMapper) ([]schema.GroupVersionKind, error) {
		all, err := of.KindsFor(resource)
		if len(all) == 0 && err == nil {
			err = &meta.NoResourceMatchError{PartialResource: resource}
		}
		return all, err
	})
}

// ResourceFor completes a partial resource.
func (m *Mapper) ResourceFor(resource schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return m.ResourceForWithContext(context.Background(), resource)
}

// ResourceForWithContext completes a partial resource.
func (m *Mapper) ResourceForWithContext(ctx context.Context, resource schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return use(ctx, m, ofResource(resource), func(of meta.RESTMapper) (schema.GroupVersionResource, error) {
		return of.ResourceFor(resource)
	})
}

// ResourcesFor returns the resources that match a partial resource, the preferred one first.
func (m *Mapper) ResourcesFor(resource schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return m.ResourcesForWithContext(context.Background(), resource)
}

// ResourcesForWithContext returns the resources that match a partial resource, the preferred one
// first.
func (m *Mapper) ResourcesForWithContext(ctx context.Context, resource schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return use(ctx, m, ofResource(resource), func(of meta.RESTMapper) ([]schema.GroupVersionResource, error) {
		all, err := of.ResourcesFor(resource)
		if len(all) == 0 && err == nil {
			err = &meta.NoResourceMatchError{PartialResource: resource}
		}
		return all, err
	})
}

// ResourceSingularizer returns the singular of a resource.
func (m *Mapper) ResourceSingularizer(resource string) (string, error) {
	return m.ResourceSingularizerWithContext(context.Background(), resource)
}

// ResourceSingularizerWithContext returns the singular of a resource.
func (m *Mapper) ResourceSingularizerWithContext(ctx context.Context, resource string) (string, error) {
	return use(ctx, m, anyGroup, func(of meta.RESTMapper) (string, error) {
		return of.ResourceSingularizer(resource)
	})
}

// RESTMapping returns the resource of a kind. It uses the first of the given versions that the
// server serves, or the server's preferred version without versions.
func (m *Mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return m.RESTMappingWithContext(context.Background(), kind, versions...)
}

// RESTMappingWithContext returns the resource of a kind. It uses the first of the given versions
// that the server serves, or the server's preferred version without versions.
func (m *Mapper) RESTMappingWithContext(ctx context.Context, kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return use(ctx, m, ofKind(kind, versions), func(of meta.RESTMapper) (*meta.RESTMapping, error) {
		return of.RESTMapping(kind, versions...)
	})
}

// RESTMappings returns all resources of a kind.
func (m *Mapper) RESTMappings(kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return m.RESTMappingsWithContext(context.Background(), kind, versions...)
}

// RESTMappingsWithContext returns all resources of a kind.
func (m *Mapper) RESTMappingsWithContext(ctx context.Context, kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return use(ctx, m, ofKind(kind, versions), func(of meta.RESTMapper) ([]*meta.RESTMapping, error) {
		return of.RESTMappings(kind, versions...)
	})
}
