package write

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"pgregory.net/rapid"
)

// Model is what a program shows of an object that has more members on every level.
type Model struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Text   string                 `json:"text,omitempty"`
		Labels map[string]string      `json:"labels,omitempty"`
		Sub    ModelSub               `json:"sub,omitzero"`
		Plain  ModelSub               `json:"plain"` // printed although the server may not have it
		Items  []ModelItem            `json:"items,omitempty"`
		Ports  []ModelPort            `json:"ports,omitempty" patchMergeKey:"port"`
		Rules  []ModelRule            `json:"rules,omitempty"` // without a key
		Grid   [][]ModelRule          `json:"grid,omitempty"`
		ByKey  map[string][]ModelItem `json:"byKey,omitempty"`
		Free   map[string]any         `json:"free,omitempty"`
	} `json:"spec"`
}

type ModelSub struct {
	Text string `json:"text,omitempty"`
}

type ModelItem struct {
	Name  string      `json:"name"`
	Value string      `json:"value,omitempty"`
	Count int         `json:"count"` // printed although the server may not have it
	Tags  []string    `json:"tags,omitempty"`
	Parts []ModelItem `json:"parts,omitempty"`
}

type ModelPort struct {
	Port  int    `json:"port"`
	Value string `json:"value,omitempty"`
}

type ModelRule struct {
	Text  string   `json:"text,omitempty"`
	Verbs []string `json:"verbs,omitempty"`
}

var (
	models    = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "models"}
	modelKind = models.GroupVersion().WithKind("Model")
)

// modeler draws documents and edits.
type modeler struct {
	*rapid.T
	unique int
}

func (m *modeler) text() string {
	m.unique++
	return fmt.Sprintf("x<%d>", m.unique)
}

// big is an integer that a float64 cannot hold.
func (m *modeler) big() any {
	m.unique++
	return 1<<53 + 1 + 2*m.unique
}

func (m *modeler) chance(percent int) bool {
	return rapid.IntRange(1, 100).Draw(m.T, "chance") <= percent
}

func (m *modeler) upTo(n int) int { return rapid.IntRange(0, n).Draw(m.T, "n") }

// some returns an object with some of its members, and often with one that no struct shows.
func (m *modeler) some(members map[string]func() any) map[string]any {
	object := map[string]any{}
	for name := range union(mapOf(members), nil) {
		if m.chance(60) {
			object[name] = members[name]()
		}
	}
	if m.chance(60) {
		object["hidden"] = m.text()
	}
	return object
}

func mapOf[V any](m map[string]V) map[string]any {
	names := map[string]any{}
	for name := range m {
		names[name] = nil
	}
	return names
}

func (m *modeler) list(item func() any) []any {
	list := []any{}
	for range m.upTo(4) {
		list = append(list, item())
	}
	return list
}

func (m *modeler) tags() any { return m.list(func() any { return m.text() }) }

func (m *modeler) item(depth int) any {
	members := map[string]func() any{"value": func() any { return m.text() }, "count": func() any { return 7 }, "tags": m.tags}
	if depth > 0 {
		members["parts"] = func() any { return m.list(func() any { return m.item(depth - 1) }) }
	}
	item := m.some(members)
	item["name"] = m.text()
	return item
}

func (m *modeler) port() any {
	item := m.some(map[string]func() any{"value": func() any { return m.text() }})
	m.unique++
	item["port"] = m.unique
	return item
}

// rule may look equal to another one, and show nothing at all.
func (m *modeler) rule() any {
	return m.some(map[string]func() any{
		"text":  func() any { return rapid.SampledFrom([]string{"a", "b"}).Draw(m.T, "rule") },
		"verbs": func() any { return []any{"get"} },
	})
}

func (m *modeler) sub() any {
	return m.some(map[string]func() any{"text": func() any { return m.text() }})
}

func (m *modeler) spec() map[string]any {
	return m.some(map[string]func() any{
		"text": func() any { return m.text() }, "sub": m.sub, "plain": m.sub,
		"labels": func() any { return map[string]any{"a": m.text(), "b": m.text()} },
		"items":  func() any { return m.list(func() any { return m.item(1) }) },
		"ports":  func() any { return m.list(m.port) },
		"rules":  func() any { return m.list(m.rule) },
		"grid":   func() any { return m.list(func() any { return m.list(m.rule) }) },
		"byKey":  func() any { return map[string]any{"k": m.list(func() any { return m.item(1) })} },
		"free": func() any {
			return map[string]any{"a": m.text(), "null": nil, "big": m.big(), "list": m.list(func() any { return map[string]any{"a": rapid.SampledFrom([]any{"x", nil, m.big()}).Draw(m.T, "a")} })}
		},
	})
}

