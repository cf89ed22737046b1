package reflectortest_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

const gizmosDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gizmos.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gizmos, kind: Gizmo, shortNames: [gz]}
  versions:
  - {name: v1beta1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
  - {name: v1, served: true, storage: false, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

var (
	definitionsGVR = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	gizmosV1       = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gizmos"}
	gizmosV1beta1  = schema.GroupVersionResource{Group: "example.com", Version: "v1beta1", Resource: "gizmos"}
	gizmoKind      = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gizmo"}
)

func manifest(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &u.Object))
	return u
}

func gizmo(version, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/" + version, "kind": "Gizmo", "metadata": map[string]any{"namespace": "default", "name": name},
	}}
}

// edit changes a definition by the test's own Update.
func edit(t *testing.T, s *reflectortest.Server, change func(crd *unstructured.Unstructured)) {
	t.Helper()
	crd := manifest(t, gizmosDefinition)
	require.NoError(t, s.Get(crd))
	change(crd)
	require.NoError(t, s.Update(crd))
}

func setServed(t *testing.T, crd *unstructured.Unstructured, version string, served bool) {
	t.Helper()
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	require.NoError(t, err)
	for _, v := range versions {
		if v := v.(map[string]any); v["name"] == version {
			v["served"] = served
		}
	}
	require.NoError(t, unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
}

// conditions returns "True Reason" by the type of the condition.
func conditions(t *testing.T, crd *unstructured.Unstructured) map[string]string {
	t.Helper()
	list, _, err := unstructured.NestedSlice(crd.Object, "status", "conditions")
	require.NoError(t, err)
	all := map[string]string{}
	for _, c := range list {
		c := c.(map[string]any)
		all[c["type"].(string)] = fmt.Sprint(c["status"], " ", c["reason"])
	}
	return all
}

func followed(t *testing.T, opts ...reflectortest.Option) (*reflectortest.Server, *dynamic.DynamicClient) {
	t.Helper()
	s := reflectortest.Start(t, append(opts, reflectortest.WithCustomResourceDefinitions())...)
	client, err := dynamic.NewForConfig(s.Config())
	require.NoError(t, err)
	return s, client
}

// events returns the types and names of the next n events, or of all until the end of the watch if n is 0.
func events(t *testing.T, w watch.Interface, n int) []string {
	t.Helper()
	var all []string
	for n == 0 || len(all) < n {
		e, ok := <-w.ResultChan()
		if !ok {
			require.Zero(t, n, "the watch ended after %v", all)
			break
		}
		if u, ok := e.Object.(*unstructured.Unstructured); ok {
			all = append(all, fmt.Sprint(e.Type, " ", u.GetAPIVersion(), " ", u.GetName()))
		} else {
			all = append(all, fmt.Sprint(e.Type, " ", e.Object.(*metav1.Status).Reason))
		}
	}
	return all
}

func TestDefinitionIsEstablishedInAnUpdateOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client := followed(t)
		ctx := t.Context()
		w, err := client.Resource(definitionsGVR).Watch(ctx, metav1.ListOptions{ResourceVersion: "1"})
		require.NoError(t, err)
		defer w.Stop()
		created, err := client.Resource(definitionsGVR).Create(ctx, manifest(t, gizmosDefinition), metav1.CreateOptions{})
		require.NoError(t, err)
		require.Empty(t, conditions(t, created))
		stored, _, err := unstructured.NestedStringSlice(created.Object, "status", "storedVersions")
		require.NoError(t, err)
		require.Equal(t, []string{"v1beta1"}, stored)

		added, modified := (<-w.ResultChan()).Object.(*unstructured.Unstructured), (<-w.ResultChan()).Object.(*unstructured.Unstructured)
		require.Equal(t, created, added)
		require.Equal(t, created.GetGeneration(), modified.GetGeneration())
		require.NotEqual(t, created.GetResourceVersion(), modified.GetResourceVersion())
		require.Equal(t, map[string]string{"NamesAccepted": "True NoConflicts", "Established": "True InitialNamesAccepted"}, conditions(t, modified))
		names, _, err := unstructured.NestedMap(modified.Object, "status", "acceptedNames")
		require.NoError(t, err)
		require.Equal(t, map[string]any{"plural": "gizmos", "singular": "gizmo", "kind": "Gizmo", "listKind": "GizmoList", "shortNames": []any{"gz"}}, names)

		require.NoError(t, s.Create(gizmo("v1", "a")))
		_, err = client.Resource(gizmosV1).Namespace("default").Get(ctx, "a", metav1.GetOptions{})
		require.NoError(t, err)
	})
}

func TestDiscoveryFollowsDefinitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := followed(t)
		client, err := discovery.NewDiscoveryClientForConfig(s.Config())
		require.NoError(t, err)
		announced := func() (aggregated, legacy []string) {
			_, lists, failed, err := client.GroupsAndMaybeResources()
			require.NoError(t, err)
			require.Empty(t, failed)
			for gv, list := range lists {
				if gv.Group == "example.com" {
					for _, r := range list.APIResources {
						aggregated = append(aggregated, gv.Version+" "+r.Name)
					}
				}
			}
			for _, v := range []string{"v1beta1", "v1"} {
				if list, err := client.ServerResourcesForGroupVersion("example.com/" + v); err == nil {
					legacy = append(legacy, v+" "+list.APIResources[0].Name)
				} else {
					require.True(t, apierrors.IsNotFound(err), "%v", err)
				}
			}
			return aggregated, legacy
		}
		aggregated, legacy := announced()
		require.Empty(t, aggregated)
		require.Empty(t, legacy)
		require.NoError(t, s.Create(manifest(t, gizmosDefinition)))
		aggregated, legacy = announced()
		require.ElementsMatch(t, []string{"v1 gizmos", "v1 gizmos/status", "v1beta1 gizmos", "v1beta1 gizmos/status"}, aggregated)
		require.Equal(t, []string{"v1beta1 gizmos", "v1 gizmos"}, legacy)
		groups, err := client.ServerGroups()
		require.NoError(t, err)
		for _, g := range groups.Groups {
			if g.Name == "example.com" {
				require.Equal(t, "v1", g.PreferredVersion.Version)
			}
		}
		edit(t, s, func(crd *unstructured.Unstructured) { setServed(t, crd, "v1", false) })
		aggregated, legacy = announced()
		require.ElementsMatch(t, []string{"v1beta1 gizmos", "v1beta1 gizmos/status"}, aggregated)
		require.Equal(t, []string{"v1beta1 gizmos"}, legacy)
		require.NoError(t, s.Delete(manifest(t, gizmosDefinition)))
		aggregated, legacy = announced()
		require.Empty(t, aggregated)
		require.Empty(t, legacy)
	})
}

func TestVersionsOfADefinitionShareObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client := followed(t)
		ctx := t.Context()
		require.NoError(t, s.Create(manifest(t, gizmosDefinition)))
		beta, stable := client.Resource(gizmosV1beta1).Namespace("default"), client.Resource(gizmosV1).Namespace("default")
		w, err := stable.Watch(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		defer w.Stop()

		created, err := beta.Create(ctx, gizmo("v1beta1", "a"), metav1.CreateOptions{})
		require.NoError(t, err)
		require.Equal(t, "example.com/v1beta1", created.GetAPIVersion())
		got, err := stable.Get(ctx, "a", metav1.GetOptions{})
		require.NoError(t, err)
		require.Equal(t, "example.com/v1", got.GetAPIVersion())
		got.SetAPIVersion("example.com/v1beta1")
		require.Equal(t, created, got)

		// A write without a change makes no version, whatever the version of the API.
		got.SetAPIVersion("example.com/v1")
		same, err := stable.Update(ctx, got, metav1.UpdateOptions{})
		require.NoError(t, err)
		require.Equal(t, created.GetResourceVersion(), same.GetResourceVersion())
		patched, err := stable.Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"size":1}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		require.Equal(t, "example.com/v1", patched.GetAPIVersion())
		require.EqualValues(t, 2, patched.GetGeneration())
		_, err = beta.Update(ctx, created, metav1.UpdateOptions{})
		require.True(t, apierrors.IsConflict(err), "%v", err)

		list, err := beta.List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		require.Equal(t, "example.com/v1beta1", list.Items[0].GetAPIVersion())
		require.Equal(t, patched.GetResourceVersion(), list.Items[0].GetResourceVersion())
		require.NoError(t, beta.Delete(ctx, "a", metav1.DeleteOptions{}))
		require.Equal(t, []string{"ADDED example.com/v1 a", "MODIFIED example.com/v1 a", "DELETED example.com/v1 a"}, events(t, w, 3))
		require.Empty(t, s.Objects()[1:], "only the definition is left")
	})
}

