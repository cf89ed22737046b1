package write

import (
	"encoding/json"
	"slices"
	"sort"
)

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

// match matches the items of two lists. mergeKey is that of the type, or empty.
func match(held, want []any, mergeKey string) matching {
	m := matching{from: make([]int, len(want)), gone: make([]bool, len(held)), unclear: make([]bool, len(held))}
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
			return m
		}
	}
	m.pair(textsOf(held), textsOf(want))
	m.findUnclear(textsOf(held), textsOf(want))
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
	counts := map[string][2]int{}
	for _, text := range held {
		c := counts[text]
		c[0]++
		counts[text] = c
	}
	for _, text := range want {
		c := counts[text]
		c[1]++
		counts[text] = c
	}
	isNew := slices.Contains(m.from, -1)
	moved := len(m.staying()) < len(m.from)-count(m.from, -1)
	for i, text := range held {
		c := counts[text]
		switch {
		case m.gone[i] && isNew: // a new item may be this one after a change
			m.unclear[i] = true
		case c[1] > 0 && c[0] != c[1]: // which one of equal items is it?
			m.unclear[i] = true
		case c[0] > 1 && moved: // equal items may have changed places
			m.unclear[i] = true
		}
	}
}

func count(numbers []int, n int) (found int) {
	for _, number := range numbers {
		if number == n {
			found++
		}
	}
	return found
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
