package reflector_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/answer"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// PointsToMeta has methods that panic unless an object has metadata, Unmarshal among them.
type PointsToMeta struct {
	*metav1.ObjectMeta `json:"metadata"`
}

// PointsToBoth has also a kind only if an object says one.
type PointsToBoth struct {
	*metav1.TypeMeta   `json:",inline"`
	*metav1.ObjectMeta `json:"metadata"`
}

// Unkinded has a GetObjectKind that always panics.
type Unkinded struct {
	runtime.Object    `json:"-"`
	metav1.ObjectMeta `json:"metadata"`
}

// read lists objects and watches them, as T, and returns the errors of both.
func read[T reflector.Object](t *testing.T, object string) (list, event error) {
	var opts []client.ResourceOption
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			server := &scripted{
				lists:   []scriptedAnswer{jsonList("7", object), jsonList("7")},
				watches: []scriptedAnswer{{body: jsonEvent(watch.Added, object), open: true}},
			}
			resource, err := client.ForResource[T](localhost(server), configMapResource, "default", opts...)
			require.NoError(t, err)
			_, list = resource.List(t.Context(), metav1.ListOptions{})
			r := reflector.New(resource, store.New(store.ObjectKey[T]), reflector.WithoutWatchList())
			stop := start(t, r)
			event = r.State().Err
			stop()
		})
		opts = append(opts, client.WithUnknownFields(func(*answer.DecodeError) {}))
	}
	return list, event
}

func TestObjectWhoseMethodsPanicIsUndecodable(t *testing.T) {
	const named, nameless = `{"metadata":{"namespace":"default","name":"a","uid":"u","resourceVersion":"8"},"more":1}`, `{"kind":"x","more":1}`
	for name, tc := range map[string]struct {
		read func(*testing.T, string) (error, error)
		of   string
		bad  bool
	}{
		"no metadata":            {read[*PointsToMeta], nameless, true},
		"no metadata, but kind":  {read[*PointsToBoth], nameless, true},
		"metadata":               {read[*PointsToMeta], named, false},
		"metadata, but no kind":  {read[*PointsToBoth], named, false},
		"a kind that panics":     {read[*Unkinded], named, true},
		"metadata that is there": {read[*Placed], named, false},
	} {
		t.Run(name, func(t *testing.T) {
			list, event := tc.read(t, tc.of)
			if !tc.bad {
				assert.NoError(t, list)
				assert.NoError(t, event)
				return
			}
			for _, err := range []error{list, event} {
				var failure *answer.DecodeError
				require.ErrorAs(t, err, &failure)
				assert.ErrorIs(t, err, store.ErrPanic)
			}
		})
	}
}

func TestUnknownFieldsAreReportedAndTheObjectIsStored(t *testing.T) {
	sized := strings.Replace(jsonObject("b", "8", "blue"), `"data":{`, `"data":{"size":3,`, 1)
	for name, server := range map[string]*scripted{
		"watch-list": {watches: []scriptedAnswer{{body: jsonStream("7", jsonObject("a", "5", "red")) + jsonEvent(watch.Added, sized), open: true}}},
		"list": {
			lists:   []scriptedAnswer{jsonList("7", jsonObject("a", "5", "red"), sized)},
			watches: []scriptedAnswer{{open: true}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var unknown []*answer.DecodeError
				api := server.client(t, client.WithUnknownFields(func(err *answer.DecodeError) {
					mu.Lock()
					defer mu.Unlock()
					unknown = append(unknown, err)
				}))
				var opts []reflector.Option
				if name == "list" {
					opts = append(opts, reflector.WithoutWatchList())
				}
				s := store.New(store.ObjectKey[*Paint])
				r := reflector.New(api, s, opts...)
				stop := start(t, r)
				assert.Equal(t, "a red, b blue", colors(s))
				assert.NoError(t, r.State().Err)
				stop()
				require.Len(t, unknown, 1)
				assert.Equal(t, "default/b", unknown[0].Namespace+"/"+unknown[0].Name)
				assert.Equal(t, "/data/size", unknown[0].Field)
			})
		})
	}
}

func TestUnknownFieldOfAnObjectThatDoesNotFitIsNotThatOfTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := strings.Replace(jsonObject("a", "5", "red"), `"color":"red"`, `"size":3,"color":7`, 1)
		server := &scripted{lists: []scriptedAnswer{jsonList("7", bad, jsonObject("b", "6", "blue"))}}
		api := server.client(t, client.WithUnknownFields(func(err *answer.DecodeError) { t.Errorf("reported: %v", err) }))
		_, err := api.List(t.Context(), metav1.ListOptions{})
		var failure *answer.DecodeError
		require.ErrorAs(t, err, &failure)
		assert.Equal(t, "a", failure.Name)
	})
}

