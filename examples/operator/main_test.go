package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

func TestOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		d, err := newDemo(&out, reflectortest.Start(t, custom))
		require.NoError(t, err)
		require.NoError(t, d.run(t.Context()))
		assert.Equal(t, `Three Sites are created:
  Site blog: Ready=False, SecretNotFound: there is no Secret blog-env
  Site shop: Ready=False, Progressing: 0 of 2 replicas are ready
  Site wiki: Ready=False, HostRefused: PUT of host "our wiki": 422 Unprocessable Entity: not a host name
  Deployment shop: 2 replicas of nginx:1.29
  Deployment wiki: 2 replicas of nginx:1.29
  DNS records: ["shop.example.com"]
The Secret of blog is created, and the host of wiki is corrected:
  Site blog: Ready=False, Progressing: 0 of 2 replicas are ready
  Site shop: Ready=False, Progressing: 0 of 2 replicas are ready
  Site wiki: Ready=False, Progressing: 0 of 2 replicas are ready
  Deployment blog: 2 replicas of nginx:1.29
  Deployment shop: 2 replicas of nginx:1.29
  Deployment wiki: 2 replicas of nginx:1.29
  DNS records: ["blog.example.com" "shop.example.com" "wiki.example.com"]
The pods run:
  Site blog: Ready=True, Available: http://blog.example.com
  Site shop: Ready=True, Available: http://shop.example.com
  Site wiki: Ready=True, Available: http://wiki.example.com
  Deployment blog: 2 replicas of nginx:1.29
  Deployment shop: 2 replicas of nginx:1.29
  Deployment wiki: 2 replicas of nginx:1.29
  DNS records: ["blog.example.com" "shop.example.com" "wiki.example.com"]
Another client changes one Deployment and deletes another:
  Site blog: Ready=False, Progressing: 0 of 2 replicas are ready
  Site shop: Ready=False, Progressing: the pods are being replaced
  Site wiki: Ready=True, Available: http://wiki.example.com
  Deployment blog: 2 replicas of nginx:1.29
  Deployment shop: 2 replicas of nginx:1.29
  Deployment wiki: 2 replicas of nginx:1.29
  DNS records: ["blog.example.com" "shop.example.com" "wiki.example.com"]
All Sites are deleted:
  DNS records: []
Events:
  Site blog: Normal Available
  Site blog: Normal Progressing
  Site blog: Warning SecretNotFound
  Site shop: Normal Available
  Site shop: Normal Progressing
  Site wiki: Normal Available
  Site wiki: Normal Progressing
  Site wiki: Warning HostRefused
`, out.String())
	})
}

// TestOperatorIsSmall bounds what a reader has to know: the lines of the two main functions, and
// the names of this library outside of the demonstration.
func TestOperatorIsSmall(t *testing.T) {
	const module = "github.com/kubereflector/kubereflector/"
	lines, names, packages := map[string]int{}, map[string]bool{}, map[string]bool{}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range files {
		if name == "demo.go" || strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, 0)
		require.NoError(t, err)
		imported := map[string]bool{}
		for _, one := range file.Imports {
			path, err := strconv.Unquote(one.Path.Value)
			require.NoError(t, err)
			if ours, ok := strings.CutPrefix(path, module); ok {
				imported[ours[strings.LastIndex(ours, "/")+1:]], packages[ours] = true, true
			}
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.FuncDecl:
				lines[node.Name.Name] = set.Position(node.End()).Line - set.Position(node.Pos()).Line + 1
			case *ast.SelectorExpr:
				if of, ok := node.X.(*ast.Ident); ok && imported[of.Name] {
					names[of.Name+"."+node.Sel.Name] = true
				}
			}
			return true
		})
	}
	assert.LessOrEqual(t, lines["main"], 30)
	assert.LessOrEqual(t, lines["reconcile"], 80)
	assert.LessOrEqual(t, len(names), 23, "%v", names)
	assert.LessOrEqual(t, len(packages), 5, "%v", packages)
	assert.NotEmpty(t, names)
}

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
	text, err := os.ReadFile("manifests/operator.yaml")
	require.NoError(t, err)
	rules := map[string][]rbacv1.PolicyRule{} // by namespace; "" is all namespaces
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var role rbacv1.Role // or a ClusterRole, which has rules as well
		require.NoError(t, yaml.Unmarshal([]byte(document), &role))
		if strings.HasSuffix(role.Kind, "Role") {
			rules[role.Namespace] = role.Rules
		}
	}
	permit := func(rules []rbacv1.PolicyRule, verb, group, resource string) bool {
		return slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool {
			return slices.Contains(rule.Verbs, verb) && slices.Contains(rule.APIGroups, group) && slices.Contains(rule.Resources, resource)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		d, err := newDemo(io.Discard, reflectortest.Start(t, custom))
		require.NoError(t, err)
		require.NoError(t, d.run(t.Context()))
		for _, r := range d.server.Requests() {
			if r.Verb == "" {
				continue // discovery: every account has the ClusterRole system:discovery
			}
			resource := path.Join(r.Resource, r.Subresource)
			assert.True(t, permit(rules[""], r.Verb, r.Group, resource) || r.Namespace != "" && permit(rules[r.Namespace], r.Verb, r.Group, resource),
				"no role permits %s %s.%s in namespace %q", r.Verb, resource, r.Group, r.Namespace)
		}
		for namespace, rules := range rules {
			for _, rule := range rules {
				for _, resource := range rule.Resources {
					base, subresource, _ := strings.Cut(resource, "/")
					requested := d.server.Requests(reflectortest.ForResource(base), func(r reflectortest.Request) bool {
						return r.Subresource == subresource && slices.Contains(rule.Verbs, r.Verb) && (namespace == "" || r.Namespace == namespace)
					})
					assert.True(t, len(requested) > 0 || subresource == "finalizers", "%s is not requested in namespace %q", resource, namespace)
				}
			}
		}
	})
}
