package client

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/internal/source"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// gatedWatch is a watch-list of ConfigMaps with that body.
func gatedWatch(ctx context.Context, t *testing.T, body io.ReadCloser, holds source.HoldsFunc) *wireWatch[*corev1.ConfigMap] {
	ctx, cancel := context.WithCancel(ctx)
	s := &wireWatch[*corev1.ConfigMap]{
		of: someResource(t), answer: &answer{contentType: mediaJSON, body: body}, held: gate[*corev1.ConfigMap]{holds: holds},
		parts: make(chan *part[[]source.Event[*corev1.ConfigMap]], partsAhead), cancel: cancel,
	}
	go s.run(ctx)
	return s
}

func text(events ...string) io.ReadCloser {
	return io.NopCloser(strings.NewReader(strings.Join(events, "")))
}

// happened says what a watch brings to its end: "=a" for an a that is held, "+a7" for one that was
// decoded.
func happened(t *testing.T, s *wireWatch[*corev1.ConfigMap]) (all []string) {
	defer s.cancel()
	for p := range s.parts {
		p.wait(nil)
		for _, e := range p.result {
			for _, key := range e.Held {
				all = append(all, "="+key.Name)
			}
			switch {
			case e.Object != nil:
				all = append(all, map[string]string{"ADDED": "+", "MODIFIED": "~", "DELETED": "-"}[string(e.Type)]+e.Object.Name+e.Object.ResourceVersion)
			case e.Type == "BOOKMARK":
				all = append(all, "*"+e.ResourceVersion)
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
		"some":                          {[]string{versioned("ADDED", "a", "7"), versioned("ADDED", "b", "1"), versioned("ADDED", "c", "7"), versioned("ADDED", "d", "1")}, "=b =d +a7 +c7", "abcd"},
		"after a change of the same":    {[]string{versioned("MODIFIED", "a", "7"), versioned("ADDED", "b", "1"), versioned("ADDED", "a", "1")}, "=b ~a7 +a1", "b"},
		"after a deletion of the same":  {[]string{versioned("DELETED", "a", "1"), versioned("ADDED", "a", "1")}, "-a1 +a1", ""},
		"before a change of the same":   {[]string{versioned("ADDED", "a", "1"), versioned("MODIFIED", "a", "7"), versioned("DELETED", "a", "8")}, "=a ~a7 -a8", "a"},
		"changed to what is held":       {[]string{versioned("MODIFIED", "a", "1")}, "~a1", ""},
		"after one without a name":      {[]string{versioned("ADDED", "", "1"), versioned("ADDED", "a", "1")}, "+1 +a1", ""},
		"after the last of the first":   {[]string{versioned("ADDED", "a", "1"), closingEvent, versioned("ADDED", "b", "1")}, "=a *20 +b1", "a"},
		"after another bookmark":        {[]string{`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5"}}}` + "\n", versioned("ADDED", "b", "1")}, "=b *5", "b"},
		"after an event without object": {[]string{`{"type":"ADDED","object":null}` + "\n", versioned("ADDED", "b", "1")}, "! +b1", ""},
		"after an unknown event":        {[]string{`{"type":"SYNC","object":{}}` + "\n", versioned("ADDED", "b", "1")}, "! +b1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			asked := ""
			holds := func(key store.Key, version store.Version) bool {
				asked += key.Name
				return version == store.Version{UID: "u", ResourceVersion: "1"}
			}
			assert.Equal(t, tc.want, strings.Join(happened(t, gatedWatch(t.Context(), t, text(tc.events...), holds)), " "))
			assert.Equal(t, tc.asked, asked)
		})
	}
}

// What is held must not overtake what waits for a decoder, and what comes after it must not join
// that.
func TestObjectsThatAreHeldOvertakeNothing(t *testing.T) {
	Processors(t, 4)
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
	body := &sampled{}
	for run := range slices.Chunk(events, 300) {
		body.chunks = append(body.chunks, strings.Join(run, ""))
	}
	holds := func(_ store.Key, version store.Version) bool { return version.ResourceVersion == "1" }
	assert.Equal(t, want, happened(t, gatedWatch(t.Context(), t, body, holds)))
}

func TestObjectsThatAreHeldAreToldOfWhileTheyCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := &sampled{pause: time.Second}
		for i := range 5 {
			body.chunks = append(body.chunks, configMapEvent(i))
		}
		s := gatedWatch(t.Context(), t, body, func(store.Key, store.Version) bool { return true })
		begin := time.Now()
		for i := range 5 {
			p := <-s.parts
			require.Len(t, p.result[0].Held, 1)
			assert.LessOrEqual(t, time.Since(begin), time.Duration(i+1)*time.Second, "it does not wait for the next")
		}
		_, open := <-s.parts
		assert.False(t, open)
	})
}

