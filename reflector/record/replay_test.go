package record_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
)

const (
	firstLine = `{"format":"kubereflector recording","version":1,"reflector":"maps","type":"*k8s.io/api/core/v1.ConfigMap","began":"2026-01-01T00:00:00Z","watchList":false,"masked":true}` + "\n"
	sky       = `{"metadata":{"namespace":"default","name":"sky","uid":"1","resourceVersion":"%d"},"data":{"color":%q}}`
)

// script is a recording of a list at version 10, and what happened then.
func script(lines ...string) string {
	all := append([]string{
		`{"at":"0s","frame":"run"}`,
		`{"at":"0s","frame":"list","options":{"resourceVersion":"0","limit":500}}`,
		`{"at":"1s","frame":"page","resourceVersion":"10","items":[` + fmt.Sprintf(sky, 9, "blue") + `]}`,
		`{"at":"1s","frame":"watch","options":{"resourceVersion":"10","timeoutSeconds":301}}`,
		`{"at":"2s","frame":"opened"}`,
	}, lines...)
	return firstLine + strings.Join(all, "\n") + "\n"
}

func modified(at time.Duration, version int, color string) string {
	return fmt.Sprintf(`{"at":%q,"frame":"event","type":"MODIFIED","object":%s}`, at, fmt.Sprintf(sky, version, color))
}

func open(t *testing.T, text string, opts ...record.ReplayOption) *record.Replay[*corev1.ConfigMap] {
	t.Helper()
	replay, err := record.NewReplay[*corev1.ConfigMap](strings.NewReader(text), opts...)
	require.NoError(t, err)
	return replay
}

func color(maps *store.Cache[*corev1.ConfigMap]) string {
	if sky, ok := maps.Get(store.Key{Namespace: "default", Name: "sky"}); ok {
		return sky.Data["color"]
	}
	return ""
}

func TestFramesComeWhenTheyCameOrSoManyTimesFaster(t *testing.T) {
	for name, c := range map[string]struct {
		opts []record.ReplayOption
		took time.Duration
	}{
		"as recorded": {nil, 10 * time.Second},
		"twice":       {[]record.ReplayOption{record.WithReplaySpeed(2)}, 5 * time.Second},
		"at once":     {[]record.ReplayOption{record.WithReplaySpeed(0)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				replay := open(t, script(modified(5*time.Second, 11, "grey"), modified(10*time.Second, 12, "red"), `{"at":"20s","frame":"closed"}`, `{"at":"20s","frame":"stopped"}`), c.opts...)
				maps := store.New(store.ObjectKey[*corev1.ConfigMap])
				began := time.Now()
				stop := running(t, reflector.New(replay, maps))
				<-replay.Done()
				assert.Equal(t, c.took, time.Since(began))
				assert.Equal(t, "red", color(maps), "the store has everything when it is done")
				require.NoError(t, replay.Err())
				<-time.After(time.Minute)
				assert.Equal(t, "12", maps.ResourceVersion())
				stop()
			})
		})
	}
}

func TestStepsLetOneFramePassEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := script(modified(time.Minute, 11, "grey"), modified(time.Hour, 12, "red"), `{"at":"2h","frame":"ended"}`, `{"at":"2h","frame":"closed"}`, `{"at":"2h","frame":"stopped"}`)
		replay := open(t, text, record.WithReplaySteps())
		maps := store.New(store.ObjectKey[*corev1.ConfigMap])
		stop := running(t, reflector.New(replay, maps))
		began := time.Now()
		for _, want := range []struct {
			text, color string
			line        int
			at          time.Duration
		}{
			{"page", "", 4, time.Second}, {"opened", "blue", 6, 2 * time.Second},
			{"MODIFIED", "grey", 7, time.Minute}, {"MODIFIED", "red", 8, time.Hour}, {"ended", "red", 9, 2 * time.Hour},
		} {
			frame, err := replay.Step(t.Context())
			require.NoError(t, err)
			assert.Equal(t, record.Frame{Line: want.line, At: want.at, Text: want.text}, frame)
			if want.color != "" {
				assert.Equal(t, want.color, color(maps), want.text)
			}
		}
		assert.Zero(t, time.Since(began))
		_, err := replay.Step(t.Context())
		require.ErrorIs(t, err, record.ErrReplayEnded)
		require.NoError(t, replay.Err())
		stop()

		replay = open(t, text, record.WithReplaySteps())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = replay.Step(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded, "nobody asks for anything")
		_, err = open(t, text).Step(t.Context())
		require.Error(t, err)
	})
}

