package reflectortest

import (
	_ "embed"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// WithDefaults makes the server set the defaults of built-in kinds in each object that is written,
// such as the replicas of a Deployment; builtin_defaults.txt has all that it sets. An operator that compares
// a stored spec with its own, or dereferences such a field, needs them to meet what it meets in a
// cluster. They are off by default, because a test that compares whole objects, or counts bytes,
// gets other objects than it stored.
//
// A real server sets more: in older API versions, in ValidatingAdmissionPolicies, CSIDrivers, RuntimeClasses
// and the groups flowcontrol and resource, in the behavior of a HorizontalPodAutoscaler, and in a pod's own
// resources and its volumes iscsi, rbd, scaleIO, azureDisk and image. And this one allocates nothing: a
// Service gets no cluster IP and a Job no selector.
func WithDefaults() Option { return optionFunc(func(o *options) { o.defaults = true }) }

//go:embed builtin_defaults.txt
var builtinDefaultsText string

// builtinDefaults has the lines of builtin_defaults.txt by kind, such as "apps/v1 Deployment", and
// by part, such as "@PodSpec".
var builtinDefaults = sync.OnceValue(func() map[string][]defaultLine {
	all := map[string][]defaultLine{}
	var kind string
	for text := range strings.Lines(builtinDefaultsText) {
		line := strings.TrimSpace(text)
		switch {
		case line == "" || line[0] == '#':
		case text[0] != ' ':
			kind = line
		default:
			all[kind] = append(all[kind], parseDefaultLine(line))
		}
	}
	return all
})

// defaultLine is a line of builtin_defaults.txt.
type defaultLine struct {
	path  []string
	value any      // nil for a copy or a part
	copy  []string // the path of the other field
	add   bool     // its fields are added to those that there are
	part  string
	when  func(scope map[string]any, parent map[string]any) bool
}

func parseDefaultLine(text string) defaultLine {
	text, condition, _ := strings.Cut(text, " if ")
	path, value, _ := strings.Cut(text, " ")
	d := defaultLine{path: strings.Split(path, "/"), when: parseCondition(condition)}
	switch value[0] {
	case '=', '+':
		d.copy, d.add = strings.Split(value[1:], "/"), value[0] == '+'
	case '@':
		d.part = value
	default:
		if err := utiljson.Unmarshal([]byte(value), &d.value); err != nil {
			panic(fmt.Sprintf("reflectortest: builtin_defaults.txt: %s: %v", text, err))
		}
	}
	return d
}

func parseCondition(text string) func(scope, parent map[string]any) bool {
	name, value, _ := strings.Cut(text, " ")
	absent, negated := strings.CutPrefix(name, "!")
	path := strings.Split(absent, "/")
	switch {
	case text == "":
		return func(_, _ map[string]any) bool { return true }
	case text == "alone":
		return func(_, parent map[string]any) bool { return len(parent) == 1 && parent["name"] != nil }
	case negated:
		return func(scope, _ map[string]any) bool { return lookUp(scope, path) == nil }
	case value == "*":
		return func(scope, _ map[string]any) bool { return lookUp(scope, path) != nil }
	case value == "latest":
		return func(scope, _ map[string]any) bool { return isLatest(lookUp(scope, path)) }
	}
	wanted := strings.Trim(value, `"`)
	return func(scope, _ map[string]any) bool { return fmt.Sprint(lookUp(scope, path)) == wanted }
}

// isLatest reports whether an image has the tag latest, which it also has without tag and digest.
func isLatest(image any) bool {
	name, _ := image.(string)
	name, _, digest := strings.Cut(name[strings.LastIndex(name, "/")+1:], "@")
	_, tag, tagged := strings.Cut(name, ":")
	return tag == "latest" || !tagged && !digest
}

func lookUp(scope map[string]any, path []string) any {
	for _, name := range path[:len(path)-1] {
		scope, _ = scope[name].(map[string]any)
	}
	return scope[path[len(path)-1]]
}

// fillBuiltin sets the defaults of a kind in an object of a built-in Go type.
func (res *resource) fillBuiltin(obj object) error {
	lines := builtinDefaults()[res.apiVersion()+" "+res.Kind]
	if len(lines) == 0 {
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return err
	}
	fill(content, lines)
	filled := res.newObject()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, filled); err != nil {
		return err
	}
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(filled).Elem())
	return nil
}

func fill(scope map[string]any, lines []defaultLine) {
	for _, d := range lines {
		d.fill(scope, scope, d.path)
	}
}

// fill sets the field at path, which begins at the object at. The other paths begin at scope.
func (d defaultLine) fill(scope, at map[string]any, path []string) {
	name, list := strings.CutSuffix(path[0], "[]")
	name, optional := strings.CutSuffix(name, "?")
	name = strings.ReplaceAll(name, "~1", "/")
	last := len(path) == 1
	if list {
		items, _ := at[name].([]any)
		for _, item := range items {
			if object, ok := item.(map[string]any); ok {
				d.next(scope, object, path)
			}
		}
		return
	}
	if last && d.part == "" {
		d.set(scope, at, name)
		return
	}
	object, ok := at[name].(map[string]any)
	if !ok {
		if optional || !d.when(scope, at) {
			return
		}
		if d.copy != nil && lookUp(scope, d.copy) == nil {
			return
		}
		object = map[string]any{}
		at[name] = object
	}
	d.next(scope, object, path)
}

// next goes on in the object that the first name of path has led to.
func (d defaultLine) next(scope, object map[string]any, path []string) {
	if len(path) == 1 {
		if d.when(scope, object) {
			fill(object, builtinDefaults()[d.part])
		}
		return
	}
	d.fill(scope, object, path[1:])
}

func (d defaultLine) set(scope, at map[string]any, name string) {
	value, old := d.value, at[name]
	if d.add {
		if more, ok := lookUp(scope, d.copy).(map[string]any); ok && d.when(scope, at) {
			all, _ := old.(map[string]any)
			at[name] = merged(more, all)
		}
		return
	}
	if d.copy != nil {
		if value = lookUp(scope, d.copy); old == int64(0) {
			old = nil
		}
	}
	if (old == nil || old == "") && value != nil && d.when(scope, at) {
		at[name] = runtime.DeepCopyJSONValue(value)
	}
}

// merged returns the fields of two objects; those of the second one win.
func merged(a, b map[string]any) map[string]any {
	all := runtime.DeepCopyJSON(a)
	maps.Copy(all, b)
	return all
}