// edited returns a document in which f has replaced the value at a path. Objects on the way are made.
// A value that becomes absent is removed.
func edited(document any, at path, f func(any) any) any {
	if len(at) == 0 {
		return f(document)
	}
	switch step := at[0].(type) {
	case int:
		list := slices.Clone(document.([]any))
		list[step] = edited(list[step], at[1:], f)
		return list
	default:
		object := map[string]any{}
		old, _ := document.(map[string]any)
		for name, value := range old {
			object[name] = value
		}
		name := step.(string)
		if value := edited(object[name], at[1:], f); value == absent {
			delete(object, name)
		} else {
			object[name] = value
		}
		return object
	}
}

var absent any = new(int)

func lookUp(document any, at path) any {
	for _, step := range at {
		switch step := step.(type) {
		case int:
			document = document.([]any)[step]
		case string:
			object, _ := document.(map[string]any)
			document = object[step]
		}
	}
	return document
}

// edit is one edit: what it does to the value at a path.
type edit struct {
	text  string
	at    path
	does  func(any) any
	keyed bool // the edit of a list with keys
}

// edit draws an edit of a document that is shown.
func (m *modeler) edit(shown any) (e edit) {
	leaves := []path{{"text"}, {"sub", "text"}, {"plain", "text"}, {"labels", "a"}, {"labels", "c"}, {"free", "a"}, {"free", "deep", "b"}}
	switch rapid.SampledFrom([]string{"set", "remove", "list", "keyed list", "keyed list", "keyed list"}).Draw(m.T, "edit") {
	case "set":
		at, value := rapid.SampledFrom(leaves).Draw(m.T, "set"), any(m.text())
		if at[0] == "free" && m.chance(50) {
			value = rapid.SampledFrom([]any{nil, map[string]any{"on": true, "off": nil}, []any{map[string]any{"off": nil}}}).Draw(m.T, "free")
		}
		return edit{text: fmt.Sprintf("set %s to %v", at, value), at: at, does: func(any) any { return value }}
	case "remove":
		at := rapid.SampledFrom(leaves).Draw(m.T, "remove")
		if lookUp(shown, at) == nil {
			return m.edit(shown)
		}
		return edit{text: "remove " + at.String(), at: at, does: func(any) any { return absent }}
	case "list":
		return m.editList(shown, rapid.SampledFrom([]path{{"rules"}, {"grid"}, {"free", "list"}}).Draw(m.T, "list"))
	default:
		at := rapid.SampledFrom([]path{{"items"}, {"ports"}, {"byKey", "k"}}).Draw(m.T, "list")
		if list, _ := lookUp(shown, at).([]any); at[0] != "ports" && len(list) > 0 && m.chance(40) {
			at = at.with(m.upTo(len(list) - 1)).with(rapid.SampledFrom([]string{"parts", "tags"}).Draw(m.T, "inner"))
		}
		return m.editList(shown, at)
	}
}

func (m *modeler) editList(shown any, at path) edit {
	list, _ := lookUp(shown, at).([]any)
	last := at[len(at)-1]
	made := map[any]func() any{
		"ports": m.port, "rules": func() any { return map[string]any{"text": m.text()} }, "tags": func() any { return m.text() },
		"grid": func() any { return []any{map[string]any{"text": m.text()}} },
		"list": func() any { return map[string]any{"a": m.text(), "off": nil} },
	}[last]
	keyed := made == nil || last == "ports"
	if made == nil {
		made = func() any { return m.item(0) }
	}
	e := edit{at: at, keyed: keyed}
	i := m.upTo(max(0, len(list)-1))
	kind := rapid.SampledFrom([]string{"edit", "insert", "remove", "move"}).Draw(m.T, "kind")
	if len(list) == 0 {
		kind = "insert"
	}
	to := m.upTo(len(list))
	switch kind {
	case "edit":
		value := m.text()
		e.at = at.with(i)
		switch last {
		case "tags":
		case "grid":
			return edit{text: "insert in the grid", at: e.at, does: func(inner any) any {
				return append(slices.Clone(inner.([]any)), map[string]any{"text": value})
			}}
		case "rules":
			e.at = e.at.with("text")
		case "list":
			e.at = e.at.with("a")
		default:
			e.at = e.at.with("value")
		}
		e.does = func(any) any { return value }
	case "insert":
		item := shownOf(made())
		e.does = func(list any) any {
			items, _ := list.([]any)
			return slices.Insert(slices.Clone(items), to, item)
		}
	case "remove":
		e.does = func(list any) any { return slices.Delete(slices.Clone(list.([]any)), i, i+1) }
	case "move":
		same := slices.IndexFunc(slices.Delete(slices.Clone(list), i, i+1), func(other any) bool { return reflect.DeepEqual(other, list[i]) })
		if to = min(to, len(list)-1); same >= 0 { // where it goes is not shown
			return m.edit(shown)
		}
		e.does = func(list any) any {
			items := slices.Clone(list.([]any))
			item := items[i]
			return slices.Insert(slices.Delete(items, i, i+1), to, item)
		}
	}
	e.text = fmt.Sprintf("%s %s %d to %d", kind, at, i, to)
	return e
}

