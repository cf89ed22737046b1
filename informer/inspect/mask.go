package inspect

import (
	"encoding/json"
	"fmt"

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
