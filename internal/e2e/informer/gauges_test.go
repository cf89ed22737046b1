package informer

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// Gauge is stored as v1, and read as v2 by way of a webhook.
type Gauge struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Unit  string `json:"unit"`  // may have a default
		Scale string `json:"scale"` // v2 only: what the webhook answers
	} `json:"spec"`
}

// DeepCopyObject implements runtime.Object for controller-runtime.
func (g *Gauge) DeepCopyObject() runtime.Object {
	copied := *g
	g.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	return &copied
}

// GaugeList is what controller-runtime looks up in a scheme.
type GaugeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Gauge `json:"items"`
}

// DeepCopyObject implements runtime.Object for controller-runtime.
func (l *GaugeList) DeepCopyObject() runtime.Object {
	copied := *l
	copied.Items = nil
	for i := range l.Items {
		copied.Items = append(copied.Items, *l.Items[i].DeepCopyObject().(*Gauge))
	}
	return &copied
}

func (g *Gauge) reads() string { return g.Spec.Unit + "/" + g.Spec.Scale }

// reads is what a cache is compared by.
func reads(u *unstructured.Unstructured) string {
	unit, _, _ := unstructured.NestedString(u.Object, "spec", "unit")
	scale, _, _ := unstructured.NestedString(u.Object, "spec", "scale")
	return unit + "/" + scale
}

var gauges = schema.GroupVersionResource{Group: "gauges.example.com", Version: "v2", Resource: "gauges"}

// gaugeWorld is a namespace with Gauges, and what those who cache them are told.
type gaugeWorld struct {
	*testing.T
	config    *rest.Config
	namespace string
	dynamic   dynamic.Interface
	converter string // its URL

	// mu protects the fields below it.
	mu       sync.Mutex
	modified map[string][]string // names of modified objects, by the names of caches
}

func newGaugeWorld(t *testing.T) *gaugeWorld {
	server := shared.Server(t)
	w := &gaugeWorld{T: t, config: server.Config(), namespace: server.Namespace(t), modified: map[string][]string{}}
	closeLater(t, w.config)
	var err error
	w.dynamic, err = dynamic.NewForConfig(w.config)
	require.NoError(t, err)
	w.install()
	v1 := w.dynamic.Resource(gauges.GroupResource().WithVersion("v1")).Namespace(w.namespace)
	for name, unit := range map[string]string{"a": "", "b": "", "given": "inch"} {
		spec := map[string]any{}
		if unit != "" {
			spec["unit"] = unit
		}
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "gauges.example.com/v1", "kind": "Gauge", "spec": spec,
			"metadata": map[string]any{"name": name, "labels": map[string]any{"owned": fmt.Sprint(name == "a")}},
		}}
		eventually(t, "a Gauge to be created", func() bool { // a definition takes its time
			_, err = v1.Create(t.Context(), object, metav1.CreateOptions{})
			return err == nil || apierrors.IsAlreadyExists(err)
		})
	}
	eventually(t, "Gauges to be listed", func() bool { return w.shown("a") == "/one" })
	return w
}

