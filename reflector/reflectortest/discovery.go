package reflectortest

import (
	"crypto/sha512"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// gitVersion is the Kubernetes release that this server was compared with.
const gitVersion = "v1.36.3"

// serveDiscovery answers requests that are not for a resource.
func (c *call) serveDiscovery() error {
	if c.Method != http.MethodGet {
		return errMethodNotAllowed()
	}
	parts := strings.Split(strings.Trim(c.Path, "/"), "/")
	g := c.server.registry()
	switch {
	case c.Path == "/":
		return c.json(metav1.RootPaths{Paths: g.paths()})
	case c.Path == "/version" || c.Path == "/version/":
		return c.json(version.Info{Major: "1", Minor: "36", GitVersion: gitVersion, Platform: "reflectortest"})
	case c.Path == "/healthz" || c.Path == "/readyz" || c.Path == "/livez":
		return c.out.document(http.StatusOK, "text/plain; charset=utf-8", []byte("ok"))
	case (parts[0] == "api" || parts[0] == "apis") && len(parts) == 1:
		if c.wantsAggregated() {
			return c.aggregated(g.aggregated(parts[0] == "api"))
		}
		if parts[0] == "api" {
			return c.json(metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
		}
		return c.json(metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: g.groups()})
	case parts[0] == "apis" && len(parts) == 2:
		for _, group := range g.groups() {
			if group.Name == parts[1] {
				group.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
				return c.json(group)
			}
		}
	case parts[0] == "api" && len(parts) == 2:
		return c.resourceList("", parts[1])
	case parts[0] == "apis" && len(parts) == 3:
		return c.resourceList(parts[1], parts[2])
	}
	return errPageNotFound
}

func (c *call) json(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return c.out.document(http.StatusOK, mediaJSON, append(b, '\n'))
}

// resourceList lists the resources of a group's version. It also serves an unannounced version, so
// that a client that asks by name can learn its scopes.
func (c *call) resourceList(group, ver string) error {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
	g := c.server.registry()
	announced := slices.ContainsFunc(g.ordered, func(r *resource) bool {
		return r.Group == group && r.Version == ver && !r.unannounced
	})
	for _, r := range g.ordered {
		if r.Group != group || r.Version != ver || r.unannounced && (announced || r.defined != nil) {
			continue
		}
		list.GroupVersion = r.apiVersion()
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: r.Plural, SingularName: r.Singular, Namespaced: r.Namespaced, Kind: r.Kind,
			Verbs: r.verbs(), ShortNames: r.ShortNames, Categories: r.Categories,
		})
		if r.isNamespaces() {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: r.Plural + "/finalize", Kind: r.Kind, Verbs: metav1.Verbs{"update"},
			})
		}
		if r.Status {
			list.APIResources = append(list.APIResources, metav1.APIResource{
				Name: r.Plural + "/status", Namespaced: r.Namespaced, Kind: r.Kind, Verbs: statusVerbs,
			})
		}
	}
	switch {
	case list.GroupVersion != "":
		return c.json(list)
	case g.hasGroup(group):
		return errResourceNotFound()
	default:
		return errPageNotFound
	}
}

var statusVerbs = []string{"get", "patch", "update"}

var allVerbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

func (res *resource) verbs() []string {
	switch {
	case res.terminating:
		return []string{"delete", "deletecollection", "get", "list", "watch"}
	case res.isNamespaces(): // one by one
		return []string{"create", "delete", "get", "list", "patch", "update", "watch"}
	}
	return allVerbs
}

