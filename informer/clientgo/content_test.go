package clientgo

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
)

// showsDifferently makes a server show the ConfigMap a with another word, under its version.
func showsDifferently(t *testing.T, server *reflectortest.Server, word string) {
	t.Helper()
	require.NoError(t, server.Convert("configmaps", func(object metav1.Object) {
		if c := object.(*configMap); c.Name == "a" {
			c.Data = map[string]string{"word": word}
		}
	}))
	<-time.After(2 * time.Minute)
	synctest.Wait()
}

// These tests hold store-S9 for handlers and listers of client-go.
func TestHandlersHearOfObjectsThatChangeUnderTheirVersions(t *testing.T) {
	for name, of := range map[string]func(*testing.T, *reflectortest.Server) cache.SharedIndexInformer{
		"a typed client": func(t *testing.T, server *reflectortest.Server) cache.SharedIndexInformer {
			return NewTyped(configMaps(t, server))
		},
		"a ListWatch": func(t *testing.T, server *reflectortest.Server) cache.SharedIndexInformer {
			client := clientset(t, server).CoreV1().ConfigMaps("")
			return NewSharedIndexInformer(&cache.ListWatch{
				ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return client.List(ctx, o) },
				WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return client.Watch(ctx, o) },
			}, &corev1.ConfigMap{}, 0, cache.Indexers{"word": func(object any) ([]string, error) {
				return []string{object.(*configMap).Data["word"]}, nil
			}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t)
				create(t, server, named("a", "x"), named("b", "x"))
				i := of(t, server)
				var d diary
				_, err := i.AddEventHandler(&d)
				require.NoError(t, err)
				run(t, i)
				<-time.After(time.Minute)
				require.Len(t, d.take(), 2)
				showsDifferently(t, server, "y")
				assert.Equal(t, []string{"update a:x>a:y"}, d.take())
				showsDifferently(t, server, "y")
				assert.Empty(t, d.take())
				held, _, err := i.GetStore().GetByKey("default/a")
				require.NoError(t, err)
				assert.Equal(t, "a:y", short(held))
				if name == "a ListWatch" {
					found, err := i.GetIndexer().ByIndex("word", "y")
					require.NoError(t, err)
					assert.Len(t, found, 1)
				}
			})
		})
	}
}

func TestFeedFollowsObjectsThatChangeUnderTheirVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a", "x"), named("b", "x"))
		from := theirs(t, server)
		run(t, from)
		i := FromSharedInformer(from, store.ObjectKey[*configMap])
		var d diary
		i.Handle(typedDiary(&d))
		end := begin(t, i)
		<-time.After(10 * time.Second)
		assert.Len(t, d.take(), 2)
		showsDifferently(t, server, "y")
		assert.Equal(t, []string{"update a:x>a:y"}, d.take())
		showsDifferently(t, server, "y")
		assert.Empty(t, d.take())
		require.NoError(t, end())
	})
}
