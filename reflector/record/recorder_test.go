package record_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
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
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
)

// told collects the errors of an error handler.
type told struct {
	mu     sync.Mutex
	errors []error
}

func (t *told) hook(_ context.Context, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.errors = append(t.errors, err)
}

func (t *told) all() []error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.errors
}

// running is a reflector that runs until it is stopped.
func running[T reflector.Object](t *testing.T, r *reflector.KubernetesResourceReflector[T]) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return func() {
		cancel()
		require.NoError(t, <-ended)
	}
}

// recordOf lets a reflector with a client live through a few changes, and returns the recording
// and what the store had at the end.
func recordOf[T reflector.Object, L any](t *testing.T, server *reflectortest.Server, resource reflector.Client[T, L], opts ...reflector.Option) (string, []T) {
	t.Helper()
	var file bytes.Buffer
	objects := store.New(store.ObjectKey[T])
	r := reflector.New(record.Client(resource, record.NewRecorder(&file)), objects, opts...)
	require.NoError(t, server.Create(paint("sky", "blue")))
	require.NoError(t, server.Create(paint("sea", "green")))
	stop := running(t, r)
	synctest.Wait()
	require.NoError(t, server.Update(paint("sky", "grey")))
	synctest.Wait()
	server.Inject(reflectortest.LoseHistory().On("watch", "configmaps").Times(1))
	require.NoError(t, server.Restore(server.ResourceVersion())) // cuts the watch
	require.NoError(t, server.Delete(paint("sea", "")))
	<-time.After(time.Minute)
	require.NoError(t, server.Create(paint("sun", "red")))
	server.SendBookmarks()
	synctest.Wait()
	stop()
	return file.String(), all(objects)
}

func all[T any](objects *store.Cache[T]) (list []T) {
	for _, o := range objects.All() {
		list = append(list, o)
	}
	return list
}

// fromRecording returns what a store has after a recording was replayed.
func fromRecording[T reflector.Object](t *testing.T, recording string, opts ...reflector.Option) []T {
	t.Helper()
	replay, err := record.NewReplay[T](strings.NewReader(recording))
	require.NoError(t, err)
	objects := store.New(store.ObjectKey[T])
	stop := running(t, reflector.New(replay, objects, opts...))
	<-replay.Done()
	require.NoError(t, replay.Err())
	stop()
	return all(objects)
}

// An object of another shard is recorded and replayed as its version only.

func TestRecordingsOfAllClientsCanBeReplayed(t *testing.T) {
	for name, opts := range map[string][]reflector.Option{"watch-list": nil, "lists": {reflector.WithoutWatchList(), reflector.WithPageSize(1)}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, server *reflectortest.Server) {
				clientset, err := kubernetes.NewForConfig(server.Config())
				require.NoError(t, err)
				recording, want := recordOf(t, server, clientset.CoreV1().ConfigMaps("default"), opts...)
				require.Len(t, want, 2)
				assert.Equal(t, want, fromRecording[*corev1.ConfigMap](t, recording, opts...))
			})
			bubble(t, func(t *testing.T, server *reflectortest.Server) {
				resource, err := client.ForResource[*corev1.ConfigMap](server.Config(), configMapResource, "default")
				require.NoError(t, err)
				recording, want := recordOf(t, server, resource, opts...)
				require.Len(t, want, 2)
				assert.Contains(t, recording, `"resource":"configmaps/v1"`)
				assert.Equal(t, want, fromRecording[*corev1.ConfigMap](t, recording, opts...))
			})
			bubble(t, func(t *testing.T, server *reflectortest.Server) {
				resource, err := client.ForType[metav1.Object](server.Config(), configMapResource, &corev1.ConfigMap{})
				require.NoError(t, err)
				recording, want := recordOf(t, server, resource.In("default"), opts...)
				require.Len(t, want, 2)
				for i, object := range fromRecording[*corev1.ConfigMap](t, recording, opts...) {
					assert.Equal(t, want[i], metav1.Object(object))
				}
			})
			bubble(t, func(t *testing.T, server *reflectortest.Server) {
				resource, err := dynamic.NewForConfig(server.Config())
				require.NoError(t, err)
				recording, want := recordOf(t, server, client.Dynamic(resource.Resource(configMapResource).Namespace("default")), opts...)
				require.Len(t, want, 2)
				assert.Equal(t, want, fromRecording[*unstructured.Unstructured](t, recording, opts...))
			})
			bubble(t, func(t *testing.T, server *reflectortest.Server) {
				resource, err := metadata.NewForConfig(server.Config())
				require.NoError(t, err)
				recording, want := recordOf(t, server, client.Metadata(resource.Resource(configMapResource).Namespace("default")), opts...)
				require.Len(t, want, 2)
				assert.Equal(t, want, fromRecording[*metav1.PartialObjectMetadata](t, recording, opts...))
			})
		})
	}
}

