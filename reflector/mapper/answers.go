package mapper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubereflector/kubereflector/internal/cut"
	"github.com/kubereflector/kubereflector/internal/restguard"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/restmapper"
)

// answers is what discovery said.
type answers struct {
	mapper meta.RESTMapper // nil before the first discovery
	groups map[schema.GroupVersion][]metav1.APIResource
	failed map[schema.GroupVersion]error // groups that the server has, without an answer
	whole  error                         // why the last discovery failed as a whole
	waits  restguard.Pace                // of repeated discoveries
}

// GroupError means that the server has an API group, but did not say what is in it, for example
// because the server of an aggregated API is down. So it is unknown whether the group has the kind: do
// not treat it as missing. The mapper asks again. It keeps what it knew of the group before, and other
// groups are not affected.
type GroupError struct {
	// Group is the group with its version.
	Group schema.GroupVersion
	// Err is why there is no answer.
	Err error
}

// Error names the group and the cause.
func (e *GroupError) Error() string {
	return cut.Text(fmt.Sprintf("discovery of the API group %s failed, and is tried again: %v", e.Group, e.Err), cut.MaxText)
}

// Unwrap returns Err.
func (e *GroupError) Unwrap() error { return e.Err }

// use calls ask with the mapper of the discovered resources, after other callers have finished with
// it. If there is no match, it repeats discovery, at the pace of waits. concerns reports whether an
// API group might have the match.
func use[R any](ctx context.Context, m *Mapper, concerns func(schema.GroupVersion) bool, ask func(meta.RESTMapper) (R, error)) (result R, err error) {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return result, context.Cause(ctx)
	}
	m.caller.Store(&ctx)
	defer m.caller.Store(nil)
	first := m.mapper == nil
	if first {
		if m.whole != nil && !m.waits.Due(time.Now()) {
			return result, m.whole
		}
		if err := m.discover(ctx, false); err != nil {
			return result, err
		}
	}
	result, err = ask(m.mapper)
	if !meta.IsNoMatchError(err) {
		return result, err
	}
	// A result from another process may be minutes old. One of this call is new, but on disk it
	// lacks the groups that are stale. A client in memory is not fresh after a failure.
	fresh := first && m.client.Fresh()
	if fresh && m.live != nil || !fresh && (m.waits.Due(time.Now()) || m.whole == nil && !m.client.Fresh()) {
		if !fresh {
			m.client.Invalidate()
		}
		if err := m.discover(ctx, true); err != nil {
			return result, err
		}
		result, err = ask(m.mapper)
	}
	if !meta.IsNoMatchError(err) {
		return result, err
	}
	if m.whole != nil {
		return result, m.whole
	}
	for _, group := range slices.SortedFunc(maps.Keys(m.failed), func(a, b schema.GroupVersion) int { return strings.Compare(a.String(), b.String()) }) {
		if concerns(group) {
			return result, &GroupError{Group: group, Err: m.failed[group]}
		}
	}
	return result, err
}

// discover asks the server for its resources, as far as the client does not know them. It keeps the
// earlier answers of groups that fail, or all of them if discovery fails as a whole. missing means
// that somebody looks for something that the earlier answers lack.
func (m *Mapper) discover(ctx context.Context, missing bool) error {
	m.refused.Store(nil)
	groups, lists, err := m.client.ServerGroupsAndResources()
	var stale map[schema.GroupVersion]error
	if missing && m.live != nil && groups != nil {
		_, _, stale, _ = m.live.GroupsAndMaybeResources()
	}
	if ctx.Err() != nil {
		// The results may cover only some of the API groups. Do not cache them as complete.
		m.client.Invalidate()
		return fmt.Errorf("%w: %w", context.Cause(ctx), errors.Join(err, ctx.Err()))
	}
	if groups == nil || lists == nil {
		m.client.Invalidate()
		// client-go's error does not have the server's message.
		if refused := m.refused.Load(); refused != nil && apierrors.ReasonForError(err) == apierrors.ReasonForError(refused.err) {
			err = fmt.Errorf("get %s: %w", refused.path, refused.err)
		}
		if err == nil {
			err = errors.New("the server names no API groups")
		}
		m.whole = &Error{Err: err}
		return m.whole
	}
	failed, _ := discovery.GroupDiscoveryFailedErrorGroups(err)
	known := make(map[schema.GroupVersion][]metav1.APIResource, len(lists))
	for _, list := range lists {
		if group, err := schema.ParseGroupVersion(list.GroupVersion); err == nil {
			known[group] = list.APIResources
		}
	}
	if failed == nil {
		failed = map[schema.GroupVersion]error{}
	}
	maps.Copy(failed, stale)
	m.failed = map[schema.GroupVersion]error{}
	for group, err := range failed {
		if _, empty := known[group]; empty || apierrors.IsNotFound(err) {
			continue // it has no resources, or is no longer there
		}
		m.failed[group] = err
		if before, ok := m.groups[group]; ok {
			known[group] = before
			groups = announce(groups, group)
		}
	}
	resources := make([]*restmapper.APIGroupResources, 0, len(groups))
	for _, group := range groups {
		served := &restmapper.APIGroupResources{Group: *group, VersionedResources: map[string][]metav1.APIResource{}}
		for _, version := range group.Versions {
			if list, ok := known[schema.GroupVersion{Group: group.Name, Version: version.Version}]; ok {
				served.VersionedResources[version.Version] = list
			}
		}
		resources = append(resources, served)
	}
	m.mapper, m.groups, m.whole = restmapper.NewDiscoveryRESTMapper(resources), known, nil
	return nil
}

