package recorder

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/controller"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Foo is a struct that knows nothing of schemes.
type Foo struct{ metav1.ObjectMeta }

var fooKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Foo"}

func foo(name string) *Foo {
	return &Foo{metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u"}}
}

func newRecorder(t *testing.T, opts ...Option) (*reflectortest.Server, *Recorder) {
	server := reflectortest.Start(t)
	clientset, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	return server, New(clientset.EventsV1(), "test", opts...)
}

func start(t *testing.T, r *Recorder) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- r.Run(ctx) }()
	return func() error { cancel(); return <-result }
}

func (r *Recorder) tell(of *Foo, reason string) {
	r.Eventf(Reference(of, fooKind), nil, corev1.EventTypeNormal, reason, "Act", "%s, %d times", "hel%dlo", 3)
}

// written returns what the server has.
func written(t *testing.T, server *reflectortest.Server) []*eventsv1.Event {
	all, err := reflectortest.List[*eventsv1.Event](server, "ns")
	require.NoError(t, err)
	return all
}

func TestEventsAreWrittenBeforeRunReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, r := newRecorder(t)
		r.tell(foo("early"), "Early") // before Run
		for _, want := range []int{4, 3} {
			stop := start(t, r)
			synctest.Wait()
			assert.ErrorIs(t, r.Run(t.Context()), controller.ErrRunning)
			for _, name := range []string{"a", "b", "c"} {
				r.tell(foo(name), "Late")
			}
			require.NoError(t, stop())
			all := written(t, server)
			require.Len(t, all, want)
			e := all[0]
			assert.Equal(t, corev1.ObjectReference{APIVersion: "example.com/v1", Kind: "Foo", Namespace: "ns", Name: "a", UID: "u"}, e.Regarding)
			assert.Equal(t, "hel%dlo, 3 times", e.Note)
			assert.Equal(t, "test", e.ReportingController)
			assert.Equal(t, "Late", e.Reason)
			assert.Equal(t, "Act", e.Action)
			for _, e := range all {
				require.NoError(t, server.Delete(e))
			}
		}
	})
}

func TestRecorderWithoutAClientSaysSo(t *testing.T) {
	r := New(nil, "test")
	r.tell(foo("a"), "Early")
	assert.ErrorIs(t, r.Run(t.Context()), controller.ErrIncomplete)
}

func TestRequestsAreWaitedForUntilTheTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, r := newRecorder(t)
		release := make(chan struct{})
		server.Inject(reflectortest.Stall(release).On("create", "events"))
		stop := start(t, r)
		synctest.Wait()
		r.tell(foo("a"), "Slow")
		go func() { <-time.After(3 * time.Second); close(release) }()
		require.NoError(t, stop())
		assert.Len(t, written(t, server), 1)

		server.Inject(reflectortest.Stall(nil).On("create", "events"))
		r.timeout = 2 * time.Second
		stop = start(t, r)
		synctest.Wait()
		r.tell(foo("b"), "Slow")
		before := time.Now()
		assert.ErrorIs(t, stop(), ErrUnwritten)
		assert.Equal(t, 2*time.Second, time.Since(before))
	})
}

// After a hard stop, such as the loss of a lease, nothing is finished.
func TestHardStopEndsTheDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, r := newRecorder(t)
		server.Inject(reflectortest.Stall(nil).On("create", "events"))
		for _, drained := range []time.Duration{0, time.Second} {
			running, cancel := context.WithCancel(t.Context())
			ctx, hardStop := controller.HardStopContext(running)
			result := make(chan error, 1)
			go func() { result <- r.Run(ctx) }()
			synctest.Wait()
			r.tell(foo("a"), "Slow")
			synctest.Wait()
			before := time.Now()
			if drained > 0 {
				cancel()
				<-time.After(drained)
			}
			hardStop()
			assert.ErrorIs(t, <-result, ErrUnwritten)
			assert.Equal(t, drained, time.Since(before))
			cancel()
		}
	})
}

func TestRunIsRefusedWhileAnotherOneStillWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, r := newRecorder(t)
		server.Inject(reflectortest.Stall(nil).On("create", "events"))
		stop := start(t, r)
		synctest.Wait()
		r.tell(foo("a"), "Slow")
		stopped := make(chan error, 1)
		go func() { stopped <- stop() }()
		synctest.Wait() // the first Run waits for the request

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.ErrorIs(t, r.Run(ctx), controller.ErrRunning)
		assert.ErrorIs(t, <-stopped, ErrUnwritten)
	})
}

func TestEventsThatNobodyHeardOfAreUnwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := time.Now()
		assert.NoError(t, (&run{}).drain(t.Context(), time.Second))
		assert.Zero(t, time.Since(before), "nothing was told")
		lost := &run{happened: make(chan struct{}, 1), passed: 2, heard: 1}
		assert.ErrorIs(t, lost.drain(t.Context(), time.Second), ErrUnwritten)
		lost.heard++
		assert.NoError(t, lost.drain(t.Context(), time.Second))
	})
}

func TestWhatHappensLateIsWaitedForAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &run{happened: make(chan struct{}, 1), passed: 1, heard: 1}
		begin, late := time.Now(), looks*pause-pause/2
		time.AfterFunc(late, func() { n.count(&n.writing, 1) })
		time.AfterFunc(late+time.Second, func() { n.count(&n.writing, -1) })
		require.NoError(t, n.drain(t.Context(), time.Minute))
		assert.Equal(t, late+time.Second+looks*pause, time.Since(begin))
	})
}

func TestSameOfTheSameObjectIsOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, r := newRecorder(t)
		stop := start(t, r)
		synctest.Wait()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}}
		for _, version := range []string{"1", "2"} {
			pod.ResourceVersion = version
			r.Eventf(pod, nil, corev1.EventTypeWarning, "Odd", "Look", "hm")
			synctest.Wait()
		}
		reference := Reference(foo("a"), fooKind)
		reference.ResourceVersion, pod.ResourceVersion = "3", "1"
		r.Eventf(reference, pod, corev1.EventTypeWarning, "Odd", "Look", "hm")
		<-time.After(time.Second) // the time is in the name of an Event
		pod.ResourceVersion = "2" // the related object changes, too
		r.Eventf(reference, pod, corev1.EventTypeWarning, "Odd", "Look", "hm")
		require.NoError(t, stop())
		assert.Equal(t, "3", reference.ResourceVersion)
		all := written(t, server)
		require.Len(t, all, 2)
		all = all[1:]
		require.NotNil(t, all[0].Series)
		assert.EqualValues(t, 2, all[0].Series.Count)
		assert.Equal(t, "Pod", all[0].Regarding.Kind)
		assert.Equal(t, "2", pod.ResourceVersion, "the object is not touched")
	})
}

func TestWhatCannotBeWrittenIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zap.WarnLevel)
		server, r := newRecorder(t, WithLogger(zap.New(core)))
		r.Eventf(&corev1.Pod{}, nil, "Strange", "Odd", "Look", "hm")
		assert.Len(t, lines.TakeAll(), 1)
		for _, none := range []runtime.Object{nil, (*corev1.ObjectReference)(nil), (*corev1.Pod)(nil)} {
			r.Eventf(none, nil, corev1.EventTypeNormal, "Odd", "Look", "hm")
			assert.Len(t, lines.TakeAll(), 1)
		}
		for range earlyLimit {
			r.tell(foo("a"), "Early")
		}
		assert.Empty(t, lines.TakeAll())
		r.tell(foo("a"), "Early")
		assert.Len(t, lines.TakeAll(), 1)

		r.early = nil
		server.Inject(reflectortest.Answer(403).On("create", "events"))
		stop := start(t, r)
		synctest.Wait()
		r.tell(foo("a"), "Refused")
		require.NoError(t, stop())
		require.Equal(t, 1, lines.Len())
		assert.Equal(t, "ns/a", lines.All()[0].ContextMap()["key"])
	})
}

func TestRelatedObjectMayBeANilPointer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, r := newRecorder(t)
		stop := start(t, r)
		r.Eventf(Reference(foo("a"), fooKind), (*corev1.ObjectReference)(nil), corev1.EventTypeNormal, "Odd", "Look", "hm")
		r.Eventf(Reference(foo("b"), fooKind), (*corev1.Pod)(nil), corev1.EventTypeNormal, "Odd", "Look", "hm")
		require.NoError(t, stop())
		all := written(t, server)
		require.Len(t, all, 2)
		for _, event := range all {
			assert.Nil(t, event.Related)
		}
	})
}

func TestEventfDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, r := newRecorder(t, WithDrainTimeout(0))
		server.Inject(reflectortest.Stall(nil).On("", "events"))
		stop := start(t, r)
		synctest.Wait()
		before := time.Now()
		for range 3000 {
			r.tell(foo("a"), "Many")
		}
		assert.Zero(t, time.Since(before))
		assert.ErrorIs(t, stop(), ErrUnwritten)
		assert.NoError(t, r.Ready())
		assert.NoError(t, r.WaitForSync(t.Context()))
		assert.Equal(t, "events of test", r.Name())
		_ = events.EventRecorder(r)
	})
}

// loseAnswers returns a recorder whose first requests of a method get no answer, although
// the server serves them.
func loseAnswers(t *testing.T, method string, times int, opts ...Option) (*reflectortest.Server, *Recorder) {
	server := reflectortest.Start(t)
	config := server.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if r.Method != method || times == 0 || err != nil {
				return response, err
			}
			times--
			_ = response.Body.Close()
			return nil, errors.New("connection reset")
		})
	})
	clientset, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return server, New(clientset.EventsV1(), "test", opts...)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestEventWhoseAnswerWasLostIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zap.WarnLevel)
		server, r := loseAnswers(t, http.MethodPost, 1, WithLogger(zap.New(core)))
		stop := start(t, r)
		synctest.Wait()
		r.tell(foo("a"), "Told")
		<-time.After(time.Minute)
		require.NoError(t, stop())
		assert.Len(t, written(t, server), 1)
		for _, line := range lines.All() {
			assert.NotContains(t, line.ContextMap()["error"], "exist")
		}
	})
}

