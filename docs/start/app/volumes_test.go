package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/controller/simulate"
	"github.com/kubereflector/kubereflector/controller/write"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// cloud is a system outside of the cluster. It has a bucket for the copies of each volume.
type cloud struct {
	mu      sync.Mutex
	buckets map[types.UID]store.Key
	lost    func(store.Key)
}

func newCloud() *cloud { return &cloud{buckets: map[types.UID]store.Key{}} }

func (c *cloud) put(ctx context.Context, app *App) error {
	return simulate.Call(ctx, "put", app.Name, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.buckets[app.UID] = store.Key{Namespace: app.Namespace, Name: app.Name}
		return nil
	})
}

func (c *cloud) drop(ctx context.Context, app *App) error {
	return simulate.Call(ctx, "drop", app.Name, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.buckets, app.UID)
		return nil
	})
}

func (c *cloud) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	for _, key := range c.buckets {
		lines = append(lines, key.String())
	}
	slices.Sort(lines)
	return lines
}

// onLoss registers a function for the keys of lost buckets.
func (c *cloud) onLoss(lost func(store.Key)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = lost
}

func (c *cloud) lose() {
	c.mu.Lock()
	gone, lost := c.buckets, c.lost
	c.buckets = map[types.UID]store.Key{}
	c.mu.Unlock()
	for _, key := range gone {
		lost(key)
	}
}

// runVolumes is an operator that gives each App a volume, and a bucket outside of the cluster. The
// volume must be gone before its bucket is deleted.
func runVolumes(ctx context.Context, config *rest.Config, buckets *cloud) error {
	m := manager.New(config)
	apps, err := manager.For[*App](m, manager.Selection{Kind: appKind})
	if err != nil {
		return err
	}
	claims, err := manager.For[*corev1.PersistentVolumeClaim](m, manager.Selection{})
	if err != nil {
		return err
	}
	reconciler := manager.Reconcile(m, "volumes", apps.Informer,
		func(ctx context.Context, key store.Key, app *App) (reconcile.Result, error) {
			if app == nil {
				return reconcile.Result{}, nil
			}
			held, found := claims.Informer.Cache().Get(key)
			if app.DeletionTimestamp != nil && found && metav1.IsControlledBy(held, app) {
				return reconcile.Result{}, write.Delete(ctx, claims.Client, held) // the next call comes when it is gone
			}
			app, alive, err := write.Finalize(ctx, apps.Client, app, "example.com/bucket", buckets.drop)
			if err != nil || !alive {
				return reconcile.Result{}, err
			}
			if found && !metav1.IsControlledBy(held, app) { // an apply would adopt it, so its data would go with the App
				return reconcile.Result{}, fmt.Errorf("there is a PersistentVolumeClaim %s that is not of this App", key)
			}
			intent := app.claim()
			if found {
				intent.UID = held.UID // not another one of this name, if the cache is behind
			}
			claim, err := claims.Client.Reapply(ctx, held, intent, asApps)
			if err != nil || claim.Status.Phase != corev1.ClaimBound {
				return reconcile.Result{}, err
			}
			return reconcile.Result{}, buckets.put(ctx, app)
		},
		reconcile.Owns(claims.Informer, appKind.GroupKind()),
		reconcile.Where(reconcile.GenerationChanged[*App]))
	buckets.onLoss(reconciler.Enqueue) // with the key of the App
	return m.Run(ctx)
}

func (a *App) claim() *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: a.Namespace, Name: a.Name,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(a, appKind)},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

// withBucket starts the operator, an App and its bound claim.
func withBucket(t *testing.T) (*reflectortest.Server, *cloud, *corev1.PersistentVolumeClaim) {
	t.Helper()
	server, buckets := reflectortest.Start(t, custom), newCloud()
	go runVolumes(t.Context(), server.Config(), buckets)
	app := newApp("shop", 1)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: app.ObjectMeta}
	require.NoError(t, server.Create(app))
	<-time.After(time.Minute)
	require.NoError(t, server.Get(claim))
	assert.Empty(t, buckets.all(), "the claim is not bound")
	claim.Finalizers = []string{"kubernetes.io/pvc-protection"} // a pod uses the volume
	claim.Status.Phase = corev1.ClaimBound
	require.NoError(t, server.Update(claim))
	<-time.After(time.Minute)
	require.Equal(t, []string{"default/shop"}, buckets.all())
	return server, buckets, claim
}

func TestBucketIsDeletedAfterItsVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, buckets, claim := withBucket(t)
		require.NoError(t, server.Delete(newApp("shop", 1)))
		<-time.After(time.Minute)
		assert.NotEmpty(t, buckets.all(), "a pod uses the volume")
		require.NoError(t, server.Get(claim))
		assert.NotNil(t, claim.DeletionTimestamp)
		claim.Finalizers = nil
		require.NoError(t, server.Update(claim))
		<-time.After(time.Minute)
		assert.Empty(t, buckets.all())
		assert.Error(t, server.Get(newApp("shop", 1)), "it is gone")
	})
}

func TestVolumeOfAnotherOwnerIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, buckets := reflectortest.Start(t, custom), newCloud()
		theirs := newApp("shop", 1).claim() // no field differs, so an apply would not conflict
		theirs.OwnerReferences, theirs.Status.Phase = nil, corev1.ClaimBound
		require.NoError(t, server.Create(theirs))
		require.NoError(t, server.Create(newApp("shop", 1)))
		go runVolumes(t.Context(), server.Config(), buckets)
		<-time.After(time.Hour)
		require.NoError(t, server.Get(theirs))
		assert.Empty(t, theirs.OwnerReferences)
		assert.Empty(t, buckets.all())
		require.NoError(t, server.Delete(newApp("shop", 1)))
		<-time.After(time.Hour)
		assert.Error(t, server.Get(newApp("shop", 1)), "the App is gone")
		require.NoError(t, server.Get(theirs))
		assert.Nil(t, theirs.DeletionTimestamp)
	})
}

// Another claim takes the name while an apply for the one of the App is on its way.
func TestVolumeThatTookTheNameIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, _, claim := withBucket(t)
		arrives := make(chan struct{})
		onItsWay := server.Inject(reflectortest.Stall(arrives).On("patch", "persistentvolumeclaims").Times(1))
		claim.Finalizers = nil
		require.NoError(t, server.Update(claim)) // so the App is reconciled
		synctest.Wait()
		require.Equal(t, 1, onItsWay.Hits())
		theirs := newApp("shop", 1).claim() // no field differs, so an apply would not conflict
		theirs.OwnerReferences, theirs.Status.Phase = nil, corev1.ClaimBound
		require.NoError(t, server.Delete(claim))
		require.NoError(t, server.Create(theirs))
		close(arrives)
		<-time.After(time.Hour)
		require.NoError(t, server.Get(theirs))
		assert.Empty(t, theirs.OwnerReferences)
	})
}

func TestLostBucketIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, buckets, _ := withBucket(t)
		buckets.lose()
		<-time.After(time.Minute)
		assert.NotEmpty(t, buckets.all())
	})
}

// bound plays the storage: it binds each claim at once.
func bound(server *reflectortest.Server) (again time.Duration, err error) {
	claims, err := reflectortest.List[*corev1.PersistentVolumeClaim](server, "")
	for _, claim := range claims {
		if claim.DeletionTimestamp == nil && claim.Status.Phase != corev1.ClaimBound {
			claim.Status.Phase = corev1.ClaimBound
			err = errors.Join(err, server.Update(claim))
		}
	}
	return 0, err
}

func TestBucketsUnderSimulatedDisturbances(t *testing.T) {
	shop := newApp("shop", 1)
	simulate.Explore(t, simulate.Scenario{
		Server: []reflectortest.Option{custom},
		Outside: func(run *simulate.Scenario) func() []string {
			buckets := newCloud() // of this run alone
			run.Operator = func(ctx context.Context, config *rest.Config) error {
				return runVolumes(ctx, config, buckets)
			}
			return buckets.all
		},
		Players:    []simulate.Player{bound},
		Steps:      []simulate.Step{simulate.Create(shop), simulate.Delete(shop), simulate.Create(shop)},
		OldServers: true,
		Most:       100,
	})
}
