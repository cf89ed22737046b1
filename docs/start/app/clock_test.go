package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/controller/simulate"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// runBackups is an operator that makes a backup of each App for every hour since a time.
func runBackups(ctx context.Context, config *rest.Config, since func(*App) time.Time) error {
	m := manager.New(config)
	apps, err := manager.For[*App](m, manager.Selection{Kind: appKind})
	if err != nil {
		return err
	}
	backups, err := manager.For[*corev1.ConfigMap](m, manager.Selection{})
	if err != nil {
		return err
	}
	manager.Reconcile(m, "backups", apps.Informer,
		func(ctx context.Context, key store.Key, app *App) (reconcile.Result, error) {
			if app == nil || app.DeletionTimestamp != nil {
				return reconcile.Result{}, nil
			}
			begin := since(app)
			now := time.Now()                        // once: a RequeueAfter of 0 or less means never
			hours := int(now.Sub(begin) / time.Hour) // that are over
			for hour := 1; hour <= hours; hour++ {
				backup := app.backup(hour)
				if _, made := backups.Informer.Cache().Get(store.Key{Namespace: backup.Namespace, Name: backup.Name}); made {
					continue
				}
				_, err := backups.Client.Create(ctx, backup, metav1.CreateOptions{})
				if err != nil && !apierrors.IsAlreadyExists(err) { // it exists if the cache is behind
					return reconcile.Result{}, err
				}
			}
			return reconcile.Result{RequeueAfter: begin.Add(time.Duration(hours+1) * time.Hour).Sub(now)}, nil
		},
		reconcile.Owns(backups.Informer, appKind.GroupKind()))
	return m.Run(ctx)
}

// backup returns the backup of an hour, whose name is the same whenever it is made.
func (a *App) backup(hour int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: a.Namespace, Name: fmt.Sprintf("%s-%d", a.Name, hour),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(a, appKind)},
	}}
}

// hourly lets the operator act twice, and then be quiet for half an hour.
func hourly(operator func(context.Context, *rest.Config) error) simulate.Scenario {
	shop := newApp("shop", 1)
	return simulate.Scenario{
		Server:   []reflectortest.Option{custom},
		Operator: operator,
		Steps:    []simulate.Step{simulate.Create(shop), simulate.Wait(150 * time.Minute), simulate.Delete(shop)},
	}
}

func TestEachHourHasItsBackup(t *testing.T) {
	simulate.Explore(t, hourly(func(ctx context.Context, config *rest.Config) error {
		created := func(app *App) time.Time { return app.CreationTimestamp.Time }
		return runBackups(ctx, config, created)
	}))
}

// An operator that counts from its own start begins again after each crash.
func TestTheClockOfAProcessIsForgotten(t *testing.T) {
	s := hourly(func(ctx context.Context, config *rest.Config) error {
		start := time.Now()
		return runBackups(ctx, config, func(*App) time.Time { return start })
	})
	const line = "crash after create configmaps default/shop-1#1"
	_, failures := simulate.Play(t, s, line)
	require.NotEmpty(t, failures)
	assert.Contains(t, failures[0], "after step 2 (wait 2h30m) the cluster differs from the undisturbed run: ConfigMap default/shop-2 is missing")
	_, again := simulate.Play(t, s, line)
	assert.Equal(t, failures, again)
}
