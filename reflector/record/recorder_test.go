package record_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/mapper"
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
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var configMapResource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func paint(name, color string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{"color": color}}
}

// bubble runs a test with a server in a bubble of its own.
func bubble(t *testing.T, test func(*testing.T, *reflectortest.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, reflectortest.Start(t, reflectortest.WithBookmarkInterval(time.Hour))) })
}

// recorded returns a config whose requests are recorded.
func recorded(server *reflectortest.Server, recorder *record.Recorder) *rest.Config {
	config := server.Config()
	config.Wrap(recorder.Wrap)
	return config
}

// made makes a reflector with a client of a config.
type made[T reflector.Object] func(*rest.Config, *store.Cache[T], ...reflector.Option) *reflector.KubernetesResourceReflector[T]

// generated makes a reflector with a client of a generated clientset.
func generated(config *rest.Config, objects *store.Cache[*corev1.ConfigMap], opts ...reflector.Option) *reflector.KubernetesResourceReflector[*corev1.ConfigMap] {
	return reflector.New(kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default"), objects, opts...)
}

// decoding makes a reflector with one of our clients.
func decoding(which ...client.ResourceOption) made[*corev1.ConfigMap] {
	return func(config *rest.Config, objects *store.Cache[*corev1.ConfigMap], opts ...reflector.Option) *reflector.KubernetesResourceReflector[*corev1.ConfigMap] {
		resource, err := client.ForResource[*corev1.ConfigMap](config, configMapResource, "default", which...)
		if err != nil {
			panic(err)
		}
		return reflector.New(resource, objects, opts...)
	}
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

func all[T any](objects *store.Cache[T]) (list []T) {
	for _, o := range objects.All() {
		list = append(list, o)
	}
	return list
}

// live lets a reflector live through a few changes, and returns the recording and what the store had
// at the end.
func live[T reflector.Object](t *testing.T, server *reflectortest.Server, make made[T], opts ...reflector.Option) (string, []T) {
	t.Helper()
	var file bytes.Buffer
	recorder := record.NewRecorder(&file)
	objects := store.New(store.ObjectKey[T])
	r := make(recorded(server, recorder), objects, opts...)
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
	require.NoError(t, recorder.Close())
	return file.String(), all(objects)
}

// replay returns what a store has after a recording was replayed.
func replay[T reflector.Object](t *testing.T, recording string, make made[T], opts ...reflector.Option) (objects []T) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		replay := open(t, recording)
		cache := store.New(store.ObjectKey[T])
		stop := running(t, make(replay.Config(), cache, opts...))
		<-replay.Done()
		require.NoError(t, replay.Err(), recording)
		stop()
		objects = all(cache)
	})
	return objects
}

// replayed compares what a reflector lives through with its replay.
func replayed[T reflector.Object](make made[T]) func(*testing.T, ...reflector.Option) {
	return func(t *testing.T, opts ...reflector.Option) {
		var recording string
		var want []T
		bubble(t, func(t *testing.T, server *reflectortest.Server) { recording, want = live(t, server, make, opts...) })
		require.Len(t, want, 2)
		assert.Equal(t, want, replay(t, recording, make, opts...))
	}
}

func TestRecordingsOfAllClientsCanBeReplayed(t *testing.T) {
	for name, test := range map[string]func(*testing.T, ...reflector.Option){
		"generated": replayed(generated),
		"JSON":      replayed(decoding(client.WithoutProtobuf())),
		"protobuf":  replayed(decoding()),
		"any type": replayed(func(config *rest.Config, objects *store.Cache[metav1.Object], opts ...reflector.Option) *reflector.KubernetesResourceReflector[metav1.Object] {
			resource, err := client.ForType[metav1.Object](config, configMapResource, &corev1.ConfigMap{})
			if err != nil {
				panic(err)
			}
			return reflector.New(resource.In("default"), objects, opts...)
		}),
		"dynamic": replayed(func(config *rest.Config, objects *store.Cache[*unstructured.Unstructured], opts ...reflector.Option) *reflector.KubernetesResourceReflector[*unstructured.Unstructured] {
			resource := dynamic.NewForConfigOrDie(config).Resource(configMapResource).Namespace("default")
			return reflector.New(client.Dynamic(resource), objects, opts...)
		}),
		"metadata": replayed(func(config *rest.Config, objects *store.Cache[*metav1.PartialObjectMetadata], opts ...reflector.Option) *reflector.KubernetesResourceReflector[*metav1.PartialObjectMetadata] {
			resource := metadata.NewForConfigOrDie(config).Resource(configMapResource).Namespace("default")
			return reflector.New(client.Metadata(resource), objects, opts...)
		}),
	} {
		t.Run(name+", watch-list", func(t *testing.T) { test(t) })
		t.Run(name+", lists", func(t *testing.T) { test(t, reflector.WithoutWatchList(), reflector.WithPageSize(1)) })
	}
}

