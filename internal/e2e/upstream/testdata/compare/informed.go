package simulated

import (
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// informed are tests on a fake client that know the bug, for those that careful does not find. Each says which
// read is old, which write fails, or what happens in between.
var informed = map[string]func(u *user){
	"a second child, because the cache does not have the first": func(u *user) {
		u.world.freeze(&corev1.ConfigMap{}, &corev1.ConfigMapList{})
		u.create(site("a"))
		u.world.next(3)
		u.world.freeze(nil, nil)
		u.eventually("one ConfigMap", func() bool { return count(u, &corev1.ConfigMapList{}) == 1 })
	},
	"a deletion by name of an object that was just made": func(u *user) {
		u.create(site("a"))
		u.eventually("a ConfigMap", func() bool { return configMap(u, "a").Data["image"] == "v1" })
		u.world.freeze(&corev1.ConfigMap{}, &corev1.ConfigMapList{})
		u.change(image("a", "v2"))
		u.world.next(1)
		replacement := configMap(u, "a").UID
		u.change(site("a"), func(o client.Object) { o.SetLabels(map[string]string{"any": "event"}) })
		u.world.next(1)
		u.world.freeze(nil, nil)
		u.eventually("the same ConfigMap", func() bool { return configMap(u, "a").UID == replacement })
	},
	"a deletion, because the cache does not have the parent": func(u *user) {
		u.world.freeze(&appsv1.Deployment{}, &appsv1.DeploymentList{})
		u.create(site("a"))
		u.world.next(5)
		u.world.freeze(nil, nil)
		u.eventually("a ConfigMap", func() bool { return u.has("a-env", &corev1.ConfigMap{}) })
	},
	"an owner reference with the UID of an earlier owner": func(u *user) {
		u.create(site("a"))
		u.eventually("a ConfigMap", func() bool { return u.has("a", &corev1.ConfigMap{}) })
		u.delete(site("a"))
		u.create(site("a"))
		u.eventually("nothing", func() bool { return true })
		u.delete(configMap(u, "a")) // as the garbage collector does
		u.eventually("a ConfigMap of the new site", func() bool { return metav1.IsControlledBy(configMap(u, "a"), siteOf(u, "a")) })
	},
	"an object whose namesake is done": func(u *user) {
		reported := func() bool { return siteOf(u, "a").Status.Image == "v1" }
		u.create(site("a"))
		u.eventually("a status", reported)
		u.delete(site("a"))
		u.create(site("a"))
		u.eventually("a status of the new site", reported)
	},
	"an expectation that is never met": func(u *user) {
		reported := func(image string) func() bool { return func() bool { return siteOf(u, "a").Status.Image == image } }
		u.create(site("a"))
		u.eventually("a status", reported("v1"))
		u.world.freeze(&corev1.ConfigMap{}, &corev1.ConfigMapList{})
		u.change(image("a", "v2"))
		u.world.next(1)
		u.world.freeze(nil, nil) // one update, instead of a deletion and a creation
		u.elapse(time.Hour, nil)
		u.eventually("another status", reported("v2"))
	},
	"a decision that needs the old object of an event": func(u *user) {
		u.create(site("a"))
		u.eventually("a ConfigMap", func() bool { return u.has("a-v1", &corev1.ConfigMap{}) })
		u.change(image("a", "v2"))
		u.world.stop()
		u.world.start()
		u.eventually("only a ConfigMap of v2", func() bool { return u.has("a-v2", &corev1.ConfigMap{}) && !u.has("a-v1", &corev1.ConfigMap{}) })
	},
	"an orphan of a quick scale-down": func(u *user) {
		s := site("a")
		s.Spec.Replicas = 2
		u.world.once("update the status of Site", func(func() error) error {
			u.change(site("a"), func(o client.Object) { o.(*Site).Spec.Replicas = 1 })
			return apierrors.NewConflict(corev1.Resource("sites"), "a", errors.New("it has changed"))
		})
		u.create(s)
		u.eventually("one claim", func() bool {
			return u.has("a-0", &corev1.PersistentVolumeClaim{}) && !u.has("a-1", &corev1.PersistentVolumeClaim{})
		})
	},
	"an object that another controller has just adopted": func(u *user) {
		other := anotherOwner()
		u.create(other)
		u.create(free())
		u.world.once("patch ConfigMap", func(do func() error) error {
			u.change(free(), func(o client.Object) {
				o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(other, appsv1.SchemeGroupVersion.WithKind("Deployment"))})
			})
			return do()
		})
		u.create(site("a"))
		u.eventually("the ConfigMap of the other", func() bool { return metav1.IsControlledBy(configMap(u, "free"), other) })
	},
	"a list to which another client adds": func(u *user) {
		u.create(account())
		u.world.once("patch ServiceAccount", func(do func() error) error {
			u.change(account(), func(o client.Object) {
				o.(*corev1.ServiceAccount).ImagePullSecrets = []corev1.LocalObjectReference{{Name: "another"}}
			})
			return do()
		})
		u.create(site("a"))
		u.eventually("both secrets", func() bool {
			a := account()
			return u.has("default", a) && len(a.ImagePullSecrets) == 2
		})
	},
	"a creation with a generated name that is tried again after its answer was lost": func(u *user) {
		u.world.once("create Job", func(do func() error) error {
			return errors.Join(do(), apierrors.NewTimeoutError("the answer is lost", 0))
		})
		u.create(site("a"))
		u.eventually("one Job", func() bool { return count(u, &batchv1.JobList{}) == 1 })
	},
}

func TestCompareInformed(t *testing.T) {
	for _, p := range pairs() {
		if informed[p.name] != nil {
			for _, buggy := range []bool{true, false} {
				s := subjectOf(p, buggy)
				s.test = informed[p.name]
				compare(p.name, "informed", buggy, func() error { return vary(t, s, variation{}, new([]string)) })
			}
		}
	}
}
