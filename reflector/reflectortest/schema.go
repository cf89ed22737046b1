package reflectortest

import (
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"
)

// anySchema is the schema of a kind without one.
const anySchema = `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`

// metadataSchema says how the lists and maps of ObjectMeta merge.
const metadataSchema = `{"type":"object","properties":{
"name":{"type":"string"},"generateName":{"type":"string"},"namespace":{"type":"string"},"selfLink":{"type":"string"},
"uid":{"type":"string"},"resourceVersion":{"type":"string"},"generation":{"type":"integer"},
"creationTimestamp":{"type":"string"},"deletionTimestamp":{"type":"string"},"deletionGracePeriodSeconds":{"type":"integer"},
"labels":{"type":"object","additionalProperties":{"type":"string"}},
"annotations":{"type":"object","additionalProperties":{"type":"string"}},
"finalizers":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set"},
"ownerReferences":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["uid"],"items":{
"type":"object","x-kubernetes-map-type":"atomic","properties":{"apiVersion":{"type":"string"},"kind":{"type":"string"},
"name":{"type":"string"},"uid":{"type":"string"},"controller":{"type":"boolean"},"blockOwnerDeletion":{"type":"boolean"}}}},
"managedFields":{"type":"array","x-kubernetes-list-type":"atomic","items":` + anySchema + `}}}`

// withStructural returns the resource with a parser of its schema. A simulation starts hundreds of
// servers with the same option, and the schema of a kind with a pod template has a megabyte.
func (r Resource) withStructural() Resource {
	if len(r.Schema) > 0 {
		r.structural = sync.OnceValues(func() (*structural, error) { return parseStructural(r.Schema) })
	}
	return r
}

// checkSchema reports whether the schema can be read.
func (r Resource) checkSchema() error {
	_, err := r.schema()
	return err
}

// schema reads the schema of a kind that is not built in, with the fields that all kinds have.
func (r Resource) schema() (*spec.Schema, error) {
	source := r.Schema
	if len(source) == 0 {
		source = []byte(anySchema)
	}
	var own, metadata spec.Schema
	if err := yaml.Unmarshal(source, &own); err != nil {
		return nil, fmt.Errorf("reflectortest: schema of %s: %w", r.Plural, err)
	}
	if err := json.Unmarshal([]byte(metadataSchema), &metadata); err != nil {
		return nil, err
	}
	own.SetProperty("apiVersion", *spec.StringProperty())
	own.SetProperty("kind", *spec.StringProperty())
	own.SetProperty("metadata", metadata)
	own.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{"group": r.Group, "version": r.Version, "kind": r.Kind}})
	return &own, nil
}

// typeConverter has the schemas of the versions of a kind.
func typeConverter(versions ...Resource) (managedfields.TypeConverter, error) {
	schemas := map[string]*spec.Schema{}
	for _, r := range versions {
		schema, err := r.schema()
		if err != nil {
			return nil, err
		}
		schemas[r.Kind+"."+r.Version] = schema
	}
	return managedfields.NewTypeConverter(schemas, false)
}
