package record_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/record"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

// configMaps is a client of a generated clientset.
type configMaps = reflector.Client[*corev1.ConfigMap, *corev1.ConfigMapList]

func generated(t *testing.T, server *reflectortest.Server) configMaps {
	clientset, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	return clientset.CoreV1().ConfigMaps("default")
}

// onCommit is a follower that calls a function.
type onCommit struct{ do func() }

func (*onCommit) Start(*store.Snapshot[*corev1.ConfigMap]) {}
func (c *onCommit) Commit(*store.Commit[*corev1.ConfigMap]) {
	if c.do != nil {
		c.do()
	}
}

// The commit of an event ends the run, so the reflector asks for no further event.
func TestLastEventOfARunIsRecorded(t *testing.T) {
	bubble(t, func(t *testing.T, server *reflectortest.Server) {
		var file strings.Builder
		maps := store.New(store.ObjectKey[*corev1.ConfigMap])
		r := reflector.New(record.Client(generated(t, server), record.NewRecorder(&file)), maps)
		var follower onCommit
		defer maps.Follow(&follower)()
		for _, name := range []string{"a", "b"} {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- r.Run(ctx) }()
			synctest.Wait()
			follower.do = cancel
			require.NoError(t, server.Create(paint(name, "red")))
			require.NoError(t, <-ended)
			follower.do = nil
		}
		replay, err := record.NewReplay[*corev1.ConfigMap](strings.NewReader(file.String()))
		require.NoError(t, err)
		objects := store.New(store.ObjectKey[*corev1.ConfigMap])
		stop := running(t, reflector.New(replay, objects))
		<-replay.Done()
		require.NoError(t, replay.Err())
		assert.Equal(t, 2, objects.Len())
		stop()
	})
}

func TestRecorderInsideOfAnotherClientRecords(t *testing.T) {
	for name, around := range map[string]func(configMaps) configMaps{
		"another recorder": func(c configMaps) configMaps {
			return record.Client(c, record.NewRecorder(new(strings.Builder)))
		},
		"a shared watch": func(c configMaps) configMaps { return client.SharedWatch(c) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, server *reflectortest.Server) {
				require.NoError(t, server.Create(paint("a", "red")))
				var file strings.Builder
				recorder := record.NewRecorder(&file)
				r := reflector.New(around(record.Client(generated(t, server), recorder)), store.New(store.ObjectKey[*corev1.ConfigMap]))
				stop := running(t, r)
				<-r.Synced()
				stop()
				assert.NoError(t, recorder.Err())
				assert.Contains(t, file.String(), `"name":"a"`)
			})
		})
	}
}

// wrapped is a client that embeds a Replay.
type wrapped struct {
	*record.Replay[*corev1.ConfigMap]
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

// stuck is a writer that does not return before release.
type stuck struct{ until chan struct{} }

func (s stuck) Write(b []byte) (int, error) { <-s.until; return len(b), nil }

func TestReflectorIsNotStoppedBeforeItsRecordingEnds(t *testing.T) {
	bubble(t, func(t *testing.T, server *reflectortest.Server) {
		writer := stuck{make(chan struct{})}
		r := reflector.New(record.Client(generated(t, server), record.NewRecorder(writer)), store.New(store.ObjectKey[*corev1.ConfigMap]))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		assert.NotEqual(t, reflector.Stopped, r.State().Phase)
		require.NoError(t, <-ended)
		assert.Equal(t, reflector.Stopped, r.State().Phase)
		close(writer.until)
	})
}
