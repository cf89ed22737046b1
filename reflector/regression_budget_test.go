package reflector_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

func TestEndlessListEndsWithTheBudgetOfItsCache(t *testing.T) {
	item := func(i int) string { return markedObject(fmt.Sprint("n", i), "8", "") }
	for name, tc := range map[string]struct {
		verb string
		body hostileAnswer
		from string // the version that the cache has
		opts []reflector.Option
	}{
		"list": {"list", hostileAnswer{body: endlessly(listHead, func(i int) string { return item(i) + "," })}, "7", []reflector.Option{reflector.WithoutWatchList()}},
		"pages": {"list", hostileAnswer{body: func(n int) io.Reader {
			items := strings.Repeat(item(n)+",", 499) + item(n)
			return strings.NewReader(fmt.Sprintf(`{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"80","continue":"t%d"},"items":[%s]}`, n, items))
		}}, "7", []reflector.Option{reflector.WithoutWatchList()}},
		"watch-list": {"watch", hostileAnswer{body: endlessly("", func(i int) string { return jsonEvent(watch.Added, item(i)) })}, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &hostile{row: hostileRow{verb: tc.verb, answer: tc.body}}
				config := &rest.Config{Host: "http://apiserver", Transport: server, QPS: -1}
				resource := openedAt[*corev1.ConfigMap](t, config, configMapResource, "default", client.WithoutProtobuf())
				cache := store.New(store.ObjectKey[*corev1.ConfigMap])
				held := []*corev1.ConfigMap{heldObject()}
				require.NoError(t, cache.Replace(held, tc.from))
				budget, err := store.AddBudget(cache, 64<<10, nil)
				require.NoError(t, err)
				before, bytes := liveHeap(), budget.Bytes()
				m := followedInto(t, resource, cache, tc.opts...)
				synctest.Wait()

				state := m.of.State()
				require.Equal(t, reflector.BackingOff, state.Phase)
				require.ErrorIs(t, state.Err, store.ErrOverBudget)
				assert.Equal(t, []string{"kept"}, m.names())
				assert.Equal(t, tc.from, cache.ResourceVersion())
				assert.Equal(t, bytes, budget.Bytes())
				assert.LessOrEqual(t, liveHeap()-before, int64(4<<20), "bytes of live heap")
				requests, read, _ := server.measured()
				assert.LessOrEqual(t, read, int64(16<<20), "bytes read")

				assert.Greater(t, time.Until(state.NextRetry), 500*time.Millisecond)
				<-time.After(time.Until(state.NextRetry) - time.Millisecond)
				early, _, _ := server.measured()
				assert.Equal(t, requests, early, "requests before the next try")
				server.behave()
				<-time.After(10 * time.Minute)
				assert.Equal(t, []string{"kept", "new"}, m.names())
				assert.NoError(t, m.of.State().Err)
				m.stop()
			})
		})
	}
}
