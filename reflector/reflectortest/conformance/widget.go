package conformance

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

// Widget is the kind of the tables about custom resources.
var Widget = reflectortest.Resource{
	Group: "conformance.example.com", Version: "v1", Kind: "Widget", Plural: "widgets", Namespaced: true, Status: true,
	Schema: []byte(widgetSchema),
}

const widgetSchema = `{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{
"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{
"parts":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{
"type":"object","required":["name"],"properties":{"name":{"type":"string"},"count":{"type":"integer"}}}}}}}}`

const widgetDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"widgets.conformance.example.com"},
"spec":{"group":"conformance.example.com","scope":"Namespaced",
"names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},
"schema":{"openAPIV3Schema":` + widgetSchema + `}}]}}`

// Gadgets is the CustomResourceDefinition of the table about defaults, a manifest for
// [reflectortest.WithDefinition].
var Gadgets = []byte(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"gadgets.conformance.example.com"},
"spec":{"group":"conformance.example.com","scope":"Namespaced",
"names":{"plural":"gadgets","singular":"gadget","kind":"Gadget","listKind":"GadgetList"},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},
"selectableFields":[{"jsonPath":".spec.size"},{"jsonPath":".spec.plain"}],
"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","default":{},"properties":{
"size":{"type":"integer","default":3},
"ratio":{"type":"number","default":0.5},
"note":{"type":"string","nullable":true,"default":"none"},
"plain":{"type":"string"},
"mode":{"type":"object","properties":{"name":{"type":"string","default":"slow"}}},
"whole":{"type":"object","default":{"a":"x"},"properties":{"a":{"type":"string"},"b":{"type":"string","default":"y"}}},
"parts":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name"],
"properties":{"name":{"type":"string"},"count":{"type":"integer","default":1}}}},
"labels":{"type":"object","additionalProperties":{"type":"object","properties":{"on":{"type":"boolean","default":true}}}},
"names":{"type":"object","additionalProperties":{"type":"string","default":"nobody"}},
"tags":{"type":"array","items":{"type":"string","default":"tag"}}}},
"status":{"type":"object","default":{"phase":"New"},"properties":{"phase":{"type":"string"},"ready":{"type":"boolean","default":false}}}}}}}]}}`)

// InstallWidgets defines the kinds of Widget and Gadgets in a real server and waits until they are served.
func InstallWidgets(t *testing.T, config *rest.Config) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	base, _, err := rest.DefaultServerUrlFor(config)
	require.NoError(t, err)
	root := strings.TrimSuffix(base.String(), "/")
	for plural, definition := range map[string][]byte{"widgets": []byte(widgetDefinition), "gadgets": Gadgets} {
		resp, err := client.Post(root+"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/json", bytes.NewReader(definition))
		require.NoError(t, err)
		answer, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		resp.Body.Close()
		require.Contains(t, []int{http.StatusCreated, http.StatusConflict}, resp.StatusCode, "%s", answer)
		require.Eventually(t, func() bool {
			resp, err := client.Get(root + "/apis/conformance.example.com/v1/" + plural)
			if err != nil {
				return false
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			return resp.StatusCode == http.StatusOK
		}, 30*time.Second, 100*time.Millisecond)
	}
}
