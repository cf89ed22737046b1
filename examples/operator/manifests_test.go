package main

import (
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// A real API server drops fields that the schema lacks.
func TestSchemaHasTheFieldsOfASite(t *testing.T) {
	type schema struct {
		Properties map[string]*schema
		Items      *schema
	}
	var definition struct {
		Spec struct {
			Versions []struct {
				Schema struct{ OpenAPIV3Schema *schema }
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(crd, &definition))
	var check func(path string, of *schema, is reflect.Type)
	check = func(path string, of *schema, is reflect.Type) {
		switch {
		case !assert.NotNil(t, of, "the schema lacks %s", path):
		case is.Kind() == reflect.Pointer:
			check(path, of, is.Elem())
		case is.Kind() == reflect.Slice && is.Elem().Kind() != reflect.Uint8:
			check(path, of.Items, is.Elem())
		case is.Kind() == reflect.Struct && !strings.Contains(is.Name(), "Time"):
			for field := range is.Fields() {
				name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
				check(path+"."+name, of.Properties[name], field.Type)
			}
		}
	}
	for _, version := range definition.Spec.Versions {
		properties := version.Schema.OpenAPIV3Schema.Properties
		check("spec", properties["spec"], reflect.TypeFor[SiteSpec]())
		check("status", properties["status"], reflect.TypeFor[SiteStatus]())
	}
}

// The server in memory has no authorization.
func TestRolesPermitTheRequests(t *testing.T) {
	text, err := os.ReadFile("manifests/rbac.yaml")
	require.NoError(t, err)
	var rules []rbacv1.PolicyRule
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var role rbacv1.Role // or a ClusterRole, which has rules as well
		require.NoError(t, yaml.Unmarshal([]byte(document), &role))
		rules = append(rules, role.Rules...)
	}
	synctest.Test(t, func(t *testing.T) {
		d, err := newDemo(io.Discard, reflectortest.Start(t, custom))
		require.NoError(t, err)
		require.NoError(t, d.run(t.Context()))
		for _, r := range d.server.Requests() {
			resource := strings.TrimSuffix(r.Resource+"/"+r.Subresource, "/")
			assert.True(t, r.Verb == "" || slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool {
				return slices.Contains(rule.Verbs, r.Verb) && slices.Contains(rule.APIGroups, r.Group) && slices.Contains(rule.Resources, resource)
			}), "no role permits %s %s.%s", r.Verb, resource, r.Group)
		}
	})
}
