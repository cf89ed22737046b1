package write

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
)

// Workload has the fields of a Deployment that a small program reads.
type Workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Template struct {
			Spec struct {
				Containers []struct {
					Name  string          `json:"name"`
					Image string          `json:"image"`
					Env   []corev1.EnvVar `json:"env,omitempty"`
				} `json:"containers"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

// Role has the fields of a ClusterRole from before resourceNames.
type Role struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Rules             []struct {
		Verbs     []string `json:"verbs"`
		APIGroups []string `json:"apiGroups,omitempty"`
		Resources []string `json:"resources,omitempty"`
	} `json:"rules"`
}

func clientOf[T metav1.Object](t *testing.T, server *reflectortest.Server, kind schema.GroupVersionKind) *client.Resource[T] {
	t.Helper()
	all, err := client.For[T](server.Config(), client.WithKind(kind))
	require.NoError(t, err)
	return all
}

// deployment is stored by the server. It has members of containers that a Workload does not show.
func deployment(t *testing.T, server *reflectortest.Server) *appsv1.Deployment {
	t.Helper()
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "web", Image: "web:1", Env: []corev1.EnvVar{{Name: "DB", Value: "x"}}, Ports: []corev1.ContainerPort{{ContainerPort: 53, Protocol: "TCP"}, {ContainerPort: 53, Protocol: "UDP"}}},
			{Name: "side", Image: "side:1", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse("1Gi")}}},
		}}}}}
	require.NoError(t, server.Create(d))
	require.NoError(t, server.Get(d))
	return d
}

// write-W7: a matched item keeps the members that the struct does not name.
func TestChangeOfOneContainerKeepsWhatTheStructDoesNotName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		stored, key := deployment(t, server), store.Key{Namespace: "ns", Name: "web"}
		workloads := clientOf[*Workload](t, server, appsv1.SchemeGroupVersion.WithKind("Deployment"))
		held, err := workloads.In("ns").Get(t.Context(), "web", metav1.GetOptions{})
		require.NoError(t, err)
		server.ForgetRequests()

		_, err = CreateOrUpdate(t.Context(), workloads, held, key, func(w *Workload) error {
			containers := w.Spec.Template.Spec.Containers
			containers[1].Image = "side:2"
			w.Spec.Template.Spec.Containers[0], w.Spec.Template.Spec.Containers[1] = containers[1], containers[0]
			w.Labels = map[string]string{"new": "label"}
			return nil
		})
		require.NoError(t, err)
		assert.Len(t, server.Requests(), 1)
		want := stored.Spec.Template.Spec.Containers
		want[1].Image = "side:2"
		want[0], want[1] = want[1], want[0]
		require.NoError(t, server.Get(stored))
		assert.Equal(t, want, stored.Spec.Template.Spec.Containers, "they have changed places with all members")
		assert.Equal(t, "label", stored.Labels["new"])
	})
}

func TestGeneratedClientsWriteListsOfStructsThatNameAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		held := deployment(t, server)
		clientset, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		want := held.DeepCopy()
		containers := want.Spec.Template.Spec.Containers
		containers[0].Ports[1].Name = "dns" // two ports have one number, and one of them has a name
		containers[0].Env = append(containers[0].Env, corev1.EnvVar{Name: "B", Value: "<&>"})
		containers[1].Args = []string{"a"}
		containers[1].Resources.Limits["cpu"] = resource.MustParse("1")
		want.Spec.Template.Annotations = map[string]string{"a/b~c": "d"}
		got, err := Patch(t.Context(), clientset.AppsV1().Deployments("ns"), held, want)
		require.NoError(t, err)
		assert.Equal(t, want.Spec, got.Spec)
		assert.Len(t, server.Requests(), 1)
	})
}

// The server prints null for a nil list of a field without omitempty.
func TestGeneratedClientsWriteItemsWithNilLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		clientset, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		schemas := clientset.FlowcontrolV1().FlowSchemas()
		rule := flowcontrolv1.ResourcePolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}, ClusterScope: true}
		held, err := schemas.Create(t.Context(), &flowcontrolv1.FlowSchema{
			ObjectMeta: metav1.ObjectMeta{Name: "f"},
			Spec: flowcontrolv1.FlowSchemaSpec{Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects: []flowcontrolv1.Subject{{Kind: "Group", Group: &flowcontrolv1.GroupSubject{Name: "a"}}}, ResourceRules: []flowcontrolv1.ResourcePolicyRule{rule},
			}}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		want := held.DeepCopy()
		want.Spec.Rules[0].Subjects = append(want.Spec.Rules[0].Subjects, flowcontrolv1.Subject{Kind: "Group", Group: &flowcontrolv1.GroupSubject{Name: "b"}})
		got, err := Patch(t.Context(), schemas, held, want)
		require.NoError(t, err)
		assert.Equal(t, want.Spec, got.Spec)
	})
}

// write-W7: a change that is ambiguous is refused, with its path.
func TestAmbiguousChangeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		one := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"one"}}
		other := rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}}
		require.NoError(t, server.Create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: []rbacv1.PolicyRule{one, other, one}}))
		kind := rbacv1.SchemeGroupVersion.WithKind("ClusterRole")
		roles, full := clientOf[*Role](t, server, kind), clientOf[*rbacv1.ClusterRole](t, server, kind)
		held, err := roles.Get(t.Context(), "r", metav1.GetOptions{})
		require.NoError(t, err)
		for path, change := range map[string]func(*Role){
			"rules[0]": func(r *Role) { r.Rules[0].Verbs = []string{"get", "list"} },        // an edit, or another rule
			"rules":    func(r *Role) { r.Rules[2].Resources = []string{"pods"} },           // that of two equal ones
			"rules[":   func(r *Role) { r.Rules = r.Rules[1:] },                             // which one of two equal ones?
			"rules[0":  func(r *Role) { r.Rules[0], r.Rules[1] = r.Rules[1], r.Rules[0] },   // equal ones may have changed places
			"r":        func(r *Role) { r.Rules = append(r.Rules, r.Rules[0], r.Rules[0]) }, // which one is new?
		} {
			for _, through := range []Patcher[*Role]{roles, patchOnly[*Role]{roles}} {
				want := Copy(held)
				change(want)
				_, err = Patch(t.Context(), through, held, want)
				require.ErrorIs(t, err, ErrAmbiguous, path)
				assert.ErrorContains(t, err, path)
				assert.ErrorContains(t, err, "name the fields in the struct, or Apply or Update")
				assert.LessOrEqual(t, len(err.Error()), 1<<10)
			}
		}
		stored, err := full.Get(t.Context(), "r", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, []rbacv1.PolicyRule{one, other, one}, stored.Rules)
		assert.Equal(t, held.ResourceVersion, stored.ResourceVersion)

		want := Copy(held)
		want.Rules[1].Verbs = []string{"watch"} // this one has no other members
		got, err := Patch(t.Context(), roles, held, want)
		require.NoError(t, err)
		other.Verbs = []string{"watch"}
		stored, err = full.Get(t.Context(), "r", metav1.GetOptions{})
		require.NoError(t, err)
		assert.Equal(t, []rbacv1.PolicyRule{one, other, one}, stored.Rules)

		want = Copy(got)
		want.Rules = append(want.Rules[:2:2], want.Rules[0:0]...)
		want.Rules = want.Rules[1:] // no rule is left that may be one of the two
		_, err = Patch(t.Context(), roles, got, want)
		require.NoError(t, err)
		require.NoError(t, server.Get(stored))
		assert.Equal(t, []rbacv1.PolicyRule{other}, stored.Rules)
	})
}

// Route encodes itself, as Istio's types do, and knows two members.
type Route struct {
	name   string
	weight json.Number
}

func (r Route) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"route": r.name, "weight": r.weight})
}

func (r *Route) UnmarshalJSON(data []byte) error {
	content, err := decodeDocument(data)
	r.name, _ = content["route"].(string)
	r.weight, _ = content["weight"].(json.Number)
	if text, ok := content["weight"].(string); ok {
		r.weight = json.Number(text)
	}
	return err
}

// Routes encode themselves, too, so that no Go type names any member of the list.
type Routes struct{ HTTP []Route }

func (r Routes) MarshalJSON() ([]byte, error) { return json.Marshal(map[string]any{"http": r.HTTP}) }

func (r *Routes) UnmarshalJSON(data []byte) error {
	content := struct {
		HTTP []Route `json:"http"`
	}{}
	err := json.Unmarshal(data, &content)
	r.HTTP = content.HTTP
	return err
}

// Host is a text, which the server stores as an object.
type Host string

func (h *Host) UnmarshalJSON(data []byte) error {
	content, err := decodeDocument(data)
	name, _ := content["host"].(string)
	*h = Host(name)
	return err
}

type Routed[Spec any] struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              Spec `json:"spec"`
}

// write-W7 holds for types that encode themselves: they name no members, so their values decide.
func TestItemsThatEncodeThemselvesLoseNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type items = struct {
			HTTP []Route `json:"http"`
		}
		type hosts = struct {
			HTTP []Host `json:"http"`
		}
		refused := []string{
			`[{"route":"a","weight":1,"tls":{"mode":"X"}}]`, `[{"route":"a","weight":1,"off":false}]`,
			`[{"route":"b","weight":2},{"route":"a","weight":1,"tls":{}},{"route":"a","weight":1}]`,
		}
		written := []string{`[{"route":"a","weight":1}]`, `[{"route":"a","weight":"1"}]`, `[{"route":"a","weight":1,"tls":null}]`}
		weigh := func(routes []Route) { routes[len(routes)-1].weight = "2" }
		changeItems(t, func(r *items) { weigh(r.HTTP) }, refused, written)
		changeItems(t, func(r *Routes) { weigh(r.HTTP) }, refused, written)
		changeItems(t, func(r *hosts) { r.HTTP[0] = "b" }, []string{`[{"host":"a","port":1}]`}, nil)
		changeItems(t, func(r *hosts) { r.HTTP = nil }, nil, []string{`[{"host":"a","port":1}]`})
	})
}

// changeItems changes objects with lists that the server has.
func changeItems[Spec any](t *testing.T, change func(*Spec), refused, written []string) {
	t.Helper()
	for _, list := range append(refused, written...) {
		server := reflectortest.Start(t, reflectortest.WithResource(reflectortest.Resource{Group: "example.com", Version: "v1", Kind: "Watched", Plural: "watcheds", Namespaced: true}))
		require.NoError(t, server.Create(unstructuredOf(t, `{"spec":{"http":`+list+`}}`)))
		all := clientOf[*Routed[Spec]](t, server, watchedKind)
		held, err := all.In("ns").Get(t.Context(), "w", metav1.GetOptions{})
		require.NoError(t, err)
		want, err := all.In("ns").Get(t.Context(), "w", metav1.GetOptions{})
		require.NoError(t, err)
		change(&want.Spec)
		_, err = Patch(t.Context(), all, held, want)
		if slices.Contains(written, list) {
			require.NoError(t, err, list)
			continue
		}
		require.ErrorIs(t, err, ErrAmbiguous, list)
		require.ErrorContains(t, err, "spec.http")
		now := unstructuredOf(t, `{}`)
		require.NoError(t, server.Get(now))
		items, err := json.Marshal(now.Object["spec"].(map[string]any)["http"])
		require.NoError(t, err)
		assert.JSONEq(t, list, string(items))
	}
}

// pair encodes itself as a list.
type pair struct{ low, high int }

func (p pair) MarshalJSON() ([]byte, error) { return json.Marshal([2]int{p.low, p.high}) }
func (p *pair) UnmarshalJSON(data []byte) error {
	var list [2]int
	err := json.Unmarshal(data, &list)
	p.low, p.high = list[0], list[1]
	return err
}

// Such a field prints zeros also where the server has fewer items, or no list.
func TestListOfAFixedLengthThatTheServerLacksIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type ranges struct {
			Range  [2]int     `json:"range"`
			Pair   pair       `json:"pair"`
			Routes [2]Visible `json:"routes"`
		}
		for content, tc := range map[string]struct {
			change func(*ranges)
			want   string // empty if the change is ambiguous
		}{
			`{"a":1}`:                             {func(r *ranges) { r.Range[0] = 5 }, `{"a":1,"range":[5,0]}`},
			`{"range":[1]}`:                       {func(r *ranges) { r.Range[1] = 5 }, `{"range":[1,5]}`},
			`{"range":[1,2]}`:                     {func(r *ranges) { r.Range[1] = 5 }, `{"range":[1,5]}`},
			`{"b":1}`:                             {func(r *ranges) { r.Pair.low = 5 }, `{"b":1,"pair":[5,0]}`},
			`{"c":1}`:                             {func(r *ranges) { r.Routes[1].Shown = 5 }, `{"c":1,"routes":[{"shown":0},{"shown":5}]}`},
			`{"routes":[{"shown":1,"hidden":2}]}`: {func(r *ranges) { r.Routes[1].Shown = 5 }, `{"routes":[{"shown":1,"hidden":2},{"shown":5}]}`},
			`{"routes":[{"shown":3,"hidden":2}]}`: {func(r *ranges) { r.Routes[0], r.Routes[1] = r.Routes[1], r.Routes[0] }, `{"routes":[{"shown":0},{"shown":3,"hidden":2}]}`},
			`{"routes":[{}]}`:                     {func(r *ranges) { r.Routes[0].Shown = 5 }, `{"routes":[{"shown":5},{}]}`},
			`{"routes":[{"hidden":2}]}`:           {func(r *ranges) { r.Routes[0].Shown = 5 }, ""}, // item 1, which the server lacks, looks like item 0
			`{"routes":[{"shown":0,"hidden":2}]}`: {func(r *ranges) { r.Routes[0].Shown = 5 }, ""},
			`{"routes":[{"shown":4,"hidden":2}]}`: {func(r *ranges) { r.Routes[0].Shown = 5 }, ""},
		} {
			server := reflectortest.Start(t, reflectortest.WithResource(reflectortest.Resource{Group: "example.com", Version: "v1", Kind: "Watched", Plural: "watcheds", Namespaced: true}))
			require.NoError(t, server.Create(unstructuredOf(t, `{"spec":`+content+`}`)))
			all := clientOf[*Routed[ranges]](t, server, watchedKind)
			held, err := all.In("ns").Get(t.Context(), "w", metav1.GetOptions{})
			require.NoError(t, err)
			want := Copy(held)
			tc.change(&want.Spec)
			_, err = Patch(t.Context(), all, held, want)
			if tc.want == "" {
				require.ErrorIs(t, err, ErrAmbiguous, content)
				continue
			}
			require.NoError(t, err, content)
			now := unstructuredOf(t, `{}`)
			require.NoError(t, server.Get(now))
			spec, err := json.Marshal(now.Object["spec"])
			require.NoError(t, err)
			assert.JSONEq(t, tc.want, string(spec))
		}
	})
}

// Visible shows one member of an item.
type Visible struct {
	Shown int `json:"shown"`
}

// patchOnly is a client that can only patch.
type patchOnly[T any] struct{ Patcher[T] }

func TestItemsOfWhichNothingIsShownAreNotMistaken(t *testing.T) {
	type none struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Rules             []struct{} `json:"rules"`
	}
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		rule := func(name string) rbacv1.PolicyRule { return rbacv1.PolicyRule{Verbs: []string{name}} }
		require.NoError(t, server.Create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: []rbacv1.PolicyRule{rule("a"), rule("b")}}))
		roles := clientOf[*none](t, server, rbacv1.SchemeGroupVersion.WithKind("ClusterRole"))
		held, err := roles.Get(t.Context(), "r", metav1.GetOptions{})
		require.NoError(t, err)
		want := Copy(held)
		want.Rules = want.Rules[1:]
		_, err = Patch(t.Context(), roles, held, want)
		require.ErrorIs(t, err, ErrAmbiguous)
		want.Rules = nil // all of them
		got, err := Patch(t.Context(), roles, held, want)
		require.NoError(t, err)
		assert.Empty(t, got.Rules)
	})
}

func TestListThatATransformChangedIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		stored := deployment(t, server)
		all := clientOf[*appsv1.Deployment](t, server, appsv1.SchemeGroupVersion.WithKind("Deployment"))
		clientset, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		type containers = []corev1.Container
		for name, changes := range map[string][2]func(containers) containers{
			"an item was dropped from the front": {
				func(c containers) containers { return c[1:] },
				func(c containers) containers { c[0].Image = "side:2"; return c },
			},
			"an item was dropped from the end": {
				func(c containers) containers { return c[:1] },
				func(c containers) containers { return append(c, corev1.Container{Name: "side", Image: "new"}) },
			},
			"the order was changed": {
				func(c containers) containers { return containers{c[1], c[0]} },
				func(c containers) containers { c[0].Image = "side:2"; return c },
			},
			"a list was dropped from an item": {
				func(c containers) containers { c[0].Env = nil; return c },
				func(c containers) containers { c[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}}; return c },
			},
			"the list was dropped": {
				func(containers) containers { return nil },
				func(containers) containers { return containers{{Name: "web", Image: "web:2"}} },
			},
			"all are removed": {
				func(c containers) containers { return c[:1] },
				func(containers) containers { return nil },
			},
		} {
			for client, through := range map[string]Patcher[*appsv1.Deployment]{"ours": all, "generated": clientset.AppsV1().Deployments("ns")} {
				held := stored.DeepCopy()
				held.Spec.Template.Spec.Containers = changes[0](held.Spec.Template.Spec.Containers)
				want := held.DeepCopy()
				want.Spec.Template.Spec.Containers = changes[1](want.Spec.Template.Spec.Containers)
				_, err := Patch(t.Context(), through, held, want)
				require.ErrorIs(t, err, ErrTransformed, "%s, %s", name, client)
				assert.ErrorContains(t, err, "spec.template.spec.containers")
			}
		}
		held := stored.DeepCopy()
		held.Finalizers = nil
		stored.Finalizers = []string{"example.com/other"}
		require.NoError(t, server.Update(stored.DeepCopy()))
		require.NoError(t, server.Get(stored))
		held.ResourceVersion = stored.ResourceVersion
		_, err = AddFinalizer(t.Context(), all, held, "example.com/one")
		require.ErrorIs(t, err, ErrTransformed)
		now := stored.DeepCopy()
		require.NoError(t, server.Get(now))
		assert.Equal(t, stored, now)
	})
}

// write-W2: a transform of an informer may leave out entries of a map. They belong to others, and stay.
func TestLastEntryThatIsHeldTakesNoOtherOfTheMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, withList := range []bool{false, true} {
			for _, nilMap := range []bool{false, true} {
				server := reflectortest.Start(t)
				stored := deployment(t, server)
				mine, both := map[string]string{"mine": "1"}, map[string]string{"mine": "1", "others": "2"}
				stored.Annotations, stored.Labels, stored.Spec.Template.Spec.NodeSelector = both, both, both
				stored.Finalizers = []string{"example.com/one"}
				require.NoError(t, server.Update(stored.DeepCopy()))
				require.NoError(t, server.Get(stored))
				kept := map[string]string{}
				if nilMap {
					kept = nil
				}

				held := stored.DeepCopy()
				held.Annotations, held.Labels, held.Spec.Template.Spec.NodeSelector = mine, mine, mine
				want := held.DeepCopy()
				want.Annotations, want.Labels, want.Spec.Template.Spec.NodeSelector = kept, kept, kept
				if withList {
					want.Finalizers = nil
				}
				all := clientOf[*appsv1.Deployment](t, server, appsv1.SchemeGroupVersion.WithKind("Deployment"))
				got, err := Patch(t.Context(), all, held, want)
				require.NoError(t, err)
				others := map[string]string{"others": "2"}
				assert.Equal(t, others, got.Annotations)
				assert.Equal(t, others, got.Labels)
				assert.Equal(t, others, got.Spec.Template.Spec.NodeSelector)

				free := unstructured.Unstructured{}
				free.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
				free.SetNamespace("ns")
				free.SetName("web")
				require.NoError(t, server.Get(&free))
				seen := free.DeepCopy()
				seen.SetAnnotations(nil)
				seen.SetLabels(map[string]string{"mine": "1"})
				require.NoError(t, server.Update(func() *unstructured.Unstructured {
					labelled := free.DeepCopy()
					labelled.SetLabels(both)
					return labelled
				}()))
				require.NoError(t, server.Get(&free))
				seen.SetResourceVersion(free.GetResourceVersion())
				wanted := seen.DeepCopy()
				wanted.SetLabels(kept)
				if withList {
					wanted.SetFinalizers([]string{"example.com/two"})
				}
				done, err := Patch(t.Context(), clientOf[*unstructured.Unstructured](t, server, appsv1.SchemeGroupVersion.WithKind("Deployment")), seen, wanted)
				require.NoError(t, err)
				assert.Equal(t, others, done.GetLabels())
				assert.Equal(t, others, done.GetAnnotations())
			}
		}
	})
}

// The server of a custom resource stores an empty map, and its schema may refuse one.
func TestMapOfACustomResourceGoesAsAWhole(t *testing.T) {
	type object struct {
		metav1.ObjectMeta `json:"metadata"`
		Selector          map[string]string              `json:"selector,omitempty"`
		Zones             map[string]corev1.ResourceList `json:"zones,omitempty"`
		Template          corev1.PodSpec                 `json:"template"`
	}
	held := &object{
		Selector: map[string]string{"a": "b"},
		Zones:    map[string]corev1.ResourceList{"a": {"cpu": resource.MustParse("1")}, "b": {"cpu": resource.MustParse("1")}},
		Template: corev1.PodSpec{NodeSelector: map[string]string{"a": "b"}},
	}
	held.Labels = map[string]string{"a": "b"}
	patch, err := mergePatchOf(held, &object{Zones: map[string]corev1.ResourceList{"b": held.Zones["b"]}})
	require.NoError(t, err)
	entry := map[string]any{"a": nil}
	assert.Equal(t, map[string]any{
		"selector": nil, "zones": entry, "metadata": map[string]any{"labels": entry}, "template": map[string]any{"nodeSelector": entry},
	}, patch)
}

// write-W2 holds for lists, too: the server could not apply the change at all.
func TestListThatAnotherClientChangedIsAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		held := deployment(t, server)
		all := clientOf[*appsv1.Deployment](t, server, appsv1.SchemeGroupVersion.WithKind("Deployment"))
		clientset, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		other := held.DeepCopy()
		other.Spec.Template.Spec.Containers = other.Spec.Template.Spec.Containers[1:]
		require.NoError(t, server.Update(other))
		want := held.DeepCopy()
		want.Spec.Template.Spec.Containers[1].Image = "side:2"
		for _, through := range []Patcher[*appsv1.Deployment]{all, clientset.AppsV1().Deployments("ns")} {
			_, err := Patch(t.Context(), through, held, want)
			assert.True(t, apierrors.IsConflict(err), "%v", err)
			assert.ErrorContains(t, err, "reconcile the key again")
		}
		forbidden := server.Inject(reflectortest.AnswerStatus(metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "no permission"}).On("get", "deployments"))
		for _, through := range []Patcher[*appsv1.Deployment]{all, clientset.AppsV1().Deployments("ns")} {
			_, err := Patch(t.Context(), through, held, want)
			assert.True(t, apierrors.IsForbidden(err), "%v", err)
			assert.ErrorContains(t, err, "read the object, since only that shows how to change its lists: ")
			assert.ErrorContains(t, err, "the server rejected our request due to an error in our request", "the reason of the read")
		}
		forbidden.Remove()
		refused := server.Inject(reflectortest.Refuse().On("get", "deployments"))
		_, err = Patch(t.Context(), all, held, want)
		assert.Error(t, err)
		assert.False(t, apierrors.IsInvalid(err), "a retry may succeed: %v", err)
		refused.Remove()
		require.NoError(t, server.Delete(held.DeepCopy()))
		_, err = Patch(t.Context(), all, held, want)
		assert.True(t, apierrors.IsNotFound(err), "%v", err)
	})
}

// write-W2, with the clients of client-go that take any kind.
func TestConflictOverAListIsOneForGenericClientsToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, all, typed := startWatched(t, `{"metadata":{"finalizers":["example.com/one"]},"status":{"others":1}}`)
		free, err := dynamic.NewForConfig(server.Config())
		require.NoError(t, err)
		partial, err := metadata.NewForConfig(server.Config())
		require.NoError(t, err)
		resource := watchedKind.GroupVersion().WithResource("watcheds")
		whole, err := free.Resource(resource).Namespace("ns").Get(t.Context(), "w", metav1.GetOptions{})
		require.NoError(t, err)
		held, err := partial.Resource(resource).Namespace("ns").Get(t.Context(), "w", metav1.GetOptions{})
		require.NoError(t, err)
		_, err = AddFinalizer(t.Context(), all, typed, "example.com/other")
		require.NoError(t, err)

		_, err = AddFinalizer(t.Context(), free.Resource(resource).Namespace("ns"), whole, "example.com/two")
		assert.True(t, apierrors.IsConflict(err), "%v", err)
		_, err = AddFinalizer(t.Context(), partial.Resource(resource).Namespace("ns"), held, "example.com/two")
		assert.True(t, apierrors.IsConflict(err), "%v", err)

		whole, err = free.Resource(resource).Namespace("ns").Get(t.Context(), "w", metav1.GetOptions{})
		require.NoError(t, err)
		want := whole.DeepCopy()
		want.Object["spec"] = map[string]any{"list": []any{nil}}
		whole, err = Patch(t.Context(), free.Resource(resource).Namespace("ns"), whole, want)
		require.NoError(t, err)
		want = whole.DeepCopy()
		want.Object["spec"] = map[string]any{"list": []any{nil, "a"}}
		got, err := Patch(t.Context(), free.Resource(resource).Namespace("ns"), whole, want)
		require.NoError(t, err, "a null cannot be tested, but the client shows all that the server has")
		assert.Equal(t, want.Object["spec"], got.Object["spec"])
	})
}

// Watched has a status that others write, too.
type Watched struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              map[string]any `json:"spec,omitempty"`
	Status            struct {
		Phase      string             `json:"phase,omitempty"`
		Conditions []metav1.Condition `json:"conditions,omitempty"`
	} `json:"status,omitzero"`
}

var watchedKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Watched"}

func startWatched(t *testing.T, content string) (*reflectortest.Server, *client.Resource[*Watched], *Watched) {
	t.Helper()
	server := reflectortest.Start(t, reflectortest.WithResource(reflectortest.Resource{Group: "example.com", Version: "v1", Kind: "Watched", Plural: "watcheds", Namespaced: true, Status: true}))
	require.NoError(t, server.Create(unstructuredOf(t, content)))
	all := clientOf[*Watched](t, server, watchedKind)
	held, err := all.In("ns").Get(t.Context(), "w", metav1.GetOptions{})
	require.NoError(t, err)
	server.ForgetRequests()
	return server, all, held
}

// unstructuredOf returns a Watched of some content.
func unstructuredOf(t *testing.T, content string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	require.NoError(t, utiljson.Unmarshal([]byte(content), &u.Object))
	u.SetGroupVersionKind(watchedKind)
	u.SetNamespace("ns")
	u.SetName("w")
	return u
}

func statusOf(t *testing.T, all *client.Resource[*Watched]) string {
	t.Helper()
	data, err := all.In("ns").GetJSON(t.Context(), "w", metav1.GetOptions{})
	require.NoError(t, err)
	document, err := decodeDocument(data)
	require.NoError(t, err)
	status, err := json.Marshal(document["status"])
	require.NoError(t, err)
	return string(status)
}

func TestStatusWithConditionsIsOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, all, held := startWatched(t, `{}`)
		at := metav1.Unix(1, 0).Rfc3339Copy()
		for _, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionTrue} {
			want := Copy(held)
			want.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: status, Reason: "R", LastTransitionTime: at}}
			var err error
			held, err = Status(t.Context(), all, held, want)
			require.NoError(t, err)
			assert.Len(t, server.Requests(), 1)
			server.ForgetRequests()
		}
		want := Copy(held)
		want.Status.Conditions[0].Message = "why"
		want.Status.Conditions = append(want.Status.Conditions, metav1.Condition{Type: "Other", Status: "True", Reason: "R", LastTransitionTime: at})
		held, err := Status(t.Context(), all, held, want)
		require.NoError(t, err)
		assert.Len(t, server.Requests(), 1)
		assert.Equal(t, "why", held.Status.Conditions[0].Message)

		want = Copy(held)
		want.Status.Conditions = nil
		_, err = Status(t.Context(), all, held, want)
		require.NoError(t, err)
		assert.JSONEq(t, `{}`, statusOf(t, all))
	})
}

func TestRemovalOfTheLastShownMemberKeepsTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, all, held := startWatched(t, `{"status":{"others":1,"phase":"Up"}}`)
		want := Copy(held)
		want.Status.Phase = "" // its tag omitzero leaves out the status
		held, err := Status(t.Context(), all, held, want)
		require.NoError(t, err)
		assert.JSONEq(t, `{"others":1}`, statusOf(t, all))
		want = Copy(held)
		want.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True"}}
		_, err = Status(t.Context(), all, held, want)
		require.NoError(t, err)
		assert.Contains(t, statusOf(t, all), `"others":1`)
	})
}

func TestListBelowAnObjectThatTheServerMayHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, content := range []string{`{}`, `{"status":{}}`, `{"status":{"others":1}}`, `{"status":{"conditions":[]}}`} {
			for _, generated := range []bool{false, true} {
				_, all, held := startWatched(t, content)
				var through Patcher[*Watched] = all
				if generated {
					through = generatedClient{all.In("ns")}
				}
				want := Copy(held)
				want.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True"}}
				got, err := Status(t.Context(), through, held, want)
				require.NoError(t, err, content)
				assert.Len(t, got.Status.Conditions, 1)
				assert.Equal(t, strings.Contains(content, "others"), strings.Contains(statusOf(t, all), "others"))
			}
		}
	})
}

// generatedClient has only methods that generated clients have.
type generatedClient struct{ all *client.Resource[*Watched] }

func (g generatedClient) Get(ctx context.Context, name string, opts metav1.GetOptions) (*Watched, error) {
	return g.all.Get(ctx, name, opts)
}

func (g generatedClient) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*Watched, error) {
	return g.all.Patch(ctx, name, kind, data, opts, subresources...)
}

// The list needs operations, and the other change an object that may exist.
func TestListAndAnObjectThatTheServerMayHaveInOnePatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, kept := range []string{`{}`, `{"sub":{"others":1}}`, `{"sub":{}}`} {
			server := reflectortest.Start(t, reflectortest.WithResource(reflectortest.Resource{Group: "example.com", Version: "v1", Kind: "Watched", Plural: "watcheds", Namespaced: true}))
			require.NoError(t, server.Create(unstructuredOf(t, `{"spec":`+kept+`}`)))
			all := clientOf[*Nested](t, server, watchedKind)
			held, err := all.In("ns").Get(t.Context(), "w", metav1.GetOptions{})
			require.NoError(t, err)
			want := Copy(held)
			want.Finalizers, want.Spec.Sub.Text = []string{"example.com/one"}, "x"
			got, err := Patch(t.Context(), all, held, want)
			require.NoError(t, err, kept)
			assert.Equal(t, want.Spec, got.Spec)
			now := unstructuredOf(t, `{}`)
			require.NoError(t, server.Get(now))
			others, _, _ := unstructured.NestedInt64(now.Object, "spec", "sub", "others")
			assert.Equal(t, strings.Contains(kept, "others"), others == 1)
		}
	})
}

// Steps have parameters without a type, and more members at the server.
type Steps struct {
	Steps []struct {
		Name   string         `json:"name"`
		Params map[string]any `json:"params,omitempty"`
	} `json:"steps,omitempty"`
	Sub struct {
		Text string `json:"text,omitempty"`
	} `json:"sub"`
}

// A client decodes as Kubernetes does, and so does the review of its object: an integer keeps its digits,
// and the case of a name counts.
func TestListIsComparedAsItsClientDecodesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, all, held := startWatched(t, `{"spec":{"list":[9007199254740993,null],"keep":9007199254740993}}`)
		want := Copy(held)
		want.Spec["list"] = want.Spec["list"].([]any)[:1]
		got, err := Patch(t.Context(), all, held, want)
		require.NoError(t, err)
		assert.Equal(t, map[string]any{"list": []any{int64(9007199254740993)}, "keep": int64(9007199254740993)}, got.Spec)
		for _, content := range []string{
			`{"spec":{"steps":[{"name":"a","params":{"id":9007199254740993}}],"sub":{"others":1}}}`,
			`{"spec":{"steps":[{"name":"a"}],"Steps":[{"name":"b","x":1}],"sub":{"others":1}}}`,
		} {
			server, _, _ := startWatched(t, content)
			all := clientOf[*Routed[Steps]](t, server, watchedKind)
			held, err := all.In("ns").Get(t.Context(), "w", metav1.GetOptions{})
			require.NoError(t, err)
			want := Copy(held)
			want.Spec.Steps[0].Params, want.Spec.Sub.Text = map[string]any{"id": int64(9007199254740995)}, "x"
			got, err := Patch(t.Context(), all, held, want)
			require.NoError(t, err, content)
			assert.Equal(t, want.Spec, got.Spec)
		}
	})
}

// Nested prints structs that the server may not have.
type Nested struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Sub struct {
			Text string `json:"text,omitempty"`
		} `json:"sub"`
	} `json:"spec"`
}

// write-W1 holds for a null in free-form data, which a merge patch cannot say.
func TestNullInFreeFormDataIsWrittenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, all, held := startWatched(t, `{"spec":{"values":{"keep":true}}}`)
		for _, values := range []any{
			map[string]any{"keep": true, "off": nil},
			map[string]any{"keep": true, "off": nil, "sub": map[string]any{"off": nil}},
			[]any{nil, map[string]any{"off": nil}},
			[]any{map[string]any{"off": nil}, nil, "x"},
			nil,
			map[string]any{"off": nil},
			"text",
			nil,
		} {
			for n := range 2 {
				var err error
				held, err = CreateOrUpdate(t.Context(), all, held, store.Key{Namespace: "ns", Name: "w"}, func(w *Watched) error {
					w.Spec["values"] = values
					return nil
				})
				require.NoError(t, err)
				assert.Equal(t, values, held.Spec["values"])
				assert.Len(t, server.Requests(reflectortest.Verb("patch")), 1-n, "%v", values)
				server.ForgetRequests()
			}
		}
	})
}

// forgetful answers with the object as it was.
type forgetful struct{ answer *Watched }

func (f forgetful) Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*Watched, error) {
	return f.answer, nil
}

func TestNullThatTheServerDropsIsAnError(t *testing.T) {
	held := &Watched{ObjectMeta: metav1.ObjectMeta{Name: "w", UID: "u", ResourceVersion: "1"}, Spec: map[string]any{"values": map[string]any{"a": "b"}}}
	want := Copy(held)
	want.Spec["values"].(map[string]any)["off"] = nil
	_, err := Patch(t.Context(), forgetful{held}, held, want)
	require.ErrorIs(t, err, ErrNullDropped)
	assert.ErrorContains(t, err, "spec.values.off")
	_, err = Patch(t.Context(), forgetful{want}, held, want)
	require.NoError(t, err)
}

func TestManagedFieldsTakeNoPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		held := w.configMap(func(c *corev1.ConfigMap) { c.Finalizers = []string{"example.com/one"} })
		held.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1("{no JSON")}}
		want := held.DeepCopy()
		want.Data, want.ManagedFields = map[string]string{"a": "1"}, nil
		got, err := Patch(t.Context(), w.configMaps, held, want)
		require.NoError(t, err)
		assert.Equal(t, "1", got.Data["a"])
		assert.Len(t, held.ManagedFields, 1, "the cached object is everybody's")
		got.ManagedFields = held.ManagedFields
		_, _, err = Finalize(t.Context(), w.configMaps, got, "example.com/two", nil)
		require.NoError(t, err)
		w.writes()
		same := got.DeepCopy()
		same.ManagedFields = nil
		_, err = Patch(t.Context(), w.configMaps, got, same)
		require.NoError(t, err)
		assert.Zero(t, w.writes())
	})
}

func TestNoObjectIsAnError(t *testing.T) {
	ctx, some := t.Context(), &corev1.ConfigMap{}
	var none *corev1.ConfigMap
	var through Patcher[*corev1.ConfigMap]
	_, ofPatch := Patch(ctx, through, none, some)
	_, ofWant := Patch(ctx, through, some, none)
	_, ofStatus := Status(ctx, through, none, some)
	_, ofAdd := AddFinalizer(ctx, through, none, "f")
	_, ofRemove := RemoveFinalizer(ctx, through, none, "f")
	_, _, ofFinalize := Finalize(ctx, through, none, "f", nil)
	_, ofAdopt := Adopt(ctx, through, some, corev1.SchemeGroupVersion.WithKind("ConfigMap"), none)
	for _, err := range []error{
		ofPatch, ofWant, ofStatus, ofAdd, ofRemove, ofFinalize, ofAdopt, Delete(ctx, nil, none),
		Own(some, corev1.SchemeGroupVersion.WithKind("ConfigMap"), none), Own(none, corev1.SchemeGroupVersion.WithKind("ConfigMap"), some),
	} {
		require.ErrorIs(t, err, ErrNoVersion)
		assert.ErrorContains(t, err, "object is nil")
	}
}

func TestObjectThatTheCacheDoesNotHaveIsAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		live := w.configMap(func(c *corev1.ConfigMap) {
			c.Data, c.Finalizers = map[string]string{"keep": "this"}, []string{"example.com/one"}
		})
		change := func(c *corev1.ConfigMap) error {
			c.Labels = map[string]string{"app": "x"}
			return Own(owner("u1"), bucketKind, c)
		}
		key := store.Key{Namespace: "ns", Name: "c"}
		_, err := CreateOrUpdate(t.Context(), unread{w.resource()}, nil, key, change)
		require.True(t, apierrors.IsAlreadyExists(err), "%v", err)
		assert.ErrorContains(t, err, "pass the object as held")

		got, err := CreateOrUpdate(t.Context(), w.resource(), nil, key, change)
		require.NoError(t, err)
		assert.Equal(t, live.UID, got.UID)
		assert.Equal(t, "x", w.get().Labels["app"])
		assert.Equal(t, "this", w.get().Data["keep"])
		got, err = CreateOrUpdate(t.Context(), w.configMaps, nil, key, change)
		require.NoError(t, err)
		assert.Equal(t, got, w.get())

		_, err = CreateOrUpdate(t.Context(), w.configMaps, nil, key, func(c *corev1.ConfigMap) error { return Own(owner("u2"), bucketKind, c) })
		var taken *OwnedError
		require.ErrorAs(t, err, &taken, "it belongs to another controller")

		require.NoError(t, w.configMaps.Delete(t.Context(), "c", metav1.DeleteOptions{}))
		_, err = CreateOrUpdate(t.Context(), w.configMaps, nil, key, change)
		require.True(t, apierrors.IsAlreadyExists(err), "%v", err)
		assert.ErrorContains(t, err, "is being deleted")
		assert.LessOrEqual(t, len(err.Error()), 1<<10)
	})
}

// unread is a client without reads.
type unread struct {
	all *client.Resource[*corev1.ConfigMap]
}

func (u unread) Create(ctx context.Context, object *corev1.ConfigMap, opts metav1.CreateOptions) (*corev1.ConfigMap, error) {
	return u.all.Create(ctx, object, opts)
}

func (u unread) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*corev1.ConfigMap, error) {
	return u.all.Patch(ctx, name, kind, data, opts, subresources...)
}

// unfit is a client whose server cannot apply a patch, and has a value that the struct does not take.
type unfit struct{ value string }

func (u unfit) Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*Watched, error) {
	return nil, &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusUnprocessableEntity}}
}

func (u unfit) GetJSON(context.Context, string, metav1.GetOptions) ([]byte, error) {
	return []byte(`{"status":{"conditions":[` + u.value + `]}}`), nil
}

func TestErrorOfAnObjectThatDoesNotFitQuotesNoValue(t *testing.T) {
	held := &Watched{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "w", UID: "u", ResourceVersion: "7"}}
	want := Copy(held)
	want.Status.Conditions = []metav1.Condition{{Type: "Ready"}}
	for _, value := range []string{`{"lastTransitionTime":"7733"}`, `{"observedGeneration":7733.5}`} {
		_, err := Patch(t.Context(), unfit{value}, held, want)
		require.ErrorContains(t, err, "patch")
		assert.NotContains(t, err.Error(), "7733")
	}
}

func TestRefusalByTheServerIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		held := w.configMap(func(*corev1.ConfigMap) {})
		_, err := AddFinalizer(t.Context(), w.resource(), held, "without a domain")
		require.True(t, apierrors.IsInvalid(err), "%v", err)
		assert.Equal(t, 1, w.writes(), "the object is at fault, and not the patch")
		denied := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden}
		w.server.Inject(reflectortest.AnswerStatus(denied).On("patch", "configmaps").Times(1))
		_, err = AddFinalizer(t.Context(), w.resource(), held, "example.com/one")
		require.True(t, apierrors.IsForbidden(err), "%v", err)
		assert.Equal(t, 1, w.writes())
	})
}
