package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/kubereflector/kubereflector/internal/e2e/network"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// place is where a fault is. Faults at two places can be combined. Their order is the one in which they begin: the first needs a server.
type place int

const (
	permissions place = iota
	answers
	lines
	servers
)

// fault is one of some readers or of all. begin returns what ends it.
type fault struct {
	name  string
	place place
	begin func(w *world, of []*reader) (end func())
}

const restore = "restore"

var faults = []fault{
	{"no permission", permissions, (*world).forbid},
	{"429", answers, answering(http.StatusTooManyRequests, "application/json", status("TooManyRequests", 429))},
	{"500", answers, answering(http.StatusInternalServerError, "application/json", status("InternalError", 500))},
	{"410", answers, answering(http.StatusGone, "application/json", status("Expired", 410))},
	{"a page of HTML", answers, answering(http.StatusOK, "text/html", "<!DOCTYPE html><title>Sign in</title>")},
	{"closed connections", lines, having(network.Fault{End: network.Closed})},
	{"reset connections", lines, having(network.Fault{End: network.Reset})},
	{"truncated connections", lines, having(network.Fault{End: network.Reset, After: 2_000})},
	{"stalled connections", lines, having(network.Fault{Stall: true})},
	{"slow connections", lines, having(network.Fault{Delay: 200 * time.Millisecond})},
	{"a paused API server", servers, (*world).pauseServer},
	{"a killed API server", servers, (*world).killServer},
	{"a paused etcd", servers, (*world).pauseEtcd},
	{"a killed etcd", servers, (*world).killEtcd},
	{"compaction", servers, (*world).compact},
	{"restarts", servers, (*world).restart},
	{"restarts after compaction", servers, (*world).forget},
	{restore, servers, (*world).restore},
}

func status(reason string, code int) string {
	content, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Message: "fault", Reason: metav1.StatusReason(reason), Code: int32(code),
	})
	if err != nil {
		panic(err)
	}
	return string(content)
}

// cut ends the connections of readers, so that they begin new watches.
func cut(of []*reader) {
	for _, r := range of {
		r.line.Set(network.Fault{End: network.Closed})
		r.line.Mend()
	}
}

func having(fault network.Fault) func(*world, []*reader) func() {
	return func(_ *world, of []*reader) func() {
		for _, r := range of {
			r.line.Set(fault)
		}
		return func() {
			for _, r := range of {
				r.line.Mend()
			}
		}
	}
}

// answering has something in front of the servers answer every request.
func answering(code int, kind, body string) func(*world, []*reader) func() {
	answer := func() *http.Response {
		header := http.Header{"Content-Type": {kind}}
		if code == http.StatusTooManyRequests {
			header.Set("Retry-After", "1")
		}
		return &http.Response{
			Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: header, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
		}
	}
	return func(_ *world, of []*reader) func() {
		for _, r := range of {
			r.answer.Store(&answer)
		}
		cut(of)
		return func() {
			for _, r := range of {
				r.answer.Store(nil)
			}
		}
	}
}

// user is who the readers are.
const user = "reader"

// allow lets the readers read.
func (w *world) allow() {
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	w.eventually("permission", func(ctx context.Context) error {
		_, err := w.admin.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// forbid takes the permission from all readers. Their watches would go on without it.
func (w *world) forbid(of []*reader) func() {
	w.eventually("no permission", func(ctx context.Context) error {
		err := w.admin.RbacV1().ClusterRoleBindings().Delete(ctx, user, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	cut(of)
	return w.allow
}

// both does something to both API servers, as each takes its time.
func (w *world) both(do func(n int) error) {
	failures := make(chan error, len(w.servers))
	for n := range w.servers {
		go func() { failures <- do(n) }()
	}
	for range w.servers {
		require.NoError(w, <-failures)
	}
}

func (w *world) killBoth()  { w.both(func(n int) error { return w.servers[n].KillAPIServer() }) }
func (w *world) startBoth() { w.both(func(n int) error { return w.servers[n].StartAPIServer() }) }

func (w *world) killServer([]*reader) func() {
	server := w.servers[w.random.Intn(2)]
	require.NoError(w, server.KillAPIServer())
	return func() { require.NoError(w, server.StartAPIServer()) }
}

func (w *world) pauseServer([]*reader) func() {
	return w.paused(w.servers[w.random.Intn(2)].PauseAPIServer())
}

func (w *world) pauseEtcd([]*reader) func() { return w.paused(w.servers[0].PauseEtcd()) }

func (w *world) paused(resume func() error, err error) func() {
	require.NoError(w, err)
	w.Cleanup(func() { _ = resume() }) // if the test fails before the fault ends
	return func() { require.NoError(w, resume()) }
}

func (w *world) killEtcd([]*reader) func() {
	require.NoError(w, w.servers[0].KillEtcd())
	return func() { require.NoError(w, w.servers[0].StartEtcd()) }
}

// compact compacts etcd below servers that run: their watch caches still know what etcd does not.
func (w *world) compact(of []*reader) func() {
	w.eventually("compaction", func(ctx context.Context) error { return w.servers[0].CompactEtcd(ctx, "") })
	cut(of)
	return func() {}
}

func (w *world) restart([]*reader) func() { w.killBoth(); return w.startBoth }

// forget restarts both servers without any history: no watch can be resumed.
func (w *world) forget([]*reader) func() {
	require.NoError(w, w.servers[1].KillAPIServer())
	return func() {
		require.NoError(w, w.servers[0].Forget(w.Context()))
		require.NoError(w, w.servers[1].StartAPIServer())
	}
}

// restore takes what etcd has, and gives it back after more was written. The versions that are lost must be more than those that starting servers use
// up: see "Restored servers" in package reflector for what no reader can notice.
func (w *world) restore([]*reader) func() {
	saved := filepath.Join(w.TempDir(), "data")
	require.NoError(w, w.servers[0].SaveEtcd(saved))
	return func() {
		for range lost {
			for _, object := range w.last {
				w.eventually("a write that will be lost", func(ctx context.Context) error {
					object.Data["n"] += "+"
					_, err := w.admin.CoreV1().ConfigMaps(object.Namespace).Update(ctx, object, metav1.UpdateOptions{})
					return err
				})
			}
		}
		w.check("before the restore")
		w.killBoth()
		for _, r := range w.readers {
			r.mu.Lock()
			r.restored = true
			r.mu.Unlock()
		}
		require.NoError(w, w.servers[0].RestoreEtcd(saved))
		w.startBoth()
	}
}

// lost is how often each of the last objects is written before a restore.
const lost = 20

// createLast creates an object for each reader of a namespace or selector. They are written last before a restore.
func (w *world) createLast() {
	for _, namespace := range w.namespaces {
		for _, app := range selected {
			for n := range 3 { // at least one is in the shard, most probably
				object := &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("last-", app, n), Labels: map[string]string{"app": app}},
					Data:       map[string]string{"n": "0"},
				}
				_, err := w.admin.CoreV1().ConfigMaps(namespace).Create(w.Context(), object, metav1.CreateOptions{})
				require.NoError(w, err)
				w.last = append(w.last, object)
			}
		}
	}
}