// announce returns the groups with a version of a group. client-go leaves out the versions that an
// aggregated answer calls stale, and the group if it has no other version.
func announce(groups []*metav1.APIGroup, version schema.GroupVersion) []*metav1.APIGroup {
	announced := metav1.GroupVersionForDiscovery{GroupVersion: version.String(), Version: version.Version}
	for i, group := range groups {
		if group.Name != version.Group {
			continue
		}
		if !slices.Contains(group.Versions, announced) {
			group = group.DeepCopy()
			group.Versions = append(group.Versions, announced)
			groups = slices.Clone(groups)
			groups[i] = group
		}
		return groups
	}
	return append(slices.Clip(groups), &metav1.APIGroup{Name: version.Group, Versions: []metav1.GroupVersionForDiscovery{announced}, PreferredVersion: announced})
}

// Error means that discovery failed as a whole. The mapper keeps what it knew before, and asks again
// for a kind that it does not know.
type Error struct {
	// Err is why there is no answer.
	Err error
}

// Error names the cause.
func (e *Error) Error() string {
	return cut.Text(fmt.Sprintf("discovery failed, and is tried again: %v", e.Err), cut.MaxText)
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// ofKind returns the API groups that may have a kind.
func ofKind(kind schema.GroupKind, versions []string) func(schema.GroupVersion) bool {
	return func(group schema.GroupVersion) bool {
		return group.Group == kind.Group && (len(versions) == 0 || slices.Contains(versions, group.Version))
	}
}

// ofResource returns the API groups that may have a partial resource.
func ofResource(partial schema.GroupVersionResource) func(schema.GroupVersion) bool {
	return func(group schema.GroupVersion) bool {
		return strings.HasPrefix(group.Group, partial.Group) && (partial.Version == "" || partial.Version == group.Version)
	}
}

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

// KindForWithContext is [Mapper.KindFor], and returns when ctx ends.
func (m *Mapper) KindForWithContext(ctx context.Context, resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return use(ctx, m, ofResource(resource), func(mapper meta.RESTMapper) (schema.GroupVersionKind, error) { return mapper.KindFor(resource) })
}

// KindsFor returns the possible kinds of a resource, the preferred one first.
func (m *Mapper) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return m.KindsForWithContext(context.Background(), resource)
}

// KindsForWithContext is [Mapper.KindsFor], and returns when ctx ends.
func (m *Mapper) KindsForWithContext(ctx context.Context, resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return use(ctx, m, ofResource(resource), func(mapper meta.RESTMapper) ([]schema.GroupVersionKind, error) {
		all, err := mapper.KindsFor(resource)
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

// ResourceForWithContext is [Mapper.ResourceFor], and returns when ctx ends.
func (m *Mapper) ResourceForWithContext(ctx context.Context, resource schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return use(ctx, m, ofResource(resource), func(mapper meta.RESTMapper) (schema.GroupVersionResource, error) { return mapper.ResourceFor(resource) })
}

// ResourcesFor returns the resources that match a partial resource, the preferred one first.
func (m *Mapper) ResourcesFor(resource schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return m.ResourcesForWithContext(context.Background(), resource)
}

// ResourcesForWithContext is [Mapper.ResourcesFor], and returns when ctx ends.
func (m *Mapper) ResourcesForWithContext(ctx context.Context, resource schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return use(ctx, m, ofResource(resource), func(mapper meta.RESTMapper) ([]schema.GroupVersionResource, error) {
		all, err := mapper.ResourcesFor(resource)
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

// ResourceSingularizerWithContext is [Mapper.ResourceSingularizer], and returns when ctx ends.
func (m *Mapper) ResourceSingularizerWithContext(ctx context.Context, resource string) (string, error) {
	return use(ctx, m, func(schema.GroupVersion) bool { return true }, func(mapper meta.RESTMapper) (string, error) { return mapper.ResourceSingularizer(resource) })
}

// RESTMapping returns the resource of a kind. It uses the first of the given versions that the
// server serves, or the server's preferred version without versions.
func (m *Mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return m.RESTMappingWithContext(context.Background(), kind, versions...)
}

// RESTMappingWithContext is [Mapper.RESTMapping], and returns when ctx ends.
func (m *Mapper) RESTMappingWithContext(ctx context.Context, kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return use(ctx, m, ofKind(kind, versions), func(mapper meta.RESTMapper) (*meta.RESTMapping, error) { return mapper.RESTMapping(kind, versions...) })
}

// RESTMappings returns all resources of a kind.
func (m *Mapper) RESTMappings(kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return m.RESTMappingsWithContext(context.Background(), kind, versions...)
}

// RESTMappingsWithContext is [Mapper.RESTMappings], and returns when ctx ends.
func (m *Mapper) RESTMappingsWithContext(ctx context.Context, kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return use(ctx, m, ofKind(kind, versions), func(mapper meta.RESTMapper) ([]*meta.RESTMapping, error) {
		return mapper.RESTMappings(kind, versions...)
	})
}