func TestNobodyAsksWhatIsHeldOnceTheStoreChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		holds := func(store.Key, store.Version) bool { asked++; return true }
		s := gatedWatch(t.Context(), t, &sampled{pause: time.Second, chunks: []string{configMapEvent(0), configMapEvent(1)}}, holds)
		first := <-s.parts
		require.Len(t, first.result[0].Held, 1)
		s.Live()
		second := <-s.parts
		require.NotNil(t, second.result[0].Object)
		assert.Equal(t, 1, asked)
		_, open := <-s.parts
		assert.False(t, open)
	})
}

func TestNobodyAsksWhatIsHeldOnceAllHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := &sampled{pause: time.Second, chunks: []string{versioned("ADDED", "a", "1"), closingEvent, versioned("ADDED", "b", "1")}}
		asked := ""
		s := gatedWatch(t.Context(), t, body, func(key store.Key, _ store.Version) bool { asked += key.Name; return true })
		assert.Equal(t, []string{"=a", "*20", "+b1"}, happened(t, s))
		assert.Equal(t, "a", asked)
	})
}

// keeping is a store with one batch, which notes the keys that are kept.
type keeping struct {
	store.BatchStore[*corev1.ConfigMap]
	keys   []store.Key
	writes int
}

func (k *keeping) BeginBatch(store.Store[*corev1.ConfigMap], bool) store.Batch[*corev1.ConfigMap] {
	return k
}

func (k *keeping) Write(store.Write[*corev1.ConfigMap]) error { k.writes++; return nil }
func (k *keeping) Keep(key store.Key)                         { k.keys = append(k.keys, key) }
func (k *keeping) Commit(string) error                        { return nil }
func (k *keeping) Discard()                                   {}

// TestEventsThatAreHeldCostNextToNothing counts what is allocated for a watch-list of which
// everything is held.
func TestEventsThatAreHeldCostNextToNothing(t *testing.T) {
	const n = 5000
	var events strings.Builder
	for i := range n {
		fmt.Fprintf(&events, `{"type":"ADDED","object":{"metadata":{"namespace":"default","name":"a%d","uid":"%d","resourceVersion":"%d"},"data":{"key":"%s"}}}`+"\n", i, i, i+1, strings.Repeat("x", 4000))
	}
	body := events.String() + closingEvent
	read := func() {
		kept := &keeping{}
		s := gatedWatch(t.Context(), t, io.NopCloser(strings.NewReader(body)), func(store.Key, store.Version) bool { return true })
		for p := range s.parts {
			p.wait(nil)
			for i := range p.result {
				for _, key := range p.result[i].Held {
					kept.Keep(key)
				}
			}
		}
		s.cancel()
		require.Zero(t, kept.writes)
		require.Len(t, kept.keys, n)
		assert.Equal(t, store.Key{Namespace: "default", Name: "a4999"}, kept.keys[n-1])
	}
	read()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	read()
	runtime.ReadMemStats(&after)
	most := 0.1 // it is 0.04
	if raceEnabled {
		most = 0.3 // pools then forget some of what they hold
	}
	assert.Less(t, float64(after.Mallocs-before.Mallocs)/n, most)
}

// Two events may be in one line, which is found out when the first one is decoded.
func TestNobodyAsksWhatIsHeldAfterABookmarkThatHidesAnotherEvent(t *testing.T) {
	line := func(event string) string { return strings.TrimSpace(event) }
	bookmark := `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5"}}}`
	asked := ""
	holds := func(key store.Key, version store.Version) bool {
		asked += key.Name
		return version.ResourceVersion == "1"
	}
	body := text(versioned("ADDED", "x", "1"), bookmark+line(versioned("DELETED", "a", "1"))+"\n", versioned("ADDED", "a", "1"))
	assert.Equal(t, []string{"=x", "*5", "-a1", "+a1"}, happened(t, gatedWatch(t.Context(), t, body, holds)))
	assert.Equal(t, "x", asked)
}
