// These are the tests that a careful author writes for the operators of contrib/controllerruntime/simulated:
// each creates, changes and deletes what a user would, and looks at the result. They were written from the
// correct versions. fake.go and server.go say on what they run.

package simulated

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// careful are the tests by the names of the pairs.
var careful = map[string]func(u *user){
	"a second child, because the cache does not have the first": func(u *user) {
		one := func(image string) func() bool {
			return func() bool { return count(u, &corev1.ConfigMapList{}) == 1 && siteOf(u, "a").Status.Image == image }
		}
		u.create(site("a"))
		u.eventually("one ConfigMap", one("v1"))
		u.change(image("a", "v2"))
		u.eventually("still one ConfigMap", one("v2"))
		u.remove(site("a"))
	},
	"a deletion by name of an object that was just made": func(u *user) {
		u.create(site("a"))
		u.eventually("a ConfigMap", func() bool { return configMap(u, "a").Data["image"] == "v1" })
		u.change(image("a", "v2"))
		u.eventually("another ConfigMap", func() bool { return configMap(u, "a").Data["image"] == "v2" })
		u.remove(site("a"))
	},
	"a deletion, because the cache does not have the parent": func(u *user) {
		both := func() bool { return u.has("a", &appsv1.Deployment{}) && u.has("a-env", &corev1.ConfigMap{}) }
		u.create(site("a"))
		u.eventually("a Deployment and its ConfigMap", both)
		u.change(image("a", "v2"))
		u.eventually("both stay", both)
		u.remove(site("a"))
		u.eventually("the ConfigMap goes with the Deployment", func() bool { return !u.has("a-env", &corev1.ConfigMap{}) })
	},
	"an owner reference with the UID of an earlier owner": func(u *user) {
		owned := func() bool { return metav1.IsControlledBy(configMap(u, "a"), siteOf(u, "a")) }
		u.create(site("a"))
		u.eventually("a ConfigMap", owned)
		u.delete(configMap(u, "a"))
		u.eventually("the ConfigMap again", owned)
		u.remove(site("a"))
		u.create(site("a"))
		u.eventually("a ConfigMap of the new site", owned)
	},
	"an object whose namesake is done": func(u *user) {
		reported := func(image string) func() bool { return func() bool { return siteOf(u, "a").Status.Image == image } }
		u.create(site("a"))
		u.eventually("a status", reported("v1"))
		u.change(image("a", "v2"))
		u.eventually("another status", reported("v2"))
		u.remove(site("a"))
		u.create(site("a"))
		u.eventually("a status of the new site", reported("v1"))
	},
	"an allocation that the next process does not know": func(u *user) {
		port := func(name string) int { return siteOf(u, name).Status.Port }
		u.create(site("a"))
		u.eventually("a port", func() bool { return port("a") != 0 })
		u.create(site("b"))
		u.eventually("another port", func() bool { return port("b") != 0 && port("b") != port("a") })
		before := port("a")
		u.change(image("a", "v2"))
		u.eventually("the same port", func() bool { return port("a") == before })
		u.remove(site("a"))
		u.create(site("c"))
		u.eventually("a port that b has not", func() bool { return port("c") != 0 && port("c") != port("b") })
	},
	"an expectation that is never met": func(u *user) {
		released := func(image string) func() bool {
			return func() bool { return configMap(u, "a").Data["image"] == image && siteOf(u, "a").Status.Image == image }
		}
		u.create(site("a"))
		u.eventually("a ConfigMap and a status", released("v1"))
		u.change(image("a", "v2"))
		u.eventually("another ConfigMap and a status", released("v2"))
		u.change(image("a", "v3"))
		u.eventually("a third ConfigMap and a status", released("v3"))
		u.remove(site("a"))
	},
	"a decision that needs the old object of an event": func(u *user) {
		only := func(name string) func() bool {
			return func() bool { return count(u, &corev1.ConfigMapList{}) == 1 && u.has(name, &corev1.ConfigMap{}) }
		}
		u.create(site("a"))
		u.eventually("a ConfigMap of v1", only("a-v1"))
		u.change(image("a", "v2"))
		u.eventually("only a ConfigMap of v2", only("a-v2"))
		u.change(image("a", "v3"))
		u.eventually("only a ConfigMap of v3", only("a-v3"))
		u.remove(site("a"))
	},
	"a finalizer that a crash forgets": func(u *user) {
		secret := func() bool {
			return u.get(types.NamespacedName{Namespace: "vault", Name: "a"}, &corev1.Secret{})
		}
		u.create(site("a"))
		u.eventually("a Secret, a finalizer and a status", func() bool {
			return secret() && controllerutil.ContainsFinalizer(siteOf(u, "a"), finalizer) && siteOf(u, "a").Status.Image == "v1"
		})
		u.change(image("a", "v2"))
		u.eventually("the Secret stays", secret)
		u.remove(site("a"))
		u.eventually("no Secret", func() bool { return !secret() })
	},
	"a finalizer that is removed before the clean-up": func(u *user) {
		buckets.mu.Lock()
		clear(buckets.names)
		buckets.mu.Unlock()
		u.create(site("a"))
		u.eventually("a bucket and a finalizer", func() bool {
			return len(buckets.list()) == 1 && controllerutil.ContainsFinalizer(siteOf(u, "a"), finalizer)
		})
		u.change(image("a", "v2"))
		u.eventually("the bucket stays", func() bool { return len(buckets.list()) == 1 })
		u.remove(site("a"))
		u.eventually("no bucket", func() bool { return len(buckets.list()) == 0 })
	},
	"an orphan of a quick scale-down": func(u *user) {
		scaled := func(n int) func() bool {
			return func() bool {
				for i := range 4 {
					if u.has(fmt.Sprintf("a-%d", i), &corev1.PersistentVolumeClaim{}) != (i < n) {
						return false
					}
				}
				return siteOf(u, "a").Status.Replicas == n
			}
		}
		s := site("a")
		s.Spec.Replicas = 3
		u.create(s)
		u.eventually("three claims", scaled(3))
		u.change(site("a"), func(o client.Object) { o.(*Site).Spec.Replicas = 1 })
		u.eventually("one claim", scaled(1))
		u.remove(site("a"))
	},
	"annotations of another client": func(u *user) {
		const key = "example.com/image"
		u.create(site("a"))
		u.eventually("a ConfigMap of the site", func() bool {
			return configMap(u, "a").Annotations[key] == "v1" && metav1.IsControlledBy(configMap(u, "a"), siteOf(u, "a"))
		})
		u.change(configMap(u, "a"), func(o client.Object) { o.SetAnnotations(map[string]string{key: "v1", "another": "client"}) })
		u.change(image("a", "v2"))
		u.eventually("both annotations", func() bool {
			return configMap(u, "a").Annotations[key] == "v2" && configMap(u, "a").Annotations["another"] == "client"
		})
		u.remove(site("a"))
	},
	"an object that another controller has just adopted": func(u *user) {
		other := anotherOwner()
		u.create(other)
		taken := free()
		taken.Name = "taken"
		taken.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(other, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
		u.create(free())
		u.create(taken)
		u.create(site("a"))
		u.eventually("only the free ConfigMap is adopted", func() bool {
			return metav1.IsControlledBy(configMap(u, "free"), siteOf(u, "a")) && metav1.IsControlledBy(configMap(u, "taken"), other)
		})
		u.remove(site("a"))
	},
	"a list to which another client adds": func(u *user) {
		secrets := func(want ...string) func() bool {
			return func() bool {
				a := account()
				u.get(client.ObjectKeyFromObject(a), a)
				names := map[string]bool{}
				for _, s := range a.ImagePullSecrets {
					names[s.Name] = true
				}
				for _, name := range want {
					if !names[name] {
						return false
					}
				}
				return len(a.ImagePullSecrets) == len(want)
			}
		}
		a := account()
		a.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "first"}}
		u.create(a)
		u.create(site("a"))
		u.eventually("both secrets", secrets("first", "registry"))
		u.change(account(), func(o client.Object) {
			a := o.(*corev1.ServiceAccount)
			a.ImagePullSecrets = append(a.ImagePullSecrets, corev1.LocalObjectReference{Name: "third"})
		})
		u.change(image("a", "v2"))
		u.eventually("all secrets", secrets("first", "registry", "third"))
		u.remove(site("a"))
	},
	"a status that is lost with its error": func(u *user) {
		reported := func(image string) func() bool { return func() bool { return siteOf(u, "a").Status.Image == image } }
		u.create(site("a"))
		u.eventually("a status", reported("v1"))
		u.change(image("a", "v2"))
		u.eventually("another status", reported("v2"))
		u.remove(site("a"))
	},
	"a creation that is tried again without back-off": func(u *user) {
		owned := func() bool { return metav1.IsControlledBy(configMap(u, "a"), siteOf(u, "a")) }
		u.create(site("a"))
		u.eventually("a ConfigMap", owned)
		u.change(image("a", "v2"))
		u.eventually("the ConfigMap stays", owned)
		u.remove(site("a"))
	},
	"a creation with a generated name that is tried again after its answer was lost": func(u *user) {
		one := func() bool { return count(u, &batchv1.JobList{}) == 1 }
		u.create(site("a"))
		u.eventually("one Job", one)
		u.change(image("a", "v2"))
		u.eventually("still one Job", one)
		u.remove(site("a"))
	},
	"a status with the time of the last reconciliation": func(u *user) {
		reported := func(image string) func() bool {
			return func() bool { s := siteOf(u, "a").Status; return s.Image == image && s.Checked != nil }
		}
		u.create(site("a"))
		u.eventually("a status", reported("v1"))
		u.change(image("a", "v2"))
		u.eventually("another status", reported("v2"))
		u.remove(site("a"))
	},
	"a timeout that each reconciliation starts again": func(u *user) {
		reason := func(want string) func() bool {
			return func() bool {
				c := meta.FindStatusCondition(siteOf(u, "a").Status.Conditions, "Ready")
				return c != nil && c.Status == metav1.ConditionFalse && c.Reason == want
			}
		}
		u.create(site("a"))
		u.eventually("a site that waits", reason("Waiting"))
		u.elapse(5*time.Minute, func() {
			s := siteOf(u, "a")
			s.Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Now().Add(-5 * time.Minute))
			u.must(u.Status().Update(u.ctx, s))
		})
		u.eventually("a site that has timed out", reason("TimedOut"))
		u.remove(site("a"))
	},
}

