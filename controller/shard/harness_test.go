package shard

import (
	"io"
	"math"
	"net/http"
	"path"
	"sync/atomic"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// ghostMember creates the lease of a member that does not run.
func (w *world) ghostMember(shards, joined string, seconds int32) {
	w.create(memberLease("foos", "ghost"), map[string]string{groupLabel: "foos"},
		map[string]string{ofAnnotation: shards, joinedAnnotation: joined}, seconds, 0, "ghost")
}

// ghostShard creates the lease of shard 0 with a holder that is no member, or with none.
func (w *world) ghostShard(holder string, seconds, transitions int32) {
	w.create(shardLease("foos", 0), map[string]string{groupLabel: "foos", shardLabel: "0"},
		map[string]string{ofAnnotation: "2"}, seconds, transitions, holder)
}

func (w *world) create(name string, labels, annotations map[string]string, seconds, transitions int32, holder string) {
	require.NoError(w, w.server.Create(&coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels, Annotations: annotations},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, LeaseTransitions: &transitions},
	}))
}

const years = math.MaxInt32 // in seconds: 68

// deceived is a network that does something else with updates of certain leases.
type deceived struct {
	http.RoundTripper
	on     atomic.Bool
	leases string // the pattern of their names
	update func(next http.RoundTripper, r *http.Request) (*http.Response, error)
}

func (d *deceived) RoundTrip(r *http.Request) (*http.Response, error) {
	if matches, _ := path.Match(d.leases, path.Base(r.URL.Path)); matches && d.on.Load() && r.Method == http.MethodPut {
		return d.update(d.RoundTripper, r)
	}
	return d.RoundTripper.RoundTrip(r)
}

// lose sends nothing.
func lose(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// change nothing: the answer is the object as it is.
func changeNothing(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	get := r.Clone(r.Context())
	get.Method, get.Body, get.ContentLength = http.MethodGet, nil, 0
	return next.RoundTrip(get)
}

// startOn starts a member on a network.
func (w *world) startOn(identity string, network *deceived) *started {
	config := w.server.Config()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { network.RoundTripper = next; return network })
	clientset, err := kubernetes.NewForConfig(config)
	require.NoError(w, err)
	m, err := New(clientset.CoordinationV1(), w.group, identity, w.hold(identity))
	require.NoError(w, err)
	return w.run(m)
}