// install defines Gauges, which end with the test.
func (w *gaugeWorld) install() {
	converter := httptest.NewUnstartedServer(http.HandlerFunc(convertGauges))
	converter.Config.ErrorLog = log.New(io.Discard, "", 0)
	converter.StartTLS()
	w.Cleanup(converter.Close)
	w.converter = converter.URL
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: converter.Certificate().Raw})
	version := func(name string, stored bool) map[string]any {
		text := func() map[string]any { return map[string]any{"type": "string"} }
		return map[string]any{"name": name, "served": true, "storage": stored, "schema": map[string]any{"openAPIV3Schema": map[string]any{
			"type": "object", "properties": map[string]any{"spec": map[string]any{
				"type": "object", "properties": map[string]any{"unit": text(), "scale": text()},
			}},
		}}}
	}
	definition := &Definition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: gauges.GroupResource().String()},
		Spec: map[string]any{
			"group": gauges.Group, "scope": "Namespaced",
			"names":    map[string]any{"plural": "gauges", "singular": "gauge", "kind": "Gauge", "listKind": "GaugeList"},
			"versions": []any{version("v1", true), version("v2", false)},
			"conversion": map[string]any{"strategy": "Webhook", "webhook": map[string]any{
				"conversionReviewVersions": []string{"v1"},
				"clientConfig":             map[string]any{"url": converter.URL + "/one", "caBundle": authority},
			}},
		},
	}
	all, err := client.ForResource[*Definition](w.config, definitions, "")
	require.NoError(w, err)
	_, err = all.Create(w.Context(), definition, metav1.CreateOptions{})
	require.NoError(w, err)
	w.Cleanup(func() {
		assert.NoError(w, all.Delete(context.Background(), definition.Name, metav1.DeleteOptions{}))
		assert.NoError(w, wait.PollUntilContextTimeout(context.Background(), 0, patience, true, func(ctx context.Context) (bool, error) {
			_, err := all.Get(ctx, definition.Name, metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		}), "the definition ends before its webhook")
	})
}

// Definition is a CustomResourceDefinition.
type Definition struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              map[string]any `json:"spec"`
}

// convertGauges answers with the last part of the path as the scale of each Gauge in v2.
func convertGauges(w http.ResponseWriter, r *http.Request) {
	var review struct {
		metav1.TypeMeta `json:",inline"`
		Request         *struct {
			UID     types.UID                   `json:"uid"`
			Version string                      `json:"desiredAPIVersion"`
			Objects []unstructured.Unstructured `json:"objects"`
		} `json:"request,omitempty"`
		Response struct {
			UID     types.UID                   `json:"uid"`
			Objects []unstructured.Unstructured `json:"convertedObjects"`
			Result  metav1.Status               `json:"result"`
		} `json:"response"`
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &review)
	}
	if err != nil || review.Request == nil {
		http.Error(w, "not a review", http.StatusBadRequest)
		return
	}
	for _, object := range review.Request.Objects {
		object.SetAPIVersion(review.Request.Version)
		unstructured.RemoveNestedField(object.Object, "spec", "scale")
		if review.Request.Version == gauges.GroupVersion().String() {
			_ = unstructured.SetNestedField(object.Object, strings.TrimPrefix(r.URL.Path, "/"), "spec", "scale") // each has a spec
		}
		review.Response.Objects = append(review.Response.Objects, object)
	}
	review.Response.UID, review.Response.Result.Status = review.Request.UID, metav1.StatusSuccess
	review.Request = nil
	answer, err := json.Marshal(review)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // the server asks again
}

// change patches the definition.
func (w *gaugeWorld) change(patch string) {
	w.Helper()
	_, err := w.dynamic.Resource(definitions).Patch(w.Context(), gauges.GroupResource().String(), types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(w, err)
}

// listed returns what a fresh list says of each object.
func (w *gaugeWorld) listed(of func(*unstructured.Unstructured) string) map[string]string {
	all := map[string]string{}
	list, err := w.dynamic.Resource(gauges).Namespace(w.namespace).List(w.Context(), metav1.ListOptions{})
	if err != nil {
		return nil // the storage of a definition is being replaced
	}
	for _, object := range list.Items {
		all[object.GetName()] = of(&object)
	}
	return all
}

func (w *gaugeWorld) shown(name string) string { return w.listed(reads)[name] }

func (w *gaugeWorld) note(name string, object string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.modified[name] = append(w.modified[name], object)
}

func (w *gaugeWorld) noted(name string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(slices.Values(w.modified[name]))
}

func (w *gaugeWorld) resource() *client.Resource[*Gauge] {
	resource, err := client.ForResource[*Gauge](w.config, gauges, w.namespace)
	require.NoError(w, err)
	return resource
}

func (w *gaugeWorld) metadata() *informer.Informer[informer.Metadata[Gauge]] {
	all, err := metadata.NewForConfig(w.config)
	require.NoError(w, err)
	return informer.NewMetadata[Gauge](all.Resource(gauges).Namespace(w.namespace))
}
