package reflector

import (
	"context"
	"errors"
	"io"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/internal/wire/stream"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/internal/protocol"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

func TestReflectorsThatCannotWorkSaySo(t *testing.T) {
	var noClient *script
	var noStore *store.Cache[*corev1.ConfigMap]
	assert.ErrorIs(t, New(noClient, newStore()).Run(t.Context()), ErrNoClient)
	assert.ErrorIs(t, New[*corev1.ConfigMap, *corev1.ConfigMapList](nil, newStore()).Run(t.Context()), ErrNoClient)
	assert.ErrorIs(t, New(new(script), noStore).Run(t.Context()), ErrNoStore)
	assert.ErrorIs(t, New(new(script), nil).Run(t.Context()), ErrNoStore)
	assert.ErrorIs(t, New(new(script), newStore(), WithLabelSelector(labels.Nothing())).Run(t.Context()), ErrNothingSelected)
	assert.ErrorIs(t, New(new(script), newStore(), WithFieldSelector(fields.Nothing())).Run(t.Context()), ErrNothingSelected)
	assert.Equal(t, Stopped, New(new(script), nil).State().Phase)
	var listType *ListTypeError
	assert.ErrorAs(t, New[*corev1.ConfigMap, *corev1.SecretList](oddClient{}, newStore()).Run(t.Context()), &listType)
	assert.Equal(t, "*v1.SecretList is no list of *v1.ConfigMap: want a pointer to a struct with list metadata and a field Items", listType.Error())
}

type oddClient struct{}

func (oddClient) Get(context.Context, string, metav1.GetOptions) (*corev1.ConfigMap, error) {
	return nil, nil
}
func (oddClient) List(context.Context, metav1.ListOptions) (*corev1.SecretList, error) {
	return nil, nil
}
func (oddClient) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) { return nil, nil }

func TestClientThatReturnsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := new(script)
		api.lists = append(api.lists, func() (*corev1.ConfigMapList, error) { return nil, nil })
		api.list("1", "")
		api.watches = append(api.watches, func() (watch.Interface, error) { return nil, nil })
		var errs []error
		stop := running(t, New(api, newStore(), WithErrorHandler(func(_ context.Context, err error) { errs = append(errs, err) })))
		<-time.After(time.Minute)
		require.NoError(t, stop())
		require.Len(t, errs, 2)
		assert.ErrorIs(t, errs[0], errNoList)
		assert.ErrorIs(t, errs[1], errNoWatch)
	})
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestEndOfTheContextEndsEveryWait(t *testing.T) {
	for name, api := range map[string]*script{
		"a list":    new(script),
		"a watch":   new(script).list("1", ""),
		"a backoff": new(script).listFails(apierrors.NewTooManyRequests("busy", 10000)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stop := running(t, New(api, newStore()))
				synctest.Wait()
				before := time.Now()
				require.NoError(t, stop())
				assert.Equal(t, before, time.Now())
				assert.Zero(t, api.openWatches())
			})
		})
	}
	t.Run("everything", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		api := new(script)
		require.NoError(t, New(api, newStore()).Run(ctx))
		assert.Empty(t, api.seen(), "a context that has ended before: no request at all")
	})
}

func TestRunWaitsForTheWatchToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &slowWatch{result: make(chan watch.Event)}
		api := new(script).list("1", "")
		api.watches = append(api.watches, func() (watch.Interface, error) { return w, nil })
		stop := running(t, New(api, newStore()))
		synctest.Wait()
		before := time.Now()
		require.NoError(t, stop())
		assert.Equal(t, time.Second, time.Since(before))
	})
}

// slowWatch takes a second to end.
type slowWatch struct{ result chan watch.Event }

func (w *slowWatch) ResultChan() <-chan watch.Event { return w.result }

func (w *slowWatch) Stop() { time.AfterFunc(time.Second, func() { close(w.result) }) }

func TestWatchThatDoesNotEndDoesNotHoldUpRun(t *testing.T) {
	// apimachinery's ProxyWatcher does not close its channel.
	synctest.Test(t, func(t *testing.T) {
		api := new(script).list("1", "")
		api.watches = append(api.watches, func() (watch.Interface, error) { return watch.NewProxyWatcher(make(chan watch.Event)), nil })
		stop := running(t, New(api, newStore()))
		synctest.Wait()
		before := time.Now()
		require.NoError(t, stop())
		assert.Equal(t, stream.CloseTimeout, time.Since(before))
	})
}

