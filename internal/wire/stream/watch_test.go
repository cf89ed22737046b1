package stream

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// sluggish is an object that takes as long to decode as it says.
type sluggish struct {
	metav1.ObjectMeta `json:"metadata"`
	Takes             duration `json:"takes"`
}

func (*sluggish) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }
func (s *sluggish) DeepCopyObject() runtime.Object { return s }

type duration string

func (*duration) UnmarshalJSON(text []byte) error {
	takes, err := time.ParseDuration(strings.Trim(string(text), `"`))
	if err == nil {
		<-time.After(takes)
	}
	return err
}

func sluggishEvent(version, size int, takes string) string {
	return fmt.Sprintf(`{"type":"MODIFIED","object":{"metadata":{"namespace":"ns","name":"a","uid":"u","resourceVersion":"%d"},"takes":%q,"pad":%q}}`+"\n",
		version, takes, strings.Repeat("x", size))
}

// sluggishWatch is a watch that reads a body until ctx ends.
func sluggishWatch(ctx context.Context, t *testing.T, body paused) *Watch[*sluggish] {
	return watchBody[*sluggish](ctx, t, &body, false, Wants[*sluggish]{})
}

// While a helper is at the first event, the second one waits, the third one is decoded where it
// is cut, and there is room beside the second one for the fourth.
func TestEventThatComesAloneIsNotOvertaken(t *testing.T) {
	processors(t, 2)
	synctest.Test(t, func(t *testing.T) {
		s := sluggishWatch(t.Context(), t, paused{
			{0, sluggishEvent(1, 60000, "1s")},
			{0, sluggishEvent(2, 20000, "0s")},
			{time.Millisecond, sluggishEvent(3, 10, "0s")},
			{0, sluggishEvent(4, 10, "0s")},
		})
		defer s.cancel()
		var got []string
		for p := range s.parts {
			wait(p)
			for _, e := range p.result {
				require.NotNil(t, e.Write.Object)
				got = append(got, e.Version)
			}
		}
		require.NoError(t, s.err)
		assert.Equal(t, []string{"1", "2", "3", "4"}, got)
	})
}

// The second event waits when the watch is told to end; what was decoded on the spot after it must not come
// in its place.
func TestWatchThatIsToldToEndLeavesNoGap(t *testing.T) {
	processors(t, 2)
	for range 20 { // a select that may go either way does not always go wrong
		synctest.Test(t, func(t *testing.T) {
			s := sluggishWatch(t.Context(), t, paused{
				{0, sluggishEvent(1, 60000, "1s")},
				{0, sluggishEvent(2, 20000, "0s")},
				{time.Millisecond, sluggishEvent(3, 10, "0s")},
				{10 * time.Millisecond, sluggishEvent(4, 10, "0s")},
			})
			ctx, stop := context.WithCancel(t.Context())
			time.AfterFunc(5*time.Millisecond, stop)
			seen := 0
			for {
				events, err := s.Next(ctx, nil)
				if err != nil {
					break
				}
				for _, e := range events {
					seen++
					assert.Equal(t, fmt.Sprint(seen), e.Version)
				}
			}
			assert.NoError(t, s.Close())
			assert.NoError(t, s.err)
		})
	}
}

// The same if the watch ends, as at a timeout for its answer, and the receiver goes on.
func TestWatchThatEndsByItselfLeavesNoGap(t *testing.T) {
	processors(t, 2)
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			s := sluggishWatch(ctx, t, paused{
				{0, sluggishEvent(1, 60000, "1s")},
				{0, sluggishEvent(2, 20000, "0s")},
				{time.Millisecond, sluggishEvent(3, 10, "0s")},
				{10 * time.Millisecond, sluggishEvent(4, 10, "0s")},
			})
			time.AfterFunc(5*time.Millisecond, stop)
			<-time.After(time.Minute)
			var got []string
			for range 5 {
				events, err := s.Next(t.Context(), nil)
				for _, e := range events {
					got = append(got, e.Version)
				}
				if err != nil {
					require.ErrorIs(t, err, io.EOF)
				}
			}
			assert.GreaterOrEqual(t, len(got), 3, "what had come before the end")
			assert.Equal(t, []string{"1", "2", "3", "4"}[:len(got)], got)
			assert.NoError(t, s.Close())
		})
	}
}

func TestEventThatComesAloneIsDecodedWhereItIsCut(t *testing.T) {
	processors(t, 4)
	for name, tc := range map[string]struct {
		pause  time.Duration
		helped bool
	}{"alone": {time.Millisecond, false}, "without a pause": {0, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const events = 200
				var chunks []string
				for i := range events {
					chunks = append(chunks, added(configMap(i, 5000)))
				}
				s := watchBody[*corev1.ConfigMap](t.Context(), t, inChunks(tc.pause, chunks...), false, Wants[*corev1.ConfigMap]{})
				defer s.cancel()
				var names []string
				helped := false
				for p := range s.parts {
					helped = helped || p.done != nil
					wait(p)
					for _, e := range p.result {
						names = append(names, e.Write.Object.Name)
					}
				}
				require.NoError(t, s.err)
				require.Len(t, names, events)
				for i, name := range names {
					require.Equal(t, fmt.Sprint("a", i), name)
				}
				assert.Equal(t, tc.helped, helped)
			})
		})
	}
}