func TestFailuresOfARecordingAreWhatTheyWere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := firstLine + strings.Join([]string{
			`{"at":"0s","frame":"list","options":{"resourceVersion":"0"}}`,
			`{"at":"0s","frame":"failed","failure":{"text":"down","causes":["connectionRefused"]}}`,
			`{"at":"1s","frame":"list","options":{"resourceVersion":"0"}}`,
			`{"at":"1s","frame":"failed","failure":{"text":"no","status":{"status":"Failure","code":403,"reason":"Forbidden","message":"no"}}}`,
			`{"at":"3s","frame":"list","options":{"resourceVersion":"0"}}`,
			`{"at":"3s","frame":"page","resourceVersion":"10","items":[],"lacking":[{"name":"bad","resourceVersion":"4","failure":{"text":"does not fit"}}]}`,
			`{"at":"3s","frame":"stopped"}`,
		}, "\n") + "\n"
		var heard told
		replay := open(t, text)
		maps := store.New(store.ObjectKey[*corev1.ConfigMap])
		stop := running(t, reflector.New(replay, maps, reflector.WithErrorHandler(heard.hook)))
		<-replay.Done()
		require.NoError(t, replay.Err())
		synctest.Wait()
		stop()
		errs := heard.all()
		require.Len(t, errs, 4)
		require.ErrorContains(t, errs[0], "down")
		assert.True(t, apierrors.IsForbidden(errs[1]))
		var rejected *store.RejectedError
		require.ErrorAs(t, errs[2], &rejected)
		assert.Equal(t, "bad", rejected.Rejections[0].Key.Name)
		require.ErrorIs(t, errs[3], record.ErrReplayEnded)
	})
}

