package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// world is an operator that runs, its cluster and its DNS API.
type world struct {
	*testing.T
	*demo
	stop func() error

	mu     sync.Mutex
	puts   int                                                      // Guarded by mu
	handle func(w http.ResponseWriter, r *http.Request) (done bool) // Guarded by mu. A fault of the DNS API, or nil
}

// ServeHTTP is the DNS API with its fault.
func (w *world) ServeHTTP(answer http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	if r.Method == http.MethodPut {
		w.puts++
	}
	handle := w.handle
	w.mu.Unlock()
	if handle == nil || !handle(answer, r) {
		w.zone.ServeHTTP(answer, r)
	}
}

// breakDNS sets the fault of the DNS API, or ends it.
func (w *world) breakDNS(handle func(http.ResponseWriter, *http.Request) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handle = handle
}

// fail and hang are faults of the DNS API.
func fail(code int) func(http.ResponseWriter, *http.Request) bool {
	return func(answer http.ResponseWriter, _ *http.Request) bool { answer.WriteHeader(code); return true }
}

func hang(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true }

// registrations returns the number of PUT requests.
func (w *world) registrations() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.puts
}

// start starts an operator, which runs until stop is called. There are Secrets for the Sites shop
// and blog.
func start(t *testing.T) *world {
	d, err := newDemo(io.Discard, reflectortest.Start(t, custom))
	require.NoError(t, err)
	w := &world{T: t, demo: d}
	w.must(w.server.Create(newSecret("shop-env")))
	w.must(w.server.Create(newSecret("blog-env")))
	w.stop = w.start(t.Context(), w)
	return w
}

// startWithShop starts an operator that has reconciled the Site shop.
func startWithShop(t *testing.T) *world {
	w := start(t)
	w.must(w.create("shop", "shop.example.com"))
	settle()
	return w
}

func (w *world) must(err error) { w.Helper(); require.NoError(w, err) }

// settle waits longer than the longest back-off, which is five minutes.
func settle() { <-time.After(7 * time.Minute) }

// reason returns the condition of a Site, in short.
func (w *world) reason(name string) string {
	w.Helper()
	site := newSite(name, "")
	w.must(w.server.Get(site))
	if len(site.Status.Conditions) != 1 {
		return fmt.Sprintf("%d conditions", len(site.Status.Conditions))
	}
	c := site.Status.Conditions[0]
	assert.Equal(w, site.Generation, c.ObservedGeneration, name)
	return c.Reason
}

// writes returns the number of requests that change Sites or their objects.
func (w *world) writes() int {
	n := 0
	for _, r := range w.server.Requests() {
		if r.Verb != "list" && r.Verb != "watch" && r.Verb != "get" && r.Resource != "leases" && r.Resource != "events" && r.Verb != "" {
			n++
		}
	}
	return n
}

// object returns the metadata of an object of a Site.
func object(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: name}
}

func TestSettledSiteCausesNoRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		w.must(w.create("shop", "shop.example.com", "blog", "blog.example.com"))
		settle()
		w.must(w.runPods())
		settle()
		assert.Equal(t, "Available", w.reason("shop"))
		assert.Equal(t, 2, w.registrations())
		before := w.writes()
		<-time.After(20 * time.Minute)
		assert.Equal(t, before, w.writes())
		assert.Equal(t, 2, w.registrations())
		w.must(w.stop())
	})
}

func TestSiteThatCannotBeReconciledIsNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		w.must(w.create("shop", "not a host"))
		<-time.After(20 * time.Minute)
		assert.Equal(t, "HostRefused", w.reason("shop"))
		assert.Equal(t, 1, w.registrations())
		w.must(w.edit("shop", func(s *Site) { s.Spec.Host = "shop.example.com" }))
		settle()
		assert.Equal(t, "Progressing", w.reason("shop"))
		assert.Equal(t, []string{"shop.example.com"}, w.zone.all())
		w.must(w.stop())
	})
}

