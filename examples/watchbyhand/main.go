// Program watchbyhand lists and watches ConfigMaps without a library. It prints curl commands and their
// answers: a list, a watch from its resource version, and the 410 of a version that the server has
// forgotten. With -stay the server stays up, so that you can type the commands yourself.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"

	corev1 "k8s.io/api/core/v1"
)

func main() {
	stay := flag.Bool("stay", false, "keep the server running until Ctrl-C")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := demo(ctx, os.Stdout, *stay); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// list sends the request of a list.
func list(url string) (list corev1.ConfigMapList, err error) {
	response, err := http.Get(url)
	if err != nil {
		return list, err
	}
	defer response.Body.Close()
	err = json.NewDecoder(response.Body).Decode(&list)
	return list, err
}

// event is a document of a watch. Object is a ConfigMap, or the Status of an ERROR.
type event struct {
	Type   string
	Object json.RawMessage
}

// watch sends the request of a watch and reads events until handle returns false.
func watch(url string, handle func(event) (more bool)) error {
	response, err := http.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close() // a watch goes on until its client closes it
	for events := json.NewDecoder(response.Body); ; {
		var e event
		if err := events.Decode(&e); err != nil || !handle(e) {
			return err
		}
	}
}
