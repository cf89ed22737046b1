package main

import (
	"encoding/json"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// manifests holds what manifests/operator.yaml installs.
type manifests struct {
	objects []runtime.Object
	pod     corev1.PodSpec
	rules   map[string][]rbacv1.PolicyRule // by namespace; "" is all namespaces
}

// read reads the manifests. A field that the type of its kind lacks is an error.
func read(t *testing.T) manifests {
	t.Helper()
	text, err := os.ReadFile("manifests/operator.yaml")
	require.NoError(t, err)
	all := manifests{rules: map[string][]rbacv1.PolicyRule{}}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var of struct{ APIVersion, Kind string }
		require.NoError(t, yaml.Unmarshal([]byte(document), &of))
		object, err := scheme.Scheme.New(schema.FromAPIVersionAndKind(of.APIVersion, of.Kind))
		require.NoError(t, err)
		require.NoError(t, yaml.UnmarshalStrict([]byte(document), object))
		all.objects = append(all.objects, object)
		switch object := object.(type) {
		case *appsv1.Deployment:
			all.pod = object.Spec.Template.Spec
			assert.Equal(t, object.Spec.Selector.MatchLabels, object.Spec.Template.Labels)
		case *rbacv1.ClusterRole:
			all.rules[""] = object.Rules
		case *rbacv1.Role:
			all.rules[object.Namespace] = object.Rules
		}
	}
	return all
}

func TestManifestsFitTogether(t *testing.T) {
	all := read(t)
	account, bound := "", 0
	for _, object := range all.objects {
		switch object := object.(type) {
		case *corev1.ServiceAccount:
			account = object.Namespace + "/" + object.Name
		case *rbacv1.ClusterRoleBinding:
			bound++
			assert.Equal(t, account, object.Subjects[0].Namespace+"/"+object.Subjects[0].Name)
		case *rbacv1.RoleBinding:
			bound++
			assert.Equal(t, account, object.Subjects[0].Namespace+"/"+object.Subjects[0].Name)
		case *appsv1.Deployment:
			assert.Equal(t, account, object.Namespace+"/"+object.Spec.Template.Spec.ServiceAccountName)
		}
	}
	assert.Equal(t, len(all.rules), bound)

	container := all.pod.Containers[0]
	for _, probe := range []*corev1.Probe{container.LivenessProbe, container.ReadinessProbe} {
		assert.Greater(t, probe.TimeoutSeconds, int32(5), "%s", probe.HTTPGet.Path)
	}
	limit, err := resource.ParseQuantity(strings.TrimSuffix(container.Env[0].Value, "B"))
	require.NoError(t, err)
	assert.InDelta(t, 0.9, limit.AsApproximateFloat64()/container.Resources.Limits.Memory().AsApproximateFloat64(), 0.01, "GOMEMLIMIT")

	docker, err := os.ReadFile("Dockerfile")
	require.NoError(t, err)
	module, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module)
	assert.Contains(t, string(docker), "FROM golang:"+string(version[1])+" ")
	if assert.True(t, *container.SecurityContext.RunAsNonRoot) {
		assert.Regexp(t, `(?m)^USER [1-9]\d*:\d+$`, string(docker), "the kubelet refuses a user by name")
	}
}

// The API server in memory has no authorization.
func TestRolesPermitTheRequests(t *testing.T) {
	rules := read(t).rules
	permit := func(rules []rbacv1.PolicyRule, verb, group, resource string) bool {
		return slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool {
			return slices.Contains(rule.Verbs, verb) && slices.Contains(rule.APIGroups, group) && slices.Contains(rule.Resources, resource)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		server := start(t)
		inBubble(t, server, func() { waitForDeployment(t, server) })
		requested := map[string]bool{}
		for _, r := range server.Requests() {
			if r.Verb == "" {
				continue // discovery: every account has the ClusterRole system:discovery
			}
			resource := path.Join(r.Resource, r.Subresource)
			requested[r.Verb+" "+resource] = true
			assert.True(t, permit(rules[""], r.Verb, r.Group, resource) || r.Namespace != "" && permit(rules[r.Namespace], r.Verb, r.Group, resource),
				"no role permits %s %s.%s in namespace %q", r.Verb, resource, r.Group, r.Namespace)
		}
		for _, request := range []string{"get apps", "watch apps", "patch apps/status", "get deployments", "watch deployments", "patch deployments", "create events", "update leases", "watch leases"} {
			assert.True(t, requested[request], "%s was not requested", request)
		}
	})
}

// A real API server drops fields that the schema lacks, and refuses an object without one that is required.
func TestDefinitionFitsAnApp(t *testing.T) {
	type schema struct {
		Properties map[string]*schema
		Required   []string
	}
	var definition struct {
		Spec struct {
			Versions []struct {
				Schema struct{ OpenAPIV3Schema *schema }
			}
		}
	}
	text, err := os.ReadFile("manifests/example.com_apps.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &definition))
	encoded, err := json.Marshal(newApp())
	require.NoError(t, err)
	var app map[string]map[string]any
	require.NoError(t, json.Unmarshal(encoded, &app))
	whole := definition.Spec.Versions[0].Schema.OpenAPIV3Schema
	for _, part := range []string{"spec", "status"} {
		assert.NotEmpty(t, app[part])
		for field := range app[part] {
			assert.Contains(t, whole.Properties[part].Properties, field)
		}
	}
	assert.ElementsMatch(t, []string{"metadata", "spec"}, whole.Required, "users create an App without a status")
}
