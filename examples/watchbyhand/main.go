// Program watchbyhand lists and watches ConfigMaps without a library: it starts an API
// server in memory on a port, prints the curl commands with which a tutorial begins,
// and what each of them answers: a list, a watch from its resource version, and the
// 410 of a version that the server has forgotten.
//
// With -stay the server stays up, so that you can type the commands yourself.
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

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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

func run(ctx context.Context, out io.Writer, stay bool) error {
	server, err := reflectortest.NewServer(reflectortest.OnPort())
	if err != nil {
		return err
	}
	defer server.Close()
	colors := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "colors"}, Data: map[string]string{"sky": "blue"}}
	t := &terminal{out: out, server: server.URL()}
	fmt.Fprintf(out, "SERVER=%s\n", server.URL())

	version := t.list("List, and note the resource version")
	if err := server.Create(colors); err != nil {
		return err
	}
	colors.Data["sky"] = "grey"
	if err := server.Update(colors); err != nil {
		return err
	}
	t.watch("Colors was created and changed. Watch from there: all that happened since", version, 2)
	if err := server.Compact(server.ResourceVersion()); err != nil {
		return err
	}
	t.watch("The server compacted its history, as an API server does every five minutes. The same once more", version, 1)
	version = t.list("List again, to go on from there")
	if t.err == nil && stay {
		fmt.Fprintf(out, "\nThe server stays until Ctrl-C. Watch, and create something from another terminal:\n")
		fmt.Fprintf(out, "curl -sN \"$SERVER%s?watch=true&resourceVersion=%s\"\n", path, version)
		fmt.Fprintf(out, "curl -s \"$SERVER%s\" -H 'Content-Type: application/json' -d '{\"metadata\":{\"name\":\"mine\"}}'\n", path)
		<-ctx.Done()
	}
	return t.err
}

const path = "/api/v1/namespaces/default/configmaps"

// terminal does what it prints, until something fails.
type terminal struct {
	out    io.Writer
	server string
	err    error
}

// list lists, and returns the resource version of the list.
func (t *terminal) list(what string) string {
	var list corev1.ConfigMapList
	t.curl(what, "-s", path, func(answer *json.Decoder) error { return answer.Decode(&list) })
	fmt.Fprintf(t.out, "  resource version %s, items: %d\n", list.ResourceVersion, len(list.Items))
	return list.ResourceVersion
}

// watch watches from a resource version, for so many events.
func (t *terminal) watch(what, version string, events int) {
	t.curl(what, "-sN", path+"?watch=true&resourceVersion="+version, func(answer *json.Decoder) error {
		for range events {
			var event struct {
				Type   string
				Object json.RawMessage
			}
			var object corev1.ConfigMap
			if err := errors.Join(answer.Decode(&event), json.Unmarshal(event.Object, &object)); err != nil {
				return err
			}
			if event.Type == "ERROR" {
				fmt.Fprintf(t.out, "  ERROR %s\n", event.Object)
			} else {
				fmt.Fprintf(t.out, "  %s %s at resource version %s, with %v\n", event.Type, object.Name, object.ResourceVersion, object.Data)
			}
		}
		return nil // a watch goes on: closing it is what Ctrl-C does to curl
	})
}

// curl prints a command and does the same.
func (t *terminal) curl(what, flags, path string, read func(*json.Decoder) error) {
	if t.err != nil {
		return
	}
	fmt.Fprintf(t.out, "\n# %s.\ncurl %s \"$SERVER%s\"\n", what, flags, path)
	response, err := http.Get(t.server + path)
	if err != nil {
		t.err = err
		return
	}
	defer response.Body.Close()
	t.err = read(json.NewDecoder(response.Body))
}
