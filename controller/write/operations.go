package write

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// operation is one operation of a JSON patch, RFC 6902.
type operation struct {
	Op    string          `json:"op"`
	From  string          `json:"from,omitempty"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value,omitempty"`
}

// planner plans the JSON patch of a difference. Its indexes are those of the held lists, so the patch
// has to carry the held version.
//
// Without the server's document, each step that depends on what held does not show has a test before
// it, and the server refuses the patch if one fails:
//
//   - An item that changes, moves or goes has its key, or else what is shown of it. A list has as
//     many items as are shown. So no step reaches another item, also if a transform of the informer
//     changed the list.
//   - An unclear item has no other members than those that are shown.
//   - An object or a list that is made does not exist yet.
//
// With the server's document, these conditions are checked here, and no test is sent.
type planner struct {
	known bool // the server's document is at hand
	held  reflect.Value
	steps []operation
	// zeros says that the server, too, prints the structs of which held shows nothing: it encodes the
	// same Go type.
	zeros bool

	lists, unclear []path // lists that change, and unclear items in them: for errors
}

// errUnclear means that the plan needs the server's document.
var errUnclear = errors.New("a null in a list cannot be tested")

// plan returns the operations that turn the held document into the wanted one. live is the server's
// document at held's version, or nil.
func (d *difference) plan(live map[string]any) (*planner, error) {
	p := &planner{known: live != nil, held: d.held, zeros: d.shape.isServers()}
	return p, p.object(nil, d.shape, live, d.before, d.after)
}

func (p *planner) step(op string, at path, value any) error {
	data, err := json.Marshal(value)
	p.steps = append(p.steps, operation{Op: op, Path: pointer(at), Value: data})
	return err
}

func (p *planner) remove(at path) {
	p.steps = append(p.steps, operation{Op: "remove", Path: pointer(at)})
}

// object plans the change of an object's members.
func (p *planner) object(at path, s shape, live, before, after map[string]any) error {
	for m := range s.changes(before, after) {
		current, exists := live[m.name]
		if err := p.member(at.with(m.name), m, current, exists); err != nil {
			return err
		}
	}
	return nil
}

// member plans the change of one member. current is the server's value.
func (p *planner) member(at path, m *member, current any, exists bool) error {
	if items, wanted, ok := m.lists(); ok {
		p.lists = append(p.lists, at)
		return p.list(at, m, current, items, wanted)
	}
	if !m.has {
		if !p.known || exists {
			p.remove(at)
		}
		return nil
	}
	before, isUpdate := m.old.(map[string]any)
	after, isObject := m.value.(map[string]any)
	now, currentIsObject := current.(map[string]any)
	switch {
	case !isObject || m.had && !isUpdate:
	case p.known && currentIsObject, !p.known && isUpdate && (p.zeros || !m.field.value || contains(before, isShown)):
		return p.object(at, m.shape, now, before, after)
	case !p.known: // members that the struct does not show could be there
		if err := p.step("test", at, nil); err != nil {
			return err
		}
	}
	return p.step("add", at, m.value)
}

// list plans the change of a list.
func (p *planner) list(at path, m *member, current any, held, want []any) error {
	live, ok := current.([]any)
	printed := held
	if p.known && len(live) < len(held) && !slices.ContainsFunc(held[len(live):], func(item any) bool { return contains(item, isShown) }) {
		held = held[:len(live)] // an array also prints the items that it lacks, and so may a type that encodes itself
	}
	if p.known && (len(live) != len(held) || current != nil && !ok) {
		return &listError{at, ErrTransformed}
	}
	plain := !slices.ContainsFunc(held, isComposite) && !slices.ContainsFunc(want, isComposite)
	switch {
	case !plain && len(held) > 0:
		if err := p.items(at, m.field, live, held, printed, want); err != nil || m.has {
			return err
		}
	case p.known && len(want) > 0 && slices.ContainsFunc(live, isComposite): // held prints them as scalars
		return &listError{at, ErrAmbiguous}
	case p.known:
	case len(held) == 0 && !m.had && !isEmptyList(p.held, at):
		if err := p.step("test", at, nil); err != nil {
			return err
		}
	case slices.Contains(held, nil):
		return errUnclear // the server's library panics
	default:
		if err := p.step("test", at, append([]any{}, held...)); err != nil {
			return err
		}
	}
	if !m.has {
		if !p.known || current != nil {
			p.remove(at)
		}
		return nil
	}
	return p.step("add", at, want)
}