// shownOf is an item without the members that structs do not show.
func shownOf(item any) any {
	if members, ok := item.(map[string]any); ok {
		delete(members, "hidden")
	}
	return item
}

// withoutEmpty returns a document without empty lists and objects in members: a Go value without them is
// that with them.
func withoutEmpty(value any) any {
	switch value := value.(type) {
	case map[string]any:
		object := map[string]any{}
		for name, v := range value {
			v = withoutEmpty(v)
			if l, ok := v.([]any); ok && len(l) == 0 {
				continue
			}
			if o, ok := v.(map[string]any); ok && len(o) == 0 {
				continue
			}
			if v == json.Number("0") && name == "count" {
				continue
			}
			object[name] = v
		}
		return object
	case []any:
		list := make([]any, len(value))
		for i := range value {
			list[i] = withoutEmpty(value[i])
		}
		return list
	}
	return value
}

// reencoded returns a value with the Go types of a decoded document.
func reencoded(t require.TestingT, value any) map[string]any {
	data, err := json.Marshal(value)
	require.NoError(t, err)
	document, err := decodeDocument(data)
	require.NoError(t, err)
	return document
}

// onlyPatches is a client that returns only what the struct shows.
type onlyPatches struct{ all *client.Resource[*Model] }

func (o onlyPatches) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*Model, error) {
	return o.all.Patch(ctx, name, kind, data, opts, subresources...)
}

func (o onlyPatches) Get(ctx context.Context, name string, opts metav1.GetOptions) (*Model, error) {
	return o.all.Get(ctx, name, opts)
}

// write-W7: whatever the struct shows, an edit of it is the same edit of the server's document, or is
// refused.
func TestEditOfAStructIsTheSameEditOfTheDocument(t *testing.T) {
	server := reflectortest.Start(t, reflectortest.WithResource(reflectortest.Resource{
		Group: models.Group, Version: models.Version, Kind: modelKind.Kind, Plural: models.Resource, Namespaced: true,
	}))
	all, err := client.ForResource[*Model](server.Config(), models, "ns", client.WithKind(modelKind))
	require.NoError(t, err)
	n := 0
	count := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		n++
		m := &modeler{T: rt}
		object := func() *unstructured.Unstructured {
			u := &unstructured.Unstructured{Object: map[string]any{}}
			u.SetGroupVersionKind(modelKind)
			u.SetNamespace("ns")
			u.SetName(fmt.Sprintf("m%d", n))
			return u
		}
		u := object()
		document := reencoded(rt, m.spec())
		require.NoError(rt, utiljson.Unmarshal(mustMarshal(rt, map[string]any{"apiVersion": "example.com/v1", "kind": "Model", "metadata": u.Object["metadata"], "spec": document}), &u.Object))
		require.NoError(rt, server.Create(u))
		held, err := all.Get(t.Context(), u.GetName(), metav1.GetOptions{})
		require.NoError(rt, err)

		var shown, expected any = reencoded(rt, held.Spec), document
		keyed := true
		for range 1 + m.upTo(2) {
			e := m.edit(shown)
			rt.Log(e.text)
			keyed = keyed && e.keyed
			shown, expected = edited(shown, e.at, e.does), edited(expected, e.at, e.does)
		}
		want := Copy(held)
		want.Spec = (&Model{}).Spec
		require.NoError(rt, utiljson.Unmarshal(mustMarshal(rt, shown), &want.Spec))
		var through Patcher[*Model] = all
		raw := m.chance(70)
		if !raw {
			through = onlyPatches{all}
		}
		written, err := Patch(t.Context(), through, held, want)
		now := object()
		require.NoError(rt, server.Get(now))
		got := reencoded(rt, now.Object["spec"])
		if keyed && raw {
			count["keyed"]++
		}
		if err != nil {
			count["refused"]++
			require.True(rt, errors.Is(err, ErrAmbiguous) || !raw, "%v", err)
			require.True(rt, errors.Is(err, ErrAmbiguous), "%v", err)
			require.Equal(rt, document, got, "nothing has changed: %v", err)
			require.Equal(rt, held.ResourceVersion, now.GetResourceVersion())
			if keyed && raw {
				count["keyed, refused"]++
			}
			return
		}
		require.Equal(rt, withoutEmpty(reencoded(rt, expected)), withoutEmpty(got))
		again, err := Patch(t.Context(), through, written, Copy(written))
		require.NoError(rt, err)
		require.Same(rt, written, again)
	})
	t.Log(count)
	assert.Less(t, count["keyed, refused"]*20, max(count["keyed"], 20), "of edits of lists with keys, fewer than 5 %% are refused: %v", count)
}

func mustMarshal(t require.TestingT, value any) []byte {
	data, err := json.Marshal(value)
	require.NoError(t, err)
	return data
}