// groups lists all groups except the core group, with the announced versions.
func (g *registry) groups() []metav1.APIGroup {
	var groups []metav1.APIGroup
	add := func(gv schema.GroupVersion) {
		v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		i := slices.IndexFunc(groups, func(a metav1.APIGroup) bool { return a.Name == gv.Group })
		if i < 0 {
			groups = append(groups, metav1.APIGroup{Name: gv.Group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
		} else if !slices.Contains(groups[i].Versions, v) {
			groups[i].Versions = append(groups[i].Versions, v)
		}
	}
	for _, r := range g.ordered {
		if r.Group != "" && !r.unannounced {
			add(r.gvk().GroupVersion())
		}
	}
	for _, gv := range g.unavailable {
		add(gv)
	}
	return groups
}

// paths lists the paths of the server's own documents.
func (g *registry) paths() []string {
	paths := []string{"/api", "/api/v1", "/apis", "/healthz", "/livez", "/readyz", "/version"}
	for _, group := range g.groups() {
		paths = append(paths, "/apis/"+group.Name)
		for _, v := range group.Versions {
			paths = append(paths, "/apis/"+v.GroupVersion)
		}
	}
	slices.Sort(paths)
	return paths
}

const aggregatedMedia = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// wantsAggregated reports whether the client prefers one answer for all groups.
func (c *call) wantsAggregated() bool {
	first, _, _ := strings.Cut(strings.ReplaceAll(c.http.Header.Get("Accept"), " ", ""), ",")
	return strings.HasPrefix(first, mediaJSON+";") &&
		strings.Contains(first, "as=APIGroupDiscoveryList") && strings.Contains(first, "v=v2") && !strings.Contains(first, "v=v2beta1")
}

// aggregated answers with a list that the client may cache: with its ETag, the client asks whether
// the list has changed.
func (c *call) aggregated(list *discoveryv2.APIGroupDiscoveryList) error {
	b, err := json.Marshal(list)
	if err != nil {
		return err
	}
	tag := fmt.Sprintf(`"%X"`, sha512.Sum512(b))
	header := c.out.w.Header()
	header.Set("ETag", tag)
	header.Set("Vary", "Accept")
	header.Set("Cache-Control", "public")
	if c.http.Header.Get("If-None-Match") == tag {
		return c.out.document(http.StatusNotModified, aggregatedMedia, nil)
	}
	return c.out.document(http.StatusOK, aggregatedMedia, append(b, '\n'))
}

// aggregated lists the core group, or all other groups, with their resources.
func (g *registry) aggregated(core bool) *discoveryv2.APIGroupDiscoveryList {
	list := &discoveryv2.APIGroupDiscoveryList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"}}
	find := func(gv schema.GroupVersion) *discoveryv2.APIVersionDiscovery {
		i := slices.IndexFunc(list.Items, func(a discoveryv2.APIGroupDiscovery) bool { return a.Name == gv.Group })
		if i < 0 {
			i = len(list.Items)
			list.Items = append(list.Items, discoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: gv.Group}})
		}
		group := &list.Items[i]
		j := slices.IndexFunc(group.Versions, func(a discoveryv2.APIVersionDiscovery) bool { return a.Version == gv.Version })
		if j < 0 {
			j = len(group.Versions)
			group.Versions = append(group.Versions, discoveryv2.APIVersionDiscovery{Version: gv.Version, Freshness: discoveryv2.DiscoveryFreshnessCurrent})
		}
		return &group.Versions[j]
	}
	for _, r := range g.ordered {
		if (r.Group == "") == core && !r.unannounced {
			v := find(r.gvk().GroupVersion())
			v.Resources = append(v.Resources, r.aggregated())
		}
	}
	for _, gv := range g.unavailable {
		if !core {
			v := find(gv)
			v.Freshness, v.Resources = discoveryv2.DiscoveryFreshnessStale, nil
		}
	}
	return list
}

func (res *resource) aggregated() discoveryv2.APIResourceDiscovery {
	kind := &metav1.GroupVersionKind{Group: res.Group, Version: res.Version, Kind: res.Kind}
	d := discoveryv2.APIResourceDiscovery{
		Resource: res.Plural, SingularResource: res.Singular, ResponseKind: kind, Scope: discoveryv2.ScopeCluster,
		Verbs: res.verbs(), ShortNames: res.ShortNames, Categories: res.Categories,
	}
	if res.Namespaced {
		d.Scope = discoveryv2.ScopeNamespace
	}
	if res.Status {
		d.Subresources = []discoveryv2.APISubresourceDiscovery{{Subresource: "status", ResponseKind: kind, Verbs: statusVerbs}}
	}
	return d
}