func isComposite(value any) bool {
	switch value.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// items plans the change of a list whose items may have members that the struct does not show. printed has
// the items of held, and then those that the server lacks.
func (p *planner) items(at path, f field, live, held, printed, want []any) error {
	m := match(held, printed, want, f.mergeKey)
	stay := m.staying()
	if err := p.secure(at, f, live, held, m, touched(held, want, m, stay)); err != nil {
		return err
	}
	for j, i := range m.from {
		if i < 0 || reflect.DeepEqual(held[i], want[j]) {
			continue
		}
		var current map[string]any
		if p.known {
			current, _ = live[i].(map[string]any)
		}
		if err := p.object(at.with(i), f.shape.item(), current, held[i].(map[string]any), want[j].(map[string]any)); err != nil {
			return err
		}
	}
	return p.arrange(at, want, m, stay)
}

// touched returns the items of held that the change reaches, and those after which the change puts
// another item.
func touched(held, want []any, m matching, stay map[int]bool) []bool {
	touched := slices.Clone(m.gone)
	for j, i := range m.from {
		if i >= 0 && stay[i] {
			touched[i] = touched[i] || !reflect.DeepEqual(held[i], want[j])
			continue
		}
		if i >= 0 {
			touched[i] = true
		}
		if j > 0 && m.from[j-1] >= 0 {
			touched[m.from[j-1]] = true
		}
	}
	return touched
}

// secure makes sure that the server has the list that held shows.
func (p *planner) secure(at path, f field, live, held []any, m matching, touched []bool) error {
	if !p.known {
		p.length(at, len(held))
	}
	for i, item := range held {
		switch below := at.with(i); {
		case m.unclear[i]:
			p.unclear = append(p.unclear, below)
			switch {
			case p.known && !f.shape.item().showsAll(live[i], item):
				return &listError{below, ErrAmbiguous}
			case p.known:
			case contains(item, hasNullItem):
				return errUnclear
			default:
				printed := item
				if v, ok := valueAt(p.held, below); ok && p.zeros {
					printed = v.Interface() // with the nulls of nil lists, which the server prints, too
				}
				if err := p.step("test", below, printed); err != nil {
					return err
				}
			}
		case p.known && m.key != "":
			if current, _ := live[i].(map[string]any); !reflect.DeepEqual(current[m.key], item.(map[string]any)[m.key]) {
				return &listError{below, ErrTransformed}
			}
		case p.known || !touched[i]:
		case m.key != "":
			if err := p.step("test", below.with(m.key), item.(map[string]any)[m.key]); err != nil {
				return err
			}
		default:
			if err := p.identify(below, item); err != nil {
				return err
			}
		}
	}
	return nil
}

// length tests that a list has n items. It appends a value, which has to come to stand at n.
func (p *planner) length(at path, n int) {
	end := pointer(at.with(n))
	p.steps = append(p.steps, operation{Op: "add", Path: pointer(at.with("-")), Value: json.RawMessage("0")},
		operation{Op: "test", Path: end, Value: json.RawMessage("0")}, operation{Op: "remove", Path: end})
}

// identify tests what is shown of an item. A zero is not tested: a struct also prints it for a member
// that does not exist.
func (p *planner) identify(at path, value any) error {
	switch value := value.(type) {
	case map[string]any:
		for name := range union(value, nil) {
			if err := p.identify(at.with(name), value[name]); err != nil {
				return err
			}
		}
	case []any:
		if len(value) > 0 && !slices.ContainsFunc(value, isComposite) && !slices.Contains(value, nil) {
			return p.step("test", at, value)
		}
		for i, item := range value {
			if err := p.identify(at.with(i), item); err != nil {
				return err
			}
		}
	default:
		if !isZero(value) {
			return p.step("test", at, value)
		}
	}
	return nil
}

// arrange removes, moves and inserts items. Members that are not shown move with their item.
func (p *planner) arrange(at path, want []any, m matching, stay map[int]bool) error {
	var now []int // the list as it is after each step: indexes in held, or -1 for a new item
	for i := range m.gone {
		if !m.gone[i] {
			now = append(now, i)
		}
	}
	for i, gone := range slices.Backward(m.gone) {
		if gone {
			p.remove(at.with(i))
		}
	}
	last := -1 // the index in now of the wanted item before
	for j, i := range m.from {
		switch {
		case i < 0:
			last++
			now = slices.Insert(now, last, -1)
			if err := p.step("add", at.with(last), want[j]); err != nil {
				return err
			}
		case stay[i]:
			last = slices.Index(now, i)
		default:
			from := slices.Index(now, i)
			now = slices.Delete(now, from, from+1)
			if from > last {
				last++
			}
			now = slices.Insert(now, last, i)
			if from != last {
				p.steps = append(p.steps, operation{Op: "move", From: pointer(at.with(from)), Path: pointer(at.with(last))})
			}
		}
	}
	return nil
}

// isEmptyList reports whether a Go value has an empty list at a path, and not a nil one. JSON leaves
// out both, but the server has the empty one.
func isEmptyList(v reflect.Value, at path) bool {
	v, ok := valueAt(v, at)
	for ok && v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	return ok && v.Kind() == reflect.Slice && !v.IsNil() && v.Len() == 0
}

// valueAt returns the value of a field, or of an item of a list, below a Go value.
func valueAt(v reflect.Value, at path) (found reflect.Value, ok bool) {
	for _, step := range at {
		for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
			v = v.Elem()
		}
		switch step := step.(type) {
		case int:
			if v.Kind() != reflect.Slice && v.Kind() != reflect.Array || step >= v.Len() {
				return v, false
			}
			v = v.Index(step)
		case string:
			if v.Kind() != reflect.Struct {
				return v, false
			}
			f, ok := fieldsOfStruct(v.Type())[step]
			if !ok {
				return v, false
			}
			var err error
			if v, err = v.FieldByIndexErr(f.index); err != nil {
				return v, false
			}
		}
	}
	return v, true
}

