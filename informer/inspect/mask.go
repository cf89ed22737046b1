package inspect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"sigs.k8s.io/yaml"
)

// mask is shown instead of what is secret.
const mask = "••••••"

// applied is the annotation in which kubectl keeps a copy of an object.
const applied = "kubectl.kubernetes.io/last-applied-configuration"

// WithMasked masks fields of all objects. Each is a JSON pointer (RFC 6901) into the
// object, such as "/spec/password"; of a field that has fields itself, each value is
// masked. A pointer goes through lists as if they were not there: "/spec/users/token" is
// that of each user.
func WithMasked(pointers ...string) Option {
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	return optionFunc(func(p *Page) {
		for _, pointer := range pointers {
			var path []string
			for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
				path = append(path, unescape.Replace(part))
			}
			p.masked = append(p.masked, path)
		}
	})
}

// yamlOf returns an object as YAML with what is secret masked.
func yamlOf[T any](object T, masked [][]string) (string, error) {
	encoded, err := json.Marshal(object)
	if err != nil {
		return "", err
	}
	var tree map[string]any
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return "", fmt.Errorf("it is no JSON object: %w", err)
	}
	secret := isSecret(reflect.TypeFor[T](), tree)
	if secret {
		hide(tree, []string{"data"})
		hide(tree, []string{"stringData"})
	}
	for _, path := range masked {
		hide(tree, path)
	}
	if secret || len(masked) > 0 {
		hide(tree, []string{"metadata", "annotations", applied})
	}
	encoded, err = json.Marshal(tree)
	if err != nil {
		return "", err
	}
	text, err := yaml.JSONToYAML(encoded)
	return string(text), err
}

// isSecret reports whether an object may be a Secret: it says so itself, its type is
// called so, or nobody says what it is. Objects of a list often do not say.
func isSecret(t reflect.Type, tree map[string]any) bool {
	kind, _ := tree["kind"].(string)
	name := strings.ToLower(t.String())
	return kind == "Secret" || strings.Contains(name, "secret") || kind == "" && !strings.HasSuffix(name, "configmap")
}

// hide masks what is at a path, if there is something.
func hide(value any, path []string) any {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			switch {
			case len(path) == 0:
				value[name] = hide(field, nil)
			case name == path[0]:
				value[name] = hide(field, path[1:])
			}
		}
		return value
	case []any:
		for n := range value {
			value[n] = hide(value[n], path)
		}
		return value
	}
	if len(path) == 0 {
		return mask
	}
	return value
}