// Placed is what a scheduler wants to know of a pod, in a struct of that.
type Placed struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Node string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase corev1.PodPhase `json:"phase"`
	} `json:"status"`
}

func TestSmallerStructHasTheSameFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		for i := range 5 {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("p", i), Labels: map[string]string{"a": "b"}}}
			pod.Spec.NodeName = fmt.Sprint("n", i)
			pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "image"}}
			pod.Status.Phase = corev1.PodRunning
			require.NoError(t, server.Create(pod))
		}
		resource := corev1.SchemeGroupVersion.WithResource("pods")
		whole, err := client.ForResource[*corev1.Pod](server.Config(), resource, "default")
		require.NoError(t, err)
		small, err := client.ForResource[*Placed](server.Config(), resource, "default")
		require.NoError(t, err)
		pods, places := store.New(store.ObjectKey[*corev1.Pod]), store.New(store.ObjectKey[*Placed])
		defer start(t, reflector.New(whole, pods))()
		defer start(t, reflector.New(small, places))()
		require.Equal(t, 5, places.Len())
		for key, pod := range pods.All() {
			place, ok := places.Get(key)
			require.True(t, ok)
			assert.Equal(t, pod.ObjectMeta, place.ObjectMeta)
			assert.Equal(t, pod.Spec.NodeName, place.Spec.Node)
			assert.Equal(t, pod.Status.Phase, place.Status.Phase)
		}
	})
}

// objectOf is an object of any kind; an empty kind and apiVersion are left out.
func objectOf(apiVersion, kind, namespace, name string) string {
	meta := fmt.Sprintf(`"metadata":{"namespace":%q,"name":%q,"uid":"uid of %s","resourceVersion":"8"}`, namespace, name, name)
	if kind == "" {
		return "{" + meta + "}"
	}
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,%s}`, apiVersion, kind, meta)
}

func listOfKind(apiVersion, kind, items string) scriptedAnswer {
	return scriptedAnswer{body: fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"8"},"items":[%s]}`, kind, apiVersion, items)}
}

// strangers are objects that a client of v1 ConfigMaps in the namespace default did not ask for.
var strangers = map[string]struct{ object, what string }{
	"another kind":      {objectOf("v1", "Secret", "default", "b"), "kind"},
	"another group":     {objectOf("example.com/v1", "ConfigMap", "default", "b"), "API group"},
	"another namespace": {objectOf("v1", "ConfigMap", "kube-system", "b"), "namespace"},
	"no namespace":      {objectOf("v1", "ConfigMap", "", "b"), "namespace"},
}

// mismatches runs do for clients of ConfigMaps of several types.
func mismatches(t *testing.T, server func() *scripted, do func(t *testing.T, server *scripted, names func() []string, errs func() []error)) {
	t.Run("generated type", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { mismatch[*corev1.ConfigMap](t, server(), do) })
	})
	t.Run("plain struct", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { mismatch[*Paint](t, server(), do) })
	})
	t.Run("struct without a kind", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { mismatch[*Nameless](t, server(), do) })
	})
	t.Run("Unstructured", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { mismatch[*unstructured.Unstructured](t, server(), do) })
	})
	t.Run("metadata", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { mismatch[*metav1.PartialObjectMetadata](t, server(), do) })
	})
}

func mismatch[T reflector.Object](t *testing.T, server *scripted, do func(*testing.T, *scripted, func() []string, func() []error)) {
	api := opened[T](t, server, configMapResource, "default", client.WithoutProtobuf())
	var opts []reflector.Option
	if len(server.lists) > 0 {
		opts = append(opts, reflector.WithoutWatchList())
	}
	m := followed(t, api, opts...)
	synctest.Wait()
	do(t, server, m.names, m.errors)
	m.stop()
}

func assertMismatch(t *testing.T, what string, errs []error) {
	t.Helper()
	require.NotEmpty(t, errs)
	var other *client.MismatchError
	require.ErrorAs(t, errs[0], &other)
	assert.Equal(t, what, other.What)
	var failed *answer.ResponseError
	require.ErrorAs(t, errs[0], &failed)
}

