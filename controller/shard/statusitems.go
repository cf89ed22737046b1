package shard

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
)

// StatusItems returns [Member.State] as names and values for package inspect: the phase, the shards
// that this member works on, the shards that do not end, the shards without a holder, and the
// members.
func (m *Member) StatusItems() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for _, fact := range m.facts() {
			if !yield(fact[0], fact[1]) {
				return
			}
		}
	}
}

func (m *Member) facts() [][2]string {
	s := m.State()
	facts := [][2]string{{"does", string(s.Phase)}}
	add := func(name, value string) {
		if value != "" {
			facts = append(facts, [2]string{name, value})
		}
	}
	var held, ending, free []string
	for _, one := range s.Shards {
		index := strconv.Itoa(one.Index)
		if one.Held {
			held = append(held, index)
		}
		if one.Ending {
			ending = append(ending, index)
		}
		if one.Holder == "" {
			free = append(free, index)
		}
	}
	var members []string
	for _, other := range s.Members {
		text := fmt.Sprintf("%s: %d", other.Incarnation, other.Shards)
		if other.Of != len(s.Shards) {
			text += fmt.Sprintf(" of %d", other.Of)
		}
		if other.Leaving {
			text += ", leaving"
		}
		members = append(members, text)
	}
	if len(s.Shards) > 0 {
		add("has", fmt.Sprintf("%d of %d shards", len(held), len(s.Shards)))
	}
	add("shards", strings.Join(held, " "))
	add("told to end", strings.Join(ending, " "))
	add("held by nobody", strings.Join(free, " "))
	add("foreign leases", strings.Join(s.Foreign, "; "))
	add("members", strings.Join(members, "; "))
	if s.Err != nil {
		add("last failure", s.Err.Error())
	}
	return facts
}
