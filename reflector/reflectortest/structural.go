package reflectortest

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// structural is the part of a CustomResourceDefinition's schema that changes objects.
type structural struct {
	Properties           map[string]*structural
	AdditionalProperties *structural // nil, or empty for true and false
	Items                *structural
	Nullable             bool
	Default              any // nil if there is none

	defaults bool // it or a part of it has a default
}

// parseStructural reads an openAPIV3Schema in JSON or YAML.
func parseStructural(source []byte) (*structural, error) {
	s := &structural{}
	if err := yaml.Unmarshal(source, s); err != nil {
		return nil, err
	}
	return s, nil
}

// UnmarshalJSON reads a schema, or the boolean that additionalProperties may be.
func (s *structural) UnmarshalJSON(b []byte) error {
	if string(b) == "true" || string(b) == "false" {
		return nil
	}
	type fields structural // without this method
	source := struct {
		*fields
		Default json.RawMessage
	}{fields: (*fields)(s)}
	if err := json.Unmarshal(b, &source); err != nil {
		return err
	}
	if source.Default != nil {
		if err := utiljson.Unmarshal(source.Default, &s.Default); err != nil {
			return fmt.Errorf("default: %w", err)
		}
	}
	s.defaults = s.Default != nil || s.Items.hasDefaults() || s.AdditionalProperties.hasDefaults()
	for _, p := range s.Properties {
		s.defaults = s.defaults || p.hasDefaults()
	}
	return nil
}

func (s *structural) hasDefaults() bool { return s != nil && s.defaults }

// fill sets the defaults in x, which the schema describes, in the order of the real server. First
// a null goes from an object if the schema neither allows it nor has a default for it. Then each
// absent property, and each null that the schema does not allow, becomes its default. The defaults
// of an absent object's properties have no effect unless the object itself has a default.
func (s *structural) fill(x any) {
	if s == nil {
		return
	}
	s.dropNulls(x)
	s.setDefaults(x)
}

// at returns the schema of an object's field, or nil.
func (s *structural) at(name string) *structural {
	if s == nil {
		return nil
	}
	if p, ok := s.Properties[name]; ok {
		return p
	}
	return s.AdditionalProperties
}

func (s *structural) item() *structural {
	if s == nil {
		return nil
	}
	return s.Items
}

// refuses reports whether x is a null that the schema does not allow.
func (s *structural) refuses(x any) bool { return x == nil && s != nil && !s.Nullable }

func (s *structural) dropNulls(x any) {
	switch x := x.(type) {
	case map[string]any:
		for name, value := range x {
			p := s.at(name)
			if p.refuses(value) && p.Default == nil {
				delete(x, name)
				continue
			}
			p.dropNulls(value)
		}
	case []any:
		for _, value := range x {
			s.item().dropNulls(value)
		}
	}
}

func (s *structural) setDefaults(x any) {
	if !s.hasDefaults() {
		return
	}
	switch x := x.(type) {
	case map[string]any:
		for name, p := range s.Properties {
			if value, ok := x[name]; p != nil && p.Default != nil && (!ok || p.refuses(value)) {
				x[name] = runtime.DeepCopyJSONValue(p.Default)
			}
		}
		for name, value := range x {
			p := s.at(name)
			if p.refuses(value) && p.Default != nil {
				x[name] = runtime.DeepCopyJSONValue(p.Default)
			}
			p.setDefaults(x[name])
		}
	case []any:
		for i, value := range x {
			if s.Items.refuses(value) && s.Items.Default != nil {
				x[i] = runtime.DeepCopyJSONValue(s.Items.Default)
			}
			s.Items.setDefaults(x[i])
		}
	}
}
