package decode

import (
	gojson "encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// decodeAll decodes the same bytes three times: they are kept when they come the second time.
func decodeAll[T any](t *testing.T, format wire.Format, data string, opts ...Options) (second, third T) {
	codec, err := For[T](only(opts))
	require.NoError(t, err)
	d := codec.NewDecoder()
	_, err = d.Decode(format, []byte(data))
	require.NoError(t, err)
	buffer := []byte(data)
	second, err = d.Decode(format, buffer)
	require.NoError(t, err)
	clear(buffer)
	third, err = d.Decode(format, []byte(data))
	require.NoError(t, err)
	require.Equal(t, second, third)
	return second, third
}

func samePod(t *testing.T, format wire.Format) string {
	pod := makePods(1, false)[0]
	pod.Spec.Volumes = nil
	data, err := gojson.Marshal(pod)
	if format == wire.Protobuf {
		data, err = pod.Marshal()
	}
	require.NoError(t, err)
	return string(data)
}

func mapOf[K comparable, V any](m map[K]V) unsafe.Pointer { return reflect.ValueOf(m).UnsafePointer() }

func TestPartsWithTheSameBytesAreTheSame(t *testing.T) {
	for _, format := range []wire.Format{wire.JSON, wire.Protobuf} {
		a, b := decodeAll[*corev1.Pod](t, format, samePod(t, format))
		require.NotSame(t, a, b)
		assert.Equal(t, mapOf(a.Labels), mapOf(b.Labels), format)
		assert.Equal(t, mapOf(a.Annotations), mapOf(b.Annotations), format)
		assert.Same(t, &a.OwnerReferences[0], &b.OwnerReferences[0], format)
		assert.Same(t, a.ManagedFields[1].FieldsV1, b.ManagedFields[1].FieldsV1, format)
		assert.Same(t, a.Spec.SecurityContext, b.Spec.SecurityContext, format)
		assert.Same(t, &a.Spec.Tolerations[0], &b.Spec.Tolerations[0], format)
		first, second := &a.Spec.Containers[1], &b.Spec.Containers[1]
		assert.NotSame(t, first, second, format)
		assert.Same(t, first.LivenessProbe, second.LivenessProbe, format)
		assert.Equal(t, mapOf(first.Resources.Limits), mapOf(second.Resources.Limits), format)
		assert.Same(t, &first.Env[0], &second.Env[0], format)
		assert.Same(t, &first.Args[0], &second.Args[0], format)
		assert.Same(t, &first.Ports[0], &second.Ports[0], format)
		assert.Same(t, &first.VolumeMounts[0], &second.VolumeMounts[0], format)

		a, b = decodeAll[*corev1.Pod](t, format, samePod(t, format), Options{WithoutInterning: true})
		assert.NotEqual(t, mapOf(a.Labels), mapOf(b.Labels), format)
		assert.NotSame(t, a.Spec.SecurityContext, b.Spec.SecurityContext, format)
	}
}

// plain is a custom resource without embedded pointers, which the library decodes without sharing.
type plain struct {
	Spec plainSpec `json:"spec"`
}

type plainSpec struct {
	Strings  []string                      `json:"strings"`
	Structs  []fooBase                     `json:"structs"`
	Pointers []*fooBase                    `json:"pointers"`
	Recurse  *plainSpec                    `json:"recurse"`
	Probe    *corev1.Probe                 `json:"probe"`
	Lists    map[string][]corev1.Container `json:"lists"`
}

func TestTypesOfOnesOwnAreShared(t *testing.T) {
	for _, format := range []wire.Format{wire.JSON, wire.Protobuf} {
		a, b := decodeAll[*corev1.Pod](t, format, samePod(t, format), Options{WithoutInterning: true, Also: []reflect.Type{reflect.TypeFor[[]corev1.Container]()}})
		assert.Same(t, &a.Spec.Containers[0], &b.Spec.Containers[0], format)
		assert.NotEqual(t, mapOf(a.Labels), mapOf(b.Labels), format)
	}
	data := `{"spec":{"structs":[{"base":"a"}],"pointers":[{"base":"b"}],"recurse":{"recurse":{"strings":["s"]}}}}`
	a, b := decodeAll[*plain](t, wire.JSON, data, Options{Also: []reflect.Type{reflect.TypeFor[[]fooBase](), reflect.TypeFor[*plainSpec]()}})
	assert.Same(t, &a.Spec.Structs[0], &b.Spec.Structs[0])
	assert.NotSame(t, a.Spec.Pointers[0], b.Spec.Pointers[0])
	assert.Same(t, a.Spec.Recurse, b.Spec.Recurse, "a type within itself")
}

func TestAppendToASharedSliceCopiesIt(t *testing.T) {
	data := `{"spec":{"strings":["a","b","c"],"probe":{"exec":{"command":["a","b","c"]}},"lists":{"a":[{"env":[{"name":"a"},{"name":"b"},{"name":"c"}]}]}}}`
	a, _ := decodeAll[*plain](t, wire.JSON, data, Options{Also: []reflect.Type{reflect.TypeFor[*corev1.ExecAction]()}})
	assert.Equal(t, 3, cap(a.Spec.Strings))
	assert.Equal(t, 3, cap(a.Spec.Probe.Exec.Command))
	assert.Equal(t, 3, cap(a.Spec.Lists["a"][0].Env))
	for _, format := range []wire.Format{wire.JSON, wire.Protobuf} {
		p, _ := decodeAll[*corev1.Pod](t, format, samePod(t, format), Options{Also: []reflect.Type{reflect.TypeFor[*corev1.Pod](), reflect.TypeFor[[]corev1.Container]()}})
		for _, c := range p.Spec.Containers {
			assert.Equal(t, len(c.Env), cap(c.Env), format)
		}
		assert.Equal(t, len(p.Spec.Containers), cap(p.Spec.Containers), format)
	}
}

func TestARepeatedMemberDoesNotEditWhatIsShared(t *testing.T) {
	codec, err := For[*corev1.Pod](Options{})
	require.NoError(t, err)
	d := codec.NewDecoder()
	single := []byte(`{"metadata":{"labels":{"a":"b"}},"spec":{"securityContext":{"runAsUser":5}}}`)
	for range 3 {
		_, err = d.Decode(wire.JSON, single)
		require.NoError(t, err)
	}
	held, err := d.Decode(wire.JSON, single)
	require.NoError(t, err)
	for _, twice := range []string{
		`{"metadata":{"labels":{"a":"b"},"labels":{"c":"d"}}}`,
		`{"metadata":{"labels":{"a":"b"}},"metadata":{"labels":{"c":"d"}}}`,
		`{"spec":{"securityContext":{"runAsUser":5},"securityContext":{"runAsGroup":6}}}`,
	} {
		want := &corev1.Pod{}
		require.NoError(t, utiljson.Unmarshal([]byte(twice), want))
		got, err := d.Decode(wire.JSON, []byte(twice))
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	assert.Equal(t, map[string]string{"a": "b"}, held.Labels)
	assert.Nil(t, held.Spec.SecurityContext.RunAsGroup)
}

func TestRepeatedProtobufFieldsAreNotShared(t *testing.T) {
	first, err := (&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}, Name: "x"}}).Marshal()
	require.NoError(t, err)
	second, err := (&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"c": "d"}}, Spec: corev1.PodSpec{NodeName: "n"}}).Marshal()
	require.NoError(t, err)
	both := string(first) + string(second)
	want := &corev1.Pod{}
	require.NoError(t, want.Unmarshal([]byte(both)))
	_, got := decodeAll[*corev1.Pod](t, wire.Protobuf, both)
	assert.Equal(t, want, got)

	apart := metadata(first) + "\x0a\x01z" // labels, name, and labels again
	again := apart + metadata(second)
	message := fmt.Sprintf("\x0a%c%s", len(again), again)
	want = &corev1.Pod{}
	require.NoError(t, want.Unmarshal([]byte(message)))
	require.Len(t, want.Labels, 2)
	codec, err := For[*corev1.Pod](Options{})
	require.NoError(t, err)
	d := codec.NewDecoder()
	for range 3 {
		got, err := d.Decode(wire.Protobuf, []byte(message))
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
	alone, err := d.Decode(wire.Protobuf, first)
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"a": "b"}, alone.Labels)
}

