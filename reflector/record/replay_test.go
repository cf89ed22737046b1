package record_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/record"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
)

const (
	firstLine = `{"format":"kubereflector recording","version":2,"began":"2026-01-01T00:00:00Z"}` + "\n"
	sky       = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"namespace":"default","name":"sky","uid":"1","resourceVersion":"%d"},"data":{"color":%q}}`
	gone      = `{"kind":"Status","apiVersion":"v1","status":"Failure","code":410,"reason":"Expired","message":"gone"}`
)

// asks is the line of a request.
func asks(at time.Duration, id int, query string) string {
	return fmt.Sprintf(`{"at":%q,"frame":"request","id":%d,"path":"/api/v1/namespaces/default/configmaps","query":%q}`, at, id, query)
}

// answers is the line of an answer.
func answers(at time.Duration, id, status int, body string) string {
	return fmt.Sprintf(`{"at":%q,"frame":"answer","id":%d,"status":%d,"contentType":"application/json","body":%s}`, at, id, status, body)
}

func page(version int, items ...string) string {
	return fmt.Sprintf(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"%d"},"items":[%s]}`, version, strings.Join(items, ","))
}

func opens(at time.Duration, id int) string {
	return fmt.Sprintf(`{"at":%q,"frame":"answer","id":%d,"status":200,"contentType":"application/json"}`, at, id)
}

// modified is the line of an event of the watch 2.
func modified(at time.Duration, version int, color string) string {
	return modifies(at, 2, version, color)
}

func modifies(at time.Duration, id, version int, color string) string {
	return fmt.Sprintf(`{"at":%q,"frame":"events","id":%d,"events":[{"type":"MODIFIED","object":%s}]}`, at, id, fmt.Sprintf(sky, version, color))
}

func over(at time.Duration, id int, how string) string {
	return fmt.Sprintf(`{"at":%q,"frame":%q,"id":%d}`, at, how, id)
}

// script is a recording of a list at version 10, and what happened then.
func script(lines ...string) string {
	all := append([]string{
		asks(0, 1, "resourceVersion=0&limit=500"),
		answers(time.Second, 1, 200, page(10, fmt.Sprintf(sky, 9, "blue"))),
		asks(time.Second, 2, "watch=true&resourceVersion=10&timeoutSeconds=301"),
		opens(2*time.Second, 2),
	}, lines...)
	return firstLine + strings.Join(all, "\n") + "\n"
}

// ended is the end of a script.
func ended(at time.Duration, id int) string {
	return over(at, id, "closed") + "\n" + fmt.Sprintf(`{"at":%q,"frame":"stopped"}`, at)
}

func open(t *testing.T, text string) *record.Replay {
	t.Helper()
	replay, err := record.NewReplay(strings.NewReader(text))
	require.NoError(t, err)
	return replay
}

// lists makes a reflector that lists.
func lists(replay *record.Replay, maps *store.Cache[*corev1.ConfigMap], opts ...reflector.Option) *reflector.KubernetesResourceReflector[*corev1.ConfigMap] {
	return generated(replay.Config(), maps, append(opts, reflector.WithoutWatchList())...)
}

func color(maps *store.Cache[*corev1.ConfigMap]) string {
	if sky, ok := maps.Get(store.Key{Namespace: "default", Name: "sky"}); ok {
		return sky.Data["color"]
	}
	return ""
}

func TestFramesComeWhenTheyCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replay := open(t, script(modified(5*time.Second, 11, "grey"), modified(10*time.Second, 12, "red"), ended(20*time.Second, 2)))
		maps := store.New(store.ObjectKey[*corev1.ConfigMap])
		began := time.Now()
		stop := running(t, lists(replay, maps))
		<-time.After(5*time.Second - time.Millisecond)
		synctest.Wait()
		assert.Equal(t, "blue", color(maps))
		<-time.After(time.Millisecond)
		synctest.Wait()
		assert.Equal(t, "grey", color(maps))
		<-replay.Done()
		assert.Equal(t, 10*time.Second+time.Millisecond, time.Since(began))
		assert.Equal(t, "red", color(maps), "the store has everything when it is done")
		require.NoError(t, replay.Err())
		<-time.After(time.Minute)
		assert.Equal(t, "12", maps.ResourceVersion())
		stop()
	})
}

