package controllerruntime

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// showsDifferently makes the server show all secrets with another token, under their versions.
func showsDifferently(t *testing.T, server *reflectortest.Server, token string) {
	t.Helper()
	require.NoError(t, server.Convert("secrets", func(object metav1.Object) {
		object.(*corev1.Secret).Data["token"] = []byte(token)
	}))
	<-time.After(2 * time.Minute)
	synctest.Wait()
}

// A definition gets a default, or another conversion.
func TestCachesFollowObjectsThatChangeUnderTheirVersions(t *testing.T) {
	for name, opts := range map[string]Options{
		"whole":                          {},
		"by reference, some are owned":   byReference(Reference{Owned: mine}),
		"by reference, all are fetched":  byReference(Reference{}),
		"by reference, with one fetched": byReference(Reference{Owned: mine, MaxObjects: 1}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := secretServer(t)
				c := startedWith(t, opts, server.Config(), cache.Options{
					// The usual handler sleeps until a time that is far away in a synctest bubble.
					DefaultWatchErrorHandler: func(context.Context, *toolscache.Reflector, error) {},
				})
				events := follow(t, c)
				synctest.Wait()
				for len(events) > 0 {
					<-events
				}
				for _, want := range []string{"2", "2", "3"} {
					assert.NotEmpty(t, token(t, c, "a", "other"))
					showsDifferently(t, server, want)
					for _, secret := range []string{"owned", "other"} {
						assert.Equal(t, want, token(t, c, "a", secret), secret)
					}
				}
				var got []string
				for len(events) > 0 {
					got = append(got, <-events)
				}
				owned := []string{"update owned=mine 1 to owned=mine 2", "update owned=mine 2 to owned=mine 3"}
				others := []string{"update other=theirs 1 to other=theirs 2", "update other=theirs 2 to other=theirs 3"}
				var wanted []string // for both namespaces
				switch {
				case opts.ByReference == nil:
					wanted = append(append(append(owned, owned...), others...), others...)
				case name != "by reference, all are fetched":
					wanted = append(owned, owned...)
				}
				assert.ElementsMatch(t, wanted, got, "the metadata of fetched objects has not changed")
			})
		})
	}
}
