package reflectortest_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// book is a type that is no runtime.Object and has no generated code.
type book struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Pages             int `json:"pages"`
}

var books = reflectortest.Resource{Group: "library.example.com", Version: "v1", Kind: "Book", Plural: "books", Namespaced: true, Prototype: &book{}}

func TestRegisteredTypeWithoutHTTPAndWith(t *testing.T) {
	s := reflectortest.Start(t, reflectortest.WithResource(books))
	b := &book{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Pages: 3}
	require.NoError(t, s.Create(b))
	require.Equal(t, "Book", b.Kind)
	require.NotEmpty(t, b.UID)
	b.Pages = 4
	require.NoError(t, s.Update(b))
	require.EqualValues(t, 2, b.Generation)

	client, err := dynamic.NewForConfig(s.Config())
	require.NoError(t, err)
	u, err := client.Resource(schema.GroupVersionResource{Group: books.Group, Version: books.Version, Resource: books.Plural}).Namespace("default").Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 4, u.Object["pages"])
	u.Object["pages"] = int64(5)
	require.NoError(t, s.Update(u), "by its kind, without its Go type")
	all, err := reflectortest.List[*book](s, "")
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, 5, all[0].Pages)
	require.NoError(t, s.Delete(b))
	require.True(t, apierrors.IsNotFound(s.Get(b)))
}

func TestWhatCannotBeRegistered(t *testing.T) {
	for want, r := range map[string]reflectortest.Resource{
		"needs a version":    {Group: "g", Kind: "K", Plural: "ks"},
		"needs a group":      {Version: "v1", Kind: "K", Plural: "ks"},
		"registered twice":   {Group: "apps", Version: "v1", Kind: "Deployment", Plural: "deployments"},
		"stands for /v1, Ki": {Group: "g", Version: "v1", Kind: "K", Plural: "ks", Prototype: &corev1.Pod{}},
	} {
		_, err := reflectortest.NewServer(reflectortest.WithResource(r))
		require.ErrorContains(t, err, want)
	}
	s := reflectortest.Start(t)
	require.ErrorContains(t, s.Create(&book{}), "register it with WithResource")
	require.ErrorContains(t, s.Create(&unstructured.Unstructured{Object: map[string]any{"kind": "K", "apiVersion": "g/v1"}}), "register it with WithResource")
}

func TestDirectWritesKeepTheStatusAndClientsOnlyThere(t *testing.T) {
	s := reflectortest.Start(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	require.NoError(t, s.Create(pod))
	require.Equal(t, corev1.PodRunning, pod.Status.Phase)
	pods := clientset(t, s.Config()).CoreV1().Pods("default")
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Status: pod.Status}
	other, err := pods.Create(t.Context(), other, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Equal(t, corev1.PodPending, other.Status.Phase, "not what the client says")
	other.Status.Phase = corev1.PodRunning
	other, err = pods.UpdateStatus(t.Context(), other, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Equal(t, corev1.PodRunning, other.Status.Phase)
	pod.ResourceVersion = "1"
	require.True(t, apierrors.IsConflict(s.Update(pod)))
}

func TestANilObjectIsRefused(t *testing.T) {
	s := reflectortest.Start(t)
	for _, obj := range []metav1.Object{nil, (*corev1.ConfigMap)(nil), (*unstructured.Unstructured)(nil)} {
		for _, err := range []error{s.Create(obj), s.Update(obj), s.Delete(obj), s.Get(obj)} {
			require.ErrorContains(t, err, "the object is nil")
		}
	}
}

func TestWhatHasNoJSONFormIsRefused(t *testing.T) {
	s := seeded(t)
	odd := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Data: runtime.RawExtension{Raw: []byte("not JSON")}}
	_, err := clientset(t, protobuf(s.Config())).AppsV1().ControllerRevisions("default").Create(t.Context(), odd, metav1.CreateOptions{})
	require.True(t, apierrors.IsBadRequest(err), "%v", err)
	require.True(t, apierrors.IsBadRequest(s.Create(odd)))
	list, err := clientset(t, s.Config()).AppsV1().ControllerRevisions("default").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, list.Items)
}

func TestUpdateWithoutAVersionIsUnconditional(t *testing.T) {
	s := reflectortest.Start(t, reflectortest.WithResource(books))
	b := &book{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Pages: 3}
	require.NoError(t, s.Create(b))
	b.Pages, b.ResourceVersion = 4, "" // a client of a registered kind would have to name it
	require.NoError(t, s.Update(b))
	require.Equal(t, "3", b.ResourceVersion)
	b.ResourceVersion = "2"
	require.True(t, apierrors.IsConflict(s.Update(b)))
}

