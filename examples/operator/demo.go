package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kubereflector/kubereflector/controller/manager"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"go.uber.org/zap"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

//go:embed manifests/crd.yaml
var crd []byte

// custom makes the API server in memory serve Sites.
var custom = reflectortest.WithDefinition(crd, &Site{})

// zone is a DNS API in memory.
type zone struct {
	mu     sync.Mutex
	hosts  map[string]string // Guarded by mu. By UID
	newest map[string]int64  // Guarded by mu. The highest generation, by UID
}

func newZone() *zone { return &zone{hosts: map[string]string{}, newest: map[string]int64{}} }

// ServeHTTP is the API that the comment of dns describes.
func (z *zone) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var content record
	uid := path.Base(r.URL.Path)
	generation, err := strconv.ParseInt(r.URL.Query().Get("generation"), 10, 64)
	if err == nil {
		err = json.NewDecoder(r.Body).Decode(&content)
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case generation < z.newest[uid]:
		http.Error(w, "there was a later request", http.StatusPreconditionFailed)
	case r.Method == http.MethodDelete:
		z.newest[uid] = generation
		delete(z.hosts, uid)
	case strings.Contains(content.Host, " "):
		http.Error(w, "not a host name", http.StatusUnprocessableEntity)
	default:
		z.newest[uid], z.hosts[uid] = generation, content.Host
	}
}

// all returns the registered hosts.
func (z *zone) all() []string {
	z.mu.Lock()
	defer z.mu.Unlock()
	return slices.Sorted(maps.Values(z.hosts))
}

// inMemory returns a client of the DNS API behind a handler, without a network.
func inMemory(handler http.Handler) *dns {
	return &dns{url: "http://dns", client: &http.Client{Transport: handling{handler}, Timeout: 10 * time.Second}}
}

// handling is a transport that calls a handler.
type handling struct{ http.Handler }

// RoundTrip returns the answer of the handler, or the error of the request's context if it ends
// before. The handler then continues, as a server does.
func (h handling) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := make(chan *http.Response, 1)
	go func() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		answer <- w.Result()
	}()
	select {
	case response := <-answer:
		return response, nil
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
}

// demo plays the users and the kubelet.
type demo struct {
	out    io.Writer
	server *reflectortest.Server
	zone   *zone
}

// demonstrate runs the operator and shows the life of three Sites.
func demonstrate(ctx context.Context, out io.Writer) error {
	manager.RouteKlog(zap.NewNop()) // client-go logs the leader election
	server, err := reflectortest.NewServer(custom)
	if err != nil {
		return err
	}
	defer server.Close()
	d, err := newDemo(out, server)
	if err != nil {
		return err
	}
	return d.run(ctx)
}

// newDemo returns a demonstration, with a lease as an earlier leader leaves it. Without that lease,
// the operator waits 15 seconds.
func newDemo(out io.Writer, server *reflectortest.Server) (*demo, error) {
	released := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name}}
	released.Spec.HolderIdentity, released.Spec.LeaseDurationSeconds = new(string), new(int32)
	*released.Spec.LeaseDurationSeconds = 1
	return &demo{out, server, newZone()}, server.Create(released)
}

// start starts an operator, which runs until stop is called.
func (d *demo) start(ctx context.Context, api http.Handler) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	result := make(chan error, 1)
	go func() {
		result <- operate(ctx, d.server.Config(), inMemory(api), name, "", zap.NewNop())
	}()
	return func() error { cancel(); return <-result }
}

func (d *demo) run(ctx context.Context) error {
	stop := d.start(ctx, d.zone)
	var err error
	for _, step := range []func() error{
		func() error { return d.server.Create(newSecret("shop-env")) },
		func() error { return d.server.Create(newSecret("wiki-env")) },
		func() error {
			return d.create("shop", "shop.example.com", "blog", "blog.example.com", "wiki", "our wiki")
		},
		func() error { return d.wait(ctx, "SecretNotFound Progressing HostRefused") },
		func() error { return d.show("Three Sites are created") },
		func() error { return d.server.Create(newSecret("blog-env")) },
		func() error {
			return d.edit("wiki", func(s *Site) { s.Spec.Host = "wiki.example.com" })
		},
		func() error { return d.wait(ctx, "Progressing Progressing Progressing") },
		func() error { return d.show("The Secret of blog is created, and the host of wiki is corrected") },
		d.runPods,
		func() error { return d.wait(ctx, "Available Available Available") },
		func() error { return d.show("The pods run") },
		d.spoil,
		func() error { return d.wait(ctx, "Progressing Progressing Available") },
		func() error { return d.show("Another client changes one Deployment and deletes another") },
		d.deleteAll,
		func() error { return d.wait(ctx, "") },
		func() error { return d.show("All Sites are deleted") },
	} {
		<-time.After(100 * time.Millisecond) // the name of an Event is its time
		if err = step(); err != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return stop() // after Ctrl-C
	}
	if ended := stop(); err == nil {
		err = ended
	}
	if err == nil {
		err = d.showEvents()
	}
	return err
}

