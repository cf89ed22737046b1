package inspect

import (
	"encoding/json"
	"reflect"

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
	encoded, err := json.Marshal(object)
	if err != nil {
		return "", err
	}
	tree, err := masking.Decode(encoded)
	if err != nil {
		return "", err
	}
	masks := masking.Mask{Instead: func(any) any { return mask }, Paths: masked}
	masks.Object(tree, reflect.TypeFor[T]().String())
	if encoded, err = json.Marshal(tree); err != nil {
		return "", err
	}
	text, err := yaml.JSONToYAML(encoded)
	return string(text), err
}
