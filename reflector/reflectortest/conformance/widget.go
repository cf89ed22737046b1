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

// InstallWidgets defines the kind in a real server and waits until it is served.
func InstallWidgets(t *testing.T, config *rest.Config) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	base, _, err := rest.DefaultServerUrlFor(config)
	require.NoError(t, err)
	root := strings.TrimSuffix(base.String(), "/")
	resp, err := client.Post(root+"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/json", bytes.NewBufferString(widgetDefinition))
	require.NoError(t, err)
	resp.Body.Close()
	require.Contains(t, []int{http.StatusCreated, http.StatusConflict}, resp.StatusCode)
	require.Eventually(t, func() bool {
		resp, err := client.Get(root + "/apis/conformance.example.com/v1/widgets")
		if err != nil {
			return false
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}, 30*time.Second, 100*time.Millisecond)
}
