package guard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/kubereflector/kubereflector/internal/masking"
)

// absent stands for a value that does not exist.
const absent = "absent"

// firstDifference returns the path to the first field, by name, that differs between two encoded forms
// of an object, and both values. Values of Secrets are replaced, because errors go to logs.
func firstDifference(object any, was, is []byte) (path, before, after string) {
	a, b := decode(was), decode(is)
	hideSecrets(object, a, b)
	path, before, after, found := differ("", a, b)
	if !found {
		return "the order of its fields", "another", "this one"
	}
	if path == "" {
		path = "the object"
	}
	return path, before, after
}

// hideSecrets gives equal names to equal values of Secrets, and different ones to others.
func hideSecrets(object any, trees ...any) {
	names := map[any]string{}
	mask := masking.Mask{Instead: func(value any) any {
		if names[value] == "" {
			names[value] = fmt.Sprintf("hidden value %d", len(names)+1)
		}
		return names[value]
	}}
	for _, tree := range trees {
		if fields, ok := tree.(map[string]any); ok {
			mask.Value(fields, object)
		}
	}
}

func decode(encoded []byte) (value any) {
	d := json.NewDecoder(bytes.NewReader(encoded))
	d.UseNumber() // a large number must not lose digits
	_ = d.Decode(&value)
	return value
}

// differ compares two decoded values. They are any, because JSON may be any type.
func differ(path string, a, b any) (at, was, is string, found bool) {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			return differInFields(path, x, y)
		}
	case []any:
		if y, ok := b.([]any); ok {
			return differInElements(path, x, y)
		}
	default:
		if a == b {
			return "", "", "", false
		}
	}
	return path, printed(a), printed(b), true
}

func differInFields(path string, a, b map[string]any) (at, was, is string, found bool) {
	names := slices.Sorted(maps.Keys(a))
	for name := range b {
		if _, ok := a[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		x, had := a[name]
		y, has := b[name]
		field := path + "." + name
		switch {
		case !plainName.MatchString(name):
			field = path + "[" + strconv.Quote(name) + "]"
		case path == "":
			field = name
		}
		switch {
		case !has:
			return field, printed(x), absent, true
		case !had:
			return field, absent, printed(y), true
		}
		if at, was, is, found = differ(field, x, y); found {
			return at, was, is, true
		}
	}
	return "", "", "", false
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func differInElements(path string, a, b []any) (at, was, is string, found bool) {
	for i := range max(len(a), len(b)) {
		element := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case i >= len(a):
			return element, absent, printed(b[i]), true
		case i >= len(b):
			return element, printed(a[i]), absent, true
		}
		if at, was, is, found = differ(element, a[i], b[i]); found {
			return at, was, is, true
		}
	}
	return "", "", "", false
}

// maxPrinted is the largest number of bytes of a value in a message.
const maxPrinted = 200

func printed(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	if len(text) > maxPrinted {
		return string(text[:maxPrinted]) + "…"
	}
	return string(text)
}
