package decode

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// projection names few of an object's fields.
type projection struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
}

// withMuch returns an object with so many elements in fields that a projection does not name: at
// the top, beside what it names, and in front of it.
func withMuch(elements int, space string) []byte {
	much := strings.Repeat(`{"name":"x","values":["some text",1.5,true,null,{"deep":{"er":"\"quoted\""}}]},`, elements) + "0"
	return fmt.Appendf(nil, `{"kind":"Pod",%s"much":[%s],"metadata":{"name":"a","namespace":"n","uid":"u"},"spec":{"containers":[%s],"nodeName":"node-1"},"status":{"list":[%s]}}`,
		space, much, much, much)
}

// allocated returns how many bytes a call of f allocates: of several calls the least, since the
// runtime allocates by itself at times.
func allocated(f func()) uint64 {
	f()
	least := ^uint64(0)
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// A field that the type does not name is passed over: nothing is made of it, however large it is.
func TestFieldsThatAreNotNamedCostNoMemory(t *testing.T) {
	for name, space := range map[string]string{"as servers write it": "", "with a space, by the library": " "} {
		for sharing, opts := range map[string][]Option{"sharing": nil, "unshared": {WithoutInterning()}, "without managed fields": {SkipManagedFields()}} {
			codec, err := For[*projection](opts...)
			require.NoError(t, err)
			var allocations [2]float64
			var bytes [2]uint64
			for i, elements := range []int{0, 300} {
				data, d := withMuch(elements, space), codec.NewDecoder()
				decode := func() {
					object, err := d.Decode(wire.JSON, data)
					if err != nil || object.Name != "a" || object.Spec.NodeName != "node-1" {
						t.Fatalf("decoded %v, %v", object, err)
					}
				}
				allocations[i], bytes[i] = testing.AllocsPerRun(10, decode), allocated(decode)
				if elements > 0 {
					require.Greater(t, len(data), 70_000)
				}
			}
			assert.InDelta(t, allocations[0], allocations[1], 10, // pools forget under the race detector
				"%s, %s", name, sharing)
			assert.Less(t, bytes[1], bytes[0]+8192, "%s, %s", name, sharing)
		}
	}
}

// What a whole type makes of the same bytes shows that the test above would see it.
func TestFieldsThatAreNamedCostMemory(t *testing.T) {
	type whole struct {
		projection
		Much any `json:"much"`
	}
	codec, err := For[*whole](WithoutInterning())
	require.NoError(t, err)
	d, data := codec.NewDecoder(), withMuch(300, "")
	assert.Greater(t, allocated(func() {
		_, err := d.Decode(wire.JSON, data)
		require.NoError(t, err)
	}), uint64(100_000))
}

// A pod as API servers write it, and the few fields of it that a projection has.
func TestProjectionOfAPodMakesLittleOfIt(t *testing.T) {
	data := podBytes(t, wire.JSON, false)[0]
	measure := func(decode func()) (float64, uint64) { return testing.AllocsPerRun(20, decode), allocated(decode) }
	wholeCodec, err := For[*corev1.Pod](WithoutInterning())
	require.NoError(t, err)
	fewCodec, err := For[*projection](WithoutInterning(), SkipManagedFields())
	require.NoError(t, err)
	whole, few := wholeCodec.NewDecoder(), fewCodec.NewDecoder()
	wholeAllocations, wholeBytes := measure(func() { _, _ = whole.Decode(wire.JSON, data) })
	fewAllocations, fewBytes := measure(func() { _, _ = few.Decode(wire.JSON, data) })
	assert.Less(t, 4*fewAllocations, wholeAllocations)
	assert.Less(t, 4*fewBytes, wholeBytes)
}
