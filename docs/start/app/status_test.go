package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/controller/reconcile"
	"github.com/kubereflector/kubereflector/controller/simulate"
	"github.com/kubereflector/kubereflector/controller/write"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Shop is a custom resource with conditions of two reconcilers.
type Shop struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Status            struct {
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	} `json:"status,omitzero"`
}

var shopKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Shop"}

// save writes the status of a copy of a Shop.
type save func(ctx context.Context, shops *manager.Objects[*Shop], held, want *Shop) error

// runShops has two reconcilers, each of which keeps one condition of each Shop.
func runShops(ctx context.Context, config *rest.Config, save save) error {
	m := manager.New(config)
	shops, err := manager.For[*Shop](m, manager.Selection{Kind: shopKind})
	if err != nil {
		return err
	}
	for _, name := range []string{"Open", "Stocked"} {
		manager.Reconcile(m, name, shops.Informer, func(ctx context.Context, _ store.Key, shop *Shop) (reconcile.Result, error) {
			if shop == nil {
				return reconcile.Result{}, nil
			}
			want := write.Copy(shop)
			condition := metav1.Condition{Type: name, Status: metav1.ConditionTrue, Reason: "AsPlanned", ObservedGeneration: shop.Generation}
			if !meta.SetStatusCondition(&want.Status.Conditions, condition) {
				return reconcile.Result{}, nil
			}
			return reconcile.Result{}, save(ctx, shops, shop, want)
		})
	}
	return m.Run(ctx)
}

func shopsWith(save save) simulate.Scenario {
	shop := &Shop{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "till"}}
	return simulate.Scenario{
		Server: []reflectortest.Option{reflectortest.WithResource(reflectortest.Resource{
			Group: shopKind.Group, Version: shopKind.Version, Kind: shopKind.Kind, Plural: "shops",
			Namespaced: true, Status: true, Prototype: &Shop{},
		})},
		Operator: func(ctx context.Context, config *rest.Config) error { return runShops(ctx, config, save) },
		Steps:    []simulate.Step{simulate.Create(shop), simulate.Delete(shop)},
		Outside: func(run *simulate.Scenario) func() []string {
			var before *Shop
			run.Invariant = func(s *reflectortest.Server) error {
				now := &Shop{ObjectMeta: shop.ObjectMeta}
				if s.Get(now) != nil {
					return nil // it is not there
				}
				last := before
				before = now
				if last == nil || last.UID != now.UID || s.ResourceVersion() < versionOf(last) { // another Shop, or one from a backup
					return nil
				}
				for _, c := range last.Status.Conditions {
					if meta.FindStatusCondition(now.Status.Conditions, c.Type) == nil {
						return fmt.Errorf("the condition %s is lost", c.Type)
					}
				}
				return nil
			}
			return nil
		},
	}
}

func TestTwoReconcilersShareAStatus(t *testing.T) {
	simulate.Explore(t, shopsWith(func(ctx context.Context, shops *manager.Objects[*Shop], held, want *Shop) error {
		_, err := write.Status(ctx, shops.Client, held, want)
		return err
	}))
}

// A patch of the list without a version, as a merge patch by hand, replaces the conditions that the cache did not show.
func TestAPatchOfTheWholeListLosesTheConditionOfTheOther(t *testing.T) {
	found := simulate.Find(t, shopsWith(func(ctx context.Context, shops *manager.Objects[*Shop], held, want *Shop) error {
		patch, err := json.Marshal(map[string]any{"status": want.Status})
		if err == nil {
			_, err = shops.Client.In(held.Namespace).Patch(ctx, held.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		}
		return err
	}))
	require.NotEmpty(t, found)
	assert.Regexp(t, "the condition (Open|Stocked) is lost", found[0].Failures[0])
}

func versionOf(shop *Shop) uint64 {
	version, _ := strconv.ParseUint(shop.ResourceVersion, 10, 64)
	return version
}
