package simulated

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/controller/simulate"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

var memoryPairs = []pair{
	{
		name:     "an owner reference with the UID of an earlier owner",
		operator: ownerUID,
		scenario: simulate.Scenario{Steps: []simulate.Step{create("a"), replace("a")}},
		line:     "step after create configmaps default/a#1",
		says:     "the operator does not settle: it has sent 301 writes, the last one is create configmaps default/a",
	},
	{
		name:     "an object whose namesake is done",
		operator: doneByName,
		scenario: simulate.Scenario{Steps: []simulate.Step{create("a"), replace("a")}},
		line:     "step after update sites/status default/a#1",
		says:     `Site default/a: .status.image is absent, undisturbed "v1"`,
	},
	{
		name:     "an allocation that the next process does not know",
		operator: ports,
		scenario: simulate.Scenario{
			Steps: []simulate.Step{create("a"), create("b")},
			Invariant: func(s *reflectortest.Server) error {
				sites, err := reflectortest.List[*Site](s, "")
				if err != nil {
					return err
				}
				users := map[int]string{}
				for _, one := range sites {
					if port := one.Status.Port; port != 0 && users[port] != "" {
						return fmt.Errorf("%s and %s have port %d", users[port], one.Name, port)
					}
					users[one.Status.Port] = one.Name
				}
				return nil
			},
			Normalize: func(object map[string]any) { // any port will do
				if status, ok := object["status"].(map[string]any); ok && status["port"] != nil {
					status["port"] = "given"
				}
			},
		},
		line: "crash after update sites/status default/a#1",
		says: "a and b have port 8000",
	},
	{
		name:     "an expectation that is never met",
		operator: expectations,
		scenario: simulate.Scenario{Steps: []simulate.Step{create("a"), setImage("a", "v2")}},
		line:     "hold configmaps from delete configmaps default/a#1 for 3 writes; expire configmaps at delete configmaps default/a#1",
		says:     `Site default/a: .status.image is "v1", undisturbed "v2"`,
	},
	{
		name:     "a decision that needs the old object of an event",
		operator: oldImage,
		scenario: simulate.Scenario{Steps: []simulate.Step{create("a"), setImage("a", "v2")}},
		line:     "crash before delete configmaps default/a-v1#1",
		says:     "ConfigMap default/a-v1 exists",
	},
}

// ownerUID keeps the owner references that it has made, by the name of the site. A site that is deleted
// and created again at once is another one, although no request has seen it missing: the garbage collector
// deletes each child that refers to the first.
func ownerUID(mgr ctrl.Manager, buggy bool) error {
	c, live := mgr.GetClient(), mgr.GetAPIReader()
	owners := map[types.NamespacedName]metav1.OwnerReference{}
	return ctrl.NewControllerManagedBy(mgr).For(&Site{}).Owns(&corev1.ConfigMap{}).Complete(reconcile.Func(
		func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
			s, now := &Site{}, &Site{}
			if err := c.Get(ctx, request.NamespacedName, s); err != nil {
				delete(owners, request.NamespacedName)
				return ctrl.Result{}, client.IgnoreNotFound(err)
			}
			child := &corev1.ConfigMap{ObjectMeta: owned(s, "")}
			if err := c.Get(ctx, request.NamespacedName, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
				return ctrl.Result{}, err
			}
			if err := live.Get(ctx, request.NamespacedName, now); err != nil || now.UID != s.UID {
				return ctrl.Result{}, client.IgnoreNotFound(err) // the event of this change is to come
			}
			if owner, ok := owners[request.NamespacedName]; ok && buggy {
				child.OwnerReferences = []metav1.OwnerReference{owner}
			}
			owners[request.NamespacedName] = child.OwnerReferences[0]
			// A child of another owner may exist, which the cache has not seen: it goes, and perhaps without an event.
			return ctrl.Result{}, c.Create(ctx, child)
		}))
}

// doneByName remembers the sites whose image it has reported, to save reads.
func doneByName(mgr ctrl.Manager, buggy bool) error {
	c := mgr.GetClient()
	type done struct {
		uid   types.UID
		image string
	}
	sites := map[types.NamespacedName]done{}
	return ctrl.NewControllerManagedBy(mgr).For(&Site{}).Complete(reconcile.Func(
		func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
			s := &Site{}
			if err := c.Get(ctx, request.NamespacedName, s); err != nil {
				delete(sites, request.NamespacedName)
				return ctrl.Result{}, client.IgnoreNotFound(err)
			}
			now := done{s.UID, s.Spec.Image}
			if buggy {
				now.uid = ""
			}
			if sites[request.NamespacedName] == now {
				return ctrl.Result{}, nil
			}
			s.Status.Image = s.Spec.Image
			if err := c.Status().Update(ctx, s); err != nil {
				return ctrl.Result{}, err
			}
			sites[request.NamespacedName] = now
			return ctrl.Result{}, nil
		}))
}