// bubble runs a test with a server in a bubble of its own.
func bubble(t *testing.T, test func(*testing.T, *reflectortest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, reflectortest.Start(t, reflectortest.WithBookmarkInterval(time.Hour))) })
}

// broken is a writer that fails after some writes.
type broken struct {
	mu   sync.Mutex
	left int
	err  error
	text bytes.Buffer
}

func (b *broken) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left--; b.left < 0 {
		return 0, b.err
	}
	return b.text.Write(text)
}

func TestWriterThatFailsEndsTheRecordingAndNotTheReflector(t *testing.T) {
	bubble(t, func(t *testing.T, server *reflectortest.Server) {
		full := errors.New("disk is full")
		var heard told
		recorder := record.NewRecorder(&broken{left: 1, err: full})
		maps := store.New(store.ObjectKey[*corev1.ConfigMap])
		clientset, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		r := reflector.New(record.Client(clientset.CoreV1().ConfigMaps("default"), recorder), maps, reflector.WithErrorHandler(heard.hook),
			reflector.WithRetry(func(error) bool { return false }))
		stop := running(t, r)
		for _, name := range []string{"a", "b", "c"} {
			require.NoError(t, server.Create(paint(name, "red")))
			synctest.Wait()
		}
		assert.Equal(t, 3, maps.Len())
		require.ErrorIs(t, recorder.Err(), full)
		require.Len(t, heard.all(), 1, "it is told once")
		var failure *reflector.Error
		require.ErrorAs(t, heard.all()[0], &failure)
		assert.Equal(t, "record", failure.Op)
		require.ErrorIs(t, failure, full)
		assert.NoError(t, r.State().Err)
		stop()
	})
}

func TestWriterThatIsTooSlowEndsTheRecordingWithWhatItHad(t *testing.T) {
	bubble(t, func(t *testing.T, server *reflectortest.Server) {
		reader, writer := io.Pipe() // without a reader yet
		recorder := record.NewRecorder(writer, record.WithRecorderBuffer(2000))
		maps := store.New(store.ObjectKey[*corev1.ConfigMap])
		clientset, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		stop := running(t, reflector.New(record.Client(clientset.CoreV1().ConfigMaps("default"), recorder), maps))
		synctest.Wait()
		for range 30 {
			require.NoError(t, server.Create(paint(fmt.Sprint("n", maps.Len()), "red")))
			synctest.Wait()
		}
		require.Equal(t, 30, maps.Len(), "nobody waits for the writer")
		require.ErrorIs(t, recorder.Err(), record.ErrRecorderBehind)
		var text []byte
		read := make(chan struct{})
		go func() {
			defer close(read)
			text, _ = io.ReadAll(reader)
		}()
		stop()
		require.NoError(t, writer.Close())
		<-read
		replay, err := record.NewReplay[*corev1.ConfigMap](bytes.NewReader(text))
		require.NoError(t, err)
		some := store.New(store.ObjectKey[*corev1.ConfigMap])
		stop = running(t, reflector.New(replay, some))
		<-replay.Done()
		require.ErrorIs(t, replay.Err(), record.ErrRecordingCut)
		require.ErrorContains(t, replay.Err(), "too slow")
		assert.NotZero(t, some.Len())
		assert.Less(t, some.Len(), 30)
		stop()
	})
}