func TestApplyThroughTwoVersionsKeepsBothOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client := followed(t)
		require.NoError(t, s.Create(manifest(t, gizmosDefinition)))
		apply := func(gvr schema.GroupVersionResource, manager, field string) error {
			u := gizmo(gvr.Version, "a")
			u.Object["spec"] = map[string]any{field: manager}
			_, err := client.Resource(gvr).Namespace("default").Apply(t.Context(), "a", u, metav1.ApplyOptions{FieldManager: manager})
			return err
		}
		require.NoError(t, apply(gizmosV1beta1, "one", "left"))
		require.NoError(t, apply(gizmosV1, "two", "right"))
		require.True(t, apierrors.IsConflict(apply(gizmosV1, "two", "left")), "one owns it, by the other version")
		u := gizmo("v1", "a")
		require.NoError(t, s.Get(u))
		var managers []string
		for _, e := range u.GetManagedFields() {
			managers = append(managers, e.Manager+" "+e.APIVersion)
		}
		require.ElementsMatch(t, []string{"one example.com/v1beta1", "two example.com/v1"}, managers)
		require.Equal(t, map[string]any{"left": "one", "right": "two"}, u.Object["spec"])
	})
}

func TestUnservedVersionEndsItsWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client := followed(t)
		ctx := t.Context()
		require.NoError(t, s.Create(manifest(t, gizmosDefinition)))
		require.NoError(t, s.Create(gizmo("v1beta1", "a")))
		gizmos := client.Resource(gizmosV1)
		list, err := gizmos.List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		w, err := gizmos.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
		require.NoError(t, err)
		edit(t, s, func(crd *unstructured.Unstructured) { setServed(t, crd, "v1", false) })
		require.Empty(t, events(t, w, 0))
		_, err = gizmos.List(ctx, metav1.ListOptions{})
		require.True(t, apierrors.IsNotFound(err), "%v", err)
		require.Error(t, s.Create(gizmo("v1", "b")))
		require.NoError(t, s.Create(gizmo("v1beta1", "b")))

		edit(t, s, func(crd *unstructured.Unstructured) { setServed(t, crd, "v1", true) })
		again, err := gizmos.List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		require.Len(t, again.Items, 2)
		require.Equal(t, list.Items[0].GetUID(), again.Items[0].GetUID())
		w, err = gizmos.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
		require.NoError(t, err)
		require.Equal(t, []string{"ERROR Expired"}, events(t, w, 0), "the server has forgotten what was before")
	})
}

func TestStatusAndMetadataOfADefinitionEndNoWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client := followed(t)
		require.NoError(t, s.Create(manifest(t, gizmosDefinition)))
		w, err := client.Resource(gizmosV1).Watch(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		defer w.Stop()
		edit(t, s, func(crd *unstructured.Unstructured) { crd.SetLabels(map[string]string{"l": "v"}) })
		require.NoError(t, s.Create(gizmo("v1", "a")))
		require.Equal(t, []string{"ADDED example.com/v1 a"}, events(t, w, 1))
	})
}

func TestDefinitionIsTakenAwayByItsConditions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client := followed(t)
		ctx := t.Context()
		require.NoError(t, s.Create(manifest(t, gizmosDefinition)))
		set := func(types ...string) {
			edit(t, s, func(crd *unstructured.Unstructured) {
				var list []any
				for _, c := range types {
					list = append(list, map[string]any{"type": c, "status": "False", "reason": "Test", "message": ""})
				}
				list = append(list, map[string]any{"type": "NamesAccepted", "status": "True"})
				require.NoError(t, unstructured.SetNestedSlice(crd.Object, list[:2], "status", "conditions"))
			})
		}
		set("Established", "NamesAccepted")
		_, err := client.Resource(gizmosV1).List(ctx, metav1.ListOptions{})
		require.True(t, apierrors.IsNotFound(err), "%v", err)
		crd := manifest(t, gizmosDefinition)
		require.NoError(t, s.Get(crd))
		require.Equal(t, map[string]string{"Established": "False Test", "NamesAccepted": "False Test"}, conditions(t, crd))
		set("Established") // and its names are accepted, so the server establishes it
		_, err = client.Resource(gizmosV1).List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
	})
}