// metadata returns the contents of the first field of a small message.
func metadata(object []byte) string { return string(object[2 : 2+object[1]]) }

func TestManagedFieldsAreSkipped(t *testing.T) {
	for _, format := range []wire.Format{wire.JSON, wire.Protobuf} {
		for _, opts := range [][]Options{{Options{SkipManagedFields: true}}, {Options{SkipManagedFields: true, WithoutInterning: true}}} {
			data := samePod(t, format)
			with, _ := decodeAll[*corev1.Pod](t, format, data)
			require.Len(t, with.ManagedFields, 2)
			without, _ := decodeAll[*corev1.Pod](t, format, data, opts...)
			want := with.DeepCopy()
			want.ManagedFields = nil
			assert.Equal(t, want, without, format)
		}
	}
}

func TestMemoryOfTablesIsBounded(t *testing.T) {
	values := table[int]{kept: new(int)}
	keep := func(key []byte, value int) {
		for range 2 {
			_, answer, found := values.get(key)
			if !found {
				values.put(answer, key, value)
			}
		}
	}
	often := []byte("often")
	for i := range 5 * fullValues {
		keep(fmt.Appendf(nil, "%d", i), i)
		keep(often, -1)
		require.LessOrEqual(t, len(values.young)+len(values.old), 2*fullValues)
	}
	got, _, ok := values.get(often)
	assert.True(t, ok && got == -1, "what is in use stays")
	_, _, ok = values.get([]byte("0"))
	assert.False(t, ok, "the oldest is gone")

	large := make([]byte, fullBytes/3)
	for i := range 20 {
		large[0] = byte(i)
		keep(large, i)
		require.LessOrEqual(t, values.size, fullBytes)
	}
	keep(make([]byte, fullBytes+1), 0)
	require.LessOrEqual(t, values.size, fullBytes)
}

