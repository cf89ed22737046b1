package reflectortest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

const shelves = `---
# A comment.
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: shelves.example.com
spec:
  group: example.com
  scope: Cluster
  names: {kind: Shelf, plural: shelves, shortNames: [sh], categories: [all]}
  versions:
  - {name: v1alpha1, served: false, storage: false}
  - {name: v1beta1, served: true, storage: false}
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              books:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [title]
                items: {type: object, properties: {title: {type: string}, pages: {type: integer}}}
          status: {type: object, properties: {full: {type: boolean}}}
`

type shelf struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Books []book `json:"books"`
	} `json:"spec"`
	Status struct {
		Full bool `json:"full"`
	} `json:"status"`
}

type book struct {
	Title string `json:"title"`
	Pages int    `json:"pages"`
}

func TestDefinitionIsServed(t *testing.T) {
	server := Start(t, WithDefinition([]byte(shelves), &shelf{}))
	clientset, err := kubernetes.NewForConfig(server.Config())
	require.NoError(t, err)
	var found []string
	for _, version := range []string{"v1alpha1", "v1beta1", "v1"} {
		list, err := clientset.Discovery().ServerResourcesForGroupVersion("example.com/" + version)
		if version == "v1alpha1" {
			assert.True(t, apierrors.IsNotFound(err), "%v", err)
			continue
		}
		require.NoError(t, err)
		for _, r := range list.APIResources {
			assert.False(t, r.Namespaced)
			found = append(found, version+" "+r.Kind+" "+r.Name+" "+r.SingularName+" "+strings.Join(append(r.ShortNames, r.Categories...), " "))
		}
	}
	assert.Equal(t, []string{"v1beta1 Shelf shelves shelf sh all", "v1 Shelf shelves shelf sh all", "v1 Shelf shelves/status  "}, found)

	one := &shelf{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	one.Spec.Books = []book{{"Emma", 500}}
	require.NoError(t, server.Create(one))
	client, err := dynamic.NewForConfig(server.Config())
	require.NoError(t, err)
	resource := client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "shelves"})
	applied := []byte(`{"apiVersion":"example.com/v1","kind":"Shelf","metadata":{"name":"a"},"spec":{"books":[{"title":"Ulysses","pages":700}]},"status":{"full":true}}`)
	_, err = resource.Patch(t.Context(), "a", "application/apply-patch+yaml", applied, metav1.PatchOptions{FieldManager: "test"})
	require.NoError(t, err)
	require.NoError(t, server.Get(one))
	assert.Equal(t, []book{{"Emma", 500}, {"Ulysses", 700}}, one.Spec.Books, "merged by the schema")
	assert.False(t, one.Status.Full, "only /status changes it")
	_, err = resource.Patch(t.Context(), "a", "application/merge-patch+json", []byte(`{"status":{"full":true}}`), metav1.PatchOptions{}, "status")
	require.NoError(t, err)
	require.NoError(t, server.Get(one))
	assert.True(t, one.Status.Full)
}

func TestInvalidDefinitionIsAnError(t *testing.T) {
	for want, manifest := range map[string]string{
		"mapping values are not allowed":       "a: b: c",
		`"Deployment"`:                         "apiVersion: apps/v1\nkind: Deployment\n",
		`the name is "shelf.example.com"`:      strings.Replace(shelves, "name: shelves.", "name: shelf.", 1),
		"the scope is \"\"":                    strings.Replace(shelves, "scope: Cluster", "", 1),
		"shelves.example.com: no version":      strings.ReplaceAll(shelves, "served: true", "served: false"),
		"needs a version, a kind and a plural": strings.Replace(shelves, "kind: Shelf, ", "", 1),
		"schema of shelves":                    strings.Replace(shelves, "type: object", "type: {}", 1),
	} {
		_, err := NewServer(WithDefinition([]byte(manifest), nil))
		assert.ErrorContains(t, err, want)
	}
}