func TestSiteIsNotAvailableWhileItsPodsAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWithShop(t)
		w.must(w.runPods())
		settle()
		assert.Equal(t, "Available", w.reason("shop"))
		w.must(w.edit("shop", func(s *Site) { s.Spec.Page = "another page" }))
		settle()
		assert.Equal(t, "Progressing", w.reason("shop"), "the controller of Deployments has not seen the new template")
		d := &appsv1.Deployment{ObjectMeta: object("shop")}
		w.must(w.server.Get(d))
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 3, UpdatedReplicas: 2, ReadyReplicas: 2}
		w.must(w.server.Update(d))
		settle()
		assert.Equal(t, "Progressing", w.reason("shop"), "a ready pod is old")
		w.must(w.runPods())
		settle()
		assert.Equal(t, "Available", w.reason("shop"))
		w.must(w.stop())
	})
}

func TestSecretIsAwaitedAndFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		w.must(w.create("wiki", "wiki.example.com"))
		settle()
		assert.Equal(t, "SecretNotFound", w.reason("wiki"))
		before := w.writes()
		<-time.After(20 * time.Minute)
		assert.Equal(t, before, w.writes(), "no retries")
		w.must(w.server.Create(newSecret("wiki-env")))
		settle()
		assert.Equal(t, "Progressing", w.reason("wiki"))
		content := func() string {
			d := &appsv1.Deployment{ObjectMeta: object("wiki")}
			w.must(w.server.Get(d))
			return d.Spec.Template.Annotations["example.com/content"]
		}
		first := content()
		changed := newSecret("wiki-env")
		changed.Data["CURRENCY"] = []byte("USD")
		w.must(w.server.Update(changed))
		settle()
		assert.NotEqual(t, first, content(), "the pods are replaced")
		w.must(w.stop())
	})
}

func TestFaultsOfTheDNSAPI(t *testing.T) {
	for name, fault := range map[string]func(http.ResponseWriter, *http.Request) bool{
		"fails":     fail(http.StatusInternalServerError),
		"throttles": fail(http.StatusTooManyRequests),
		"hangs":     hang,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t)
				w.must(w.create("blog", "blog.example.com"))
				settle()
				w.breakDNS(fault)
				w.must(w.create("shop", "shop.example.com"))
				w.must(w.server.Delete(newSite("blog", "")))
				settle()
				assert.Equal(t, "DNSFailed", w.reason("shop"))
				assert.Equal(t, "DNSFailed", w.reason("blog"), "it waits for its record to be deleted")
				assert.Less(t, w.registrations(), 30, "with back-off")
				w.breakDNS(nil)
				settle()
				assert.Equal(t, "Progressing", w.reason("shop"))
				assert.Error(t, w.server.Get(newSite("blog", "")))
				assert.Equal(t, []string{"shop.example.com"}, w.zone.all())
				w.must(w.stop())
			})
		})
	}
}

// A registration that the DNS API processes after the deletion of the Site changes nothing.
func TestLateRegistrationDoesNotOutliveItsSite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		release := make(chan struct{})
		var late atomic.Int32
		w.breakDNS(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPut {
				<-release
				late.Add(1)
			}
			return false
		})
		w.must(w.create("shop", "shop.example.com"))
		<-time.After(time.Minute)
		assert.Equal(t, "DNSFailed", w.reason("shop"))
		w.must(w.server.Delete(newSite("shop", "")))
		settle()
		assert.Error(t, w.server.Get(newSite("shop", "")))
		close(release)
		synctest.Wait()
		assert.Positive(t, late.Load())
		assert.Empty(t, w.zone.all())
		w.must(w.stop())
	})
}

func TestObjectsOfASiteAreRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWithShop(t)
		page := &corev1.ConfigMap{ObjectMeta: object("shop")}
		w.must(w.server.Get(page))
		page.Data["index.html"], page.Labels = "defaced", nil
		w.must(w.server.Update(page))
		w.must(w.server.Delete(&corev1.Service{ObjectMeta: object("shop")}))
		w.must(w.spoilImage("shop"))
		settle()
		w.must(w.server.Get(page))
		assert.Equal(t, "This is shop", page.Data["index.html"])
		assert.Equal(t, name, page.Labels[managedBy])
		w.must(w.server.Get(&corev1.Service{ObjectMeta: object("shop")}))
		d := &appsv1.Deployment{ObjectMeta: object("shop")}
		w.must(w.server.Get(d))
		assert.Equal(t, image, d.Spec.Template.Spec.Containers[0].Image)
		w.must(w.stop())
	})
}

func TestObjectOfAnotherOwnerIsLeftAlone(t *testing.T) {
	for name, meta := range map[string]func(*metav1.ObjectMeta){
		"without an owner": func(*metav1.ObjectMeta) {},
		"of another owner": func(meta *metav1.ObjectMeta) {
			meta.Labels = map[string]string{managedBy: name}
			meta.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Site", Name: "shop", UID: "an earlier one", Controller: new(true)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t)
				theirs := &corev1.Service{ObjectMeta: object("shop"), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "theirs"}}}
				meta(&theirs.ObjectMeta)
				w.must(w.server.Create(theirs))
				w.must(w.create("shop", "shop.example.com"))
				settle()
				assert.Equal(t, "NameTaken", w.reason("shop"))
				w.must(w.server.Get(theirs))
				assert.Equal(t, map[string]string{"app": "theirs"}, theirs.Spec.Selector)
				assert.Empty(t, w.zone.all())
				w.must(w.server.Delete(theirs))
				settle()
				assert.Equal(t, "Progressing", w.reason("shop"))
				w.must(w.stop())
			})
		})
	}
}

// The operator's cache of ConfigMaps stands still. Meanwhile the Site's ConfigMap becomes one of
// another owner.
func TestObjectThatTookTheNameOfAHeldOneIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		w.must(w.stop())
		// The bookmark after the initial events is the first event, and the ConfigMap is the second.
		release := make(chan struct{})
		w.server.Inject(reflectortest.StallAfterEvents(2, release).On("watch", "configmaps").Times(1))
		w.stop = w.demo.start(t.Context(), w)
		w.must(w.create("shop", "shop.example.com"))
		settle()
		theirs := &corev1.ConfigMap{ObjectMeta: object("shop")}
		w.must(w.server.Get(theirs))
		w.must(w.server.Delete(theirs))
		theirs = &corev1.ConfigMap{ObjectMeta: object("shop"), Data: map[string]string{"their": "data"}}
		theirs.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Site", Name: "shop", UID: "a later one"}}
		w.must(w.server.Create(theirs))
		w.must(w.edit("shop", func(s *Site) { s.Spec.Page = "another page" }))
		settle()
		w.must(w.server.Get(theirs))
		assert.Equal(t, map[string]string{"their": "data"}, theirs.Data)
		assert.Len(t, theirs.OwnerReferences, 1)
		assert.EqualValues(t, "a later one", theirs.OwnerReferences[0].UID)
		close(release)
		settle()
		assert.Equal(t, "NameTaken", w.reason("shop"))
		w.must(w.stop())
	})
}

// TestOutages disturbs all requests of a kind for seven minutes: the operator then catches up.
func TestOutages(t *testing.T) {
	for name, fault := range map[string]reflectortest.Fault{
		"the definition is removed": reflectortest.Answer(404).On("", "sites"),
		"the server is gone":        reflectortest.Refuse(),
		"the server hangs":          reflectortest.Stall(nil),
		"the server refuses writes": reflectortest.Answer(500).On("patch", ""),
		"apply conflicts":           reflectortest.Answer(409).On("patch", "deployments"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := startWithShop(t)
				w.server.Inject(fault)
				w.must(w.server.Restore(w.server.ResourceVersion())) // ends the open watches
				w.must(w.create("blog", "blog.example.com"))
				w.must(w.edit("shop", func(s *Site) { s.Spec.Host = "store.example.com" }))
				w.must(w.spoilImage("shop"))
				settle()
				w.server.ClearFaults()
				settle()
				assert.Equal(t, "blog.example.com store.example.com", strings.Join(w.zone.all(), " "))
				assert.Equal(t, "Progressing", w.reason("shop"))
				assert.Equal(t, "Progressing", w.reason("blog"))
				d := &appsv1.Deployment{ObjectMeta: object("shop")}
				w.must(w.server.Get(d))
				assert.Equal(t, image, d.Spec.Template.Spec.Containers[0].Image)
				w.must(w.deleteAll())
				settle()
				assert.Empty(t, w.zone.all())
				w.must(w.stop())
			})
		})
	}
}

func TestSecondOperatorTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t)
		<-time.After(time.Minute)
		second := w.start(t.Context(), w)
		w.must(w.create("shop", "shop.example.com"))
		settle()
		assert.Equal(t, 1, w.registrations())
		w.must(w.stop())
		w.must(w.create("blog", "blog.example.com"))
		settle()
		assert.Equal(t, 2, w.registrations())
		assert.Equal(t, "Progressing", w.reason("blog"))
		w.must(second())
	})
}

// The DNS API may have got a host that the status does not show, because its answer or the write of
// the status was lost.
func TestHostIsRegisteredAgainAfterALostAnswer(t *testing.T) {
	for _, lost := range []string{"answer", "status"} {
		t.Run(lost, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := startWithShop(t)
				if lost == "status" {
					w.server.Inject(reflectortest.Answer(500).On("patch", "sites"))
				} else {
					w.breakDNS(func(answer http.ResponseWriter, r *http.Request) bool {
						w.zone.ServeHTTP(answer, r)
						<-r.Context().Done()
						return true
					})
				}
				w.must(w.edit("shop", func(s *Site) { s.Spec.Host = "store.example.com" }))
				<-time.After(time.Minute)
				assert.Equal(t, []string{"store.example.com"}, w.zone.all())
				w.must(w.edit("shop", func(s *Site) { s.Spec.Host = "shop.example.com" }))
				<-time.After(time.Minute)
				w.server.ClearFaults()
				w.breakDNS(nil)
				settle()
				assert.Equal(t, "Progressing", w.reason("shop"))
				assert.Equal(t, []string{"shop.example.com"}, w.zone.all())
				w.must(w.stop())
			})
		})
	}
}

func TestRefusedDeletionIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWithShop(t)
		w.breakDNS(fail(http.StatusBadRequest))
		w.must(w.server.Delete(newSite("shop", "")))
		settle()
		w.breakDNS(nil)
		settle()
		assert.Error(t, w.server.Get(newSite("shop", "")))
		assert.Empty(t, w.zone.all())
		w.must(w.stop())
	})
}

func TestOperatorEndsWithinItsGracePeriodDuringAnOutage(t *testing.T) {
	text, err := os.ReadFile("manifests/operator.yaml")
	require.NoError(t, err)
	documents := strings.Split(string(text), "\n---\n")
	var manifest appsv1.Deployment
	require.NoError(t, yaml.UnmarshalStrict([]byte(documents[len(documents)-1]), &manifest))
	grace := time.Duration(*manifest.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	assert.Greater(t, grace, 42*time.Second, "the longest end, which the faults below do not reach: docs/maintainers/shutdown.md")
	for name, fault := range map[string]reflectortest.Fault{
		"gone": reflectortest.Refuse(), "hangs": reflectortest.Stall(nil), "hangs for writes": reflectortest.Stall(nil).On("update", ""),
		"hangs for Events": reflectortest.Stall(nil).On("", "events"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := startWithShop(t)
				w.breakDNS(hang)
				w.must(w.edit("shop", func(s *Site) { s.Spec.Host = "store.example.com" }))
				w.must(w.create("blog", "blog.example.com", "wiki", "wiki.example.com"))
				w.server.Inject(fault)
				synctest.Wait()
				before := time.Now()
				w.must(w.stop())
				assert.Less(t, time.Since(before)+2*time.Second, grace, "the server of -address may need two seconds")
			})
		})
	}
}
