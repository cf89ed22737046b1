package compact_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/compact"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// configured returns a ConfigMap of a kind: those of one kind differ in a number only.
func configured(kind uint64, i int) *corev1.ConfigMap {
	random := rand.New(rand.NewPCG(kind, kind))
	text := make([]byte, 4096)
	for at := range text {
		text[at] = 'a' + byte(random.IntN(26))
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("kind-", kind), Name: fmt.Sprint("c-", i), UID: "u", ResourceVersion: fmt.Sprint(i)},
		Data:       map[string]string{"text": string(text), "number": fmt.Sprint(i)},
	}
}

func TestLikeObjectsBecomeSmall(t *testing.T) {
	packer := compact.NewPacker(store.ObjectKey[*corev1.ConfigMap], compact.WithRecent(0))
	var all []*compact.Packed[*corev1.ConfigMap]
	for i := range 300 {
		packed, err := packer.Pack(configured(1, i))
		require.NoError(t, err)
		all = append(all, packed)
	}
	assert.Greater(t, all[0].Size(), 2000, "nothing is known yet")
	assert.Less(t, all[299].Size(), 200)
	for i, packed := range all {
		assert.Equal(t, configured(1, i), packed.Object(), "whatever it was packed with")
	}
}

func TestDictionariesFollowTheObjects(t *testing.T) {
	packer := compact.NewPacker(store.ObjectKey[*corev1.ConfigMap], compact.WithRecent(0))
	var old, late *compact.Packed[*corev1.ConfigMap]
	for i := range 5600 {
		kind := uint64(i / 1200) // 1 and more are alike
		packed, err := packer.Pack(configured(min(kind, 1), i))
		require.NoError(t, err)
		if late = packed; i == 500 {
			old = packed
		}
	}
	assert.Less(t, late.Size(), 200, "the new kind was learned")
	assert.Equal(t, configured(0, 500), old.Object())
	assert.Equal(t, configured(1, 5599), late.Object())
}

func TestObjectsThatAreAllSortsOfSizes(t *testing.T) {
	packer := compact.NewPacker(store.ObjectKey[*corev1.ConfigMap], compact.WithRecent(0))
	random := rand.New(rand.NewPCG(5, 5))
	for i := range 200 {
		size := 1 << random.IntN(18)
		data := make([]byte, size)
		for at := range data {
			data[at] = byte(random.Uint32())
		}
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c-", i)}, BinaryData: map[string][]byte{"data": data}}
		packed, err := packer.Pack(object)
		require.NoError(t, err)
		assert.Less(t, packed.Size(), size+200, "what cannot be compressed is not larger")
		require.Equal(t, object, packed.Object())
	}
}