func TestLateClientDoesNotGetTwoGroupsOfEventsAsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replay := open(t, script(modified(2*time.Second, 11, "grey"), modified(2*time.Second, 12, "red"), ended(20*time.Second, 2)))
		client := kubernetes.NewForConfigOrDie(replay.Config()).CoreV1().ConfigMaps("default")
		_, err := client.List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		<-time.After(time.Hour)
		asked := time.Now()
		w, err := client.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "10"})
		require.NoError(t, err)
		assert.Zero(t, time.Since(asked))
		for _, want := range []string{"grey", "red"} {
			before := time.Now()
			event := <-w.ResultChan()
			assert.Equal(t, want, event.Object.(*corev1.ConfigMap).Data["color"])
			assert.Equal(t, time.Millisecond, time.Since(before))
		}
		w.Stop()
	})
}

func TestFailuresOfARecordingAreWhatTheyWere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := firstLine + strings.Join([]string{
			asks(0, 1, "resourceVersion=0"),
			`{"at":"0s","frame":"failed","id":1,"failure":{"text":"down","causes":["connectionRefused"]}}`,
			asks(time.Second, 2, "resourceVersion=0"),
			answers(time.Second, 2, 403, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"reason":"Forbidden","message":"no"}`),
			asks(3*time.Second, 3, "resourceVersion=0"),
			`{"at":"3s","frame":"answer","id":3,"status":502,"contentType":"text/html","rest":"malformed"}`,
			asks(4*time.Second, 4, "resourceVersion=0"),
			answers(4*time.Second, 4, 200, page(10)),
			`{"at":"5s","frame":"stopped"}`,
		}, "\n") + "\n"
		var heard told
		replay := open(t, text)
		stop := running(t, lists(replay, store.New(store.ObjectKey[*corev1.ConfigMap]), reflector.WithErrorHandler(heard.hook)))
		<-replay.Done()
		require.NoError(t, replay.Err())
		synctest.Wait()
		stop()
		errs := heard.all()
		require.Len(t, errs, 4)
		require.ErrorIs(t, errs[0], syscall.ECONNREFUSED)
		require.ErrorContains(t, errs[0], "down")
		assert.True(t, apierrors.IsForbidden(errs[1]))
		var status apierrors.APIStatus
		require.ErrorAs(t, errs[2], &status)
		assert.Equal(t, int32(502), status.Status().Code)
		require.ErrorIs(t, errs[3], record.ErrReplayEnded)
	})
}

// While the recorded server was down, each request fails, and one that comes later is answered,
// however many attempts the recorded client made.
func TestServerIsDownForAsLongAsItWas(t *testing.T) {
	const refused = `{"at":%q,"frame":"failed","id":%d,"failure":{"text":"down","causes":["connectionRefused"]}}`
	probe := func(at time.Duration, id int) string {
		return asks(at, id, "limit=1&fieldSelector=metadata.name%3Dsky%2Cmetadata.namespace%3Ddefault")
	}
	lines := []string{over(time.Minute, 2, "ended")}
	for n := range 20 {
		at := time.Minute + time.Duration(n)*time.Second
		lines = append(lines, probe(at, n+3), fmt.Sprintf(refused, at.String(), n+3))
	}
	lines = append(lines, asks(80*time.Second, 30, "resourceVersion=10&watch=true"), answers(80*time.Second, 30, 503, gone),
		probe(90*time.Second, 31), answers(90*time.Second, 31, 200, page(10)),
		asks(90*time.Second, 32, "watch=true&resourceVersion=10"), opens(90*time.Second, 32), modifies(95*time.Second, 32, 11, "grey"))
	const opened, refusal, unavailable = 200, 0, 503
	for name, c := range map[string]struct {
		asked []time.Duration // when the client asks to resume its watch
		want  []int           // what it gets
		last  time.Duration   // when it gets the last answer
	}{
		"as often":           {[]time.Duration{60 * time.Second, 61 * time.Second, 95 * time.Second}, []int{refusal, refusal, opened}, 95 * time.Second},
		"too early":          {[]time.Duration{59 * time.Second, 60 * time.Second, 95 * time.Second}, []int{refusal, refusal, opened}, 95 * time.Second},
		"seldom":             {[]time.Duration{75 * time.Second, 85 * time.Second, 90 * time.Second}, []int{refusal, unavailable, opened}, 90 * time.Second},
		"when it was over":   {[]time.Duration{100 * time.Second, 101 * time.Second}, []int{refusal, opened}, 101 * time.Second},
		"in its last second": {[]time.Duration{79 * time.Second, 80 * time.Second, 90 * time.Second}, []int{refusal, unavailable, opened}, 90 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				replay := open(t, script(lines...))
				client := &http.Client{Transport: replay}
				get := func(query string) (int, error) {
					response, err := client.Get("http://recording/api/v1/namespaces/default/configmaps?" + query)
					if err != nil {
						return 0, err
					}
					return response.StatusCode, response.Body.Close()
				}
				_, err := get("resourceVersion=0&limit=500")
				require.NoError(t, err)
				_, err = get("watch=true&resourceVersion=10")
				require.NoError(t, err)
				for n, want := range c.want {
					<-time.After(c.asked[n] - time.Since(began))
					status, err := get("watch=true&resourceVersion=10")
					assert.Equal(t, want, status, n)
					if want == refusal {
						require.ErrorIs(t, err, syscall.ECONNREFUSED)
					}
				}
				assert.Equal(t, c.last, time.Since(began))
			})
		})
	}
}

// A connection that breaks in the middle of an event, or sends something else, is that again.
func TestStreamThatCannotBeReadIsReplayedAsOne(t *testing.T) {
	for _, rest := range []string{"truncated", "malformed"} {
		synctest.Test(t, func(t *testing.T) {
			replay := open(t, script(`{"at":"4s","frame":"failed","id":2,"rest":"`+rest+`","failure":{"text":"reset","causes":["connectionReset"]}}`))
			for _, query := range []string{"", "watch=true&resourceVersion=10"} {
				response, err := (&http.Client{Transport: replay}).Get("http://recording/api/v1/namespaces/default/configmaps?" + query)
				require.NoError(t, err)
				text, err := io.ReadAll(response.Body)
				if query == "" {
					require.NoError(t, err)
					continue
				}
				require.ErrorIs(t, err, syscall.ECONNRESET)
				assert.NotEmpty(t, text)
			}
		})
	}
}

func TestWhatTheRecordingDoesNotHaveIsSaid(t *testing.T) {
	blue, err := labels.Parse("color=blue")
	require.NoError(t, err)
	const list = `a list of /api/v1/namespaces/default/configmaps with resourceVersion "0"`
	for name, c := range map[string]struct {
		text string
		opts []reflector.Option
		want string
	}{
		"selector": {script(), []reflector.Option{reflector.WithLabelSelector(blue)}, `line 2 of the recording: ` + list + ` with labelSelector "color=blue" was asked for, and then it was ` + list},
		"another version": {
			strings.Replace(script(), `watch=true&resourceVersion=10`, `watch=true&resourceVersion=8`, 1), nil,
			`line 4 of the recording: a watch of /api/v1/namespaces/default/configmaps with resourceVersion "10" was asked for, and then it was a watch of /api/v1/namespaces/default/configmaps with resourceVersion "8"`,
		},
		"another order": {
			script(over(3*time.Second, 2, "ended"), asks(3*time.Second, 3, "resourceVersion=10"), answers(3*time.Second, 3, 200, page(10))), nil,
			`line 7 of the recording: a watch of /api/v1/namespaces/default/configmaps with resourceVersion "10" was asked for, and then it was a list of /api/v1/namespaces/default/configmaps with resourceVersion "10"`,
		},
		"another resource": {
			strings.ReplaceAll(script(), "configmaps", "secrets"), nil,
			`replay: ` + list + ` was asked for: it is not in the recording`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				replay := open(t, c.text)
				stop := running(t, lists(replay, store.New(store.ObjectKey[*corev1.ConfigMap]), c.opts...))
				<-replay.Done()
				var difference *record.DifferenceError
				require.ErrorAs(t, replay.Err(), &difference)
				assert.Contains(t, difference.Error(), c.want)
				stop()
			})
		})
	}
}

func TestWritesAndUnknownReadsAreRefusedAndTheReplayGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replay := open(t, script(modified(5*time.Second, 11, "grey"), ended(6*time.Second, 2)))
		maps := store.New(store.ObjectKey[*corev1.ConfigMap])
		stop := running(t, lists(replay, maps))
		client := kubernetes.NewForConfigOrDie(replay.Config()).CoreV1()
		_, err := client.ConfigMaps("default").Create(t.Context(), paint("sea", "blue"), metav1.CreateOptions{})
		require.ErrorIs(t, err, record.ErrNotRecorded)
		_, err = client.ConfigMaps("default").Get(t.Context(), "sky", metav1.GetOptions{})
		require.ErrorIs(t, err, record.ErrNotRecorded)
		_, err = client.Pods("default").GetLogs("a", &corev1.PodLogOptions{}).Stream(t.Context())
		require.ErrorIs(t, err, record.ErrNotRecorded)
		<-replay.Done()
		require.NoError(t, replay.Err())
		assert.Equal(t, "grey", color(maps))
		stop()
	})
}

// An object is read as the server showed it at that time.
func TestReadsAreThoseOfTheTime(t *testing.T) {
	const read = `{"at":%q,"frame":"request","id":%d,"path":"/api/v1/namespaces/default/configmaps/sky"}`
	synctest.Test(t, func(t *testing.T) {
		replay := open(t, firstLine+strings.Join([]string{
			fmt.Sprintf(read, "1s", 1), answers(time.Second, 1, 200, fmt.Sprintf(sky, 9, "blue")),
			fmt.Sprintf(read, "9s", 2), answers(9*time.Second, 2, 200, fmt.Sprintf(sky, 9, "red")),
		}, "\n"))
		client := kubernetes.NewForConfigOrDie(replay.Config()).CoreV1().ConfigMaps("default")
		for _, want := range []string{"blue", "blue", "red"} {
			object, err := client.Get(t.Context(), "sky", metav1.GetOptions{})
			require.NoError(t, err)
			assert.Equal(t, want, object.Data["color"])
			<-time.After(5 * time.Second)
		}
	})
}

func TestWhatMakesNoDifferenceIsLetPass(t *testing.T) {
	list, watch := asks(0, 1, "resourceVersion=0&limit=500"), asks(time.Second, 2, "watch=true&resourceVersion=10&timeoutSeconds=301")
	for name, text := range map[string]string{
		"page size":     strings.Replace(script(), `limit=500`, `limit=7`, 1),
		"an older list": strings.Replace(script(), `resourceVersion=0`, `resourceVersion=3`, 1),
		"bookmarks":     strings.Replace(script(), `timeoutSeconds=301`, `allowWatchBookmarks=false`, 1),
		"a path before": strings.Replace(script(), `"/api/v1`, `"/k8s/clusters/c-1/api/v1`, -1),
		"a probe": strings.Replace(script(), watch, strings.Join([]string{
			asks(time.Second, 7, "limit=1&fieldSelector=metadata.name%3Dsky%2Cmetadata.namespace%3Ddefault"), answers(time.Second, 7, 200, page(10)), watch,
		}, "\n"), 1),
		"a refused version":  strings.Replace(script(), list, strings.Join([]string{asks(0, 7, "continue=x"), answers(0, 7, 410, gone), list}, "\n"), 1),
		"a request given up": strings.Replace(script(), list, strings.Join([]string{asks(0, 7, "resourceVersion=0"), over(0, 7, "closed"), list}, "\n"), 1),
		"Run again": script(over(4*time.Second, 2, "closed"),
			asks(5*time.Second, 3, "watch=true&resourceVersion=10"), opens(5*time.Second, 3)),
		"no newline, at all": strings.TrimSuffix(script(), "\n"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				id := 2
				if name == "Run again" {
					id = 3
				}
				replay := open(t, strings.TrimSuffix(text, "\n")+"\n"+modifies(9*time.Second, id, 11, "grey")+"\n"+ended(9*time.Second, id))
				maps := store.New(store.ObjectKey[*corev1.ConfigMap])
				stop := running(t, lists(replay, maps))
				<-replay.Done()
				require.NoError(t, replay.Err())
				assert.Equal(t, "grey", color(maps))
				stop()
			})
		})
	}
}

func TestARecordingThatWasCutOffIsReplayedUpToThere(t *testing.T) {
	whole := script(modified(3*time.Second, 11, "grey"), modified(4*time.Second, 12, "red"))
	for cut, want := range map[string]string{
		whole:                  "red", // but without its end
		whole[:len(whole)-30]:  "grey",
		whole[:len(whole)-300]: "blue",
	} {
		synctest.Test(t, func(t *testing.T) {
			replay := open(t, cut)
			maps := store.New(store.ObjectKey[*corev1.ConfigMap])
			stop := running(t, lists(replay, maps))
			<-replay.Done()
			require.ErrorIs(t, replay.Err(), record.ErrRecordingCut)
			assert.Equal(t, want, color(maps))
			stop()
		})
	}
}

func TestFilesThatAreNoRecordings(t *testing.T) {
	for _, c := range []struct {
		text string
		line int
		want error
	}{
		{"", 1, record.ErrNotRecording},
		{"\x00\x01", 1, record.ErrNotRecording},
		{`{"kind":"PodList"}` + "\n", 1, record.ErrNotRecording},
		{firstLine[:20], 1, record.ErrNotRecording},
		{strings.Replace(firstLine, `"version":2`, `"version":1`, 1), 1, record.ErrRecordingVersion},
		{firstLine + "{\n" + "{}\n", 2, record.ErrRecordingDamaged},
		{firstLine + "\n" + `{"at":"0s","frame":"stopped"}` + "\n", 2, record.ErrRecordingDamaged},
		{firstLine + `{"at":"0s","frame":"dance"}` + "\n", 2, record.ErrRecordingDamaged},
		{firstLine + `{"at":"0s","frame":"request","id":1,"path":"nowhere"}` + "\n", 2, record.ErrRecordingDamaged},
		{firstLine + `{"at":"0s","frame":"failed","id":1}` + "\n", 2, record.ErrRecordingDamaged},
		{firstLine + asks(0, 1, "") + "\n" + `{"at":"0s","frame":"failed","id":1}` + "\n", 3, record.ErrRecordingDamaged},
		{firstLine + asks(0, 1, "") + "\n" + modifies(0, 1, 1, "red") + "\n", 3, record.ErrRecordingDamaged},
		{firstLine + asks(0, 1, "") + "\n" + asks(0, 1, "") + "\n", 3, record.ErrRecordingDamaged},
		{firstLine + `{"at":"0s","frame":"lost"}` + "\n", 2, record.ErrRecordingDamaged},
		{firstLine + `{"at":"soon","frame":"stopped"}` + "\n", 2, record.ErrRecordingDamaged},
	} {
		_, err := record.NewReplay(strings.NewReader(c.text))
		var failure *record.RecordingError
		require.ErrorAs(t, err, &failure, c.text)
		require.ErrorIs(t, err, c.want, c.text)
		assert.Equal(t, c.line, failure.Line, c.text)
	}
	endless := &zeros{}
	_, err := record.NewReplay(endless)
	require.ErrorIs(t, err, record.ErrNotRecording)
	assert.LessOrEqual(t, endless.read, 1<<20, "what is no recording is not read into memory")
	_, err = record.NewReplay(failing{})
	require.ErrorIs(t, err, errDisk)
}

var errDisk = errors.New("disk is broken")

// zeros is a file of 64 MiB without lines.
type zeros struct{ read int }

func (z *zeros) Read(to []byte) (int, error) {
	if z.read > 64<<20 {
		return 0, io.EOF
	}
	clear(to)
	z.read += len(to)
	return len(to), nil
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errDisk }

// A reflector that stops and continues makes one recording.
func TestRecordingGoesOnWhenRunIsCalledAgain(t *testing.T) {
	var file strings.Builder
	var want []*corev1.ConfigMap
	bubble(t, func(t *testing.T, server *reflectortest.Server) {
		recorder := record.NewRecorder(&file)
		maps := store.New(store.ObjectKey[*corev1.ConfigMap])
		r := generated(recorded(server, recorder), maps)
		for _, name := range []string{"a", "b"} {
			stop := running(t, r)
			synctest.Wait()
			require.NoError(t, server.Create(paint(name, "red")))
			synctest.Wait()
			stop()
		}
		require.NoError(t, recorder.Close())
		want = all(maps)
	})
	assert.Equal(t, 1, strings.Count(file.String(), `"format"`))
	assert.Equal(t, want, replay(t, file.String(), generated))
}

// FuzzRecordings replays files that no recorder would write: nothing panics or hangs.
func FuzzRecordings(f *testing.F) {
	f.Add(script(modified(3, 11, "grey"), ended(9*time.Second, 2)))
	f.Add(script(over(3*time.Second, 2, "ended"), asks(3*time.Second, 3, "watch=true&resourceVersion=10"), answers(3*time.Second, 3, 410, gone)))
	f.Add(script(`{"at":"3s","frame":"events","id":2,"events":[{"type":"ERROR","object":`+gone+`}]}`, over(3*time.Second, 2, "closed")))
	f.Add(script(`{"at":"3s","frame":"events","id":2,"events":[7]}`, `{"at":"3s","frame":"lost","failure":{"text":"full"}}`))
	f.Add(firstLine)
	f.Fuzz(func(t *testing.T, text string) {
		synctest.Test(t, func(t *testing.T) {
			replay, err := record.NewReplay(strings.NewReader(text))
			if err != nil {
				return
			}
			stop := running(t, lists(replay, store.New(store.ObjectKey[*corev1.ConfigMap])))
			synctest.Wait()
			<-time.After(time.Minute)
			stop()
		})
	})
}
