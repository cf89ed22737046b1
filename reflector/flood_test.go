package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/answer"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// history notes what a cache did.
type history[T interface {
	comparable
	reflector.Object
}] struct {
	commits  int
	versions []string
}

func (*history[T]) Start(*store.Snapshot[T]) {}

func (h *history[T]) Commit(c *store.Commit[T]) {
	h.commits++
	var none T
	for _, change := range c.Changes {
		if object := change.Object; object != none {
			h.versions = append(h.versions, object.GetResourceVersion())
		}
	}
}

// flooded is so many events of so many objects, of increasing versions from 8 on.
func flooded(events, objects int) (text string, versions []string) {
	var b strings.Builder
	for i := range events {
		version := fmt.Sprint(i + 8)
		versions = append(versions, version)
		color := strings.Repeat(fmt.Sprint("color ", i%7), 200)
		b.WriteString(jsonEvent(watch.Modified, jsonObject(fmt.Sprint("o", i%objects), version, color)))
	}
	return b.String(), versions
}

// Fresco is a Paint that takes a millisecond to decode.
type Fresco struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Data              struct {
		Color drying `json:"color"`
	} `json:"data"`
}

type drying struct{}

// frescos counts those that are being decoded.
var frescos struct {
	sync.Mutex
	now, most int
}

func (*drying) UnmarshalJSON([]byte) error {
	count := func(n int) {
		frescos.Lock()
		defer frescos.Unlock()
		frescos.now += n
		frescos.most = max(frescos.most, frescos.now)
	}
	count(1)
	defer count(-1)
	<-time.After(time.Millisecond)
	return nil
}

func TestFloodIsDecodedAtOnceAndStoredInOrderAndInBatches(t *testing.T) {
	for name, tc := range map[string]struct {
		processors  int
		least, most int // at once
	}{
		"many processors": {4, 3, 4}, // the goroutine that cuts seldom has to
		"two":             {2, 2, 2},
		"one":             {1, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			processors(t, tc.processors)
			synctest.Test(t, func(t *testing.T) {
				const events = 3000
				text, want := flooded(events, 100)
				server := &scripted{lists: []scriptedAnswer{jsonList("7")}, watches: []scriptedAnswer{{body: text, open: true}}}
				resource, err := client.ForResource[*Fresco](localhost(server), configMapResource, "default")
				require.NoError(t, err)
				s, h := store.New(store.ObjectKey[*Fresco]), &history[*Fresco]{}
				defer s.Follow(h)()
				frescos.most = 0
				stop := start(t, reflector.New(resource, s, reflector.WithoutWatchList()))
				<-time.After(2 * events * time.Millisecond)
				stop()
				assert.Equal(t, want, h.versions)
				assert.Equal(t, want[events-1], s.ResourceVersion())
				assert.Less(t, h.commits, events/4, "what came together is one commit")
				assert.GreaterOrEqual(t, frescos.most, tc.least)
				assert.LessOrEqual(t, frescos.most, tc.most)
			})
		})
	}
}

func TestErrorInAFloodComesAtItsPlace(t *testing.T) {
	processors(t, 4)
	for name, tc := range map[string]struct {
		end  string
		want error
	}{
		"an ERROR event": {jsonError(apierrors.NewInternalError(fmt.Errorf("lost"))), nil},
		"malformed":      {"}{", client.ErrMalformed},
		"too large":      {jsonEvent(watch.Added, jsonObject("c", "9", strings.Repeat("x", 10000))), client.ErrTooLarge},
		"a bad object":   {jsonEvent(watch.Added, `{"metadata":{"name":"o1","resourceVersion":"9999"},"data":[]}`), nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const events = 1000
				text, want := flooded(events, 100)
				after, _ := flooded(200, 1)
				server := &scripted{lists: []scriptedAnswer{jsonList("7"), {open: true}}, watches: []scriptedAnswer{{body: text + tc.end + after, open: true}}}
				s, h := store.New(store.ObjectKey[*Paint]), &history[*Paint]{}
				defer s.Follow(h)()
				var seen []int // versions when an error came
				var errs []error
				stop := start(t, reflector.New(server.client(t, client.WithMaxObjectBytes(5000)), s, reflector.WithoutWatchList(),
					reflector.WithErrorHandler(func(_ context.Context, err error) { seen, errs = append(seen, len(h.versions)), append(errs, err) })))
				<-time.After(time.Minute)
				stop()
				require.NotEmpty(t, errs)
				assert.Equal(t, events, seen[0], "all before it, and nothing after it")
				assert.Equal(t, want, h.versions[:events])
				if tc.want != nil {
					assert.ErrorIs(t, errs[0], tc.want)
				}
			})
		})
	}
}

