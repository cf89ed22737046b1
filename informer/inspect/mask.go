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
	name := strings.ToLower(reflect.TypeFor[T]().String())
	certain := strings.Contains(name, "secret") || saysSecret(tree) || tree["kind"] == metadataOnly
	secret := certain || !says(tree) && !strings.HasSuffix(name, "configmap")
	found := conceal(tree, secret)
	for _, path := range masked {
		hide(tree, path)
	}
	if secret || found || len(masked) > 0 {
		hideCopies(tree, certain || found)
	}
	encoded, err = json.Marshal(tree)
	if err != nil {
		return "", err
	}
	text, err := yaml.JSONToYAML(encoded)
	return string(text), err
}

// metadataOnly is the kind of the metadata of objects of any kind.
const metadataOnly = "PartialObjectMetadata"

// says reports whether an object says what it is. Those of a list often do not, nor does
// what somebody makes of a Secret: it may have a kind of its own, but no apiVersion. What
// does not say so may be a Secret.
func says(tree map[string]any) bool {
	kind, _ := tree["kind"].(string)
	version, _ := tree["apiVersion"].(string)
	return kind != "" && version != ""
}

// saysSecret reports whether an object says that it is a Secret, or a list of them, whose
// items do not say so.
func saysSecret(tree map[string]any) bool {
	return tree["kind"] == "Secret" || tree["kind"] == "SecretList"
}

// conceal masks the data of Secrets, at any depth, and reports whether there was some: a
// type of one's own may hold a Secret, or several. Without JSON tags, the names of fields
// are Go's.
func conceal(value any, secret bool) (found bool) {
	switch value := value.(type) {
	case map[string]any:
		secret = secret || saysSecret(value)
		for name, field := range value {
			if secret && (strings.EqualFold(name, "data") || strings.EqualFold(name, "stringData")) {
				value[name], found = hide(field, nil), true
			} else if conceal(field, secret) {
				found = true
			}
		}
	case []any:
		for _, element := range value {
			if conceal(element, secret) {
				found = true
			}
		}
	}
	return found
}

// hideCopies masks the annotations, at any depth, that hold a copy of the object: that of
// kubectl, and if all is wanted whatever looks like one, since other tools keep theirs in
// annotations of their own.
func hideCopies(value any, all bool) {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			if text, ok := field.(string); name == applied || all && ok && isCopy(text) {
				value[name] = mask
			} else {
				hideCopies(field, all)
			}
		}
	case []any:
		for _, element := range value {
			hideCopies(element, all)
		}
	}
}

// isCopy reports whether a text may be an object: JSON begins with a brace, and what gzip
// makes of it always with the same letters in base64.
func isCopy(text string) bool {
	text = strings.TrimSpace(text)
	return strings.HasPrefix(text, "{") || strings.HasPrefix(text, "H4sI")
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
