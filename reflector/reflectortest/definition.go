package reflectortest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// WithDefinition serves the resource of a CustomResourceDefinition, from its manifest in JSON or
// YAML, so a test uses the file that the cluster gets. The server takes from it the names, the
// scope, the status subresource, the selectable fields, and the schema with its defaults: see [Resource]. It serves all
// versions that the manifest serves, each as a collection of its own. The prototype belongs to the
// storage version. The server does not validate objects by the schema, and does not prune unknown
// fields. An invalid manifest is an error of [NewServer].
func WithDefinition(manifest []byte, prototype metav1.Object) Option {
	resources, err := parseDefinition(manifest, prototype)
	return optionFunc(func(o *options) {
		if err != nil {
			o.err = errors.Join(o.err, fmt.Errorf("reflectortest: CustomResourceDefinition: %w", err))
		}
		o.resources = append(o.resources, resources...)
	})
}

// definition has the fields of a CustomResourceDefinition that the server uses. The types of
// apiextensions-apiserver would be a new dependency.
type definition struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name, UID         string
		DeletionTimestamp *metav1.Time
		Finalizers        []string
	}
	Spec struct {
		Group    string
		Names    definedNames
		Scope    string
		Versions []definedVersion
	}
	Status struct {
		AcceptedNames  definedNames
		Conditions     []struct{ Type, Status, Reason, Message string }
		StoredVersions []string
	}
}

type definedNames struct {
	Plural     string   `json:"plural"`
	Singular   string   `json:"singular,omitempty"`
	ShortNames []string `json:"shortNames,omitempty"`
	Kind       string   `json:"kind"`
	ListKind   string   `json:"listKind,omitempty"`
	Categories []string `json:"categories,omitempty"`
}

type definedVersion struct {
	Name             string
	Served, Storage  bool
	SelectableFields []struct{ JSONPath string }
	Subresources     struct{ Status, Scale *struct{} }
	Schema           struct{ OpenAPIV3Schema json.RawMessage }
}

// resource describes one version, under the given names.
func (d *definition) resource(v definedVersion, names definedNames) Resource {
	r := Resource{
		Group: d.Spec.Group, Version: v.Name, Kind: names.Kind, Plural: names.Plural, Singular: names.Singular,
		ShortNames: names.ShortNames, Categories: names.Categories, Namespaced: d.Spec.Scope == "Namespaced",
		Status: v.Subresources.Status != nil, scale: v.Subresources.Scale != nil, Schema: v.Schema.OpenAPIV3Schema,
	}
	for _, f := range v.SelectableFields {
		r.selectable = append(r.selectable, f.JSONPath)
	}
	return r.withStructural()
}

func parseDefinition(manifest []byte, prototype metav1.Object) ([]Resource, error) {
	var d definition
	if err := yaml.Unmarshal(manifest, &d); err != nil {
		return nil, err
	}
	names := d.Spec.Names
	switch {
	case d.APIVersion != "apiextensions.k8s.io/v1" || d.Kind != "CustomResourceDefinition":
		return nil, fmt.Errorf("the first document is %s %q, want apiextensions.k8s.io/v1 \"CustomResourceDefinition\"", d.APIVersion, d.Kind)
	case d.Metadata.Name != names.Plural+"."+d.Spec.Group:
		return nil, fmt.Errorf("the name is %q, want %q", d.Metadata.Name, names.Plural+"."+d.Spec.Group)
	case d.Spec.Scope != "Namespaced" && d.Spec.Scope != "Cluster":
		return nil, fmt.Errorf("%s: the scope is %q, want Namespaced or Cluster", d.Metadata.Name, d.Spec.Scope)
	case !slices.ContainsFunc(d.Spec.Versions, func(v definedVersion) bool { return v.Served }):
		return nil, fmt.Errorf("%s: no version is served", d.Metadata.Name)
	}
	var all []Resource
	for _, v := range d.Spec.Versions {
		if !v.Served {
			continue
		}
		r := d.resource(v, names)
		if v.Storage {
			r.Prototype = prototype
		}
		all = append(all, r)
	}
	return all, nil
}
