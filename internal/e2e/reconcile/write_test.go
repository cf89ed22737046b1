package reconcile

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/kubereflector/kubereflector/controller/write"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/mapper"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Bucket is a custom resource.
type Bucket struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              BucketSpec   `json:"spec,omitzero"`
	Status            BucketStatus `json:"status,omitzero"`
}

type BucketSpec struct {
	Size  int    `json:"size,omitempty"`
	Color string `json:"color,omitempty"`
}

type BucketStatus struct {
	Used int `json:"used,omitempty"`
}

var (
	buckets    = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "buckets"}
	bucketKind = buckets.GroupVersion().WithKind("Bucket")
)

// install has the server serve buckets, and waits until it does.
func install(t *testing.T, c clients, served func() error) {
	t.Helper()
	all := c.dynamic.Resource(definitions)
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "buckets.example.com"},
		"spec": map[string]any{
			"group": buckets.Group, "scope": "Namespaced",
			"names": map[string]any{"plural": "buckets", "singular": "bucket", "kind": "Bucket", "listKind": "BucketList"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
	_, err := all.Create(t.Context(), definition, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, all.Delete(context.Background(), definition.GetName(), metav1.DeleteOptions{}))
	})
	eventually(t, "buckets", func() bool { return served() == nil })
}

func TestStructIsWrittenToTheServer(t *testing.T) {
	config, c, namespace := connect(t)
	in := mapper.WithDirectory(t.TempDir())
	found, err := mapper.OnDisk(config, in)
	require.NoError(t, err)
	read, err := client.For[*Bucket](config, client.WithKind(bucketKind), client.WithRESTMapper(found))
	require.NoError(t, err)
	read = read.In(namespace)
	_, err = read.List(t.Context(), metav1.ListOptions{})
	require.ErrorIs(t, err, reflector.ErrNotServed)
	install(t, c, func() error {
		_, err := read.List(t.Context(), metav1.ListOptions{}) // has the mapper ask again
		return err
	})

	resource, ctx := read, t.Context()
	t.Run("patches are of one state of one object", func(t *testing.T) {
		made, err := resource.Create(ctx, &Bucket{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: BucketSpec{Size: 1}, Status: BucketStatus{Used: 9}}, metav1.CreateOptions{})
		require.NoError(t, err)
		assert.Zero(t, made.Status, "status is written by itself")
		want := *made
		want.Status.Used = 3
		full, err := write.Status(ctx, resource, made, &want)
		require.NoError(t, err)
		assert.Equal(t, 3, full.Status.Used)
		want = *full
		want.Status.Used = 0
		empty, err := write.Status(ctx, resource, full, &want)
		require.NoError(t, err)
		assert.Zero(t, empty.Status)

		_, err = write.AddFinalizer(ctx, resource, full, "example.com/test")
		assert.True(t, apierrors.IsConflict(err), "%v", err)
		require.NoError(t, write.Delete(ctx, resource, empty))
		again, err := resource.Create(ctx, &Bucket{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		require.NoError(t, write.Delete(ctx, resource, empty), "that one is gone")
		stale := *empty
		stale.ResourceVersion = again.ResourceVersion
		_, err = write.AddFinalizer(ctx, resource, &stale, "example.com/test")
		assert.Error(t, err, "another UID")
		now, err := read.Get(ctx, "a", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, again.UID, now.UID)
		assert.Empty(t, now.Finalizers)
	})
	t.Run("finalizers", func(t *testing.T) {
		made, err := resource.Create(ctx, &Bucket{ObjectMeta: metav1.ObjectMeta{Name: "f"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		cleaned := 0
		finalize := func(held *Bucket) (alive bool) {
			_, alive, err := write.Finalize(ctx, resource, held, "example.com/test", func(context.Context, *Bucket) error { cleaned++; return nil })
			require.NoError(t, err)
			return alive
		}
		assert.True(t, finalize(made))
		require.NoError(t, write.Delete(ctx, resource, made))
		held, err := read.Get(ctx, "f", metav1.GetOptions{})
		require.NoError(t, err)
		_, err = write.AddFinalizer(ctx, resource, held, "example.com/other")
		assert.ErrorIs(t, err, write.ErrDeleting)
		assert.False(t, finalize(held))
		assert.Equal(t, 1, cleaned)
		_, err = read.Get(ctx, "f", metav1.GetOptions{})
		assert.True(t, apierrors.IsNotFound(err), "%v", err)
		assert.False(t, finalize(held), "by an old cache: it may be cleaned twice")
	})
	t.Run("a null in free-form data", func(t *testing.T) {
		type free struct {
			metav1.TypeMeta   `json:",inline"`
			metav1.ObjectMeta `json:"metadata"`
			Spec              map[string]any `json:"spec,omitempty"`
		}
		all, err := client.For[*free](config, client.WithKind(bucketKind), client.WithRESTMapper(found))
		require.NoError(t, err)
		held, err := all.In(namespace).Create(ctx, &free{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: map[string]any{"values": map[string]any{"keep": true}}}, metav1.CreateOptions{})
		require.NoError(t, err)
		change := func(f *free) error {
			f.Spec = map[string]any{"values": map[string]any{"keep": true, "off": nil, "list": []any{map[string]any{"off": nil}}}}
			return nil
		}
		key := store.Key{Namespace: namespace, Name: "n"}
		written, err := write.CreateOrUpdate(ctx, all, held, key, change)
		require.NoError(t, err)
		assert.Contains(t, written.Spec["values"], "off")
		again, err := write.CreateOrUpdate(ctx, all, written, key, change)
		require.NoError(t, err)
		assert.Same(t, written, again)
		adopted, err := write.CreateOrUpdate(ctx, all, nil, key, change)
		require.NoError(t, err)
		assert.Equal(t, written, adopted)
	})
	t.Run("server-side apply", func(t *testing.T) {
		made, err := resource.Apply(ctx, &Bucket{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: BucketSpec{Size: 1, Color: "red"}}, metav1.ApplyOptions{FieldManager: "one"})
		require.NoError(t, err)
		same, err := resource.Apply(ctx, &Bucket{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: BucketSpec{Size: 1, Color: "red"}}, metav1.ApplyOptions{FieldManager: "one"})
		require.NoError(t, err)
		assert.Equal(t, made.ResourceVersion, same.ResourceVersion, "nothing was written")
		less, err := resource.Apply(ctx, &Bucket{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: BucketSpec{Size: 1}}, metav1.ApplyOptions{FieldManager: "one"})
		require.NoError(t, err)
		assert.Empty(t, less.Spec.Color)
		two := &Bucket{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: BucketSpec{Size: 2}}
		_, err = resource.Apply(ctx, two, metav1.ApplyOptions{FieldManager: "two"})
		assert.True(t, apierrors.IsConflict(err), "%v", err)
		taken, err := resource.Apply(ctx, two, metav1.ApplyOptions{FieldManager: "two", Force: true})
		require.NoError(t, err)
		assert.Equal(t, 2, taken.Spec.Size)
	})
}

func TestResourceWritesABuiltInKindToTheServer(t *testing.T) {
	config, _, namespace := connect(t)
	all, err := client.For[*corev1.ConfigMap](config)
	require.NoError(t, err)
	ctx, key := t.Context(), store.Key{Namespace: namespace, Name: "c"}
	made, err := write.CreateOrUpdate(ctx, all, nil, key, func(c *corev1.ConfigMap) error {
		c.Data = map[string]string{"a": "1"}
		return nil
	})
	require.NoError(t, err)
	changed, err := write.CreateOrUpdate(ctx, all, made, key, func(c *corev1.ConfigMap) error {
		c.Data["a"] = "2"
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"a": "2"}, changed.Data)

	owner, err := all.In(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	owned, err := write.Adopt(ctx, all, owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"), changed)
	require.NoError(t, err)
	assert.True(t, metav1.IsControlledBy(owned, owner))
	require.NoError(t, write.Delete(ctx, all, owned))
	require.NoError(t, all.In(namespace).Delete(ctx, "owner", metav1.DeleteOptions{}))
	_, err = all.In(namespace).Get(ctx, "c", metav1.GetOptions{})
	assert.True(t, apierrors.IsNotFound(err), "%v", err)
}

// Role has the fields of a ClusterRole from before resourceNames.
type Role struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Rules             []struct {
		Verbs     []string `json:"verbs"`
		APIGroups []string `json:"apiGroups"`
		Resources []string `json:"resources"`
	} `json:"rules"`
}

// Workload has the fields of a Deployment that a small program reads.
type Workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Template struct {
			Spec struct {
				Containers []struct {
					Name      string                      `json:"name"`
					Image     string                      `json:"image"`
					Resources corev1.ResourceRequirements `json:"resources"`
				} `json:"containers"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

// write-W7 on the real server.
func TestServerKeepsTheMembersOfItemsThatAStructDoesNotName(t *testing.T) {
	config, c, namespace := connect(t)
	ctx := t.Context()
	t.Run("containers of a Deployment", func(t *testing.T) {
		labels := map[string]string{"app": "web"}
		stored, err := c.AppsV1().Deployments(namespace).Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{
				{Name: "web", Image: "web:1", Env: []corev1.EnvVar{{Name: "DB", Value: "<x>"}}, Ports: []corev1.ContainerPort{{ContainerPort: 80}}},
				{Name: "side", Image: "side:1", Env: []corev1.EnvVar{{Name: "A", Value: "1"}}},
			}}},
		}}, metav1.CreateOptions{})
		require.NoError(t, err)
		all, err := client.For[*Workload](config, client.WithKind(appsv1.SchemeGroupVersion.WithKind("Deployment")))
		require.NoError(t, err)
		held, err := all.In(namespace).Get(ctx, "kept", metav1.GetOptions{})
		require.NoError(t, err)
		want := stored.Spec.DeepCopy().Template.Spec.Containers
		held, err = write.CreateOrUpdate(ctx, all, held, store.Key{Namespace: namespace, Name: "kept"}, func(w *Workload) error {
			w.Labels = map[string]string{"new": "label"}
			containers := w.Spec.Template.Spec.Containers
			containers[1].Image = "side:2"
			containers[0], containers[1] = containers[1], containers[0]
			return nil
		})
		require.NoError(t, err)
		want[1].Image = "side:2"
		want[0], want[1] = want[1], want[0]
		stored, err = c.AppsV1().Deployments(namespace).Get(ctx, "kept", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, want, stored.Spec.Template.Spec.Containers)

		// The generated client, whose types name all members, in one request; then the first one is late.
		changed := stored.DeepCopy()
		changed.Spec.Template.Spec.Containers[1].Ports[0].Name = "http"
		changed.Spec.Template.Spec.Containers[1].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("1")}
		changed.Spec.Template.Spec.Tolerations = append(changed.Spec.Template.Spec.Tolerations, corev1.Toleration{Key: "a", Operator: "Exists"})
		written, err := write.Patch(ctx, c.AppsV1().Deployments(namespace), stored, changed)
		require.NoError(t, err)
		assert.Equal(t, changed.Spec, written.Spec)
		late := write.Copy(held)
		late.Spec.Template.Spec.Containers = late.Spec.Template.Spec.Containers[:1]
		_, err = write.Patch(ctx, all, held, late)
		assert.True(t, apierrors.IsConflict(err), "%v", err)
		_, err = write.AddFinalizer(ctx, c.AppsV1().Deployments(namespace), stored, "example.com/test")
		assert.True(t, apierrors.IsConflict(err), "%v", err)

		transformed := written.DeepCopy()
		transformed.Spec.Template.Spec.Containers = transformed.Spec.Template.Spec.Containers[1:]
		changed = transformed.DeepCopy()
		changed.Spec.Template.Spec.Containers[0].Image = "web:3"
		_, err = write.Patch(ctx, c.AppsV1().Deployments(namespace), transformed, changed)
		assert.ErrorIs(t, err, write.ErrTransformed)
		require.NoError(t, write.Delete(ctx, c.AppsV1().Deployments(namespace), written))
	})
	t.Run("rules of a ClusterRole", func(t *testing.T) {
		one := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"one"}}
		stored, err := c.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Rules: []rbacv1.PolicyRule{one}}, metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() {
			assert.NoError(t, c.RbacV1().ClusterRoles().Delete(context.Background(), namespace, metav1.DeleteOptions{}))
		})
		roles, err := client.For[*Role](config, client.WithKind(rbacv1.SchemeGroupVersion.WithKind("ClusterRole")))
		require.NoError(t, err)
		held, err := roles.Get(ctx, namespace, metav1.GetOptions{})
		require.NoError(t, err)
		want := write.Copy(held)
		want.Rules[0].Verbs = []string{"get", "list"}
		_, err = write.Patch(ctx, roles, held, want)
		require.ErrorIs(t, err, write.ErrAmbiguous)
		assert.ErrorContains(t, err, "rules[0]")

		want = write.Copy(held)
		want.Rules = append(want.Rules, want.Rules[0])
		want.Rules[1].Verbs, want.Rules[1].Resources = []string{"list"}, []string{"pods"}
		_, err = write.Patch(ctx, roles, held, want)
		require.NoError(t, err)
		stored, err = c.RbacV1().ClusterRoles().Get(ctx, stored.Name, metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, []rbacv1.PolicyRule{one, {Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}}}, stored.Rules)

		full := stored.DeepCopy()
		full.Rules[0].Verbs = []string{"get", "list"} // this struct names all members
		written, err := write.Patch(ctx, c.RbacV1().ClusterRoles(), stored, full)
		require.NoError(t, err)
		assert.Equal(t, full.Rules, written.Rules)
	})
}

// webhook is asked by the server whether a Deployment may be created.
type webhook struct {
	// mu protects the fields below it.
	mu      sync.Mutex
	refuses bool
	asked   map[string][]time.Time // by the names of Deployments
}

// startWebhook has the server ask about all Deployments of a namespace. They are refused at first.
func (s *sample) startWebhook() *webhook {
	s.Helper()
	h := &webhook{refuses: true, asked: map[string][]time.Time{}}
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	s.Cleanup(server.Close)
	address, fail, none, seconds := server.URL, admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone, int32(5)
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "deployments.example.com", FailurePolicy: &fail, SideEffects: &none, TimeoutSeconds: &seconds, AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: &address, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
			}},
		}},
	}
	configurations := s.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := configurations.Create(s.Context(), configuration, metav1.CreateOptions{})
	require.NoError(s, err)
	eventually(s.T, "the webhook to be asked", func() bool {
		labels := map[string]string{"app": "probe"}
		probe := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "probe", Image: "probe"}}},
			},
		}}
		_, err := s.deployments.Create(s.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsForbidden(err)
	})
	return h
}

// ServeHTTP implements [http.Handler].
func (h *webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "not a review", http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	h.asked[review.Request.Name] = append(h.asked[review.Request.Name], time.Now())
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: !h.refuses}
	h.mu.Unlock()
	if !review.Response.Allowed {
		review.Response.Result = &metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "not today"}
	}
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // the server asks again
}

// allow refuses nothing any more.
func (h *webhook) allow() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuses = false
}

// times returns when it was asked about a Deployment.
func (h *webhook) times(name string) []time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]time.Time(nil), h.asked[name]...)
}