// pointer returns a path as a JSON pointer, RFC 6901.
func pointer(at path) string {
	var text strings.Builder
	for _, step := range at {
		text.WriteByte('/')
		switch step := step.(type) {
		case int:
			text.WriteString(strconv.Itoa(step))
		case string:
			text.WriteString(strings.NewReplacer("~", "~0", "/", "~1").Replace(step))
		}
	}
	return text.String()
}

// matching says which item of a held list is which of a wanted one.
type matching struct {
	// key is the member that identifies an item. Without one, items are the same if they are equal.
	key string
	// from has the index in held for each wanted item, or -1 for a new one.
	from []int
	// gone are the items of held that are not wanted.
	gone []bool
	// unclear are the items of held whose counterpart the lists do not show: an item of want that
	// differs may be another item, or the same one after a change. Nothing is lost only if the struct
	// names every member of such an item.
	unclear []bool
}

// identities are members that identify the items of a list where all items have a distinct one.
var identities = []string{"name", "type", "key", "uid"}

// match matches the items of two lists. mergeKey is that of the type, or empty. Without a key, an item of held
// may have the text of one that is only printed, so it does not show where that text belongs.
func match(held, printed, want []any, mergeKey string) matching {
	m := matching{from: make([]int, len(want)), gone: make([]bool, len(printed)), unclear: make([]bool, len(printed))}
	for i := range m.gone {
		m.gone[i] = true
	}
	for _, key := range append([]string{mergeKey}, identities...) {
		ofHeld, ok := keysOf(held, key)
		if !ok || key == "" {
			continue
		}
		if ofWant, ok := keysOf(want, key); ok {
			m.key = key
			m.pair(ofHeld, ofWant)
			return m.cut(len(held))
		}
	}
	m.pair(textsOf(printed), textsOf(want))
	m.findUnclear(textsOf(printed), textsOf(want))
	return m.cut(len(held))
}

// cut leaves the first n items of held: the server lacks the others, so they are new where they are wanted.
func (m matching) cut(n int) matching {
	for j, i := range m.from {
		if i >= n {
			m.from[j] = -1
		}
	}
	m.gone, m.unclear = m.gone[:n], m.unclear[:n]
	return m
}

// keysOf returns the values of a member, if all items have a distinct one.
func keysOf(items []any, key string) ([]string, bool) {
	keys, seen := make([]string, len(items)), make(map[string]bool, len(items))
	for i, item := range items {
		members, _ := item.(map[string]any)
		switch value := members[key].(type) {
		case string:
			keys[i] = value
		case json.Number:
			keys[i] = value.String()
		}
		if keys[i] == "" || seen[keys[i]] {
			return nil, false
		}
		seen[keys[i]] = true
	}
	return keys, true
}

// textsOf returns the JSON of each item.
func textsOf(items []any) []string {
	texts := make([]string, len(items))
	for i, item := range items {
		text, _ := json.Marshal(item) // it was JSON before
		texts[i] = string(text)
	}
	return texts
}

// pair matches equal texts, the first with the first.
func (m *matching) pair(held, want []string) {
	at := map[string][]int{}
	for i, text := range held {
		at[text] = append(at[text], i)
	}
	for j, text := range want {
		m.from[j] = -1
		if left := at[text]; len(left) > 0 {
			m.from[j], at[text] = left[0], left[1:]
			m.gone[left[0]] = false
		}
	}
}

// findUnclear is for items without a key.
func (m *matching) findUnclear(held, want []string) {
	inHeld, inWant, added := map[string]int{}, map[string]int{}, 0
	for _, text := range held {
		inHeld[text]++
	}
	for j, text := range want {
		inWant[text]++
		if m.from[j] < 0 {
			added++
		}
	}
	moved := len(m.staying()) < len(m.from)-added
	for i, text := range held {
		switch {
		case m.gone[i] && added > 0, // a new item may be this one after a change
			inWant[text] > 0 && inHeld[text] != inWant[text], // which one of equal items is it?
			inHeld[text] > 1 && moved:                        // equal items may have changed places
			m.unclear[i] = true
		}
	}
}

// staying returns the items of held that need not move: a longest increasing subsequence of from.
func (m *matching) staying() map[int]bool {
	var tails []int // positions in from: tails[n] ends the best sequence of n+1 items
	before := make([]int, len(m.from))
	for j, i := range m.from {
		if i < 0 {
			continue
		}
		n := sort.Search(len(tails), func(n int) bool { return m.from[tails[n]] >= i })
		before[j] = -1
		if n > 0 {
			before[j] = tails[n-1]
		}
		tails = append(tails[:n], append([]int{j}, tails[min(n+1, len(tails)):]...)...)
	}
	stay := map[int]bool{}
	if len(tails) > 0 {
		for j := tails[len(tails)-1]; j >= 0; j = before[j] {
			stay[m.from[j]] = true
		}
	}
	return stay
}
