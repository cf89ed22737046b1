package stream

import (
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// uids returns a UID of the first half of the shards, and one of the other.
func uids() (here, there string) {
	for i := 'a'; here == "" || there == ""; i++ {
		uid := strings.Repeat(string(i), 36)
		if store.Shards(store.ByUID, 2)[0].Contains(store.ShardHash(uid)) {
			here = uid
		} else {
			there = uid
		}
	}
	return here, there
}

// TestItemsThatDoNotSayPlainlyWhoTheyAre has objects whose metadata can be read only by a
// decoder, and some that no decoder can read further.
func TestItemsThatDoNotSayPlainlyWhoTheyAre(t *testing.T) {
	here, there := uids()
	const escaped = `{"metadata":{"n\u0061me":"NAME","namespace":"n","uid":"UID","resourceVersion":"5"},"data":DATA}`
	item := func(name, uid, data string) string {
		return strings.NewReplacer("NAME", name, "UID", uid, "DATA", data).Replace(escaped)
	}
	body := `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[` + strings.Join([]string{
		item("a", here, "{}"), item("b", there, "{}"), item("c", here, "5"), item("d", there, "5"),
	}, ",") + "]}"
	r := configMapReader(t)
	shards := &Shards{By: store.ByUID, All: store.Shards(store.ByUID, 2)[:1]}
	p, err := r.items(wire.NewList(strings.NewReader(body), wire.JSON, 0), wire.JSON, Skip{Shards: shards}, nil)
	require.NoError(t, err)
	require.Len(t, p.Items, 1)
	assert.Equal(t, "a", p.Items[0].Name)
	require.Len(t, p.Rejections, 1, "what nobody can read is missed if it belongs here alone")
	assert.Equal(t, "c", p.Rejections[0].Key.Name)
	assert.Equal(t, 2, p.OutOfShard)

	s := &Watch[*corev1.ConfigMap]{of: r, shards: shards}
	var events []Event[*corev1.ConfigMap]
	for _, object := range []string{item("a", here, "{}"), item("b", there, "{}"), item("c", here, "5"), item("d", there, "5")} {
		batch := &wire.Batch{}
		batch.Frames = append(batch.Frames, wire.Frame{Type: "ADDED", Object: []byte(object)})
		s.decode(r.get(), &events, wire.JSON, batch)
	}
	require.Len(t, events, 4)
	assert.Equal(t, "a", events[0].Object.Name)
	assert.Equal(t, 1, events[1].OutOfShard)
	assert.Equal(t, "5", events[1].ResourceVersion)
	require.NotNil(t, events[2].Rejection)
	assert.Equal(t, 1, events[3].OutOfShard)
	assert.Nil(t, events[3].Rejection)
}