func newSecret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string][]byte{"CURRENCY": []byte("EUR")}}
}

func newSite(name, host string) *Site {
	return &Site{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       SiteSpec{Host: host, Page: "This is " + name, Secret: name + "-env", Replicas: 2},
	}
}

// create creates Sites by names and hosts.
func (d *demo) create(all ...string) error {
	for pair := range slices.Chunk(all, 2) {
		if err := d.server.Create(newSite(pair[0], pair[1])); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) edit(name string, change func(*Site)) error {
	site := newSite(name, "")
	if err := d.server.Get(site); err != nil {
		return err
	}
	change(site)
	return d.server.Update(site)
}

// runPods plays the controller of Deployments and the kubelet.
func (d *demo) runPods() error {
	all, err := reflectortest.List[*appsv1.Deployment](d.server, "")
	for _, one := range all {
		n := *one.Spec.Replicas
		one.Status = appsv1.DeploymentStatus{ObservedGeneration: one.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n}
		if err == nil {
			err = d.server.Update(one)
		}
	}
	return err
}

// spoil plays another client.
func (d *demo) spoil() error {
	if err := d.spoilImage("shop"); err != nil {
		return err
	}
	return d.server.Delete(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "blog"}})
}

func (d *demo) spoilImage(name string) error {
	spoiled := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if err := d.server.Get(spoiled); err != nil {
		return err
	}
	spoiled.Spec.Template.Spec.Containers[0].Image = "httpd"
	return d.server.Update(spoiled)
}

// deleteAll plays a user, who deletes all Sites.
func (d *demo) deleteAll() error {
	all, err := reflectortest.List[*Site](d.server, "")
	for _, one := range all {
		if err == nil {
			err = d.server.Delete(one)
		}
	}
	return err
}

// wait waits until the Sites blog, shop and wiki have these reasons, and all Deployments the image.
func (d *demo) wait(ctx context.Context, reasons string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return d.server.WaitFor(ctx, func() bool {
		var found []string
		sites, err := reflectortest.List[*Site](d.server, "")
		for _, one := range sites {
			for _, c := range one.Status.Conditions {
				found = append(found, c.Reason)
			}
		}
		deployments, failed := reflectortest.List[*appsv1.Deployment](d.server, "")
		spoiled := slices.ContainsFunc(deployments, func(one *appsv1.Deployment) bool { return one.Spec.Template.Spec.Containers[0].Image != image })
		return err == nil && failed == nil && !spoiled && strings.Join(found, " ") == reasons
	})
}

// show prints the Sites, the Deployments and the DNS records.
func (d *demo) show(what string) error {
	for d.server.CollectGarbage() {
		// The objects of a Site that is gone go, and then what they own.
	}
	fmt.Fprintf(d.out, "%s:\n", what)
	sites, err := reflectortest.List[*Site](d.server, "")
	if err != nil {
		return err
	}
	for _, one := range sites {
		for _, c := range one.Status.Conditions {
			fmt.Fprintf(d.out, "  Site %s: %s=%s, %s: %s\n", one.Name, c.Type, c.Status, c.Reason, c.Message)
		}
	}
	deployments, err := reflectortest.List[*appsv1.Deployment](d.server, "")
	for _, one := range deployments {
		fmt.Fprintf(d.out, "  Deployment %s: %d replicas of %s\n", one.Name, *one.Spec.Replicas, one.Spec.Template.Spec.Containers[0].Image)
	}
	fmt.Fprintf(d.out, "  DNS records: %q\n", d.zone.all())
	return err
}

// showEvents prints the Events that kubectl describe would show for the Sites.
func (d *demo) showEvents() error {
	all, err := reflectortest.List[*eventsv1.Event](d.server, "")
	lines := map[string]bool{}
	for _, e := range all {
		lines[fmt.Sprintf("  Site %s: %s %s\n", e.Regarding.Name, e.Type, e.Reason)] = true
	}
	fmt.Fprintf(d.out, "Events:\n%s", strings.Join(slices.Sorted(maps.Keys(lines)), ""))
	return err
}
