package series

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// eventCache writes to a Map. The Java outcome has an EventQueueCollection here.
type eventCache struct{ Map[pod] }

func (c *eventCache) Add(_ EventType, p pod)             { _ = c.Map.Add(p) }
func (c *eventCache) Replace(pods []pod, version string) { _ = c.Map.Replace(pods, version) }
func (c *eventCache) Synchronize()                       {}

// The server ends the watch, as servers do after half an hour to an hour. Then it gets another pod.
func TestPart09AWatchThatEndsIsNotOpenedAgain(t *testing.T) {
	inWorld(t, "the model", func(t *testing.T, ctx context.Context, w world) {
		w.create(t, "db")
		pods := &eventCache{}
		r := NewJavaReflector(FromClient(w.pods), pods)
		assert.NoError(t, r.Start(ctx))
		w.create(t, "cache")
		<-time.After(2 * time.Hour)
		w.create(t, "web")
		<-time.After(time.Minute)
		assert.Equal(t, []string{"default/cache", "default/db"}, pods.ListKeys())
		r.Wait()
	})
	inWorld(t, "the library", func(t *testing.T, ctx context.Context, w world) {
		w.create(t, "db")
		pods := store.New(store.ObjectKey[pod])
		go func() { assert.NoError(t, reflector.New(w.pods, pods).Run(ctx)) }()
		w.create(t, "cache")
		<-time.After(2 * time.Hour)
		w.create(t, "web")
		<-time.After(time.Minute)
		assert.Equal(t, 3, pods.Len())
		assert.Greater(t, len(w.Requests(reflectortest.Verb("watch"))), 1)
	})
}

// The server fails on the first request.
func TestPart09AFirstListThatFailsIsFinal(t *testing.T) {
	inWorld(t, "the model", func(t *testing.T, ctx context.Context, w world) {
		w.create(t, "web")
		w.Inject(reflectortest.Answer(http.StatusInternalServerError).Times(1))
		pods := &eventCache{}
		assert.Error(t, NewJavaReflector(FromClient(w.pods), pods).Start(ctx))
		<-time.After(time.Hour)
		assert.Empty(t, pods.ListKeys())
		assert.Len(t, w.Requests(), 1)
	})
	inWorld(t, "the library", func(t *testing.T, ctx context.Context, w world) {
		w.create(t, "web")
		w.Inject(reflectortest.Answer(http.StatusInternalServerError).Times(1))
		pods := store.New(store.ObjectKey[pod])
		go func() { assert.NoError(t, reflector.New(w.pods, pods).Run(ctx)) }()
		<-time.After(time.Hour)
		synctest.Wait()
		assert.Equal(t, 1, pods.Len())
	})
}

// Five watches in a row end with an error. How many requests does that make before any time passes?
func TestPart09AFailureIsRepeatedAtOnce(t *testing.T) {
	tooOld := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired}
	fail := reflectortest.ErrorEvent(0, tooOld).On("watch", "pods").Times(5)
	inWorld(t, "the model", func(t *testing.T, ctx context.Context, w world) {
		w.Inject(fail)
		r := NewJavaReflector(FromClient(w.pods), &eventCache{})
		assert.NoError(t, r.Start(ctx))
		synctest.Wait()
		assert.Len(t, w.Requests(), 12, "six lists and six watches")
	})
	inWorld(t, "the library", func(t *testing.T, ctx context.Context, w world) {
		w.Inject(fail)
		go func() { assert.NoError(t, reflector.New(w.pods, store.New(store.ObjectKey[pod])).Run(ctx)) }()
		synctest.Wait()
		assert.Len(t, w.Requests(), 1)
	})
}