func TestDeletionsBetweenListAndWatchAreReplayed(t *testing.T) {
	s := seeded(t)
	cms := clientset(t, s.Config()).CoreV1().ConfigMaps("default")
	list, err := cms.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.NoError(t, s.Delete(configMap("b")))
	w, err := cms.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	require.NoError(t, err)
	defer w.Stop()
	event := <-w.ResultChan()
	require.Equal(t, watch.Deleted, event.Type)
	require.Equal(t, "b", event.Object.(metav1.Object).GetName())
}

func TestHistoryIsBounded(t *testing.T) {
	s := reflectortest.Start(t, reflectortest.WithHistory(5))
	cm := configMap("a")
	require.NoError(t, s.Create(cm))
	for range 100 {
		cm.Data = map[string]string{"at": cm.ResourceVersion}
		require.NoError(t, s.Update(cm))
	}
	cms := clientset(t, s.Config()).CoreV1().ConfigMaps("default")
	at := func(version string) error {
		_, err := cms.List(t.Context(), metav1.ListOptions{ResourceVersion: version, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
		return err
	}
	require.NoError(t, at("98"), "the last five changes are kept")
	require.True(t, apierrors.IsResourceExpired(at("91")), "twice as many are not")
}

func TestCompactionSparesTheWatchThatHasSeenIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := seeded(t)
		w, err := clientset(t, s.Config()).CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "4"})
		require.NoError(t, err)
		defer w.Stop()
		synctest.Wait()
		require.NoError(t, s.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "elsewhere"}}))
		require.NoError(t, s.Compact(s.ResourceVersion()))
		require.NoError(t, s.Create(configMap("d")))
		event := <-w.ResultChan()
		require.Equal(t, watch.Added, event.Type)
	})
}

// The change at the version stays, as in etcd: a watch gets it from one before.
func TestTheOldestVersionThatAWatchStartsFromAfterACompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := seeded(t)
		require.NoError(t, s.Compact(4))
		for version, want := range map[string]string{"2": `"too old resource version: 2 (3)","reason":"Expired","code":410`, "3": `{"type":"ADDED"`} {
			_, body, err := get(t, s, path+"?watch=1&timeoutSeconds=1&resourceVersion="+version)
			require.NoError(t, err)
			require.Contains(t, body, want)
		}
		// Versions are of everything: a compaction between two changes to others counts.
		require.NoError(t, s.Create(secret()))
		require.NoError(t, s.Create(secret()))
		require.NoError(t, s.Compact(6))
		for version, expired := range map[string]bool{"4": true, "5": false} {
			_, body, err := get(t, s, path+"?watch=1&timeoutSeconds=1&resourceVersion="+version)
			require.NoError(t, err)
			require.Equal(t, expired, strings.Contains(body, `"code":410`), "from version %s: %s", version, body)
		}
	})
}

func TestWhatCannotBeCompactedOrRestored(t *testing.T) {
	s := seeded(t)
	require.ErrorContains(t, s.Restore(0), "the first one is 1")
	require.ErrorContains(t, s.Compact(99), "the current one is 4")
	require.ErrorContains(t, s.Restore(99), "the current one is 4")
	require.NoError(t, s.Compact(3))
	require.ErrorContains(t, s.Restore(2), "compacted at 3")
}

func TestABookmarkIsNeverAheadOfItsEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := seeded(t)
		w, err := clientset(t, s.Config()).CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "4", AllowWatchBookmarks: true})
		require.NoError(t, err)
		defer w.Stop()
		synctest.Wait()
		s.SendBookmarks()
		require.NoError(t, s.Create(configMap("d"))) // may come before or after the bookmark
		seen := "4"
		for range 2 {
			event := <-w.ResultChan()
			version := event.Object.(metav1.Object).GetResourceVersion()
			require.LessOrEqual(t, seen, version)
			if event.Type == watch.Added {
				require.Equal(t, "5", version)
				require.Equal(t, "4", seen, "the event came after a bookmark of its version")
			}
			seen = version
			if event.Type == watch.Added {
				break
			}
		}
	})
}

func TestWatchTimeoutOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, _, err := get(t, seeded(t, reflectortest.WithWatchTimeout(time.Hour), reflectortest.WithBookmarkInterval(0)), path+"?watch=1")
		require.NoError(t, err)
		require.Equal(t, time.Hour, time.Since(began))
		began = time.Now()
		_, _, err = get(t, seeded(t), path+"?watch=1")
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(began), 30*time.Minute)
		require.Less(t, time.Since(began), time.Hour)
	})
}

func TestWaitForRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := seeded(t)
		time.AfterFunc(time.Minute, func() { _, _, _ = get(t, s, path+"?limit=7") })
		found, err := s.WaitForRequests(t.Context(), 1, reflectortest.Verb("list"), reflectortest.ForResource("configmaps"),
			reflectortest.InNamespace("default"), reflectortest.Param("limit", "7"), reflectortest.Answered(200))
		require.NoError(t, err)
		require.Equal(t, time.Now(), found[0].Time)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = s.WaitForRequests(ctx, 2, reflectortest.Verb("list"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "1 of 2 requests")
		s.ForgetRequests()
		require.Empty(t, s.Requests())
	})
}

func TestRESTMappingByBothKindsOfDiscovery(t *testing.T) {
	s := reflectortest.Start(t, reflectortest.WithResource(books))
	client, err := discovery.NewDiscoveryClientForConfig(s.Config())
	require.NoError(t, err)
	for _, legacy := range []bool{false, true} {
		client.UseLegacyDiscovery = legacy
		groups, err := restmapper.GetAPIGroupResources(client)
		require.NoError(t, err)
		mapper := restmapper.NewDiscoveryRESTMapper(groups)
		for kind, resource := range map[schema.GroupKind]string{
			{Group: "apps", Kind: "Deployment"}:           "apps/v1, Resource=deployments",
			{Kind: "Endpoints"}:                           "/v1, Resource=endpoints",
			{Group: "networking.k8s.io", Kind: "Ingress"}: "networking.k8s.io/v1, Resource=ingresses",
			{Group: "library.example.com", Kind: "Book"}:  "library.example.com/v1, Resource=books",
		} {
			mapping, err := mapper.RESTMapping(kind)
			require.NoError(t, err)
			require.Equal(t, resource, mapping.Resource.String())
		}
	}
	require.Len(t, s.Requests(func(r reflectortest.Request) bool { return strings.HasPrefix(r.Path, "/apis/apps") }), 1, "aggregated discovery asks no group")
}

func TestASlowWatchThatFallsBehindACompactionIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := seeded(t)
		release := make(chan struct{})
		s.Inject(reflectortest.StallAfterEvents(1, release).On("watch", ""))
		w, err := clientset(t, s.Config()).CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "3"})
		require.NoError(t, err)
		defer w.Stop()
		<-w.ResultChan()
		require.NoError(t, s.Create(configMap("d")))
		require.NoError(t, s.Create(configMap("e")))
		require.NoError(t, s.Compact(s.ResourceVersion()))
		close(release)
		event := <-w.ResultChan()
		require.Equal(t, watch.Error, event.Type)
		require.True(t, apierrors.IsResourceExpired(apierrors.FromObject(event.Object)))
	})
}

func TestNoUpdateIsLostBetweenClients(t *testing.T) {
	s := reflectortest.Start(t)
	require.NoError(t, s.Create(configMap("counter")))
	cms := clientset(t, s.Config()).CoreV1().ConfigMaps("default")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 25 {
				for done := false; !done; {
					cm, err := cms.Get(t.Context(), "counter", metav1.GetOptions{})
					if !assert.NoError(t, err) {
						return
					}
					n, _ := strconv.Atoi(cm.Data["n"])
					cm.Data = map[string]string{"n": strconv.Itoa(n + 1)}
					_, err = cms.Update(t.Context(), cm, metav1.UpdateOptions{})
					if done = err == nil; !done && !assert.True(t, apierrors.IsConflict(err), "%v", err) {
						return
					}
				}
			}
		})
	}
	wg.Wait()
	cm := configMap("counter")
	require.NoError(t, s.Get(cm))
	require.Equal(t, "100", cm.Data["n"])
}

func TestBehindHTTPTest(t *testing.T) {
	ts := httptest.NewServer(seeded(t))
	defer ts.Close()
	list, err := clientset(t, &rest.Config{Host: ts.URL}).CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 3)
	http.DefaultClient.CloseIdleConnections()
}

func secret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "s-"}}
}

// requireBookmark takes the next event: a bookmark at a version.
func requireBookmark(t *testing.T, w watch.Interface, version string) {
	t.Helper()
	event := <-w.ResultChan()
	require.Equal(t, watch.Bookmark, event.Type)
	require.Equal(t, version, event.Object.(metav1.Object).GetResourceVersion())
}