// happened says what a watch brings to its end: "=a" for an a that is held, "+a7" for one that was
// decoded.
func happened(t *testing.T, s *Watch[*corev1.ConfigMap]) (all []string) {
	defer s.cancel()
	for p := range s.parts {
		wait(p)
		for _, e := range p.result {
			for _, key := range e.Keys {
				all = append(all, "="+key.Name)
			}
			switch {
			case e.Write.Object != nil:
				all = append(all, map[store.ChangeType]string{store.Addition: "+", store.Modification: "~", store.Deletion: "-"}[e.Write.Type]+e.Write.Object.Name+e.Write.Object.ResourceVersion)
			case e.Kind == Mark:
				all = append(all, "*"+e.Version)
			case e.Err != nil:
				all = append(all, "!")
			}
		}
	}
	require.NoError(t, s.err)
	return all
}

func versioned(kind, name, version string) string {
	return fmt.Sprintf(`{"type":%q,"object":{"metadata":{"namespace":"ns","name":%q,"uid":"u","resourceVersion":%q}}}`+"\n", kind, name, version)
}

const closingEvent = `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"20","annotations":{"` + metav1.InitialEventsAnnotationKey + `":"true"}}}}` + "\n"

func TestObjectsThatAreHeldKeepTheirPlaceAmongTheOthers(t *testing.T) {
	for name, tc := range map[string]struct {
		events []string
		want   string
		asked  string // what the store was
	}{
		"all":                           {[]string{versioned("ADDED", "a", "1"), versioned("ADDED", "b", "1"), closingEvent}, "=a =b *20", "ab"},
		"some":                          {[]string{versioned("ADDED", "a", "7"), versioned("ADDED", "b", "1"), versioned("ADDED", "c", "7"), versioned("ADDED", "d", "1")}, "+a7 =b +c7 =d", "abcd"},
		"after a change of the same":    {[]string{versioned("MODIFIED", "a", "7"), versioned("ADDED", "b", "1"), versioned("ADDED", "a", "1")}, "~a7 =b =a", "ba"},
		"after a deletion of the same":  {[]string{versioned("DELETED", "a", "1"), versioned("ADDED", "a", "1")}, "-a1 =a", "a"},
		"before a change of the same":   {[]string{versioned("ADDED", "a", "1"), versioned("MODIFIED", "a", "7"), versioned("DELETED", "a", "8")}, "=a ~a7 -a8", "a"},
		"changed to what is held":       {[]string{versioned("MODIFIED", "a", "1")}, "~a1", ""},
		"after one without a name":      {[]string{versioned("ADDED", "", "1"), versioned("ADDED", "a", "1")}, "+1 =a", "a"},
		"after the last of the first":   {[]string{versioned("ADDED", "a", "1"), closingEvent, versioned("ADDED", "b", "1")}, "=a *20 +b1", "a"},
		"after another bookmark":        {[]string{`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5"}}}` + "\n", versioned("ADDED", "b", "1")}, "*5 =b", "b"},
		"after an event without object": {[]string{`{"type":"ADDED","object":null}` + "\n", versioned("ADDED", "b", "1")}, "! =b", "b"},
		"after an unknown event":        {[]string{`{"type":"SYNC","object":{}}` + "\n", versioned("ADDED", "b", "1")}, "! =b", "b"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := ""
			holds := func(key store.Key, version store.Version, _ uint64) bool {
				asked += key.Name
				return version == store.Version{UID: "u", ResourceVersion: "1"}
			}
			assert.Equal(t, tc.want, strings.Join(happened(t, watchList(t.Context(), t, text(tc.events...), holds)), " "))
			assert.Equal(t, tc.asked, asked)
		})
	}
}

// What is held must not overtake what waits for a decoder, and what comes after it must not join
// that.
func TestObjectsThatAreHeldOvertakeNothing(t *testing.T) {
	processors(t, 4)
	var events, want []string
	for i := range 3000 {
		version := fmt.Sprint(1 + i/300%2*6) // 300 that are held, 300 that are not
		name := fmt.Sprint("m", i)
		events = append(events, versioned("ADDED", name, version))
		if version == "1" {
			want = append(want, "="+name)
		} else {
			want = append(want, "+"+name+version)
		}
	}
	// One read is one run, so that none is put before others.
	var chunks []string
	for run := range slices.Chunk(events, 300) {
		chunks = append(chunks, strings.Join(run, ""))
	}
	holds := func(_ store.Key, version store.Version, _ uint64) bool { return version.ResourceVersion == "1" }
	assert.Equal(t, want, happened(t, watchList(t.Context(), t, inChunks(0, chunks...), holds)))
}

