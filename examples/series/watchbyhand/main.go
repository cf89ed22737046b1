// Program watchbyhand lists and watches ConfigMaps by two plain requests. It prints curl commands and
// their answers: a list, a watch from its resource version, and the 410 of a version that the server has
// forgotten. With -stay the server stays up, so that you can type the commands yourself.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"

	"github.com/kubereflector/kubereflector/examples/series"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

const path = "/api/v1/namespaces/default/configmaps"

func main() {
	stay := flag.Bool("stay", false, "keep the server running until Ctrl-C")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, *stay); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run starts a server on a port, changes a ConfigMap, and lets the server forget the changes.
func run(ctx context.Context, out io.Writer, stay bool) error {
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

// terminal prints commands and their answers, and keeps the errors.
type terminal struct {
	out    io.Writer
	server string
	err    error
}

func (t *terminal) must(err error) { t.err = errors.Join(t.err, err) }

// list sends the request of a list.
func (t *terminal) list(title string) (version string) {
	fmt.Fprintf(t.out, "\n# %s.\ncurl -s \"$SERVER%s\"\n", title, path)
	var l corev1.ConfigMapList
	t.get(path, func(body io.Reader) { t.must(json.NewDecoder(body).Decode(&l)) })
	fmt.Fprintf(t.out, "  resource version %s, items: %d\n", l.ResourceVersion, len(l.Items))
	return l.ResourceVersion
}

// watch sends the request of a watch, and reads some events. A watch goes on until its client closes it.
func (t *terminal) watch(title, version string, events int) {
	target := path + "?watch=true&resourceVersion=" + version
	fmt.Fprintf(t.out, "\n# %s.\ncurl -sN \"$SERVER%s\"\n", title, target)
	t.get(target, func(body io.Reader) {
		for e, err := range series.ReadEvents[*corev1.ConfigMap](body) {
			t.must(err)
			if e.Type == watch.Error {
				status, err := json.Marshal(e.Status)
				t.must(err)
				fmt.Fprintf(t.out, "  ERROR %s\n", status)
			} else if err == nil {
				fmt.Fprintf(t.out, "  %s %s at resource version %s, with %v\n", e.Type, e.Object.Name, e.Object.ResourceVersion, e.Object.Data)
			}
			if events--; events == 0 {
				return
			}
		}
	})
}

func (t *terminal) get(target string, read func(body io.Reader)) {
	response, err := http.Get(t.server + target)
	t.must(err)
	if err == nil {
		defer response.Body.Close()
		read(response.Body)
	}
}
