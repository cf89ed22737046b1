package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/controller/simulate"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// secrets are a cache and a client of Secrets.
type secrets = manager.Objects[*corev1.Secret]

// runPasswords is an operator that gives each App a Secret with a password.
func runPasswords(ctx context.Context, config *rest.Config, keep func(context.Context, *secrets, store.Key, *App) error) error {
	m := manager.New(config)
	apps, err := manager.For[*App](m, manager.Selection{Kind: appKind})
	if err != nil {
		return err
	}
	secrets, err := manager.For[*corev1.Secret](m, manager.Selection{})
	if err != nil {
		return err
	}
	manager.Reconcile(m, "passwords", apps.Informer,
		func(ctx context.Context, key store.Key, app *App) (reconcile.Result, error) {
			if app == nil || app.DeletionTimestamp != nil {
				return reconcile.Result{}, nil
			}
			return reconcile.Result{}, keep(ctx, secrets, key, app)
		},
		reconcile.Owns(secrets.Informer, appKind.GroupKind()))
	return m.Run(ctx)
}

func (a *App) secret(password string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: a.Namespace, Name: a.Name,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(a, appKind)},
		},
		Data: map[string][]byte{"password": []byte(password)},
	}
}

// drawnOnce creates the Secret, which fails if there is one that the cache does not show yet.
func drawnOnce(ctx context.Context, secrets *secrets, key store.Key, app *App) error {
	if _, found := secrets.Informer.Cache().Get(key); found {
		return nil
	}
	_, err := secrets.Client.Create(ctx, app.secret(rand.Text()), metav1.CreateOptions{})
	return err
}

// drawnByEachProcess returns a function that applies the password which this process has drawn.
func drawnByEachProcess() func(context.Context, *secrets, store.Key, *App) error {
	drawn := map[types.UID]string{}
	return func(ctx context.Context, secrets *secrets, key store.Key, app *App) error {
		if drawn[app.UID] == "" {
			drawn[app.UID] = rand.Text()
		}
		held, _ := secrets.Informer.Cache().Get(key)
		_, err := secrets.Client.Reapply(ctx, held, app.secret(drawn[app.UID]), asApps)
		return err
	}
}

// samePassword returns an invariant for one run: the password of an App never changes.
func samePassword() func(*reflectortest.Server) error {
	first, last := map[types.UID]string{}, uint64(0)
	return func(s *reflectortest.Server) error {
		if s.ResourceVersion() < last { // the server is back from a backup
			clear(first)
		}
		last = s.ResourceVersion()
		secrets, err := reflectortest.List[*corev1.Secret](s, "")
		for _, secret := range secrets {
			app, password := secret.OwnerReferences[0].UID, string(secret.Data["password"])
			if first[app] != "" && first[app] != password {
				return fmt.Errorf("the password of Secret %s has changed", secret.Name)
			}
			first[app] = password
		}
		return err
	}
}

func withPasswords(operator func(context.Context, *rest.Config) error) simulate.Scenario {
	shop := newApp("shop", 1)
	return simulate.Scenario{
		Server:   []reflectortest.Option{custom},
		Operator: operator,
		Steps:    []simulate.Step{simulate.Create(shop), simulate.Delete(shop)},
		Normalize: func(object map[string]any) {
			if object["kind"] == "Secret" {
				delete(object, "data")
			}
		},
		Outside: func(run *simulate.Scenario) func() []string {
			run.Invariant = samePassword() // of this run alone
			return nil
		},
	}
}

func TestAPasswordIsDrawnOnce(t *testing.T) {
	simulate.Explore(t, withPasswords(func(ctx context.Context, config *rest.Config) error {
		return runPasswords(ctx, config, drawnOnce)
	}))
}

func TestAPasswordOfEachProcessIsFound(t *testing.T) {
	found := simulate.Find(t, withPasswords(func(ctx context.Context, config *rest.Config) error {
		return runPasswords(ctx, config, drawnByEachProcess())
	}))
	require.NotEmpty(t, found)
	assert.Contains(t, found[0].Failures[0], "the password of Secret shop has changed")
}
