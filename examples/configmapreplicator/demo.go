package main

import (
	"context"
	"fmt"
	"io"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// demo plays the users.
type demo struct {
	cluster.Cluster
	out io.Writer
}

// demonstrate changes ConfigMaps and labels of namespaces, and shows the reaction of the controller.
func demonstrate(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	d := &demo{Cluster: c, out: out}
	return cluster.Steps(ctx,
		func() error {
			return d.namespaces(ctx, map[string]string{"shop": "blue", "bank": "blue", "zoo": "red"})
		},
		func() error { return d.create(ctx, "settings", "team=blue") },
		func() error { return d.tell(ctx, "The settings are for the namespaces of team blue") },
		func() error { return d.patch(ctx, "default", `{"data":{"colour":"azure"}}`) },
		func() error { return d.tell(ctx, "The settings change") },
		func() error { return d.patch(ctx, "shop", `{"data":{"colour":"pink"}}`) },
		func() error { return d.tell(ctx, "Another client changes a copy") },
		func() error { return d.CoreV1().ConfigMaps("bank").Delete(ctx, "settings", metav1.DeleteOptions{}) },
		func() error { return d.tell(ctx, "Another client deletes a copy") },
		func() error { return d.label(ctx, "zoo", "blue") },
		func() error { return d.tell(ctx, "The namespace zoo joins team blue") },
		func() error { return d.label(ctx, "shop", "red") },
		func() error { return d.tell(ctx, "The namespace shop leaves team blue") },
		func() error { return d.CoreV1().ConfigMaps("default").Delete(ctx, "settings", metav1.DeleteOptions{}) },
		func() error { return d.tell(ctx, "The settings are deleted") },
	)
}

func (d *demo) namespaces(ctx context.Context, teams map[string]string) error {
	for name, team := range teams {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": team}}}
		if _, err := d.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) create(ctx context.Context, name, to string) error {
	settings := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{copyTo: to}},
		Data:       map[string]string{"colour": "navy"},
	}
	_, err := d.CoreV1().ConfigMaps("default").Create(ctx, settings, metav1.CreateOptions{})
	return err
}

func (d *demo) patch(ctx context.Context, namespace, patch string) error {
	_, err := d.CoreV1().ConfigMaps(namespace).Patch(ctx, "settings", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

func (d *demo) label(ctx context.Context, namespace, team string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"team":%q}}}`, team)
	_, err := d.CoreV1().Namespaces().Patch(ctx, namespace, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// tell prints all ConfigMaps.
func (d *demo) tell(ctx context.Context, what string) error {
	list, err := d.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "%s:\n", what)
	for _, c := range list.Items {
		fmt.Fprintf(d.out, "  %s/%s has the colour %s\n", c.Namespace, c.Name, c.Data["colour"])
	}
	if len(list.Items) == 0 {
		fmt.Fprintln(d.out, "  there are none")
	}
	return nil
}