// image is a change of the image of a site.
func image(name, image string) (client.Object, func(client.Object)) {
	return site(name), func(o client.Object) { o.(*Site).Spec.Image = image }
}

func siteOf(u *user, name string) *Site {
	s := &Site{}
	u.has(name, s)
	return s
}

func configMap(u *user, name string) *corev1.ConfigMap {
	c := &corev1.ConfigMap{}
	u.has(name, c)
	return c
}

// count counts the objects of site a.
func count(u *user, list client.ObjectList) int {
	u.must(u.List(u.ctx, list, labelled(site("a"))...))
	return meta.LenList(list)
}

func subjectOf(p pair, buggy bool) subject {
	return subject{
		scheme:   scheme,
		custom:   custom{siteKind.Group, siteKind.Version, siteKind.Kind, "sites", &Site{}, &SiteList{}},
		operator: func(m ctrl.Manager) error { return p.operator(m, buggy) },
		test:     careful[p.name],
	}
}

func TestCompareFakeClient(t *testing.T) {
	for _, p := range pairs() {
		for _, buggy := range []bool{true, false} {
			compare(p.name, "fake client", buggy, func() error { return onFake(t, subjectOf(p, buggy)) })
		}
	}
}

func TestCompareAPIServer(t *testing.T) {
	s := start(t, subjectOf(pairs()[0], false))
	for _, p := range pairs() {
		for _, buggy := range []bool{true, false} {
			compare(p.name, "API server", buggy, func() error { return s.run(t, subjectOf(p, buggy)) })
		}
	}
}

func TestCompareSimulate(t *testing.T) {
	for _, p := range pairs() {
		for _, buggy := range []bool{true, false} {
			compare(p.name, "simulate", buggy, func() error { return simulated(t, p.version(buggy)) })
		}
	}
}