// broken is a writer that fails after some writes.
type broken struct {
	left int
	err  error
}

func (b *broken) Write(text []byte) (int, error) {
	if b.left--; b.left < 0 {
		return 0, b.err
	}
	return len(text), nil
}

func TestWriterThatFailsEndsTheRecordingAndNotTheReflector(t *testing.T) {
	bubble(t, func(t *testing.T, server *reflectortest.Server) {
		full := errors.New("disk is full")
		recorder := record.NewRecorder(&broken{left: 1, err: full})
		maps := store.New(store.ObjectKey[*corev1.ConfigMap])
		r := generated(recorded(server, recorder), maps, reflector.WithRetry(func(error) bool { return false }))
		stop := running(t, r)
		for _, name := range []string{"a", "b", "c"} {
			require.NoError(t, server.Create(paint(name, "red")))
			synctest.Wait()
		}
		assert.Equal(t, 3, maps.Len())
		<-recorder.Done()
		require.ErrorIs(t, recorder.Err(), full)
		assert.NoError(t, r.State().Err)
		stop()
		require.ErrorIs(t, recorder.Close(), full)
	})
}

func TestNilWriterEndsTheRecordingAtOnce(t *testing.T) {
	recorder := record.NewRecorder(nil)
	<-recorder.Done()
	require.Error(t, recorder.Close())
}

// The writer panics, and the program goes on.
func TestWriterThatPanicsEndsTheRecording(t *testing.T) {
	bubble(t, func(t *testing.T, server *reflectortest.Server) {
		recorder := record.NewRecorder(panicking{})
		maps := store.New(store.ObjectKey[*corev1.ConfigMap])
		require.NoError(t, server.Create(paint("a", "red")))
		stop := running(t, generated(recorded(server, recorder), maps))
		synctest.Wait()
		assert.Equal(t, 1, maps.Len())
		require.ErrorIs(t, recorder.Err(), store.ErrPanic)
		stop()
	})
}

type panicking struct{}

func (panicking) Write([]byte) (int, error) { panic("no disk") }

func TestWriterThatIsTooSlowEndsTheRecordingWithWhatItHad(t *testing.T) {
	var text []byte
	bubble(t, func(t *testing.T, server *reflectortest.Server) {
		reader, writer := io.Pipe() // without a reader yet
		recorder := record.NewRecorder(writer)
		recorder.SetLimit(10_000)
		maps := store.New(store.ObjectKey[*corev1.ConfigMap])
		stop := running(t, generated(recorded(server, recorder), maps))
		synctest.Wait()
		for range 30 {
			require.NoError(t, server.Create(paint(fmt.Sprint("n", maps.Len()), strings.Repeat("red", 300))))
			synctest.Wait()
		}
		require.Equal(t, 30, maps.Len(), "the reflector does not wait for the writer")
		require.ErrorIs(t, recorder.Err(), record.ErrRecorderBehind)
		read := make(chan struct{})
		go func() {
			defer close(read)
			text, _ = io.ReadAll(reader)
		}()
		stop()
		require.ErrorIs(t, recorder.Close(), record.ErrRecorderBehind)
		require.NoError(t, writer.Close())
		<-read
	})
	synctest.Test(t, func(t *testing.T) {
		replay := open(t, string(text))
		some := store.New(store.ObjectKey[*corev1.ConfigMap])
		stop := running(t, generated(replay.Config(), some))
		<-replay.Done()
		require.ErrorIs(t, replay.Err(), record.ErrRecordingCut)
		require.ErrorContains(t, replay.Err(), "256 MiB")
		assert.NotZero(t, some.Len())
		assert.Less(t, some.Len(), 30)
		stop()
	})
}

func TestWriterThatDoesNotReturnDoesNotHoldUpTheProgram(t *testing.T) {
	bubble(t, func(t *testing.T, server *reflectortest.Server) {
		reader, writer := io.Pipe()
		defer func() { require.NoError(t, reader.Close()) }()
		recorder := record.NewRecorder(writer)
		stop := running(t, generated(recorded(server, recorder), store.New(store.ObjectKey[*corev1.ConfigMap])))
		synctest.Wait()
		began := time.Now()
		stop()
		assert.Zero(t, time.Since(began))
		require.ErrorIs(t, recorder.Close(), record.ErrRecorderStuck)
		assert.Equal(t, 5*time.Second, time.Since(began))
	})
}