func TestObjectsThatAreHeldAreToldOfWhileTheyCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var chunks []string
		for i := range 5 {
			chunks = append(chunks, added(configMap(i, 5000)))
		}
		s := watchList(t.Context(), t, inChunks(time.Second, chunks...), func(store.Key, store.Version, uint64) bool { return true })
		begin := time.Now()
		for i := range 5 {
			p := <-s.parts
			require.Len(t, p.result[0].Keys, 1)
			assert.LessOrEqual(t, time.Since(begin), time.Duration(i+1)*time.Second, "it does not wait for the next")
		}
		_, open := <-s.parts
		assert.False(t, open)
	})
}

func TestNobodyAsksWhatIsHeldOnceAllHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := inChunks(time.Second, versioned("ADDED", "a", "1"), closingEvent, versioned("ADDED", "b", "1"))
		asked := ""
		s := watchList(t.Context(), t, body, func(key store.Key, _ store.Version, _ uint64) bool { asked += key.Name; return true })
		assert.Equal(t, []string{"=a", "*20", "+b1"}, happened(t, s))
		assert.Equal(t, "a", asked)
	})
}

// TestEventsThatAreHeldCostNextToNothing counts what is allocated for a watch-list of which
// everything is held.
func TestEventsThatAreHeldCostNextToNothing(t *testing.T) {
	const n = 5000
	var events strings.Builder
	for i := range n {
		events.WriteString(added(configMap(i, 4000)))
	}
	body := events.String() + closingEvent
	assertAllocations(t, n, mostAllocations(), func() {
		s := watchList(t.Context(), t, text(body), func(store.Key, store.Version, uint64) bool { return true })
		defer s.cancel()
		var kept []store.Key
		for p := range s.parts {
			wait(p)
			for i := range p.result {
				kept = append(kept, p.result[i].Keys...)
				require.Nil(t, p.result[i].Write.Object)
			}
		}
		require.Len(t, kept, n)
		assert.Equal(t, store.Key{Namespace: "default", Name: "a4999"}, kept[n-1])
	})
}

func TestErrorOfAnEventThatIsAboutNoObjectQuotesNoValue(t *testing.T) {
	for _, event := range []string{
		`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7","creationTimestamp":"s3"}}}`,
		`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","details":{"retryAfterSeconds":773377337733}}}`,
	} {
		w := watchBody[*corev1.ConfigMap](t.Context(), t, text(event), false, Wants[*corev1.ConfigMap]{})
		items, err := w.Next(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, items, 1)
		require.Equal(t, Failed, items[0].Kind)
		assert.NotContains(t, items[0].Err.Error(), "s3")
		assert.NotContains(t, items[0].Err.Error(), "7733")
		require.NoError(t, w.Close())
	}
}

// Two events may be in one line.
func TestNobodyAsksWhatIsHeldAfterABookmarkThatHidesAnotherEvent(t *testing.T) {
	line := func(event string) string { return strings.TrimSpace(event) }
	bookmark := `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5"}}}`
	asked := ""
	holds := func(key store.Key, version store.Version, _ uint64) bool {
		asked += key.Name
		return version.ResourceVersion == "1"
	}
	body := text(versioned("ADDED", "x", "1"), bookmark+line(versioned("DELETED", "a", "1"))+"\n", versioned("ADDED", "a", "1"))
	assert.Equal(t, []string{"=x", "*5", "-a1", "+a1"}, happened(t, watchList(t.Context(), t, body, holds)))
	assert.Equal(t, "x", asked)
}

// A version becomes part of a URL and of logs, also that of an object which nobody stores.
func TestVersionThatIsTooLongIsNoVersion(t *testing.T) {
	here, there := uids()
	s := &Watch[*corev1.ConfigMap]{of: configMapReader(t), response: &Response{}, wants: Wants[*corev1.ConfigMap]{Shards: &Shards{By: store.ByUID, All: store.Shards(store.ByUID, 2)[:1]}}}
	for name, object := range map[string]string{
		"stored":               `{"metadata":{"name":"a","uid":"` + here + `","resourceVersion":"VERSION"}}`,
		"undecodable":          `{"metadata":{"name":"a","uid":"` + here + `","resourceVersion":"VERSION"},"data":5}`,
		"without a name":       `{"metadata":{"uid":"` + here + `","resourceVersion":"VERSION"}}`,
		"outside":              `{"metadata":{"name":"a","uid":"` + there + `","resourceVersion":"VERSION"}}`,
		"outside, less plain":  `{"metadata":{"n\u0061me":"a","uid":"` + there + `","resourceVersion":"VERSION"}}`,
		"outside, undecodable": `{"metadata":{"n\u0061me":"a","uid":"` + there + `","resourceVersion":"VERSION"},"data":5}`,
	} {
		for length, want := range map[int]bool{MaxVersion: true, MaxVersion + 1: false} {
			var items []Item[*corev1.ConfigMap]
			batch := &wire.Batch{Frames: []wire.Frame{{Type: "MODIFIED", Object: []byte(strings.Replace(object, "VERSION", strings.Repeat("7", length), 1))}}}
			s.decode(s.of.get(), &items, wire.JSON, batch)
			require.Len(t, items, 1, name)
			assert.Equal(t, want, items[0].Kind != Failed, "%s: %d digits: %v", name, length, items[0].Err)
			assert.LessOrEqual(t, len(items[0].Version), MaxVersion, name)
		}
	}
}
