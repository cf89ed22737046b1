package reflector

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/features"
	featuretesting "k8s.io/client-go/features/testing"
)

func TestWatchListsAreAskedForWhereTheyMayBe(t *testing.T) {
	for _, clientCan := range []bool{true, false} {
		for _, allowed := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				api := &script{streams: clientCan}
				var opts []Option
				if !allowed {
					opts = append(opts, WithoutWatchList())
				}
				stop := running(t, New(api, newStore(), opts...))
				synctest.Wait()
				require.NoError(t, stop())
				want := "list 0 limit=500"
				if clientCan && allowed {
					want = "stream newest"
				}
				assert.Equal(t, want, api.seen()[0])
			})
		}
	}
}

func TestFeatureGateOfClientGoTurnsWatchListsOff(t *testing.T) {
	featuretesting.SetFeatureDuringTest(t, features.WatchListClient, false)
	synctest.Test(t, func(t *testing.T) {
		api := &script{streams: true}
		stop := running(t, New(api, newStore()))
		synctest.Wait()
		require.NoError(t, stop())
		assert.Equal(t, "list 0 limit=500", api.seen()[0])
	})
}

func closing(version string, annotations map[string]string) watch.Event {
	c := configMap("", "", version)
	c.Annotations = annotations
	return watch.Event{Type: watch.Bookmark, Object: c}
}

var allSent = map[string]string{metav1.InitialEventsAnnotationKey: "true"}

func TestStagingAppliesEventsOfAWatchList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := (&script{streams: true}).watchOpen(
			added(configMap("a", "u1", "1")), added(configMap("b", "u2", "2")), added(configMap("c", "u3", "3")), added(configMap("d", "u4", "4")),
			modified(configMap("b", "u2", "5")), deleted(configMap("a", "u1", "6")), modified(configMap("d", "u4", "7")),
			deleted(configMap("x", "u9", "8")), deleted(configMap("c", "u3", "9")), added(configMap("c", "u5", "10")),
			added(configMap("", "u6", "11")), added(configMap("", "u7", "12")),
			closing("20", allSent), added(configMap("e", "u8", "21")))
		s := newStore()
		r := New(api, s)
		stop := running(t, r)
		synctest.Wait()
		assert.Equal(t, "b@5 c@10 d@7 e@21", contents(s))
		assert.ErrorContains(t, r.State().Err, "store rejected 2 object(s)", "also of the first objects each bad one is told")
		assert.Equal(t, Watching, r.State().Phase)
		assert.Equal(t, []string{"stream newest"}, api.seen(), "the same watch goes on")
		require.NoError(t, stop())
	})
}

func TestOnlyTheRightBookmarkEndsAWatchList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := (&script{streams: true}).watchOpen(added(configMap("a", "u1", "1")),
			closing("5", nil), closing("6", map[string]string{metav1.InitialEventsAnnotationKey: "false"}))
		s := newStore()
		r := New(api, s)
		stop := running(t, r)
		synctest.Wait()
		assert.False(t, closed(r.Synced()))
		assert.Zero(t, s.Len())
		assert.Equal(t, Listing, r.State().Phase)
		require.NoError(t, stop())
	})
}