func TestSecretsAreMasked(t *testing.T) {
	const secret = "cGFzc3dvcmQ=" // password
	for name, opts := range map[string][]reflector.Option{"watch-list": nil, "lists": {reflector.WithoutWatchList()}} {
		t.Run(name, func(t *testing.T) {
			var file bytes.Buffer
			secrets := func(config *rest.Config, objects *store.Cache[*corev1.Secret], opts ...reflector.Option) *reflector.KubernetesResourceReflector[*corev1.Secret] {
				return reflector.New(kubernetes.NewForConfigOrDie(config).CoreV1().Secrets("default"), objects, opts...)
			}
			bubble(t, func(t *testing.T, server *reflectortest.Server) {
				object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s", Labels: map[string]string{"team": "blue"}}, Data: map[string][]byte{"p": []byte("password")}}
				require.NoError(t, server.Create(object))
				recorder := record.NewRecorder(&file)
				config := recorded(server, recorder)
				kept := store.New(store.ObjectKey[*corev1.Secret])
				stop := running(t, secrets(config, kept, opts...))
				synctest.Wait()
				object.Labels["team"] = "red"
				require.NoError(t, server.Update(object))
				synctest.Wait()
				_, err := kubernetes.NewForConfigOrDie(config).CoreV1().Secrets("default").Get(t.Context(), "s", metav1.GetOptions{})
				require.NoError(t, err)
				held, _ := kept.Get(store.Key{Namespace: "default", Name: "s"})
				assert.Equal(t, "password", string(held.Data["p"]), "the program itself has it")
				stop()
				require.NoError(t, recorder.Close())
			})
			text := file.String()
			assert.NotContains(t, text, secret)
			assert.Equal(t, 3, strings.Count(text, `"p":"redacted"`), "in the list, the event and the read")
			assert.Contains(t, text, "blue")
			objects := replay(t, text, secrets, opts...)
			require.Len(t, objects, 1)
			for _, object := range objects {
				assert.Len(t, object.Data, 1, "what is masked can be read")
				assert.Equal(t, "red", object.Labels["team"])
			}
		})
	}
}

// Masking must not show an object as another one: not in a list as in an event, and no number that
// decoders keep apart.
func TestObjectsThatAreNoSecretsAreRecordedAsTheyAre(t *testing.T) {
	want := &unstructured.Unstructured{Object: map[string]any{
		"kind": "Telescope", "apiVersion": "example.com/v1",
		"metadata": map[string]any{"name": "a", "namespace": "default"},
		"data":     map[string]any{"int": int64(3), "beyond 2^53": int64(9007199254740993), "float": 3.5, "<&>": []any{true, "<"}},
	}}
	resource := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "telescopes"}
	telescopes := func(config *rest.Config, objects *store.Cache[*unstructured.Unstructured], opts ...reflector.Option) *reflector.KubernetesResourceReflector[*unstructured.Unstructured] {
		return reflector.New(client.Dynamic(dynamic.NewForConfigOrDie(config).Resource(resource)), objects, opts...)
	}
	for name, opts := range map[string][]reflector.Option{"watch-list": nil, "lists": {reflector.WithoutWatchList()}} {
		t.Run(name, func(t *testing.T) {
			var file bytes.Buffer
			var lived []*unstructured.Unstructured
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t, reflectortest.WithResource(reflectortest.Resource{Group: "example.com", Version: "v1", Kind: "Telescope", Plural: "telescopes", Namespaced: true}))
				require.NoError(t, server.Create(want.DeepCopy()))
				recorder := record.NewRecorder(&file)
				objects := store.New(store.ObjectKey[*unstructured.Unstructured])
				stop := running(t, telescopes(recorded(server, recorder), objects, opts...))
				synctest.Wait()
				stop()
				require.NoError(t, recorder.Close())
				lived = all(objects)
			})
			got := replay(t, file.String(), telescopes, opts...)
			require.Len(t, got, 1)
			assert.Equal(t, lived, got)
			assert.Equal(t, want.Object["data"], got[0].Object["data"])
		})
	}
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
	var file strings.Builder
	bubble(t, func(t *testing.T, server *reflectortest.Server) {
		recorder := record.NewRecorder(&file)
		maps := store.New(store.ObjectKey[*corev1.ConfigMap])
		r := generated(recorded(server, recorder), maps)
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
		require.NoError(t, recorder.Close())
	})
	assert.Len(t, replay(t, file.String(), generated), 2)
}

