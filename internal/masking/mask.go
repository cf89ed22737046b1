package masking

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
)

// Applied is the annotation in which kubectl keeps a copy of an object.
const Applied = "kubectl.kubernetes.io/last-applied-configuration"

// metadataOnly is the kind of the metadata of objects of any kind.
const metadataOnly = "PartialObjectMetadata"

// Mask configures the masking of objects.
type Mask struct {
	// Instead returns the replacement of a value, which is a string, a json.Number, a bool or nil.
	Instead func(value any) any
	// Paths are masked in all objects: see Path.
	Paths [][]string
	// ShowSecrets leaves the data of Secrets as it is.
	ShowSecrets bool
}

// Path splits a JSON pointer (RFC 6901) into its parts. The empty pointer has none.
func Path(pointer string) (path []string) {
	if pointer == "" {
		return nil
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		path = append(path, unescape.Replace(part))
	}
	return path
}

// Decode decodes a JSON object into the form that Mask.Object takes.
func Decode(encoded []byte) (tree map[string]any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return nil, fmt.Errorf("it is no JSON object: %w", err)
	}
	return tree, nil
}

// Value masks the tree of an object whose Go type is known. Metadata alone may be that of a Secret.
func (m *Mask) Value(tree map[string]any, object any) {
	certain := tree["kind"] == metadataOnly || holdsSecret(reflect.ValueOf(object), map[visit]bool{})
	m.mask(tree, fmt.Sprintf("%T", object), certain)
}

// Object masks an object whose resource has the name. So the name also tells whether metadata alone is
// that of a Secret. Otherwise only kubectl's copy of the object is masked in it, because nothing else of
// the object is there to say what it is.
func (m *Mask) Object(tree map[string]any, name string) { m.mask(tree, name, false) }

// mask masks an object. certain is true if there is a Secret in it.
func (m *Mask) mask(tree map[string]any, name string, certain bool) {
	name = strings.ToLower(name)
	certain = certain || strings.Contains(name, "secret") || isSecret(tree)
	secret := certain || tree["kind"] == metadataOnly || !says(tree) && !strings.HasSuffix(name, "configmap")
	var found bool
	if m.ShowSecrets {
		certain, secret = false, false
	} else {
		found = m.conceal(tree, secret)
	}
	for _, path := range m.Paths {
		m.hide(tree, path)
	}
	if secret || found || len(m.Paths) > 0 {
		m.hideCopies(tree, certain || found)
	}
}

// says reports whether an object names its kind and apiVersion. The items of a list often do not. A
// type that a user derives from Secret may have a kind of its own and no apiVersion. An object
// without this information may be a Secret.
func says(tree map[string]any) bool {
	kind, _ := tree["kind"].(string)
	version, _ := tree["apiVersion"].(string)
	return kind != "" && version != ""
}

// isSecret reports whether an object names Secret or SecretList as its kind, has the data of no other
// kind, or has the type of a Secret. The items of a SecretList, and Secrets in fields of other objects,
// often do not name their kind.
func isSecret(tree map[string]any) bool {
	kind, _ := tree["kind"].(string)
	of, _ := tree["type"].(string)
	return strings.EqualFold(kind, "Secret") || strings.EqualFold(kind, "SecretList") ||
		tree["stringData"] != nil || tree["data"] != nil && secretType.MatchString(of)
}

// secretType finds the types of Secrets that Kubernetes and Helm define.
var secretType = regexp.MustCompile(`^(Opaque$|([a-z]+\.)?kubernetes\.io/|helm\.sh/)`)

// quoted finds a Secret in a text of JSON, of JSON within JSON, or of YAML.
var quoted = regexp.MustCompile(`(?i)\bkind[\\"']*\s*:[\\"'\s]*Secret(List)?\b`)

// conceal masks the data of Secrets, at any depth, and reports whether it found some. A user's type
// may hold one Secret or several. Without JSON tags, the names of fields are the Go names.
func (m *Mask) conceal(value any, secret bool) (found bool) {
	switch value := value.(type) {
	case map[string]any:
		secret = secret || isSecret(value)
		for name, field := range value {
			text, isText := field.(string)
			if isText && quoted.MatchString(text) {
				value[name] = m.Instead(text)
			} else if secret && (strings.EqualFold(name, "data") || strings.EqualFold(name, "stringData")) {
				value[name], found = m.hide(field, nil), true
			} else if m.conceal(field, secret) {
				found = true
			}
		}
	case []any:
		for i, element := range value {
			if text, ok := element.(string); ok && quoted.MatchString(text) {
				value[i] = m.Instead(text)
			} else if m.conceal(element, secret) {
				found = true
			}
		}
	}
	return found
}

// hideCopies masks copies of the object, at any depth: the annotation of kubectl, and any text that
// looks like a copy. If all is true, it also masks all other annotations except a few.
func (m *Mask) hideCopies(value any, all bool) {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			annotations, isMap := field.(map[string]any)
			if text, ok := field.(string); ok && (name == Applied || all && isCopy(text)) {
				value[name] = m.Instead(text)
			} else if all && isMap && strings.EqualFold(name, "annotations") {
				m.hideAnnotations(annotations)
			} else {
				m.hideCopies(field, all)
			}
		}
	case []any:
		for i, element := range value {
			if text, ok := element.(string); ok && all && isCopy(text) {
				value[i] = m.Instead(text)
			} else {
				m.hideCopies(element, all)
			}
		}
	}
}

// shownAnnotations are the annotations of a Secret with visible values: names of other objects.
var shownAnnotations = map[string]bool{
	"kubernetes.io/service-account.name": true,
	"kubernetes.io/service-account.uid":  true,
	"meta.helm.sh/release-name":          true,
	"meta.helm.sh/release-namespace":     true,
	"cert-manager.io/certificate-name":   true,
	"cert-manager.io/issuer-name":        true,
	"cert-manager.io/issuer-kind":        true,
	"cert-manager.io/issuer-group":       true,
}

// hideAnnotations masks the values of a Secret's annotations. Tools keep copies of the Secret there
// in any encoding, and openshift.io/token-secret.value is a token.
func (m *Mask) hideAnnotations(annotations map[string]any) {
	for name, value := range annotations {
		if !shownAnnotations[name] {
			annotations[name] = m.hide(value, nil)
		}
	}
}

// isCopy reports whether a text may be an object. JSON begins with a brace, and base64 of gzip
// always begins with the same letters.
func isCopy(text string) bool {
	text = strings.TrimSpace(text)
	return strings.HasPrefix(text, "{") || strings.HasPrefix(text, "H4sI")
}

// element finds a part of a path that stands for an element of a list.
var element = regexp.MustCompile(`^([0-9]+|-)$`)

// hide masks the value at a path, if there is one. A path leads into each element of a list, also if it
// names only one, because the others are likely to have a secret there too.
func (m *Mask) hide(value any, path []string) any {
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			switch {
			case len(path) == 0:
				value[name] = m.hide(field, nil)
			case name == path[0]:
				value[name] = m.hide(field, path[1:])
			}
		}
		return value
	case []any:
		named := len(path) > 0 && element.MatchString(path[0])
		for n := range value {
			value[n] = m.hide(value[n], path)
			if named {
				value[n] = m.hide(value[n], path[1:])
			}
		}
		return value
	}
	if len(path) == 0 {
		return m.Instead(value)
	}
	return value
}