func TestFailuresAreRetriedWithABackoff(t *testing.T) {
	unavailable := apierrors.NewServiceUnavailable("down")
	busy := apierrors.NewTooManyRequests("busy", 0)
	for name, tc := range map[string]struct {
		api  *script
		want []string
	}{
		"list":          {new(script).listFails(syscall.ECONNREFUSED).listFails(unavailable).list("1", ""), []string{"list 0 limit=500", "list 0 limit=500", "list 0 limit=500", "watch 1"}},
		"watch":         {new(script).list("1", "").watchFails(syscall.ECONNREFUSED).watchFails(busy).watchFails(unavailable), []string{"list 0 limit=500", "watch 1", "watch 1", "watch 1", "watch 1"}},
		"error event":   {new(script).list("1", "").watchOpen(added(configMap("a", "u", "2")), errorEvent(apierrors.NewInternalError(errors.New("unreadable")))).list("3", ""), []string{"list 0 limit=500", "watch 1", "list 2", "watch 3"}},
		"short watch":   {new(script).list("1", "").watch().watch(), []string{"list 0 limit=500", "watch 1", "watch 1", "watch 1"}},
		"unknown event": {new(script).list("1", "").watchOpen(watch.Event{Type: "WHAT", Object: configMap("a", "u", "9")}).list("3", ""), []string{"list 0 limit=500", "watch 1", "list 1", "watch 3"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reported := 0
				began := time.Now()
				stop := running(t, New(tc.api, newStore(), WithErrorHandler(func(context.Context, error) { reported++ })))
				<-time.After(time.Minute)
				require.NoError(t, stop())
				assert.Equal(t, tc.want, tc.api.seen())
				assert.Positive(t, reported)
				assert.GreaterOrEqual(t, tc.api.times[len(tc.api.times)-1].Sub(began), time.Duration(reported)*protocol.MinBackoff)
			})
		})
	}
}

func TestRetryCanMakeAFailureFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", errors.New("no"))
		api := new(script).listFails(syscall.ECONNREFUSED).listFails(forbidden)
		reported := 0
		r := New(api, newStore(), WithRetry(func(err error) bool { return !apierrors.IsForbidden(err) }),
			WithErrorHandler(func(context.Context, error) { reported++ }))
		err := r.Run(t.Context())
		assert.Equal(t, 1, reported, "an error is reported or returned, never both")
		assert.ErrorIs(t, err, forbidden)
		var failure *Error
		require.ErrorAs(t, err, &failure)
		assert.Equal(t, "list", failure.Op)
		assert.Equal(t, Stopped, r.State().Phase)
		assert.ErrorIs(t, r.State().Err, forbidden, "State says why")
	})
}

// errUndecoded is what client-go makes of a broken stream.
func errUndecoded() *apierrors.StatusError {
	status := apierrors.NewClientErrorReporter(http.StatusInternalServerError, "GET", "ClientWatchDecoding").AsObject(io.ErrUnexpectedEOF)
	return &apierrors.StatusError{ErrStatus: *status.(*metav1.Status)}
}

func TestSelectsWhatMayBeHeld(t *testing.T) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", Labels: map[string]string{"app": "x"}}}
	is, isNot := fields.OneTermEqualSelector, fields.OneTermNotEqualSelector
	for name, tc := range map[string]struct {
		opts []Option
		want bool
	}{
		"everything":             {nil, true},
		"labels":                 {[]Option{WithLabelSelector(labels.Set{"app": "x"}.AsSelector())}, true},
		"other labels":           {[]Option{WithLabelSelector(labels.Set{"app": "y"}.AsSelector())}, false},
		"labels withdrawn":       {[]Option{WithLabelSelector(labels.Set{"app": "y"}.AsSelector()), WithLabelSelector(nil)}, true},
		"name":                   {[]Option{WithFieldSelector(is("metadata.name", "a"))}, true},
		"other name":             {[]Option{WithFieldSelector(is("metadata.name", "b"))}, false},
		"any other namespace":    {[]Option{WithFieldSelector(isNot("metadata.namespace", "ns"))}, false},
		"any but another":        {[]Option{WithFieldSelector(isNot("metadata.namespace", "other"))}, true},
		"unknown field":          {[]Option{WithFieldSelector(is("status.phase", "Running"))}, true},
		"unknown, and the name":  {[]Option{WithFieldSelector(fields.AndSelectors(is("status.phase", "Running"), is("metadata.name", "b")))}, false},
		"fields withdrawn":       {[]Option{WithFieldSelector(is("metadata.name", "b")), WithFieldSelector(nil)}, true},
		"fields, but not labels": {[]Option{WithFieldSelector(is("metadata.name", "a")), WithLabelSelector(labels.Set{"app": "y"}.AsSelector())}, false},
	} {
		server := reflectortest.Start(t)
		clientset, err := kubernetes.NewForConfig(server.Config())
		require.NoError(t, err)
		s := store.New(store.ObjectKey[*corev1.ConfigMap])
		assert.Equal(t, tc.want, New(clientset.CoreV1().ConfigMaps("other"), s, tc.opts...).Selects(object), name)
		for namespace, there := range map[string]bool{"": true, "ns": true, "other": false} {
			resource, err := client.ForResource[*corev1.ConfigMap](server.Config(), schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, namespace)
			require.NoError(t, err)
			assert.Equal(t, tc.want && there, New(resource, s, tc.opts...).Selects(object), "%s in %q", name, namespace)
		}
	}
	var none *client.Resource[*corev1.ConfigMap]
	assert.True(t, New(none, store.New(store.ObjectKey[*corev1.ConfigMap])).Selects(object))
}