func TestRecorderAroundARecorderRecords(t *testing.T) {
	bubble(t, func(t *testing.T, server *reflectortest.Server) {
		require.NoError(t, server.Create(paint("a", "red")))
		var inside, outside strings.Builder
		inner, outer := record.NewRecorder(&inside), record.NewRecorder(&outside)
		config := recorded(server, inner)
		config.Wrap(outer.Wrap)
		r := generated(config, store.New(store.ObjectKey[*corev1.ConfigMap]))
		stop := running(t, r)
		<-r.Synced()
		stop()
		require.NoError(t, inner.Close())
		require.NoError(t, outer.Close())
		assert.Contains(t, inside.String(), `"name":"a"`)
		assert.Contains(t, outside.String(), `"name":"a"`)
	})
}

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

// answering is a transport that answers each request with a text.
type answering string

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK,
		Header:     http.Header{"Content-Type": {"application/json"}},
		Body:       io.NopCloser(strings.NewReader(string(a))),
	}, nil
}

func get(t *testing.T, through http.RoundTripper, path string) *http.Response {
	asked, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://server"+path, nil)
	require.NoError(t, err)
	answer, err := through.RoundTrip(asked)
	require.NoError(t, err)
	return answer
}

// Items do not make an object a list, and a list may have other items than objects.
func TestSecretsBesideTheItemsAreMasked(t *testing.T) {
	const secret = `{"kind":"Secret","apiVersion":"v1","data":{"p":"cGFzc3dvcmQ="}}`
	const quoted = `"kind: Secret\ndata: {p: cGFzc3dvcmQ=}"`
	for name, fields := range map[string]string{
		"object":                      `"kind":"Bundle","items":[` + quoted + `,{"name":"first","template":` + secret + `},"second",null,[` + secret + `]]`,
		"object with a copy":          `"kind":"Bundle","items":[{"name":"first","template":` + secret + `},"second"],"copy":"{\"p\":\"cGFzc3dvcmQ=\"}"`,
		"object that is named a list": `"kind":"AllowList","items":["first",` + quoted + `,{"name":"second"}],"template":` + secret,
		"list":                        `"kind":"BundleList","items":[{"name":"first"},` + quoted + `,[` + quoted + `],"second",null,{"template":` + secret + `}]`,
		"list without a kind":         `"items":[{"name":"first"},` + quoted + `,"second"],"template":` + secret,
	} {
		t.Run(name, func(t *testing.T) {
			var text bytes.Buffer
			recorder := record.NewRecorder(&text)
			answer := get(t, recorder.Wrap(answering(`{"apiVersion":"example.com/v1",`+fields+`}`)), "/apis/example.com/v1/bundles/a")
			_, err := io.ReadAll(answer.Body)
			require.NoError(t, err)
			require.NoError(t, recorder.Close())
			assert.NotContains(t, text.String(), "cGFzc3dvcmQ=")
			assert.Regexp(t, "first.*second", text.String())
		})
	}
}

