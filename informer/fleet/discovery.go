package fleet

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/kubereflector/kubereflector/internal/cut"
	"github.com/kubereflector/kubereflector/internal/restguard"
	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"go.uber.org/zap"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

// discovered is a kind that discovery names.
type discovered struct {
	versions []string // the preferred one first
	resource map[string]discoveredResource
}

type discoveredResource struct {
	plural     string
	namespaced bool
	watchable  bool
}

// discoverWhenNeeded asks discovery until ctx ends: see due.
func (d *definitions) discoverWhenNeeded(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	pause, obeyed := firstPause, 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.woken:
		case <-timer.C:
		}
		due, needed := d.due()
		if !needed {
			continue
		}
		if wait := time.Until(due); wait > 0 {
			timer.Reset(wait)
			continue
		}
		err := d.discover(ctx)
		if ctx.Err() != nil {
			return
		}
		wait := pause
		if asked, _ := apierrors.SuggestsClientDelay(err); asked > 0 && obeyed < maxObeyed {
			wait = min(time.Duration(asked)*time.Second, pollPause)
			obeyed++
		} else {
			pause = min(2*pause, pollPause)
		}
		if err != nil {
			d.logger.Warn("discovery failed, and is tried again", zap.Duration("in", wait), zap.Error(err))
		}
		again := !d.follows() && err == nil
		switch {
		case err != nil || d.lacks():
			d.postpone(wait, true)
		case again:
			d.postpone(pollPause, false)
			pause, obeyed = firstPause, 0
		default:
			d.postpone(firstPause, false)
			pause, obeyed = firstPause, 0
		}
		d.recheckAll()
		d.requestDiscovery() // to set the timer for the next one
	}
}

// lacks reports whether the answer of discovery lacks a wanted kind that it may name soon: its API has not
// answered the server, or has changed just now, or had the kind from a definition that is deleted. A server asks
// an aggregated API for its kinds some time after it says that the API works, and until then answers as if there
// were none.
func (d *definitions) lacks() bool {
	return slices.ContainsFunc(d.fleet.all(), func(m *member) bool {
		kind := m.identity.kind
		if d.definitionOf(kind.GroupKind()) != nil {
			return false
		}
		problem := d.resolve(m.identity, resolution{}).problem
		missing := problem != nil && (problem.Reason == NotInstalled || problem.Reason == NoVersion)
		d.mu.Lock()
		defer d.mu.Unlock()
		recent := time.Since(d.changed[kind.Group]) < discoveryLag || time.Since(d.deletedAt[kind.GroupKind()]) < discoveryLag
		return d.isFailedLocked(kind) || missing && recent
	})
}

// postpone records when discovery may be asked again, and whether it has to be.
func (d *definitions) postpone(pause time.Duration, outdated bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notBefore = time.Now().Add(pause)
	d.outdated = d.outdated || outdated
}

// due returns when discovery is to be asked, if it is needed. Members of other kinds than those of
// CustomResourceDefinitions need it at first and when it is outdated, when an APIService of their group has
// changed, and, while definitions cannot be watched, as long as they are not served. One that is new and not
// served needs it, too, since an API may have other kinds than before, but at most once a minute.
func (d *definitions) due() (at time.Time, needed bool) {
	members := d.fleet.all()
	d.mu.Lock()
	defer d.mu.Unlock()
	others, follows, recent := false, d.followsLocked(), false
	for _, m := range members {
		kind, served, missing := m.identity.kind, m.isServed(), m.workingResolution().problem != nil
		if d.definitionOf(kind.GroupKind()) != nil && (follows || served) {
			continue
		}
		others = true
		needed = needed || !d.changed[kind.Group].Before(d.askedAt) || !served && !follows
		recent = recent || missing && m.made.After(d.askedAt)
	}
	_, answered := d.followErr[d.crds.Name()]
	switch {
	case !answered || !others:
		d.err = nil // nobody needs it
		return at, false
	case needed || d.found == nil || d.outdated:
		return d.notBefore, true
	}
	return d.askedAt.Add(pollPause), recent
}