func TestOneHashOfTwoKeysIsNotTakenForOneKey(t *testing.T) {
	values := table[int]{kept: new(int)}
	key, other := []byte("key"), []byte("other")
	_, _, _ = values.get(key)
	_, a, _ := values.get(key)
	require.True(t, a.keep)
	values.put(a, key, 1)
	e := values.young[a.hash]
	_, o, _ := values.get(other)
	values.young[o.hash] = e
	_, _, ok := values.get(other)
	assert.False(t, ok)
}

// Annotations and labels have the same type. Pauses of one must not end the sharing of the other.
func TestSharingPausesForFieldsWhereNothingRepeats(t *testing.T) {
	for _, format := range []wire.Format{wire.JSON, wire.Protobuf} {
		d := decoderOf[*corev1.Pod](t)
		var last [2]*corev1.Pod
		for i, pod := range makePods(period+10, true) {
			pod.Labels = map[string]string{"app": "a"}
			var err error
			last[i%2], err = d.Decode(format, podBytesOf(t, format, []*corev1.Pod{pod})[0])
			require.NoError(t, err)
		}
		assert.Equal(t, mapOf(last[0].Labels), mapOf(last[1].Labels), format)
		paused, asked := 0, 0
		q := d.json.quick
		if format == wire.Protobuf {
			q = d.messages
		}
		for i := range q.tables {
			if m := &q.tables[i].meter; m.pause > 0 {
				paused++
			} else if m.asked > 0 {
				asked++
			}
		}
		assert.Greater(t, paused, 5, format)
		assert.Positive(t, asked, format)
	}
}

func TestAMeterPausesLongerAndLonger(t *testing.T) {
	var values table[int]
	m := &values.meter
	ask := func(found int) (asked, paused int) {
		for m.pause == 0 {
			require.True(t, values.open())
			m.count(100, found)
			asked++
		}
		for !values.open() {
			paused++
		}
		return asked, paused
	}
	for i, want := range [][2]int{{period, firstPause}, {shortPeriod, 2 * firstPause}, {shortPeriod, 4 * firstPause}} {
		asked, paused := ask(24)
		assert.Equal(t, want, [2]int{asked, paused}, i)
	}
	for range shortPeriod {
		m.count(100, 25)
	}
	assert.Zero(t, m.pause)
	asked, paused := ask(0)
	assert.Equal(t, [2]int{period, firstPause}, [2]int{asked, paused}, "a good period makes the bad ones forgotten")
	for range 30 {
		_, paused = ask(0)
	}
	assert.Equal(t, mostPause, paused)
}

func TestSharedBytesInMapsHaveNoSpareCapacity(t *testing.T) {
	a, b := decodeAll[*corev1.Secret](t, wire.JSON, `{"data":{"a":"YWJjZA=="}}`, Options{Also: []reflect.Type{reflect.TypeFor[map[string][]byte]()}})
	require.Equal(t, mapOf(a.Data), mapOf(b.Data))
	x, y := append(a.Data["a"], 'x'), append(b.Data["a"], 'y')
	assert.Equal(t, "abcdx", string(x))
	assert.Equal(t, "abcdy", string(y))
}

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
		for sharing, opts := range map[string][]Options{"sharing": nil, "unshared": {Options{WithoutInterning: true}}, "without managed fields": {Options{SkipManagedFields: true}}} {
			codec, err := For[*projection](only(opts))
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
	codec, err := For[*whole](Options{WithoutInterning: true})
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
	wholeCodec, err := For[*corev1.Pod](Options{WithoutInterning: true})
	require.NoError(t, err)
	fewCodec, err := For[*projection](Options{WithoutInterning: true, SkipManagedFields: true})
	require.NoError(t, err)
	whole, few := wholeCodec.NewDecoder(), fewCodec.NewDecoder()
	wholeAllocations, wholeBytes := measure(func() { _, _ = whole.Decode(wire.JSON, data) })
	fewAllocations, fewBytes := measure(func() { _, _ = few.Decode(wire.JSON, data) })
	assert.Less(t, 4*fewAllocations, wholeAllocations)
	assert.Less(t, 4*fewBytes, wholeBytes)
}