func TestWhatTheRecordingDoesNotHaveIsSaid(t *testing.T) {
	blue, err := labels.Parse("color=blue")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		text string
		opts []reflector.Option
		want string
	}{
		"selector": {script(), []reflector.Option{reflector.WithLabelSelector(blue)}, `line 3 of the recording: a list at resource version "0" with labels "color=blue" was asked for, and then it was a list at resource version "0"`},
		"another version": {
			strings.Replace(script(), `"options":{"resourceVersion":"10"`, `"options":{"resourceVersion":"8"`, 1), nil,
			`line 5 of the recording: a watch at resource version "10" was asked for, and then it was a watch at resource version "8"`,
		},
		"another order": {
			script(`{"at":"3s","frame":"ended"}`, `{"at":"3s","frame":"closed"}`, `{"at":"3s","frame":"list","options":{"resourceVersion":"10"}}`, `{"at":"3s","frame":"page","resourceVersion":"10"}`), nil,
			`line 9 of the recording: a watch at resource version "10" was asked for, and then it was a list at resource version "10"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				replay := open(t, c.text)
				stop := running(t, reflector.New(replay, store.New(store.ObjectKey[*corev1.ConfigMap]), c.opts...))
				<-replay.Done()
				var difference *record.DifferenceError
				require.ErrorAs(t, replay.Err(), &difference)
				assert.Contains(t, difference.Error(), c.want)
				stop()
			})
		})
	}
}

func TestWhatMakesNoDifferenceIsLetPass(t *testing.T) {
	for name, text := range map[string]string{
		"page size":          strings.Replace(script(), `"limit":500`, `"limit":7`, 1),
		"an older list":      strings.Replace(script(), `"resourceVersion":"0","limit"`, `"resourceVersion":"3","limit"`, 1),
		"bookmarks":          strings.Replace(script(), `"timeoutSeconds":301`, `"allowWatchBookmarks":false`, 1),
		"a probe":            strings.Replace(script(), `{"at":"1s","frame":"watch"`, `{"at":"1s","frame":"list","probe":true,"options":{"resourceVersion":"10","limit":1}}`+"\n"+`{"at":"1s","frame":"page","resourceVersion":"10"}`+"\n"+`{"at":"1s","frame":"watch"`, 1),
		"a refused version":  strings.Replace(script(), `{"at":"0s","frame":"run"}`, `{"at":"0s","frame":"list","options":{"resourceVersion":"5"}}`+"\n"+`{"at":"0s","frame":"failed","failure":{"text":"gone","status":{"code":410,"reason":"Expired"}}}`, 1),
		"a Run that ended":   strings.Replace(script(), `{"at":"0s","frame":"run"}`, `{"at":"0s","frame":"list","options":{"resourceVersion":"0"}}`+"\n"+`{"at":"0s","frame":"stopped"}`, 1),
		"Run again":          strings.Replace(script(), `"frame":"opened"}`, `"frame":"opened"}`+"\n"+`{"at":"4s","frame":"closed"}`+"\n"+`{"at":"4s","frame":"stopped"}`+"\n"+`{"at":"5s","frame":"run"}`+"\n"+`{"at":"5s","frame":"watch","options":{"resourceVersion":"10"}}`+"\n"+`{"at":"5s","frame":"opened"}`, 1),
		"no newline, at all": strings.TrimSuffix(script(), "\n"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := "\n" + modified(9*time.Second, 11, "grey") + "\n" + `{"at":"9s","frame":"closed"}` + "\n" + `{"at":"9s","frame":"stopped"}`
				replay := open(t, strings.TrimSuffix(text, "\n")+end)
				maps := store.New(store.ObjectKey[*corev1.ConfigMap])
				stop := running(t, reflector.New(replay, maps))
				<-replay.Done()
				require.NoError(t, replay.Err())
				assert.Equal(t, "grey", color(maps))
				stop()
			})
		})
	}
}

func TestAWatchThatIsSilentForLongIsNotWaitedForIfAllIsToBeQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replay := open(t, script(modified(3*time.Second, 11, "grey"), `{"at":"11m","frame":"closed"}`,
			`{"at":"11m","frame":"list","probe":true,"options":{"resourceVersion":"11","limit":1}}`, `{"at":"11m","frame":"page","resourceVersion":"11"}`,
			`{"at":"11m","frame":"watch","options":{"resourceVersion":"11"}}`, `{"at":"11m","frame":"opened"}`,
			modified(12*time.Minute, 12, "red"), `{"at":"12m","frame":"stopped"}`), record.WithReplaySpeed(0))
		maps := store.New(store.ObjectKey[*corev1.ConfigMap])
		began := time.Now()
		stop := running(t, reflector.New(replay, maps))
		<-replay.Done()
		require.NoError(t, replay.Err())
		assert.Equal(t, "red", color(maps))
		assert.Zero(t, time.Since(began))
		stop()
	})
}

func TestARecordingThatWasCutOffIsReplayedUpToThere(t *testing.T) {
	whole := script(modified(3*time.Second, 11, "grey"), modified(4*time.Second, 12, "red"))
	for cut, want := range map[string]string{
		whole:                  "red", // but without its end
		whole[:len(whole)-30]:  "grey",
		whole[:len(whole)-230]: "blue",
	} {
		synctest.Test(t, func(t *testing.T) {
			replay := open(t, cut)
			maps := store.New(store.ObjectKey[*corev1.ConfigMap])
			stop := running(t, reflector.New(replay, maps))
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
		{strings.Replace(firstLine, `"version":1`, `"version":2`, 1), 1, record.ErrRecordingVersion},
		{strings.Replace(firstLine, "ConfigMap", "Pod", 1), 1, record.ErrRecordingType},
		{firstLine + "{\n" + "{}\n", 2, record.ErrRecordingDamaged},
		{firstLine + "\n" + `{"at":"0s","frame":"run"}` + "\n", 2, record.ErrRecordingDamaged},
		{firstLine + `{"at":"0s","frame":"dance"}` + "\n", 2, record.ErrRecordingDamaged},
		{firstLine + `{"at":"0s","frame":"list"}` + "\n", 2, record.ErrRecordingDamaged},
		{firstLine + `{"at":"0s","frame":"failed"}` + "\n", 2, record.ErrRecordingDamaged},
		{firstLine + `{"at":"0s","frame":"event","type":"ADDED"}` + "\n", 2, record.ErrRecordingDamaged},
		{firstLine + `{"at":"soon","frame":"run"}` + "\n", 2, record.ErrRecordingDamaged},
	} {
		_, err := record.NewReplay[*corev1.ConfigMap](strings.NewReader(c.text))
		var failure *record.RecordingError
		require.ErrorAs(t, err, &failure, c.text)
		require.ErrorIs(t, err, c.want, c.text)
		assert.Equal(t, c.line, failure.Line, c.text)
	}
	endless := &zeros{}
	_, err := record.NewReplay[*corev1.ConfigMap](endless)
	require.ErrorIs(t, err, record.ErrNotRecording)
	assert.LessOrEqual(t, endless.read, 1<<20, "what is no recording is not read into memory")
	_, err = record.NewReplay[*corev1.ConfigMap](failing{})
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

func TestAnObjectThatDoesNotFitEndsTheReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replay := open(t, script(`{"at":"3s","frame":"event","type":"ADDED","object":{"data":7}}`))
		stop := running(t, reflector.New(replay, store.New(store.ObjectKey[*corev1.ConfigMap])))
		<-replay.Done()
		var failure *record.RecordingError
		require.ErrorAs(t, replay.Err(), &failure)
		assert.Equal(t, 7, failure.Line)
		stop()
	})
}

// A reflector that stops and continues makes one recording.
func TestRecordingGoesOnWhenRunIsCalledAgain(t *testing.T) {
	bubble(t, func(t *testing.T, server *reflectortest.Server) {
		var file strings.Builder
		clientset, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		maps := store.New(store.ObjectKey[*corev1.ConfigMap])
		r := reflector.New(record.Client(clientset.CoreV1().ConfigMaps("default"), record.NewRecorder(&file)), maps)
		for _, name := range []string{"a", "b"} {
			stop := running(t, r)
			synctest.Wait()
			require.NoError(t, server.Create(paint(name, "red")))
			synctest.Wait()
			stop()
		}
		assert.Equal(t, 1, strings.Count(file.String(), `"format"`))
		assert.Equal(t, all(maps), fromRecording[*corev1.ConfigMap](t, file.String()))
	})
}

// FuzzRecordings replays files that no recorder would write: nothing panics or hangs.
func FuzzRecordings(f *testing.F) {
	f.Add(script(modified(3, 11, "grey"), `{"at":"9s","frame":"closed"}`, `{"at":"9s","frame":"stopped"}`))
	f.Add(script(`{"at":"3s","frame":"event","type":"ERROR","failure":{"text":"gone","status":{"code":410,"reason":"Expired"}}}`, `{"at":"3s","frame":"closed"}`))
	f.Add(script(`{"at":"3s","frame":"event","type":"DELETED","lacking":[{"name":"x","failure":{"text":"?"}}]}`, `{"at":"3s","frame":"ended"}`))
	f.Add(script(`{"at":"3s","frame":"event","type":"BOOKMARK","resourceVersion":"3","initialEventsEnd":true}`, `{"at":"3s","frame":"lost","failure":{"text":"full"}}`))
	f.Add(firstLine)
	f.Fuzz(func(t *testing.T, text string) {
		synctest.Test(t, func(t *testing.T) {
			replay, err := record.NewReplay[*corev1.ConfigMap](strings.NewReader(text), record.WithReplaySpeed(0))
			if err != nil {
				return
			}
			stop := running(t, reflector.New(replay, store.New(store.ObjectKey[*corev1.ConfigMap])))
			synctest.Wait()
			stop()
		})
	})
}

func TestWrappedReplayAnswersProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replay := open(t, script(modified(5*time.Second, 11, "grey"),
			`{"at":"20s","frame":"event","cut":true,"failure":{"text":"reset","causes":["connectionReset"]}}`,
			`{"at":"20s","frame":"closed"}`,
			`{"at":"21s","frame":"list","probe":true,"options":{"limit":1,"fieldSelector":"metadata.name=sky,metadata.namespace=default"}}`,
			`{"at":"21s","frame":"page","resourceVersion":"11","items":[`+fmt.Sprintf(sky, 11, "grey")+`]}`,
			`{"at":"21s","frame":"watch","options":{"resourceVersion":"11","timeoutSeconds":301}}`,
			`{"at":"21s","frame":"opened"}`, modified(25*time.Second, 12, "red"), `{"at":"30s","frame":"closed"}`, `{"at":"30s","frame":"stopped"}`))
		maps := store.New(store.ObjectKey[*corev1.ConfigMap])
		stop := running(t, reflector.New(wrapped{replay}, maps))
		<-replay.Done()
		require.NoError(t, replay.Err())
		assert.Equal(t, "red", color(maps))
		stop()
	})
}

func TestReplayedTimeoutIsAProtocolError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replay := open(t, firstLine+strings.Join([]string{
			`{"at":"0s","frame":"run"}`,
			`{"at":"0s","frame":"list","options":{"resourceVersion":"0","limit":500}}`,
			`{"at":"500s","frame":"failed","failure":{"text":"server did not answer in time: context deadline exceeded","causes":["noAnswer","deadlineExceeded"]}}`,
			`{"at":"501s","frame":"list","options":{"resourceVersion":"0","limit":500}}`,
		}, "\n")+"\n")
		var got told
		stop := running(t, reflector.New(replay, store.New(store.ObjectKey[*corev1.ConfigMap]), reflector.WithErrorHandler(got.hook)))
		<-replay.Done()
		var failure *reflector.ProtocolError
		require.ErrorAs(t, got.all()[0], &failure)
		assert.Equal(t, "NoAnswer", failure.Reason)
		stop()
	})
}

func TestReplayOfARunThatWasStoppedDuringAPagedList(t *testing.T) {
	firstPage := func(at string) []string {
		return []string{
			`{"at":"` + at + `","frame":"run"}`,
			`{"at":"` + at + `","frame":"list","options":{"resourceVersion":"0","limit":1}}`,
			`{"at":"` + at + `","frame":"page","resourceVersion":"10","continue":"x","items":[` + fmt.Sprintf(sky, 10, "blue") + `]}`,
		}
	}
	nextPage := func(at string) string {
		return `{"at":"` + at + `","frame":"list","options":{"continue":"x","limit":1}}`
	}
	for name, stopped := range map[string][]string{
		"before the next page":  {`{"at":"1s","frame":"stopped"}`},
		"while a page is asked": {nextPage("1s"), `{"at":"1s","frame":"stopped"}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lines := append(firstPage("0s"), stopped...)
				lines = append(lines, firstPage("5s")...)
				lines = append(lines, nextPage("5s"),
					`{"at":"5s","frame":"page","resourceVersion":"10","items":[`+strings.Replace(fmt.Sprintf(sky, 9, "green"), "sky", "sea", 1)+`]}`,
					`{"at":"5s","frame":"watch","options":{"resourceVersion":"10","timeoutSeconds":301}}`,
					`{"at":"5s","frame":"opened"}`, modified(7*time.Second, 11, "grey"), `{"at":"8s","frame":"closed"}`, `{"at":"8s","frame":"stopped"}`)
				replay := open(t, firstLine+strings.Join(lines, "\n")+"\n")
				maps := store.New(store.ObjectKey[*corev1.ConfigMap])
				stop := running(t, reflector.New(replay, maps))
				<-replay.Done()
				require.NoError(t, replay.Err())
				assert.Equal(t, 2, maps.Len())
				assert.Equal(t, "grey", color(maps))
				stop()
			})
		})
	}
}
