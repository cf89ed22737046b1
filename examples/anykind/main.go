// Program anykind is a small policy engine: its rules name kinds that the program does not know when it
// is compiled, and that may come and go while it runs.
package main

import (
	"context"
	"fmt"
	"io"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/fleet"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func main() {
	cluster.Main(cluster.InMemoryOnly(cluster.With(run, demo)), reflectortest.WithCustomResourceDefinitions())
}

// engine checks that the objects of a kind have a label. Each rule is a ConfigMap that names both.
type engine struct {
	out   io.Writer
	fleet *fleet.Fleet
	rules map[string]*fleet.Owner // only the handler of rules uses it
}

func run(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	kinds, err := fleet.New(c.Config)
	if err != nil {
		return err
	}
	e := &engine{out: out, fleet: kinds, rules: map[string]*fleet.Owner{}}
	rules := informer.New(c.CoreV1().ConfigMaps("rules"))
	rules.Handle(informer.HandlerFuncs[*corev1.ConfigMap]{
		OnAdd:    func(rule *corev1.ConfigMap, _ bool) { e.begin(ctx, rule) },
		OnUpdate: func(prior, rule *corev1.ConfigMap) { e.end(prior); e.begin(ctx, rule) },
		OnDelete: func(rule *corev1.ConfigMap, _ bool) { e.end(rule) },
	})
	m := manager.New(nil)
	m.Add(kinds)
	m.Add(rules)
	return m.Run(ctx)
}

// begin makes a rule the owner of an informer. Rules about one kind share it. The kind need not exist.
func (e *engine) begin(ctx context.Context, rule *corev1.ConfigMap) {
	owner := e.fleet.NewOwner(ctx, "rule "+rule.Name)
	e.rules[rule.Name] = owner
	kind := schema.GroupVersionKind{Group: rule.Data["group"], Kind: rule.Data["kind"]} // in any version
	objects, err := fleet.Want[*metav1.PartialObjectMetadata](owner, kind, fleet.Selection{})
	if err != nil {
		fmt.Fprintln(e.out, err)
		return
	}
	label := rule.Data["label"]
	check := func(object *metav1.PartialObjectMetadata) {
		if _, ok := object.Labels[label]; !ok {
			fmt.Fprintf(e.out, "%s: %s %s lacks the label %s\n", rule.Name, object.Kind, object.Name, label)
		}
	}
	objects.Handle(informer.HandlerFuncs[*metav1.PartialObjectMetadata]{
		OnAdd:    func(object *metav1.PartialObjectMetadata, _ bool) { check(object) },
		OnUpdate: func(_, object *metav1.PartialObjectMetadata) { check(object) },
		OnDelete: func(object *metav1.PartialObjectMetadata, _ bool) {
			fmt.Fprintf(e.out, "%s: %s %s is gone\n", rule.Name, object.Kind, object.Name)
		},
	})
}

// end ends the interest of a rule. The informer stops if no other rule is about the kind.
func (e *engine) end(rule *corev1.ConfigMap) {
	e.rules[rule.Name].Leave()
	delete(e.rules, rule.Name)
}
