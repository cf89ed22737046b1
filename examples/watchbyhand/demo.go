package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const path = "/api/v1/namespaces/default/configmaps"

// demo starts a server on a port, changes a ConfigMap, and lets the server forget the changes.
func demo(ctx context.Context, out io.Writer, stay bool) error {
	server, err := reflectortest.NewServer(reflectortest.OnPort())
	if err != nil {
		return err
	}
	defer server.Close()
	t := &terminal{out: out, server: server.URL()}
	fmt.Fprintf(out, "SERVER=%s\n", server.URL())

	version := t.list("List, and note the resource version")
	colors := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "colors"}, Data: map[string]string{"sky": "blue"}}
	t.must(server.Create(colors))
	colors.Data["sky"] = "grey"
	t.must(server.Update(colors))
	t.watch("The ConfigMap colors was created and changed. Watch from the version of the list", version, 2)
	t.must(server.Compact(server.ResourceVersion()))
	t.watch("The server compacted its history, as an API server does every five minutes. Watch from there again", version, 1)
	version = t.list("List again, and go on from the new version")
	if t.err == nil && stay {
		fmt.Fprintf(out, "\nThe server stays until Ctrl-C. Watch, and create a ConfigMap in another terminal:\n")
		fmt.Fprintf(out, "curl -sN \"$SERVER%s?watch=true&resourceVersion=%s\"\n", path, version)
		fmt.Fprintf(out, "curl -s \"$SERVER%s\" -H 'Content-Type: application/json' -d '{\"metadata\":{\"name\":\"mine\"}}'\n", path)
		<-ctx.Done()
	}
	return t.err
}

// terminal prints commands and their answers until the first error.
type terminal struct {
	out    io.Writer
	server string
	err    error
}

func (t *terminal) must(err error) {
	if t.err == nil {
		t.err = err
	}
}

func (t *terminal) list(title string) (version string) {
	fmt.Fprintf(t.out, "\n# %s.\ncurl -s \"$SERVER%s\"\n", title, path)
	l, err := list(t.server + path)
	t.must(err)
	fmt.Fprintf(t.out, "  resource version %s, items: %d\n", l.ResourceVersion, len(l.Items))
	return l.ResourceVersion
}

func (t *terminal) watch(title, version string, events int) {
	target := path + "?watch=true&resourceVersion=" + version
	fmt.Fprintf(t.out, "\n# %s.\ncurl -sN \"$SERVER%s\"\n", title, target)
	t.must(watch(t.server+target, func(e event) (more bool) {
		var c corev1.ConfigMap
		if e.Type == "ERROR" {
			fmt.Fprintf(t.out, "  ERROR %s\n", e.Object)
		} else {
			t.must(json.Unmarshal(e.Object, &c))
			fmt.Fprintf(t.out, "  %s %s at resource version %s, with %v\n", e.Type, c.Name, c.ResourceVersion, c.Data)
		}
		events--
		return events > 0
	}))
}
