package stream

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
	return watchBody[*sluggish](ctx, t, &body, false, Skip{})
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
			p.wait(nil)
			for _, e := range p.result {
				require.NotNil(t, e.Object)
				got = append(got, e.ResourceVersion)
			}
		}
		require.NoError(t, s.err)
		assert.Equal(t, []string{"1", "2", "3", "4"}, got)
	})
}

// The second event is dropped, since it waits when the watch is told to end; what was decoded
// on the spot after it must not come in its place.
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
			for {
				events, err := s.Next(ctx, nil)
				if err != nil {
					break
				}
				for _, e := range events {
					assert.Equal(t, "1", e.ResourceVersion)
				}
			}
			assert.NoError(t, s.Close())
			assert.NoError(t, s.err)
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
				s := watchBody[*corev1.ConfigMap](t.Context(), t, inChunks(tc.pause, chunks...), false, Skip{})
				defer s.cancel()
				var names []string
				helped := false
				for p := range s.parts {
					helped = helped || p.done != nil
					p.wait(nil)
					for _, e := range p.result {
						names = append(names, e.Object.Name)
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