// In a bubble, where time stands still, client-go gives all Events of one object one name.
func TestEventsOfOneInstantAreAllWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zap.WarnLevel)
		server, r := newRecorder(t, WithLogger(zap.New(core)))
		stop := start(t, r)
		synctest.Wait()
		regarding, other := Reference(foo("a"), fooKind), foo("a")
		other.UID = "u2"                                       // its namesake
		for _, reason := range []string{"One", "Two", "Two"} { // the third is counted
			for _, action := range []string{"Act", "Wait"} {
				r.Eventf(regarding, nil, corev1.EventTypeNormal, reason, action, "hm")
				synctest.Wait()
			}
		}
		r.Eventf(regarding, nil, corev1.EventTypeWarning, "One", "Act", "hm")
		r.Eventf(regarding, Reference(foo("b"), fooKind), corev1.EventTypeNormal, "One", "Act", "hm")
		r.Eventf(Reference(other, fooKind), nil, corev1.EventTypeNormal, "One", "Act", "hm")
		two := New(r.client, "two") // another controller of the program
		stopTwo := start(t, two)
		synctest.Wait()
		two.tell(foo("a"), "One")
		require.NoError(t, stopTwo())
		require.NoError(t, stop())
		all := written(t, server)
		require.Len(t, all, 8)
		counts := map[string]int32{}
		for _, e := range all {
			if e.Series != nil {
				counts[e.Reason+" "+e.Action] = e.Series.Count
			}
		}
		assert.Equal(t, map[string]int32{"Two Act": 2, "Two Wait": 2}, counts)
		assert.Zero(t, lines.Len(), "%v", lines.All())
	})
}

// client-go writes the count of a series every 30 minutes, and from then on repeats the server's answer.
func TestSeriesIsOneEventForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, r := newRecorder(t)
		stop := start(t, r)
		synctest.Wait()
		for range 20 {
			r.tell(foo("a"), "Often")
			<-time.After(5 * time.Minute)
		}
		<-time.After(time.Hour)
		require.NoError(t, stop())
		all := written(t, server)
		require.Len(t, all, 1)
		require.NotNil(t, all[0].Series)
		assert.EqualValues(t, 20, all[0].Series.Count)
	})
}

func TestEventOfALongNameIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, r := newRecorder(t)
		stop := start(t, r)
		synctest.Wait()
		for n := 225; n <= 253; n++ { // the name of an Event is longer than its object's, and may not be longer than 253
			r.tell(foo(strings.Repeat("n", n)), "One")
		}
		require.NoError(t, stop())
		assert.Len(t, written(t, server), 29)
	})
}

// TestLongTextsAreCut passes texts that the server refuses; the letter é has two bytes.
func TestLongTextsAreCut(t *testing.T) {
	long := strings.Repeat("é", 600) // 1,200 bytes
	for name, c := range map[string]struct{ controller, reason, action, note, wantReason, wantAction, wantNote string }{
		"at the limits":   {"c", long[:128], long[:128], long[:1024], long[:128], long[:128], long[:1024]},
		"over the limits": {strings.Repeat("c", 63) + "/" + strings.Repeat("c", 63), "r" + long, "a" + long, "n" + long, "r" + long[:126], "a" + long[:126], "n" + long[:1020] + "…"},
		"without action":  {"c", "Done", "", "n", "Done", "Done", "n"},
		"not UTF-8":       {"c", "Done", "Act", "a\xffb", "Done", "Act", "a\uFFFDb"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, r := newRecorder(t)
				r.name = c.controller
				stop := start(t, r)
				synctest.Wait()
				r.Eventf(Reference(foo("a"), fooKind), nil, corev1.EventTypeNormal, c.reason, c.action, "%s", c.note)
				require.NoError(t, stop())
				all := written(t, server)
				require.Len(t, all, 1)
				assert.Equal(t, []string{c.wantReason, c.wantAction, c.wantNote}, []string{all[0].Reason, all[0].Action, all[0].Note})
				assert.LessOrEqual(t, len(all[0].ReportingInstance), 128)
			})
		})
	}
}

// The server would refuse each Event of such a controller.
func TestNameThatTheServerRefusesIsAnErrorOfRun(t *testing.T) {
	server, _ := newRecorder(t)
	clientset, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	for _, name := range []string{"", "the controller of the foos", strings.Repeat("c", 64), "a/b/c"} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // Run would write until then
		require.ErrorContains(t, New(clientset.EventsV1(), name).Run(ctx), "name of the controller", name)
	}
}
