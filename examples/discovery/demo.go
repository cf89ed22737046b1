package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/reflector/mapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// demo reads discovery by hand, runs two processes with one cache, and asks for a missing kind.
func demo(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	for _, path := range []string{"/api", "/apis/apps", "/apis/apps/v1"} {
		if err := raw(ctx, out, c, path); err != nil {
			return err
		}
	}

	directory, err := os.MkdirTemp("", "discovery")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	config := rest.CopyConfig(c.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return printer{next, out} })
	for _, cache := range []string{"an empty cache", "the cache of the last process"} {
		fmt.Fprintf(out, "\n# kubectl get deployments, with %s\n", cache)
		if err := getDeployments(ctx, out, config, directory); err != nil {
			return err
		}
	}

	fmt.Fprintf(out, "\n# kubectl get telescopes, which are not installed\n")
	m, err := mapper.OnDisk(config, mapper.WithDirectory(directory))
	if err != nil {
		return err
	}
	_, err = m.RESTMappingWithContext(ctx, schema.GroupKind{Group: "example.com", Kind: "Telescope"})
	fmt.Fprintf(out, "  %v\n", err)
	return nil
}

// raw does the work of "kubectl get --raw", and prints the answer in short.
func raw(ctx context.Context, out io.Writer, c cluster.Cluster, path string) error {
	fmt.Fprintf(out, "# kubectl get --raw %s\n", path)
	body, err := c.Discovery().RESTClient().Get().AbsPath(path).DoRaw(ctx)
	if err != nil {
		return err
	}
	var answer struct {
		Kind      string
		Versions  []json.RawMessage
		Resources []metav1.APIResource
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return err
	}
	fmt.Fprintf(out, "  %s\n", answer.Kind)
	for _, version := range answer.Versions {
		fmt.Fprintf(out, "  %s\n", version)
	}
	for _, r := range answer.Resources {
		fmt.Fprintf(out, "  %s: kind %s, in a namespace: %t, %d verbs\n", r.Name, r.Kind, r.Namespaced, len(r.Verbs))
	}
	return nil
}

// printer prints the requests that leave the process.
type printer struct {
	next http.RoundTripper
	out  io.Writer
}

func (p printer) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := p.next.RoundTrip(r)
	if err == nil {
		fmt.Fprintf(p.out, "  %s %s: %s\n", r.Method, r.URL.Path, response.Status)
	}
	return response, err
}