// ports gives each site a port of its own. Which ones are in use has to be read before the first is
// given, since the next process begins with an empty map.
func ports(mgr ctrl.Manager, buggy bool) error {
	c := mgr.GetClient()
	used := map[int]types.UID{}
	return forSites(mgr, func(ctx context.Context, s *Site) (ctrl.Result, error) {
		if s.Status.Port != 0 {
			return ctrl.Result{}, nil
		}
		if !buggy {
			var sites SiteList
			if err := c.List(ctx, &sites); err != nil {
				return ctrl.Result{}, err
			}
			for _, other := range sites.Items {
				if other.Status.Port != 0 {
					used[other.Status.Port] = other.UID
				}
			}
		}
		port := 8000
		for used[port] != "" && used[port] != s.UID {
			port++
		}
		used[port] = s.UID
		s.Status.Port = port
		return ctrl.Result{}, c.Status().Update(ctx, s)
	})
}

// expectations replaces an immutable ConfigMap, and then waits until its cache has seen the deletion and
// the creation. A cache that missed both, and lists again, reports one update instead, so there has to
// be an end to the wait.
func expectations(mgr ctrl.Manager, buggy bool) error {
	type expected struct {
		events int
		since  time.Time
	}
	var mu sync.Mutex
	pending := map[types.NamespacedName]expected{}
	expect := func(key types.NamespacedName, events int) {
		mu.Lock()
		defer mu.Unlock()
		pending[key] = expected{max(0, pending[key].events+events), time.Now()}
	}
	left := func(key types.NamespacedName) expected {
		mu.Lock()
		defer mu.Unlock()
		return pending[key]
	}
	c := mgr.GetClient()
	replace := found(c, func(ctx context.Context, s *Site) (ctrl.Result, error) {
		const patience = 5 * time.Minute
		want, have := release(s), &corev1.ConfigMap{}
		key := client.ObjectKeyFromObject(want)
		if wait := left(key); wait.events > 0 && buggy {
			return ctrl.Result{}, nil
		} else if ends := time.Until(wait.since.Add(patience)); wait.events > 0 && ends > 0 {
			return ctrl.Result{RequeueAfter: ends}, nil
		}
		switch err := c.Get(ctx, key, have); {
		case client.IgnoreNotFound(err) != nil:
			return ctrl.Result{}, err
		case err == nil && have.Data["image"] == s.Spec.Image:
			if s.Status.Image == s.Spec.Image {
				return ctrl.Result{}, nil
			}
			s.Status.Image = s.Spec.Image
			return ctrl.Result{}, c.Status().Update(ctx, s)
		case err == nil:
			expect(key, 1)
			if err := c.Delete(ctx, have, client.Preconditions{UID: &have.UID}); err != nil {
				expect(key, -1)
				return ctrl.Result{}, err
			}
		}
		expect(key, 1)
		if err := c.Create(ctx, want); err != nil {
			expect(key, -1)
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: patience}, nil
	})
	seen := func(o client.Object, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
		expect(client.ObjectKeyFromObject(o), -1)
		queue.Add(ctrl.Request{NamespacedName: client.ObjectKeyFromObject(o)})
	}
	return ctrl.NewControllerManagedBy(mgr).For(&Site{}).Watches(&corev1.ConfigMap{}, handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			seen(e.Object, queue)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			seen(e.Object, queue)
		},
	}).Complete(replace)
}

// oldImage has a ConfigMap for the image of each site, and deletes the one of the image before. The event
// with the old image comes once, and to one process.
func oldImage(mgr ctrl.Manager, buggy bool) error {
	c := mgr.GetClient()
	if !buggy {
		return forSites(mgr, func(ctx context.Context, s *Site) (ctrl.Result, error) {
			current := &corev1.ConfigMap{ObjectMeta: owned(s, "-"+s.Spec.Image)}
			if err := c.Create(ctx, current); client.IgnoreAlreadyExists(err) != nil {
				return ctrl.Result{}, err
			}
			var children corev1.ConfigMapList
			if err := c.List(ctx, &children, labelled(s)...); err != nil {
				return ctrl.Result{}, err
			}
			for _, child := range children.Items {
				if child.Name != current.Name {
					if err := c.Delete(ctx, &child, client.Preconditions{UID: &child.UID}); client.IgnoreNotFound(err) != nil {
						return ctrl.Result{}, err
					}
				}
			}
			return ctrl.Result{}, nil
		}, &corev1.ConfigMap{})
	}
	var mu sync.Mutex
	replaced := map[types.NamespacedName]string{}
	reconciler := found(c, func(ctx context.Context, s *Site) (ctrl.Result, error) {
		if err := c.Create(ctx, &corev1.ConfigMap{ObjectMeta: owned(s, "-"+s.Spec.Image)}); client.IgnoreAlreadyExists(err) != nil {
			return ctrl.Result{}, err
		}
		mu.Lock()
		image := replaced[client.ObjectKeyFromObject(s)]
		mu.Unlock()
		if image == "" {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, client.IgnoreNotFound(c.Delete(ctx, &corev1.ConfigMap{ObjectMeta: owned(s, "-"+image)}))
	})
	enqueue := handler.TypedEnqueueRequestForObject[client.Object]{}
	return ctrl.NewControllerManagedBy(mgr).Named("sites").Watches(&Site{}, handler.Funcs{
		CreateFunc: enqueue.Create,
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			if image := e.ObjectOld.(*Site).Spec.Image; image != e.ObjectNew.(*Site).Spec.Image {
				mu.Lock()
				replaced[client.ObjectKeyFromObject(e.ObjectOld)] = image
				mu.Unlock()
			}
			enqueue.Update(ctx, e, queue)
		},
	}).Complete(reconciler)
}