func TestABookmarkTellsOfChangesToOtherResources(t *testing.T) {
	for name, ask := range map[string]func(*reflectortest.Server){
		"asked for": (*reflectortest.Server).SendBookmarks,
		"periodic":  func(*reflectortest.Server) { <-time.After(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := seeded(t)
				cms := clientset(t, s.Config()).CoreV1().ConfigMaps("default")
				w, err := cms.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "4", AllowWatchBookmarks: true})
				require.NoError(t, err)
				defer w.Stop()
				synctest.Wait()
				began := time.Now()
				for _, version := range []string{"104", "204"} {
					for range 100 {
						require.NoError(t, s.Create(secret()))
					}
					ask(s)
					requireBookmark(t, w, version)
					synctest.Wait()
				}
				if name == "asked for" {
					require.Zero(t, time.Since(began))
				}
			})
		})
	}
}

func TestWatchFromTheFutureHearsNothingUntilItIsReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := seeded(t)
		require.NoError(t, s.Restore(s.ResourceVersion()-2))
		w, err := clientset(t, s.Config()).CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{
			ResourceVersion: "4", AllowWatchBookmarks: true, TimeoutSeconds: new(int64(600)),
		})
		require.NoError(t, err)
		defer w.Stop()
		for s.ResourceVersion() < 4 {
			s.SendBookmarks()
			<-time.After(2 * time.Minute)
			select {
			case e := <-w.ResultChan():
				t.Fatalf("at version %d it heard of %v", s.ResourceVersion(), e)
			default:
			}
			require.NoError(t, s.Create(configMap(time.Now().Format("after-150405"))))
		}
		require.NoError(t, s.Create(configMap("news")))
		heard := <-w.ResultChan()
		if heard.Type == watch.Bookmark { // its timer and the change that reached the version came at once
			heard = <-w.ResultChan()
		}
		require.Equal(t, watch.Added, heard.Type)
		require.Equal(t, "5", heard.Object.(*corev1.ConfigMap).ResourceVersion)
	})
}

func TestRestoreCutsAWatchThatIsBusy(t *testing.T) {
	for range 20 { // a select would choose between the news and the end
		synctest.Test(t, func(t *testing.T) {
			s := seeded(t)
			release := make(chan struct{})
			s.Inject(reflectortest.StallAfterEvents(1, release).On("watch", ""))
			w, err := clientset(t, s.Config()).CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "3"})
			require.NoError(t, err)
			defer w.Stop()
			require.Equal(t, "4", (<-w.ResultChan()).Object.(*corev1.ConfigMap).ResourceVersion)
			require.NoError(t, s.Restore(2))
			for i := range 4 {
				require.NoError(t, s.Create(configMap(fmt.Sprint("new-", i))))
			}
			close(release)
			for event := range w.ResultChan() {
				t.Errorf("it goes on in the new history: %v", event)
			}
		})
	}
}

func TestRestoreTakesBackTheLaterChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := seeded(t)
		require.NoError(t, s.Restore(2))
		require.NoError(t, s.Create(configMap("new")))
		_, body, err := get(t, s, path+"?watch=1&resourceVersion=1&timeoutSeconds=1")
		require.NoError(t, err)
		require.Contains(t, body, `"name":"a"`)
		require.Contains(t, body, `"name":"new"`)
		require.NotContains(t, body, `"name":"b"`)
	})
}

func TestAPageFromTheFutureIsTooLargeAndNotExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // client-go waits for Retry-After
		s := seeded(t)
		cms := clientset(t, s.Config()).CoreV1().ConfigMaps("default")
		page, err := cms.List(t.Context(), metav1.ListOptions{Limit: 1})
		require.NoError(t, err)
		require.NoError(t, s.Restore(3))
		_, err = cms.List(t.Context(), metav1.ListOptions{Limit: 1, Continue: page.Continue})
		require.ErrorContains(t, err, "Too large resource version: 4, current: 3")
		require.True(t, apierrors.IsTimeout(err))
	})
}

