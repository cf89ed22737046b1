package inspect

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/kubereflector/kubereflector/internal/masking"
	"sigs.k8s.io/yaml"
)

// mask replaces secret values.
const mask = "••••••"

// WithMasked masks fields of all objects. Each pointer is a JSON pointer (RFC 6901) into the
// object, such as "/spec/password". If the field has fields itself, each value is masked. A pointer
// skips list levels: "/spec/users/token" masks the token of each user.
func WithMasked(pointers ...string) Option {
	return optionFunc(func(p *Page) {
		for _, pointer := range pointers {
			p.masked = append(p.masked, masking.Path(pointer))
		}
	})
}

// yamlOf returns an object as YAML with masked secrets.
func yamlOf[T any](object T, masked [][]string) (string, error) {
	tree, err := treeOf(object, masked)
	if err != nil {
		return "", err
	}
	encoded, err := json.Marshal(tree)
	if err != nil {
		return "", err
	}
	text, err := yaml.JSONToYAML(encoded)
	return string(text), err
}

// treeOf returns an object as decoded JSON with masked secrets.
func treeOf[T any](object T, masked [][]string) (map[string]any, error) {
	encoded, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	tree, err := masking.Decode(encoded)
	if err != nil {
		return nil, err
	}
	masks := masking.Mask{Instead: func(any) any { return mask }, Paths: masked}
	masks.Object(tree, fmt.Sprintf("%T", object))
	return tree, nil
}

// shownValue is how many characters of a value a difference shows.
const shownValue = 400

// differences returns the fields in which two versions of an object differ, except for
// metadata.managedFields. It compares the objects with masked secrets. ok is false if an object has
// no fields.
func differences[T any](before, after T, masked [][]string) (fields []FieldChange, ok bool) {
	old, err := treeOf(before, masked)
	if err != nil {
		return nil, false
	}
	tree, err := treeOf(after, masked)
	if err != nil {
		return nil, false
	}
	for _, side := range []map[string]any{old, tree} {
		if metadata, ok := side["metadata"].(map[string]any); ok {
			delete(metadata, "managedFields")
		}
	}
	return compare(nil, "", old, tree), true
}

// missing is the value of a field that one side lacks.
type missing struct{}

// compare appends the differences of two values of decoded JSON.
func compare(found []FieldChange, path string, before, after any) []FieldChange {
	switch old := before.(type) {
	case map[string]any:
		if fields, ok := after.(map[string]any); ok {
			return compareFields(found, path, old, fields)
		}
	case []any:
		if items, ok := after.([]any); ok {
			for n := range max(len(old), len(items)) {
				found = compare(found, fmt.Sprintf("%s[%d]", path, n), item(old, n), item(items, n))
			}
			return found
		}
	}
	if !reflect.DeepEqual(before, after) {
		found = append(found, FieldChange{Path: path, Before: valueText(before), After: valueText(after)})
	}
	return found
}

func compareFields(found []FieldChange, path string, before, after map[string]any) []FieldChange {
	names := slices.Collect(maps.Keys(before))
	for name := range after {
		if _, both := before[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		inner := name
		if path != "" {
			inner = path + "." + name
		}
		found = compare(found, inner, field(before, name), field(after, name))
	}
	return found
}

func field(fields map[string]any, name string) any {
	if value, ok := fields[name]; ok {
		return value
	}
	return missing{}
}

func item(items []any, n int) any {
	if n < len(items) {
		return items[n]
	}
	return missing{}
}

// valueText returns a value as JSON, or its beginning; empty for a missing value.
func valueText(value any) string {
	if value == (missing{}) {
		return ""
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // the template escapes it
	if err := encoder.Encode(value); err != nil {
		return err.Error()
	}
	encoded := strings.TrimSpace(text.String())
	if runes := []rune(encoded); len(runes) > shownValue {
		return string(runes[:shownValue]) + "…"
	}
	return encoded
}