func TestListInManyPartsKeepsItsOrder(t *testing.T) {
	processors(t, 4)
	synctest.Test(t, func(t *testing.T) {
		var items, want []string
		for i := range 1000 {
			name, data := fmt.Sprintf("o%d", i), jsonObject(fmt.Sprintf("o%d", i), "5", strings.Repeat("x", 500))
			if i%100 == 50 {
				data = fmt.Sprintf(`{"metadata":{"namespace":"default","name":%q,"uid":"u","resourceVersion":"5"},"data":[]}`, name)
			} else {
				want = append(want, name)
			}
			items = append(items, data)
		}
		server := &scripted{lists: []scriptedAnswer{jsonList("7", items...)}}
		_, err := server.client(t).List(t.Context(), metav1.ListOptions{})
		var bad *answer.DecodeError
		require.ErrorAs(t, err, &bad)
		assert.Equal(t, "o50", bad.Name, "the first of those that do not fit")

		good := items[:0:0]
		for _, item := range items {
			if !strings.Contains(item, `"data":[]`) {
				good = append(good, item)
			}
		}
		server = &scripted{lists: []scriptedAnswer{jsonList("7", good...)}}
		list, err := server.client(t).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		var got []string
		for _, p := range list.Items {
			got = append(got, p.Name)
		}
		assert.Equal(t, want, got)

		server = &scripted{lists: []scriptedAnswer{{body: jsonList("7", good...).body[:200000], err: io.ErrUnexpectedEOF}}}
		_, err = server.client(t).List(t.Context(), metav1.ListOptions{})
		assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	})
}

func TestEventWithMoreThanAnObjectIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		more := strings.TrimSuffix(jsonEvent(watch.Added, jsonObject("b", "9", "blue")), "}\n") + `,"more":{"a":1}}` + "\n"
		server := &scripted{lists: []scriptedAnswer{jsonList("7")}, watches: []scriptedAnswer{{body: jsonEvent(watch.Added, jsonObject("a", "8", "red")) + more, open: true}}}
		s := store.New(store.ObjectKey[*Paint])
		r := reflector.New(server.client(t), s, reflector.WithoutWatchList())
		stop := start(t, r)
		assert.Equal(t, "a red, b blue", colors(s))
		assert.NoError(t, r.State().Err)
		stop()
	})
}

func TestLineWithTwoEventsOfWhichTheFirstIsHeldIsTwoEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		red := []string{jsonObject("a", "5", "red"), jsonObject("b", "6", "red")}
		glued := jsonEvent(watch.Added, red[0]) + strings.TrimSuffix(jsonEvent(watch.Added, red[1]), "\n") + " " + jsonEvent(watch.Added, jsonObject("c", "7", "new"))
		assertSecondStream(t, jsonStream("7", red...), glued+jsonStream("9"), "a red, b red", "a red, b red, c new")
	})
}

// Touchy has a method that panics.
type Touchy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Data              struct {
		Color Fussy `json:"color"`
	} `json:"data"`
}

// Fussy dislikes red.
type Fussy string

func (f *Fussy) UnmarshalJSON(text []byte) error {
	if *f = Fussy(strings.Trim(string(text), `"`)); *f == "red" {
		panic("no red, please")
	}
	return nil
}

func TestPanicOfAMethodOfTIsThatOfOneObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &scripted{
			lists:   []scriptedAnswer{jsonList("7", jsonObject("a", "5", "blue"), jsonObject("b", "6", "red"), jsonObject("c", "7", "blue"))},
			watches: []scriptedAnswer{{body: jsonEvent(watch.Added, jsonObject("d", "8", "red")) + jsonEvent(watch.Added, jsonObject("e", "9", "green")), open: true}},
		}
		resource, err := client.ForResource[*Touchy](localhost(server), configMapResource, "default")
		require.NoError(t, err)
		s := store.New(store.ObjectKey[*Touchy])
		var errs []error
		stop := start(t, reflector.New(resource, s, reflector.WithoutWatchList(), reflector.WithErrorHandler(func(_ context.Context, err error) { errs = append(errs, err) })))
		stop()
		got := ""
		for key, o := range s.All() {
			got += key.Name + " " + string(o.Data.Color) + ", "
		}
		assert.Equal(t, "a blue, c blue, e green, ", got)
		require.Len(t, errs, 2)
		for _, err := range errs {
			assert.ErrorIs(t, err, store.ErrPanic)
			assert.ErrorContains(t, err, "(*Fussy).UnmarshalJSON (flood_test.go:")
			assert.NotContains(t, err.Error(), "no red, please", "the value of a panic may be one of the object")
			decoding, ok := errors.AsType[*answer.DecodeError](err)
			require.True(t, ok)
			assert.ErrorContains(t, decoding.Err, "no red, please")
		}
	})
}

// processors sets the number of processors until the end of the test.
func processors(t *testing.T, n int) {
	before := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}
