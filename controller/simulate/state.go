package simulate

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A state is a whole cluster without what may differ between two correct runs. Objects with a generated
// name share a key.
type state map[string][]string

// outside is the key of the lines of what is outside of the cluster.
const outside = "outside of the cluster"

// state returns the state of the server, and what is outside of it.
func (w *world) state() state {
	s := state{}
	w.learnNames()
	names := w.replacer()
	for _, o := range w.server.Objects() {
		t := targetOf(o)
		if t.unscheduled() {
			continue
		}
		object := decode(o.JSON())
		object.normalize()
		if w.scenario.Normalize != nil {
			w.scenario.Normalize(object)
		}
		if len(object) == 0 {
			continue // it may be missing
		}
		text, err := json.Marshal(plain(map[string]any(object), "", names))
		if err != nil {
			panic(fmt.Sprintf("simulate: an object does not encode: %v", err))
		}
		t.name = names.Replace(t.name)
		key := o.GVK.Kind + strings.TrimPrefix(t.String(), o.GVR.Resource)
		s[key] = append(s[key], string(text))
	}
	if w.lines != nil {
		s[outside] = w.outside()
	}
	for _, all := range s {
		slices.Sort(all)
	}
	return s
}

func (s state) equal(other state) bool { return maps.EqualFunc(s, other, slices.Equal) }

// tree is a decoded object.
type tree map[string]any

func decode(b []byte) tree {
	var t tree
	if err := json.Unmarshal(b, &t); err != nil {
		panic(fmt.Sprintf("simulate: a stored object does not decode: %v", err))
	}
	return t
}

func (t tree) string(path ...string) string {
	text, _, _ := unstructured.NestedString(t, path...)
	return text
}

// normalize removes what the server sets, and what counts writes. How often a spec changed may differ, but not
// whether the status is that of the last change: clients that wait for it would wait for ever.
func (t tree) normalize() {
	var generation any
	if meta, ok := t["metadata"].(map[string]any); ok {
		generation = meta["generation"]
		for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"} {
			delete(meta, field)
		}
		if annotations, ok := meta["annotations"].(map[string]any); ok {
			delete(annotations, annotationKey)
			delete(annotations, appsv1.DeprecatedTemplateGeneration)
			if len(annotations) == 0 {
				delete(meta, "annotations")
			}
		}
	}
	if status, ok := t["status"].(map[string]any); ok {
		if t["kind"] == "Pod" && t.string("metadata", "generateName") != "" { // its address follows from its name
			delete(status, "podIP")
			delete(status, "podIPs")
		}
		switch observed, ok := status["observedGeneration"]; {
		case !ok:
		case generation == nil:
			delete(status, "observedGeneration")
		case observed == generation:
			status["observedGeneration"] = "that of the object"
		default:
			status["observedGeneration"] = "another than that of the object"
		}
		conditions, _ := status["conditions"].([]any)
		for _, one := range conditions {
			if condition, ok := one.(map[string]any); ok {
				delete(condition, "observedGeneration")
			}
		}
	}
}

var (
	someTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`)
	someUID  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
)

// plain replaces times, UIDs, versions and generated names in all values, and sorts the lists whose items
// have names: nearly all of them are sets.
func plain(value any, field string, names *strings.Replacer) any {
	switch v := value.(type) {
	case map[string]any:
		all := make(map[string]any, len(v))
		for key, item := range v {
			all[names.Replace(key)] = plain(item, key, names)
		}
		return all
	case []any:
		for i, item := range v {
			v[i] = plain(item, field, names)
		}
		slices.SortStableFunc(v, func(a, b any) int {
			name := itemName(a)
			if order := strings.Compare(name, itemName(b)); order != 0 || name == "" && field != "finalizers" {
				return order
			}
			return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) // finalizers are a set, and two generated names are one now
		})
		return v
	case string:
		v = names.Replace(v)
		if len(v) >= len("2006-01-02T15:04:05Z") {
			v = someUID.ReplaceAllString(someTime.ReplaceAllString(v, "TIME"), "UID")
		}
		if _, err := strconv.ParseUint(v, 10, 64); err == nil && strings.Contains(strings.ToLower(field), "resourceversion") {
			v = "VERSION"
		}
		return v
	default:
		return v
	}
}

func itemName(item any) string {
	m, _ := item.(map[string]any)
	for _, key := range []string{"name", "type", "uid"} {
		if name, ok := m[key].(string); ok {
			return name
		}
	}
	return ""
}

// difference says in which objects and fields another state differs, and returns a key that states with
// the same difference share.
func (s state) difference(other state) (key, text string) {
	keys := maps.Clone(s)
	maps.Copy(keys, other)
	var texts []string
	for _, object := range slices.Sorted(maps.Keys(keys)) {
		usual, now := s[object], other[object]
		kind := kindOf(object)
		note := func(class, format string, args ...any) {
			if key == "" {
				key = "state " + kind + " " + class
			}
			texts = append(texts, fmt.Sprintf(format, args...))
		}
		switch {
		case slices.Equal(usual, now):
		case object == outside:
			note("differs", "%s is %q, undisturbed %q", outside, now, usual)
		case len(usual) > 0 && len(now) == 0:
			note("missing", "%s is missing", object)
		case len(usual) == 0:
			note("more", "%s exists", object)
		case len(usual) < len(now):
			note("more", "there are %d of %s, undisturbed %d", len(now), object, len(usual))
		case len(usual) > len(now):
			note("missing", "there are %d of %s, undisturbed %d", len(now), object, len(usual))
		default:
			for i := range usual {
				for _, d := range differences(decode([]byte(usual[i])), decode([]byte(now[i]))) {
					if kind == "Secret" {
						note(d.path, "%s: %s differs", object, d.path) // a log is no place for it
						continue
					}
					note(d.path, "%s: %s is %s, undisturbed %s", object, d.path, short(d.after), short(d.before))
				}
			}
		}
	}
	const most = 6
	if n := len(texts) - most; n > 0 {
		texts = append(texts[:most], fmt.Sprintf("and %d more", n))
	}
	return key, strings.Join(texts, "; ")
}

// A change is a field in which two objects differ.
type change struct {
	path          string
	before, after any // nil if absent
}

// differences returns the leaves at which two objects differ, without the fields that each write changes.
func differences(a, b tree) []change {
	var all []change
	var walk func(path string, x, y any)
	walk = func(path string, x, y any) {
		switch path {
		case ".metadata.resourceVersion", ".metadata.generation", ".metadata.managedFields":
			return
		}
		mx, isX := x.(map[string]any)
		my, isY := y.(map[string]any)
		if !isX && !isY {
			if !reflect.DeepEqual(x, y) {
				all = append(all, change{path, x, y})
			}
			return
		}
		if isX != isY && len(mx)+len(my) == 0 {
			all = append(all, change{path, x, y}) // an empty map is not an absent one
			return
		}
		keys := maps.Clone(mx)
		if keys == nil {
			keys = map[string]any{}
		}
		maps.Copy(keys, my)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			step := "." + key
			if strings.ContainsAny(key, "./") {
				step = "[" + key + "]"
			}
			walk(path+step, mx[key], my[key])
		}
	}
	walk("", map[string]any(a), map[string]any(b))
	return all
}

// short is a value for a person.
func short(value any) string {
	if value == nil {
		return "absent"
	}
	b, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	if len(b) > 160 {
		return string(b[:150]) + "…"
	}
	return string(b)
}

func unstructuredOf(o *reflectortest.StoredObject) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(o.JSON()); err != nil {
		panic(fmt.Sprintf("simulate: a stored object does not decode: %v", err))
	}
	return object
}
