package eventqueue

import (
	"fmt"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWhatLeftTheScope has what becomes of events when a scope is dropped, and added again
// under each policy. Deletions of what left end in "!".
func TestWhatLeftTheScope(t *testing.T) {
	type steps = []string
	for _, row := range []struct {
		name        string
		acked       bool // the first object was
		then        steps
		latest, all []string
	}{
		{"it left", true, steps{"drop"}, []string{"-1(1)!"}, []string{"-1(1)!"}},
		{"it left, and nobody was told", false, steps{"drop"}, []string{"-1!"}, []string{"+1", "-1(1)!"}},
		{"it was deleted", true, steps{"delete"}, []string{"-2(1)"}, []string{"-2(1)"}},
		{"it changed and left", true, steps{"change", "drop"}, []string{"-2(1)!"}, []string{"1>2", "-2(2)!"}},
		{"it left and came back", true, steps{"drop", "list"}, []string{"1>1"}, []string{"-1(1)!", "+1"}},
		{"it left, came back and was deleted", true, steps{"drop", "list", "delete"}, []string{"-2(1)"}, []string{"-1(1)!", "+1", "-2(1)"}},
		{"it left, and another one came", true, steps{"drop", "other"}, []string{"-1(1)!", "+3"}, []string{"-1(1)!", "+3"}},
		{"it left twice", true, steps{"drop", "list", "drop"}, []string{"-1(1)!"}, []string{"-1(1)!", "+1", "-1(1)!"}},
		{"it was deleted, and a new one left", true, steps{"delete", "other", "drop"}, []string{"-2(1)"}, []string{"-2(1)", "+3", "-3(3)!"}},
	} {
		for name, policy := range compactions {
			t.Run(row.name+"/"+name, func(t *testing.T) {
				scope := store.Scope{Cluster: "west"}
				cache := store.New(store.ObjectKey[*thing])
				c := Follow(cache, WithCompaction(policy))
				p, err := cache.Partition(scope)
				require.NoError(t, err)
				require.NoError(t, p.Replace([]*thing{at("a", "u", 1)}, "1"))
				if row.acked {
					take(t, c).Done()
				}
				for _, step := range row.then {
					switch step {
					case "drop":
						err = cache.Drop(scope)
						require.NoError(t, err)
						p, err = cache.Partition(scope)
					case "list":
						err = p.Replace([]*thing{at("a", "u", 1)}, "1")
					case "other":
						err = p.Replace([]*thing{at("a", "v", 3)}, "3")
					case "change":
						err = p.Update(at("a", "u", 2))
					case "delete":
						err = p.Delete(at("a", "u", 2))
					}
					require.NoError(t, err)
				}
				want := row.all
				if policy == KeepLatest {
					want = row.latest
				}
				var got []string
				for i, e := range collect(take(t, c)) {
					word := words([]Event[*thing]{e})[0]
					if e.OutOfScope {
						word += "!"
					}
					assert.False(t, e.OutOfScope && e.Type != Deletion, "event %d", i)
					got = append(got, word)
				}
				assert.Equal(t, want, got)
			})
		}
	}
}

func TestEventAsText(t *testing.T) {
	assert.Equal(t, "Addition of a (Watch)", fmt.Sprint(Event[*thing]{Type: Addition, Origin: Watch, Key: key("a")}))
	assert.Equal(t, "Deletion of a (Watch, left)", fmt.Sprint(Event[*thing]{Type: Deletion, Origin: Watch, Key: key("a"), OutOfScope: true}))
}