func TestObjectsThatWereNotAskedForAreRefused(t *testing.T) {
	good := jsonObject("a", "5", "red")
	for name, stranger := range strangers {
		t.Run(name, func(t *testing.T) {
			t.Run("list", func(t *testing.T) {
				mismatches(t, func() *scripted {
					return &scripted{lists: []scriptedAnswer{jsonList("8", good, stranger.object), jsonList("9", good)}}
				}, func(t *testing.T, _ *scripted, names func() []string, errs func() []error) {
					assert.Empty(t, names())
					assertMismatch(t, stranger.what, errs())
					<-time.After(time.Minute)
					assert.Equal(t, []string{"a"}, names(), "the server behaves again")
				})
			})
			for _, kind := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted} {
				t.Run(string(kind), func(t *testing.T) {
					mismatches(t, func() *scripted {
						return &scripted{lists: []scriptedAnswer{jsonList("7", good)}, watches: []scriptedAnswer{{body: jsonEvent(kind, stranger.object), open: true}}}
					}, func(t *testing.T, server *scripted, names func() []string, errs func() []error) {
						assert.Equal(t, []string{"a"}, names())
						assertMismatch(t, stranger.what, errs())
						<-time.After(time.Minute)
						assert.Equal(t, "list 0, watch 7, list 7, watch 7", server.seen())
					})
				})
			}
			t.Run("watch-list", func(t *testing.T) {
				mismatches(t, func() *scripted {
					return &scripted{watches: []scriptedAnswer{{body: jsonEvent(watch.Added, good) + jsonEvent(watch.Added, stranger.object), open: true}, {body: jsonStream("9", good), open: true}}}
				}, func(t *testing.T, _ *scripted, names func() []string, errs func() []error) {
					assert.Empty(t, names())
					assertMismatch(t, stranger.what, errs())
					<-time.After(time.Minute)
					assert.Equal(t, []string{"a"}, names())
				})
			})
		})
	}
}

func TestUndecodableObjectsThatWereNotAskedForAreRefused(t *testing.T) {
	good := jsonObject("a", "5", "red") // says which kind the resource has
	for name, stranger := range strangers {
		bad := strings.TrimSuffix(stranger.object, "}") + `,"data":7}`
		for where, server := range map[string]*scripted{
			"list":       {lists: []scriptedAnswer{jsonList("8", good, bad)}},
			"watch":      {lists: []scriptedAnswer{jsonList("7", good)}, watches: []scriptedAnswer{{body: jsonEvent(watch.Added, bad), open: true}}},
			"watch-list": {watches: []scriptedAnswer{{body: jsonEvent(watch.Added, good) + jsonEvent(watch.Added, bad), open: true}}},
		} {
			t.Run(name+" in a "+where, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					mismatch[*Paint](t, server, func(t *testing.T, _ *scripted, _ func() []string, errs func() []error) {
						assertMismatch(t, stranger.what, errs())
					})
				})
			})
		}
	}
}

func TestObjectsThatServersMaySend(t *testing.T) {
	configMap, bare := objectOf("v1", "ConfigMap", "default", "a"), objectOf("", "", "default", "a")
	for name, tc := range map[string]struct {
		list      scriptedAnswer
		namespace string
	}{
		"items without a kind":              {listOfKind("v1", "ConfigMapList", bare), "default"},
		"a list and items without a kind":   {listOfKind("", "", bare), "default"},
		"a list of the kind List":           {listOfKind("v1", "List", configMap), "default"},
		"another version of the same group": {listOfKind("v2", "ConfigMapList", objectOf("v2", "ConfigMap", "default", "a")), "default"},
		"any namespace":                     {listOfKind("v1", "ConfigMapList", objectOf("v1", "ConfigMap", "kube-system", "a")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &scripted{lists: []scriptedAnswer{tc.list}}
				m := followed(t, opened[*corev1.ConfigMap](t, server, configMapResource, tc.namespace), reflector.WithoutWatchList())
				synctest.Wait()
				assert.Equal(t, []string{"a"}, m.names())
				assert.Empty(t, m.errors())
				m.stop()
			})
		})
	}
}

func TestListsOfAnotherKind(t *testing.T) {
	for name, tc := range map[string]scriptedAnswer{
		"empty":                listOfKind("v1", "SecretList", ""),
		"items without a kind": listOfKind("v1", "SecretList", objectOf("", "", "default", "b")),
		"another group":        listOfKind("example.com/v1", "ConfigMapList", ""),
		"metadata":             listOfKind("meta.k8s.io/v1", "PartialObjectMetadataList", objectOf("meta.k8s.io/v1", "PartialObjectMetadata", "default", "b")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &scripted{lists: []scriptedAnswer{tc}}
				m := followed(t, opened[*corev1.ConfigMap](t, server, configMapResource, "default"), reflector.WithoutWatchList())
				synctest.Wait()
				assert.Empty(t, m.names())
				require.NotEmpty(t, m.errors())
				var other *client.MismatchError
				assert.ErrorAs(t, m.errors()[0], &other)
				m.stop()
			})
		})
	}
}

func TestListsOfACustomResourceMayBeCalledAnything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resource := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "telescopes"}
		object := objectOf("example.com/v1", "Telescope", "default", "a")
		empty := listOfKind("example.com/v1", "ObservatoryList", "")
		server := &scripted{lists: []scriptedAnswer{empty}, watches: []scriptedAnswer{{body: jsonEvent(watch.Added, object), open: true}}}
		m := followed(t, opened[*Telescope](t, server, resource, "default"), reflector.WithoutWatchList())
		synctest.Wait()
		assert.Equal(t, []string{"a"}, m.names())
		assert.Empty(t, m.errors())
		m.stop()
	})
}