func TestStableUIDsAndNamesFollowFromNamesAndCounts(t *testing.T) {
	create := func(opts ...reflectortest.Option) (uids, names []string) {
		s := reflectortest.Start(t, opts...)
		generated := configMap("")
		generated.GenerateName = "b-"
		for _, o := range []*corev1.ConfigMap{configMap("a"), configMap("b"), generated, generated.DeepCopy()} {
			require.NoError(t, s.Create(o))
			uids, names = append(uids, string(o.UID)), append(names, o.Name)
		}
		require.Error(t, s.Create(configMap("a")), "a creation that fails does not count")
		require.NoError(t, s.Delete(configMap("a")))
		again := configMap("a")
		require.NoError(t, s.Create(again))
		return append(uids, string(again.UID)), names
	}
	uids, names := create(reflectortest.WithStableUIDs())
	sameUIDs, sameNames := create(reflectortest.WithStableUIDs())
	require.Equal(t, uids, sameUIDs)
	require.Equal(t, names, sameNames)
	require.Len(t, slices.Compact(slices.Sorted(slices.Values(uids))), 5, "each object has its own")
	require.NotEqual(t, names[2], names[3])
	require.Regexp(t, `^b-[a-z0-9]{5}$`, names[2])
	otherUIDs, otherNames := create()
	require.NotEqual(t, uids, otherUIDs)
	require.NotEqual(t, names, otherNames)
}

func TestAStableNameIsNotTaken(t *testing.T) {
	generate := func(s *reflectortest.Server) string {
		o := configMap("")
		o.GenerateName = "b-"
		require.NoError(t, s.Create(o))
		return o.Name
	}
	first := generate(reflectortest.Start(t, reflectortest.WithStableUIDs()))
	s := reflectortest.Start(t, reflectortest.WithStableUIDs())
	require.NoError(t, s.Create(configMap(first)))
	require.NotEqual(t, first, generate(s))
}

// TestWhatIsNotServedIsNotTakenForAbsent evicts a pod. Most programs that drain a node take NotFound for a pod
// that is gone.
func TestWhatIsNotServedIsNotTakenForAbsent(t *testing.T) {
	s := reflectortest.Start(t, reflectortest.WithDefinition([]byte(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: sets, kind: Set}
  versions:
  - {name: v1, served: true, storage: true, subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}}
  - {name: v2, served: true}
`), nil))
	client := kubernetes.NewForConfigOrDie(s.Config())
	err := client.CoreV1().Pods("default").EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	require.ErrorContains(t, err, "reflectortest does not serve pods/eviction")
	require.False(t, apierrors.IsNotFound(err))
	_, err = client.AppsV1().Deployments("default").GetScale(t.Context(), "a", metav1.GetOptions{})
	require.ErrorContains(t, err, "reflectortest does not serve deployments/scale")
	require.False(t, apierrors.IsNotFound(err))

	sets := func(version string) error {
		gvr := schema.GroupVersionResource{Group: "example.com", Version: version, Resource: "sets"}
		_, err := dynamic.NewForConfigOrDie(s.Config()).Resource(gvr).Namespace("default").Get(t.Context(), "a", metav1.GetOptions{}, "scale")
		return err
	}
	require.ErrorContains(t, sets("v1"), "reflectortest does not serve sets/scale")
	require.True(t, apierrors.IsNotFound(sets("v2")), "a real server does not have it either")
}

// TestGracePeriodThatIsOver follows BeforeDelete of the API server: only 0 takes a pod from its kubelet.
func TestGracePeriodThatIsOver(t *testing.T) {
	for _, one := range []struct{ wanted, period, left int64 }{{wanted: 25, period: 25, left: 5}, {wanted: 20, period: 1}, {wanted: 10, period: 1}} {
		synctest.Test(t, func(t *testing.T) {
			s := reflectortest.Start(t)
			client := kubernetes.NewForConfigOrDie(s.Config()).CoreV1().Pods("ns")
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}, Spec: corev1.PodSpec{NodeName: "n"}}
			require.NoError(t, s.Create(pod))
			require.NoError(t, client.Delete(t.Context(), "a", metav1.DeleteOptions{}))
			<-time.After(20*time.Second + time.Millisecond)
			require.NoError(t, client.Delete(t.Context(), "a", *metav1.NewDeleteOptions(one.wanted)))
			require.NoError(t, s.Get(pod))
			assert.Equal(t, one.period, *pod.DeletionGracePeriodSeconds)
			assert.Equal(t, one.left, int64(time.Until(pod.DeletionTimestamp.Time).Round(time.Second)/time.Second))
			require.NoError(t, client.Delete(t.Context(), "a", *metav1.NewDeleteOptions(0)))
			assert.True(t, apierrors.IsNotFound(s.Get(pod)))
		})
	}
}