func TestAnnotationsOfMetadataAreThoseOfItsResource(t *testing.T) {
	const metadata = `"metadata":{"name":"first","annotations":{"size":"large","kubectl.kubernetes.io/last-applied-configuration":"{\"stringData\":\"hush\"}"}}}`
	const object = `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata",` + metadata
	for name, answer := range map[string]string{
		"object":        object,
		"list":          `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadataList","items":[{` + metadata + `]}`,
		"list of kinds": `{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadataList","items":[` + object + `]}`,
		"event":         `{"type":"ADDED","object":` + object + `}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			query := ""
			if name == "event" {
				query = "?watch=true"
			}
			recorded := func(path string) string {
				var text bytes.Buffer
				recorder := record.NewRecorder(&text)
				_, err := io.ReadAll(get(t, recorder.Wrap(answering(answer)), path+query).Body)
				require.NoError(t, err)
				require.NoError(t, recorder.Close())
				assert.Contains(t, text.String(), "first")
				assert.NotContains(t, text.String(), "hush")
				return text.String()
			}
			assert.Contains(t, recorded("/apis/apps/v1/namespaces/d/deployments"), "large")
			assert.NotContains(t, recorded("/api/v1/namespaces/d/secrets"), "large")
		})
	}
}

// A server, or a proxy in front of it, may ignore what the recorder accepts.
func TestWatchThatIsNoJSONFillsNoMemory(t *testing.T) {
	added := func(kind string) string { return `{"type":"ADDED","object":{"kind":"` + kind + `"}}` + "\n" }
	for name, first := range map[string]string{"from the start": "", "later": added("Pod")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var text bytes.Buffer
				recorder := record.NewRecorder(&text)
				recorder.SetLimit(1 << 20)
				answer := get(t, recorder.Wrap(answering(first+strings.Repeat("\x00\n", 1<<20)+added("Node"))), "/api/v1/pods?watch=true")
				chunk := make([]byte, 1<<18)
				var err error
				for err == nil {
					_, err = answer.Body.Read(chunk)
					synctest.Wait() // for the writer
				}
				require.ErrorIs(t, err, io.EOF)
				require.NoError(t, recorder.Close())
				assert.Equal(t, first != "", strings.Contains(text.String(), `"Pod"`))
				assert.NotContains(t, text.String(), "Node", "no client reads on")
				assert.Contains(t, text.String(), `"rest":"malformed"`)
			})
		})
	}
}

// client-go closes a watch from another goroutine than the one that reads it.
func TestDataThatIsReadAfterTheEndOfAWatchIsNotRecorded(t *testing.T) {
	var text bytes.Buffer
	recorder := record.NewRecorder(&text)
	answer := get(t, recorder.Wrap(answering(`{"type":"ADDED"}`)), "/api/v1/pods?watch=true")
	require.NoError(t, answer.Body.Close())
	late, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NotEmpty(t, late)
	require.NoError(t, recorder.Close())
	_, err = record.NewReplay(bytes.NewReader(text.Bytes()))
	require.NoError(t, err)
}

// asking remembers what a request accepted.
type asking struct {
	answering
	accepted *string
}

func (a asking) RoundTrip(r *http.Request) (*http.Response, error) {
	*a.accepted = r.Header.Get("Accept")
	return a.answering.RoundTrip(r)
}

func TestServerIsAskedForTheSameKindAsJSON(t *testing.T) {
	for accepts, want := range map[string]string{
		"":                                    "application/json",
		"application/vnd.kubernetes.protobuf": "application/json",
		"application/vnd.kubernetes.protobuf,application/json;as=Table;g=meta.k8s.io;v=v1":                             "application/json;as=Table;g=meta.k8s.io;v=v1",
		"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1":                          "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
		"application/vnd.kubernetes.protobuf; as=Table;g=meta.k8s.io;v=v1 , application/vnd.kubernetes.protobuf;q=0.5": "application/json; as=Table;g=meta.k8s.io;v=v1,application/json;q=0.5",
	} {
		recorder := record.NewRecorder(io.Discard)
		asked, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://server/api/v1/pods", nil)
		require.NoError(t, err)
		asked.Header.Set("Accept", accepts)
		var got string
		_, err = recorder.Wrap(asking{`{}`, &got}).RoundTrip(asked)
		require.NoError(t, err)
		assert.Equal(t, want, got)
		require.NoError(t, recorder.Close())
	}
}

func TestSchemasAreNoDiscovery(t *testing.T) {
	var text bytes.Buffer
	recorder := record.NewRecorder(&text)
	through := recorder.Wrap(answering(`{}`))
	for _, path := range []string{"/openapi/v3", "/openapi/v3/api/v1", "/openapi/v3/apis/apps/v1"} {
		_ = get(t, through, path).Body.Close()
	}
	_ = get(t, through, "/apis/batch/v1").Body.Close()
	require.NoError(t, recorder.Close())
	assert.NotContains(t, text.String(), "apps")
	assert.NotContains(t, text.String(), "/api/v1")
	assert.Contains(t, text.String(), "/apis/batch/v1")
}

func TestSubresourcesAreNotRecorded(t *testing.T) {
	var text bytes.Buffer
	recorder := record.NewRecorder(&text)
	through := recorder.Wrap(answering(`{}`))
	for _, path := range []string{"/api/v1/namespaces/shop/pods/web/log", "/api/v1/namespaces/shop/status", "/api/v1/namespaces/shop/finalize", "/api/v1/nodes/one/proxy"} {
		_ = get(t, through, path).Body.Close()
	}
	for _, path := range []string{"/api/v1/namespaces/shop/pods", "/api/v1/namespaces/shop", "/apis/example.com/v1/namespaces/shop/status"} {
		_ = get(t, through, path).Body.Close()
	}
	require.NoError(t, recorder.Close())
	for _, subresource := range []string{"log", "shop/status", "finalize", "proxy"} {
		assert.NotContains(t, strings.ReplaceAll(text.String(), "/apis/example.com/v1/namespaces/shop/status", ""), subresource)
	}
	for _, path := range []string{"/api/v1/namespaces/shop/pods", "/api/v1/namespaces/shop", "/apis/example.com/v1/namespaces/shop/status"} {
		assert.Contains(t, text.String(), `"`+path+`"`)
	}
}

// stalled is a writer that does not return before it is closed.
type stalled chan struct{}

func (s stalled) Write(text []byte) (int, error) { <-s; return len(text), nil }

func TestRequestsThatFailDoNotFillTheMemoryBehindASlowWriter(t *testing.T) {
	writer := make(stalled)
	recorder := record.NewRecorder(writer)
	recorder.SetLimit(1 << 20)
	through := recorder.Wrap(failing{})
	for range 10_000 {
		asked, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://server/api/v1/pods", nil)
		require.NoError(t, err)
		_, err = through.RoundTrip(asked)
		require.ErrorIs(t, err, errDisk)
	}
	require.ErrorIs(t, recorder.Err(), record.ErrRecorderBehind)
	close(writer)
	_ = recorder.Close()
}

func (failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, errDisk }

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// net/http quotes the bytes of a broken answer.
func TestFailuresAreRecordedWithoutBytesOfAnswers(t *testing.T) {
	var text bytes.Buffer
	recorder := record.NewRecorder(&text)
	for _, failure := range []string{"malformed HTTP response %q", "malformed MIME header: missing colon: %q"} {
		asked, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://server/api/v1/secrets", nil)
		require.NoError(t, err)
		_, err = recorder.Wrap(roundTrip(func(*http.Request) (*http.Response, error) {
			return nil, fmt.Errorf(failure, strings.Repeat("cGFzc3dvcmQ=", 10))
		})).RoundTrip(asked)
		require.Error(t, err)
	}
	require.NoError(t, recorder.Close())
	assert.NotContains(t, text.String(), "cGFzc3dvcmQ=")
	assert.Contains(t, text.String(), "malformed HTTP response")
	assert.Contains(t, text.String(), "missing colon")
}

// kube-apiserver knows only the first of them, and an extension server may know the other.
func TestRecorderAsksForWholeAnswers(t *testing.T) {
	recorder := record.NewRecorder(io.Discard)
	asked, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://server/apis", nil)
	require.NoError(t, err)
	asked.Header.Set("If-None-Match", `"x"`)
	asked.Header.Set("If-Modified-Since", "Mon, 02 Jan 2006 15:04:05 GMT")
	_, err = recorder.Wrap(roundTrip(func(r *http.Request) (*http.Response, error) {
		assert.Empty(t, r.Header.Get("If-None-Match"))
		assert.Empty(t, r.Header.Get("If-Modified-Since"))
		return nil, errDisk
	})).RoundTrip(asked)
	require.ErrorIs(t, err, errDisk, "the request was sent")
	require.NoError(t, recorder.Close())
	assert.Len(t, asked.Header, 2, "the caller's request stays")
}

// A server says only that nothing has changed to a mapper whose cache of HTTP is on disk.
func TestDiscoveryThatIsOnDiskIsRecordedAsAWhole(t *testing.T) {
	kind := schema.GroupKind{Group: "apps", Kind: "Deployment"}
	find := func(t *testing.T, config *rest.Config, directory string) {
		m, err := mapper.OnDisk(config, mapper.WithDirectory(directory))
		require.NoError(t, err)
		found, err := m.RESTMappingWithContext(t.Context(), kind)
		require.NoError(t, err)
		assert.Equal(t, "deployments", found.Resource.Resource)
	}
	var text bytes.Buffer
	directory := t.TempDir()
	bubble(t, func(t *testing.T, server *reflectortest.Server) {
		find(t, server.Config(), directory)
		require.NoError(t, os.RemoveAll(filepath.Join(directory, "discovery"))) // as after its time; the cache of HTTP stays
		recorder := record.NewRecorder(&text)
		find(t, recorded(server, recorder), directory)
		require.NoError(t, recorder.Close())
	})
	synctest.Test(t, func(t *testing.T) { find(t, open(t, text.String()).Config(), t.TempDir()) })
}