func TestWriterThatDoesNotReturnDoesNotHoldUpRun(t *testing.T) {
	bubble(t, func(t *testing.T, server *reflectortest.Server) {
		reader, writer := io.Pipe()
		defer func() { require.NoError(t, reader.Close()) }()
		recorder := record.NewRecorder(writer)
		clientset, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		stop := running(t, reflector.New(record.Client(clientset.CoreV1().ConfigMaps("default"), recorder), store.New(store.ObjectKey[*corev1.ConfigMap])))
		synctest.Wait()
		began := time.Now()
		stop()
		assert.Equal(t, 5*time.Second, time.Since(began))
		require.ErrorIs(t, recorder.Err(), record.ErrRecorderStuck)
	})
}

func TestRecorderIsForOneReflector(t *testing.T) {
	bubble(t, func(t *testing.T, server *reflectortest.Server) {
		clientset, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		recorder := record.NewRecorder(io.Discard)
		made := func() *reflector.KubernetesResourceReflector[*corev1.ConfigMap] {
			return reflector.New(record.Client(clientset.CoreV1().ConfigMaps("default"), recorder), store.New(store.ObjectKey[*corev1.ConfigMap]))
		}
		stop := running(t, made())
		synctest.Wait()
		require.ErrorIs(t, made().Run(t.Context()), record.ErrRecorderTaken)
		stop()
	})
}

func TestSecretsAreMaskedUnlessTheyAreWanted(t *testing.T) {
	const secret = "cGFzc3dvcmQ=" // password
	taped := func(opts ...record.RecorderOption) (text string) {
		bubble(t, func(t *testing.T, server *reflectortest.Server) {
			object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s", Labels: map[string]string{"team": "blue"}}, Data: map[string][]byte{"p": []byte("password")}}
			require.NoError(t, server.Create(object))
			clientset, err := kubernetes.NewForConfig(server.Config())
			require.NoError(t, err)
			var file bytes.Buffer
			secrets := store.New(store.ObjectKey[*corev1.Secret])
			stop := running(t, reflector.New(record.Client(clientset.CoreV1().Secrets("default"), record.NewRecorder(&file, opts...)), secrets))
			synctest.Wait()
			object.Labels["team"] = "red"
			require.NoError(t, server.Update(object))
			synctest.Wait()
			kept, _ := secrets.Get(store.Key{Namespace: "default", Name: "s"})
			assert.Equal(t, "password", string(kept.Data["p"]), "the object itself is not touched")
			stop()
			text = file.String()
			for _, object := range fromRecording[*corev1.Secret](t, text) {
				assert.Len(t, object.Data, 1, "what is masked can be read")
			}
		})
		return text
	}
	text := taped()
	assert.NotContains(t, text, secret)
	assert.Contains(t, text, `"p":"redacted"`)
	assert.Contains(t, text, "blue")
	assert.Contains(t, taped(record.WithRecordedSecrets()), secret)
	text = taped(record.WithRecordedSecrets(), record.WithRecorderMasked("/metadata/labels"))
	assert.Contains(t, text, secret)
	assert.NotContains(t, text, "blue")
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var configMapResource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func paint(name, color string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{"color": color}}
}

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
	bubble(t, func(t *testing.T, server *reflectortest.Server) {
		require.NoError(t, server.Create(paint("a", "red")))
		var file strings.Builder
		inner, outer := record.NewRecorder(&file), record.NewRecorder(new(strings.Builder))
		r := reflector.New(record.Client(record.Client(generated(t, server), inner), outer), store.New(store.ObjectKey[*corev1.ConfigMap]))
		stop := running(t, r)
		<-r.Synced()
		stop()
		assert.NoError(t, inner.Err())
		assert.Contains(t, file.String(), `"name":"a"`)
	})
}

// wrapped is a client that embeds a Replay.
type wrapped struct {
	*record.Replay[*corev1.ConfigMap]
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
