package simulated

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kubereflector/kubereflector/controller/simulate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

var cleanupPairs = []pair{
	{
		name:     "a finalizer that a crash forgets",
		operator: forgottenFinalizer,
		scenario: simulate.Scenario{Steps: []simulate.Step{create("a"), remove("a")}},
		line:     "crash after update sites/status default/a#1",
		says:     `Site default/a: .metadata.finalizers is absent, undisturbed ["example.com/site"]`,
	},
	{
		name:     "a finalizer that is removed before the clean-up",
		operator: earlyFinalizer(buckets),
		outside: func(buggy bool) func(*simulate.Scenario) func() []string {
			return func(one *simulate.Scenario) func() []string {
				buckets := newBuckets()
				one.Operator = run(func(mgr ctrl.Manager) error { return earlyFinalizer(buckets)(mgr, buggy) })
				return buckets.list
			}
		},
		scenario: simulate.Scenario{Steps: []simulate.Step{create("a"), remove("a")}},
		line:     "crash after update sites default/a#2",
		says:     `outside of the cluster is ["bucket a"], undisturbed []`,
	},
	{
		name:     "an orphan of a quick scale-down",
		operator: orphanClaim,
		scenario: simulate.Scenario{Steps: []simulate.Step{
			simulate.Create(&Site{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Spec: SiteSpec{Replicas: 2}}),
			scale("a", 1),
		}},
		line: "steps 1 and 2 together",
		says: "PersistentVolumeClaim default/a-1 exists",
	},
}

const finalizer = "example.com/site"

// forgottenFinalizer makes a Secret in another namespace, where no owner reference helps. What has to be
// deleted needs the finalizer first: the buggy version takes a site with a status for one that has it.
func forgottenFinalizer(mgr ctrl.Manager, buggy bool) error {
	c := mgr.GetClient()
	return forSites(mgr, func(ctx context.Context, s *Site) (ctrl.Result, error) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: s.Name}}
		if s.DeletionTimestamp != nil {
			if err := c.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
				return ctrl.Result{}, err
			}
			if !controllerutil.RemoveFinalizer(s, finalizer) {
				return ctrl.Result{}, nil
			}
			return ctrl.Result{}, c.Update(ctx, s)
		}
		first := s.Status.Image == ""
		if !buggy && controllerutil.AddFinalizer(s, finalizer) {
			if err := c.Update(ctx, s); err != nil {
				return ctrl.Result{}, err
			}
		}
		if first {
			s.Status.Image = s.Spec.Image
			if err := c.Status().Update(ctx, s); err != nil {
				return ctrl.Result{}, err
			}
		}
		if buggy && first && controllerutil.AddFinalizer(s, finalizer) {
			if err := c.Update(ctx, s); err != nil {
				return ctrl.Result{}, err
			}
		}
		return ctrl.Result{}, client.IgnoreAlreadyExists(c.Create(ctx, secret))
	})
}

// earlyFinalizer has a bucket for each site in a store outside of the cluster. Once the finalizer is
// removed, nothing brings the operator back to delete the bucket.
func earlyFinalizer(buckets *bucketStore) func(ctrl.Manager, bool) error {
	return func(mgr ctrl.Manager, buggy bool) error {
		c := mgr.GetClient()
		return forSites(mgr, func(ctx context.Context, s *Site) (ctrl.Result, error) {
			if s.DeletionTimestamp == nil {
				if controllerutil.AddFinalizer(s, finalizer) {
					return ctrl.Result{}, c.Update(ctx, s)
				}
				return ctrl.Result{}, buckets.create(ctx, s.Name)
			}
			if !controllerutil.RemoveFinalizer(s, finalizer) {
				return ctrl.Result{}, nil
			}
			if buggy {
				if err := c.Update(ctx, s); err != nil {
					return ctrl.Result{}, err
				}
				return ctrl.Result{}, buckets.delete(ctx, s.Name)
			}
			if err := buckets.delete(ctx, s.Name); err != nil {
				return ctrl.Result{}, err
			}
			return ctrl.Result{}, c.Update(ctx, s)
		})
	}
}

// bucketStore stands for a cloud: its state outlives the processes of the operator. Its methods fail once
// their process has ended, as requests to a cloud do.
type bucketStore struct {
	mu    sync.Mutex
	names map[string]bool // guarded by mu
}

// buckets are those of tests that are no simulations.
var buckets = newBuckets()

func newBuckets() *bucketStore { return &bucketStore{names: map[string]bool{}} }

func (b *bucketStore) create(ctx context.Context, name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	b.names[name] = true
	return nil
}

func (b *bucketStore) delete(ctx context.Context, name string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	delete(b.names, name)
	return nil
}

func (b *bucketStore) list() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(b.names)) {
		lines = append(lines, "bucket "+name)
	}
	return lines
}

// orphanClaim has a claim for each replica. The buggy version deletes what the status counts, which is not
// written yet when the user scales down while the claims are being made.
func orphanClaim(mgr ctrl.Manager, buggy bool) error {
	c := mgr.GetClient()
	return forSites(mgr, func(ctx context.Context, s *Site) (ctrl.Result, error) {
		claim := func(i int) *corev1.PersistentVolumeClaim {
			return &corev1.PersistentVolumeClaim{ObjectMeta: owned(s, fmt.Sprintf("-%d", i))}
		}
		for i := range s.Spec.Replicas {
			err := c.Get(ctx, client.ObjectKeyFromObject(claim(i)), claim(i))
			if apierrors.IsNotFound(err) {
				err = client.IgnoreAlreadyExists(c.Create(ctx, claim(i)))
			}
			if err != nil {
				return ctrl.Result{}, err
			}
		}
		if buggy {
			for i := s.Spec.Replicas; i < s.Status.Replicas; i++ {
				if err := c.Delete(ctx, claim(i)); client.IgnoreNotFound(err) != nil {
					return ctrl.Result{}, err
				}
			}
		}
		if !buggy {
			var claims corev1.PersistentVolumeClaimList
			if err := c.List(ctx, &claims, labelled(s)...); err != nil {
				return ctrl.Result{}, err
			}
			for _, one := range claims.Items {
				n, err := strconv.Atoi(strings.TrimPrefix(one.Name, s.Name+"-"))
				if err != nil || n < s.Spec.Replicas {
					continue
				}
				if err := c.Delete(ctx, &one, client.Preconditions{UID: &one.UID}); client.IgnoreNotFound(err) != nil {
					return ctrl.Result{}, err
				}
			}
		}
		if s.Status.Replicas == s.Spec.Replicas {
			return ctrl.Result{}, nil
		}
		s.Status.Replicas = s.Spec.Replicas
		return ctrl.Result{}, c.Status().Update(ctx, s)
	}, &corev1.PersistentVolumeClaim{})
}