func TestGetOfAnotherObject(t *testing.T) {
	for what, object := range map[string]string{
		"kind": objectOf("v1", "Secret", "default", "a"), "namespace": objectOf("v1", "ConfigMap", "other", "a"), "name": objectOf("v1", "ConfigMap", "default", "b"),
	} {
		api := opened[*corev1.ConfigMap](t, &scripted{lists: []scriptedAnswer{{body: object}}}, configMapResource, "default")
		_, err := api.Get(t.Context(), "a", metav1.GetOptions{})
		assertMismatch(t, what, []error{err})
	}
}

// Number is a number in quotes.
type Number int

func (n *Number) UnmarshalJSON(text []byte) error {
	_, err := fmt.Sscanf(string(text), "\"%d\"", n)
	return err
}

// BadPaint does not fit what the server holds.
type BadPaint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Data              map[string]Number `json:"data"`
}

// The client knows the name of an object that it cannot decode, but not its key in such a store.
func TestObjectThatDoesNotFitIsFoundUnderTheKeyOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(paint("a", "1")))
		resource, err := client.ForResource[*BadPaint](server.Config(), configMapResource, "default")
		require.NoError(t, err)
		s := store.New(func(p *BadPaint) (store.Key, error) { return store.Key{Name: string(p.UID)}, nil })
		stop := start(t, reflector.New(resource, s))
		require.NoError(t, server.Update(paint("a", "red")))
		<-time.After(time.Hour) // with lists
		assert.Equal(t, 1, s.Len(), "it exists")
		require.NoError(t, server.Delete(paint("a", "red")))
		synctest.Wait()
		assert.Zero(t, s.Len())
		stop()
	})
}

func TestObjectsThatDoNotFitHoldUpNothingElse(t *testing.T) {
	for name, opts := range map[string][]reflector.Option{"watch-list": nil, "list": {reflector.WithoutWatchList()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t)
				resource, err := client.ForResource[*BadPaint](server.Config(), configMapResource, "default")
				require.NoError(t, err)
				s := store.New(store.ObjectKey[*BadPaint])
				var errs []error
				r := reflector.New(resource, s, append(opts, reflector.WithErrorHandler(func(_ context.Context, err error) { errs = append(errs, err) }))...)
				ctx, cancel := context.WithCancel(t.Context())
				result := make(chan error, 1)
				go func() { result <- r.Run(ctx) }()
				<-r.Synced()
				version := s.ResourceVersion()
				require.NoError(t, server.Create(paint("held", "1")))
				require.NoError(t, server.Create(paint("bad", "red")))
				require.NoError(t, server.Create(paint("good", "2")))
				require.NoError(t, server.Update(paint("held", "red")))
				synctest.Wait()
				require.NotEmpty(t, errs)
				assert.LessOrEqual(t, len(errs), 2, "once for each object, or together")
				var bad *answer.DecodeError
				require.ErrorAs(t, errs[0], &bad)
				assert.Equal(t, "bad", bad.Name)
				assert.ErrorContains(t, errs[0], "decode configmaps/v1 default/bad into *reflector_test.BadPaint")
				colors := func() string {
					text := ""
					for key, p := range s.All() {
						text += fmt.Sprintf("%s %d,", key.Name, p.Data["color"])
					}
					return text
				}
				assert.Equal(t, "good 2,held 1,", colors(), "what was held stays, and everything else goes on")
				assert.NotEqual(t, version, s.ResourceVersion(), "held came before bad")
				before := s.ResourceVersion()

				<-time.After(time.Hour) // lists of which two objects do not fit
				require.NoError(t, server.Create(paint("late", "3")))
				synctest.Wait()
				assert.Equal(t, "good 2,held 1,late 3,", colors())
				assert.Equal(t, before, s.ResourceVersion(), "the version stays before what is lacking")
				assert.ErrorAs(t, r.State().Err, &bad)
				assert.Less(t, len(server.Requests()), 100)

				_, err = resource.List(t.Context(), metav1.ListOptions{})
				assert.ErrorAs(t, err, &bad, "somebody else's list is not shortened silently")
				_, err = resource.Get(t.Context(), "bad", metav1.GetOptions{})
				assert.ErrorAs(t, err, &bad)

				require.NoError(t, server.Delete(paint("bad", "red")))
				require.NoError(t, server.Update(paint("held", "4")))
				synctest.Wait()
				assert.Equal(t, "good 2,held 4,late 3,", colors())
				assert.Equal(t, fmt.Sprint(server.ResourceVersion()), s.ResourceVersion(), "nothing is lacking any more")
				cancel()
				require.NoError(t, <-result)
			})
		})
	}
}