const aggregatedMedia = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// discover asks the server which kinds it has. What it knew of an API that does not answer now, it
// keeps.
func (d *definitions) discover(ctx context.Context) (err error) {
	d.mu.Lock()
	d.outdated, d.askedAt = false, time.Now() // what comes from now on may not be in the answer
	d.mu.Unlock()
	all, failed := map[schema.GroupKind]*discovered{}, map[schema.GroupVersion]bool{}
	for _, path := range []string{"/api", "/apis"} {
		var list apidiscovery.APIGroupDiscoveryList
		if err = d.get(ctx, path, &list); err != nil {
			break
		}
		for _, group := range list.Items {
			addGroup(&group, all, failed)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	refused, answered := d.followErr[d.crds.Name()]
	custom := answered && refused != nil
	if !custom {
		for kind := range all {
			// A definition says more, and another API may have the kind of a deleted one: see lacks.
			if d.definitionOf(kind) != nil || time.Since(d.deletedAt[kind]) < discoveryLag {
				delete(all, kind)
			}
		}
	}
	if d.err = err; err != nil {
		d.outdated = true
		return err
	}
	for kind, before := range d.found {
		for _, name := range before.versions {
			if failed[schema.GroupVersion{Group: kind.Group, Version: name}] {
				now := all[kind]
				if now == nil {
					now = &discovered{resource: map[string]discoveredResource{}}
					all[kind] = now
				}
				now.versions = append(now.versions, name)
				now.resource[name] = before.resource[name]
			}
		}
	}
	d.found, d.failed, d.custom = all, failed, custom
	return nil
}

// addGroup adds the kinds of an API group, and the versions that do not answer.
func addGroup(group *apidiscovery.APIGroupDiscovery, all map[schema.GroupKind]*discovered, failed map[schema.GroupVersion]bool) {
	for _, version := range group.Versions {
		if version.Freshness == apidiscovery.DiscoveryFreshnessStale {
			failed[schema.GroupVersion{Group: group.Name, Version: version.Version}] = true
			continue
		}
		for _, r := range version.Resources {
			if r.ResponseKind == nil || r.ResponseKind.Group != "" && r.ResponseKind.Group != group.Name {
				continue // the kind of another group, such as a Scale
			}
			kind := schema.GroupKind{Group: group.Name, Kind: r.ResponseKind.Kind}
			one := all[kind]
			if one == nil {
				one = &discovered{resource: map[string]discoveredResource{}}
				all[kind] = one
			}
			now := discoveredResource{
				plural: r.Resource, namespaced: r.Scope == apidiscovery.ScopeNamespace, watchable: sets.New(r.Verbs...).HasAll("list", "watch"),
			}
			if before, twice := one.resource[version.Version]; !twice {
				one.versions = append(one.versions, version.Version)
			} else if before.watchable || !now.watchable {
				continue
			}
			one.resource[version.Version] = now
		}
	}
}

// get reads an aggregated answer of discovery.
func (d *definitions) get(ctx context.Context, path string, list *apidiscovery.APIGroupDiscoveryList) error {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	if err := restguard.ReadJSON(ctx, d.rest.Get().AbsPath(path).SetHeader("Accept", aggregatedMedia), list); err != nil {
		return fmt.Errorf("discovery at %s: %w", path, stream.Bound(err))
	}
	if list.Kind != "APIGroupDiscoveryList" {
		return fmt.Errorf("discovery at %s answers %s, want APIGroupDiscoveryList: aggregated discovery needs Kubernetes 1.30 or later", path, cut.Text(strconv.Quote(list.Kind), cut.MaxName))
	}
	return nil
}

// discoveryLag is how long discovery may still name a kind whose definition is deleted, and not yet name
// those of an API that works.
const discoveryLag = 30 * time.Second

// discoveryTimeout bounds a discovery request. An API server answers in a second, or is in trouble.
const discoveryTimeout = 30 * time.Second