// A hook for all kinds gets those of definitions, too, in the version of the request.
func TestHooksAndFaultsOfAFollowedKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		s, client := followed(t, reflectortest.WithAdmission(func(_ context.Context, a *reflectortest.Admission[*unstructured.Unstructured]) error {
			switch {
			case a.Resource.Resource != "gizmos":
			case a.Operation == "DELETE":
				seen = append(seen, fmt.Sprint(a.Operation, " ", a.Old.GetAPIVersion()))
			default:
				seen = append(seen, fmt.Sprint(a.Operation, " ", a.Object.GetAPIVersion()))
				a.Object.SetLabels(map[string]string{"hook": "v"})
			}
			return nil
		}))
		ctx := t.Context()
		injected := s.Inject(reflectortest.Answer(500).On("list", "gizmos").Times(1)) // before there is the kind
		require.NoError(t, s.Create(manifest(t, gizmosDefinition)))
		_, err := client.Resource(gizmosV1).List(ctx, metav1.ListOptions{})
		require.True(t, apierrors.IsInternalError(err), "%v", err)
		require.Equal(t, 1, injected.Hits())
		stable := client.Resource(gizmosV1).Namespace("default")
		created, err := stable.Create(ctx, gizmo("v1", "a"), metav1.CreateOptions{})
		require.NoError(t, err)
		require.Equal(t, map[string]string{"hook": "v"}, created.GetLabels())
		_, err = client.Resource(gizmosV1beta1).Namespace("default").Patch(ctx, "a", types.MergePatchType, []byte(`{"spec":{"size":1}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		require.NoError(t, stable.Delete(ctx, "a", metav1.DeleteOptions{}))
		require.Equal(t, []string{"CREATE example.com/v1", "UPDATE example.com/v1beta1", "DELETE example.com/v1"}, seen)
	})
}

// Each version has its own schema: the defaults are those of the version that is read or written.
func TestVersionsOfADefinitionHaveTheirOwnSchemas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client := followed(t)
		ctx := t.Context()
		crd := manifest(t, gizmosDefinition)
		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		require.NoError(t, err)
		for i, fallback := range []string{"old", "new"} {
			schema := manifest(t, `{type: object, properties: {spec: {type: object, default: {}, properties: {`+fallback+`: {type: string, default: x}}}}}`).Object
			require.NoError(t, unstructured.SetNestedMap(versions[i].(map[string]any), schema, "schema", "openAPIV3Schema"))
			require.NoError(t, unstructured.SetNestedSlice(versions[i].(map[string]any), []any{map[string]any{"jsonPath": ".spec." + fallback}}, "selectableFields"))
		}
		require.NoError(t, unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
		require.NoError(t, s.Create(crd))
		require.NoError(t, s.Create(gizmo("v1beta1", "a")))
		list, err := client.Resource(gizmosV1beta1).List(ctx, metav1.ListOptions{FieldSelector: "spec.old=x"})
		require.NoError(t, err)
		require.Equal(t, map[string]any{"old": "x"}, list.Items[0].Object["spec"])
		list, err = client.Resource(gizmosV1).List(ctx, metav1.ListOptions{FieldSelector: "spec.new=x"})
		require.NoError(t, err)
		require.Equal(t, map[string]any{"old": "x", "new": "x"}, list.Items[0].Object["spec"])
		_, err = client.Resource(gizmosV1).List(ctx, metav1.ListOptions{FieldSelector: "spec.old=x"})
		require.True(t, apierrors.IsBadRequest(err), "%v", err)
	})
}

func TestConflictingNamesAreNotAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client := followed(t)
		ctx := t.Context()
		require.NoError(t, s.Create(manifest(t, gizmosDefinition)))
		other := manifest(t, strings.NewReplacer("gizmos", "others", "gz", "ot").Replace(gizmosDefinition))
		require.NoError(t, s.Create(other))
		require.NoError(t, s.Get(other))
		require.Equal(t, map[string]string{"NamesAccepted": "False ListKindConflict", "Established": "False NotAccepted"}, conditions(t, other))
		others := gizmosV1
		others.Resource = "others"
		_, err := client.Resource(others).List(ctx, metav1.ListOptions{})
		require.True(t, apierrors.IsNotFound(err), "%v", err)
		require.NoError(t, s.Delete(manifest(t, gizmosDefinition)))
		_, err = client.Resource(others).List(ctx, metav1.ListOptions{})
		require.NoError(t, err, "the names are free")
		require.NoError(t, s.Delete(other))
	})
}

func TestDeletedDefinitionTakesItsObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client := followed(t)
		ctx := t.Context()
		require.NoError(t, s.Create(manifest(t, gizmosDefinition)))
		require.NoError(t, s.Create(gizmo("v1", "a")))
		require.NoError(t, s.Create(gizmo("v1", "b")))
		before := gizmo("v1", "a")
		require.NoError(t, s.Get(before))
		w, err := client.Resource(gizmosV1beta1).Watch(ctx, metav1.ListOptions{ResourceVersion: before.GetResourceVersion()})
		require.NoError(t, err)
		deleted, err := client.Resource(definitionsGVR).Watch(ctx, metav1.ListOptions{ResourceVersion: before.GetResourceVersion()})
		require.NoError(t, err)
		require.NoError(t, client.Resource(definitionsGVR).Delete(ctx, "gizmos.example.com", metav1.DeleteOptions{}))
		require.Equal(t, []string{"ADDED example.com/v1beta1 b", "DELETED example.com/v1beta1 a", "DELETED example.com/v1beta1 b"}, events(t, w, 0))
		pending := (<-deleted.ResultChan()).Object.(*unstructured.Unstructured)
		require.Equal(t, "True InstanceDeletionPending", conditions(t, pending)["Terminating"])
		require.Equal(t, []string{"customresourcecleanup.apiextensions.k8s.io"}, pending.GetFinalizers())
		require.Equal(t, []string{"MODIFIED apiextensions.k8s.io/v1 gizmos.example.com", "DELETED apiextensions.k8s.io/v1 gizmos.example.com"}, events(t, deleted, 2))
		deleted.Stop()
		_, err = client.Resource(gizmosV1).List(ctx, metav1.ListOptions{})
		require.True(t, apierrors.IsNotFound(err), "%v", err)

		// Created again, with another scope, it is another one.
		require.NoError(t, s.Create(manifest(t, strings.Replace(gizmosDefinition, "Namespaced", "Cluster", 1))))
		list, err := client.Resource(gizmosV1).List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		require.Empty(t, list.Items)
		u := gizmo("v1", "a")
		u.SetNamespace("")
		require.NoError(t, s.Create(u))
		require.NotEqual(t, before.GetUID(), u.GetUID())
		all, err := s.ListKind(gizmoKind, "")
		require.NoError(t, err)
		require.Equal(t, []*unstructured.Unstructured{u}, all)
		w, err = client.Resource(gizmosV1).Watch(ctx, metav1.ListOptions{ResourceVersion: before.GetResourceVersion()})
		require.NoError(t, err)
		require.Equal(t, []string{"ERROR Expired"}, events(t, w, 0))
	})
}

func TestFinalizerOfAnObjectHoldsItsDefinition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client := followed(t)
		ctx := t.Context()
		require.NoError(t, s.Create(manifest(t, gizmosDefinition)))
		held := gizmo("v1", "a")
		held.SetFinalizers([]string{"example.com/x"})
		require.NoError(t, s.Create(held))
		crd := manifest(t, gizmosDefinition)
		require.NoError(t, s.Delete(crd))
		require.NoError(t, s.Get(crd))
		require.Equal(t, "True InstanceDeletionInProgress", conditions(t, crd)["Terminating"])
		_, err := client.Resource(gizmosV1).Namespace("default").Create(ctx, gizmo("v1", "b"), metav1.CreateOptions{})
		require.True(t, apierrors.IsForbidden(err), "%v", err)
		_, err = client.Resource(gizmosV1).Namespace("default").Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		require.NoError(t, err)
		require.True(t, apierrors.IsNotFound(s.Get(crd)))
		_, err = client.Resource(gizmosV1).List(ctx, metav1.ListOptions{})
		require.True(t, apierrors.IsNotFound(err), "%v", err)
	})
}

func TestRestoreBringsADefinitionBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := followed(t)
		require.NoError(t, s.Create(manifest(t, gizmosDefinition)))
		a := gizmo("v1", "a")
		require.NoError(t, s.Create(a))
		version := s.ResourceVersion()
		require.NoError(t, s.Delete(manifest(t, gizmosDefinition)))
		require.Error(t, s.Get(gizmo("v1", "a")))
		require.NoError(t, s.Restore(version))
		again := gizmo("v1", "a")
		require.NoError(t, s.Get(again))
		require.Equal(t, a, again)
		require.NoError(t, s.Restore(1))
		require.Error(t, s.Get(gizmo("v1", "a")))
	})
}

func TestGarbageCollectorFollowsDefinitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := followed(t)
		collect := func() {
			for s.CollectGarbage() {
			}
		}
		dependent := configMap("dependent")
		dependent.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Gizmo", Name: "a", UID: "gone"}}
		require.NoError(t, s.Create(dependent))
		collect()
		require.NoError(t, s.Get(configMap("dependent")), "nobody knows the owner's kind")
		require.NoError(t, s.Create(manifest(t, gizmosDefinition)))
		owner := gizmo("v1beta1", "a")
		require.NoError(t, s.Create(owner))
		require.NoError(t, s.Get(dependent))
		dependent.OwnerReferences[0].UID = owner.GetUID()
		require.NoError(t, s.Update(dependent))
		collect()
		require.NoError(t, s.Get(configMap("dependent")))
		require.NoError(t, s.Delete(owner))
		collect()
		require.True(t, apierrors.IsNotFound(s.Get(configMap("dependent"))))

		// And a namespace takes the objects along, once.
		require.NoError(t, s.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}))
		in := gizmo("v1", "b")
		in.SetNamespace("n")
		require.NoError(t, s.Create(in))
		require.NoError(t, s.Delete(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}))
		collect()
		require.Error(t, s.Get(in))
	})
}

func TestInvalidDefinitionsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := followed(t)
		for _, change := range []string{"gizmos.example.com/other.example.com", "Namespaced/Other", "storage: true/storage: false", "v1beta1/v1", "kind: Gizmo,/"} {
			from, to, _ := strings.Cut(change, "/")
			require.True(t, apierrors.IsInvalid(s.Create(manifest(t, strings.Replace(gizmosDefinition, from, to, 1)))), change)
		}
		require.NoError(t, s.Create(manifest(t, gizmosDefinition)))
		for _, change := range []string{"Namespaced/Cluster", "kind: Gizmo,/kind: Other,"} {
			from, to, _ := strings.Cut(change, "/")
			require.True(t, apierrors.IsInvalid(s.Update(manifest(t, strings.Replace(gizmosDefinition, from, to, 1)))), change)
		}
	})
}

// Requests go on while definitions change; the race detector looks on.
func TestDefinitionsChangeDuringRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client := followed(t)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					gizmos := client.Resource(gizmosV1).Namespace("default")
					_, _ = gizmos.Create(ctx, gizmo("v1", fmt.Sprint("g", i, "-", n)), metav1.CreateOptions{})
					_, _ = gizmos.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=g0-0"})
					if w, err := client.Resource(gizmosV1beta1).Watch(ctx, metav1.ListOptions{TimeoutSeconds: new(int64(1))}); err == nil {
						for range w.ResultChan() {
						}
					}
				}
			})
		}
		for range 10 {
			require.NoError(t, s.Create(manifest(t, gizmosDefinition)))
			edit(t, s, func(crd *unstructured.Unstructured) { setServed(t, crd, "v1", false) })
			synctest.Wait()
			edit(t, s, func(crd *unstructured.Unstructured) { setServed(t, crd, "v1", true) })
			synctest.Wait()
			require.NoError(t, s.Delete(manifest(t, gizmosDefinition)))
		}
		cancel()
		wg.Wait()
	})
}

func TestUnavailableAPIService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, client := followed(t, reflectortest.WithResource(reflectortest.Resource{Group: "metrics.example.com", Version: "v1", Kind: "Sample", Plural: "samples"}))
		ctx := t.Context()
		samples := client.Resource(schema.GroupVersionResource{Group: "metrics.example.com", Version: "v1", Resource: "samples"})
		_, err := samples.List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		service := manifest(t, `{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.metrics.example.com},
			spec: {group: metrics.example.com, version: v1, service: {name: metrics, namespace: default}, groupPriorityMinimum: 100, versionPriority: 100},
			status: {conditions: [{type: Available, status: "False"}]}}`)
		require.NoError(t, s.Create(service))
		_, err = samples.List(ctx, metav1.ListOptions{})
		require.True(t, apierrors.IsServiceUnavailable(err), "%v", err)
		d, err := discovery.NewDiscoveryClientForConfig(s.Config())
		require.NoError(t, err)
		_, err = d.ServerResourcesForGroupVersion("metrics.example.com/v1")
		require.True(t, apierrors.IsServiceUnavailable(err), "%v", err)
		_, lists, failed, err := d.GroupsAndMaybeResources()
		require.NoError(t, err)
		gv := schema.GroupVersion{Group: "metrics.example.com", Version: "v1"}
		require.ErrorAs(t, failed[gv], &discovery.StaleGroupVersionError{})
		require.Nil(t, lists[gv])
		require.NoError(t, unstructured.SetNestedSlice(service.Object, []any{map[string]any{"type": "Available", "status": "True"}}, "status", "conditions"))
		require.NoError(t, s.Update(service))
		_, err = samples.List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
	})
}
