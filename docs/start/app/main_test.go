package main

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/controller/simulate"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// custom tells the API server in memory what a CustomResourceDefinition tells a real one.
var custom = reflectortest.WithResource(reflectortest.Resource{
	Group: appKind.Group, Version: appKind.Version, Kind: appKind.Kind, Plural: "apps",
	Namespaced: true, Status: true, Prototype: &App{},
})

func newApp(name string, replicas int32) *App {
	return &App{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       AppSpec{Image: "nginx:1.29", Replicas: replicas},
	}
}

func deploymentOf(app string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app}}
}

func TestDeploymentIsAppliedDespiteFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in the bubble, waiting takes no time
		server := reflectortest.Start(t, custom)
		failed := server.Inject(reflectortest.Answer(503).On("patch", "deployments").Times(3))
		broken := server.Inject(reflectortest.ResetAfterEvents(1).On("watch", "apps").Times(2))
		go run(t.Context(), server.Config())
		require.NoError(t, server.Create(newApp("shop", 2)))
		applied := func() bool { return server.Get(deploymentOf("shop")) == nil }
		require.NoError(t, server.WaitFor(t.Context(), applied))
		assert.Equal(t, 3, failed.Hits(), "each of the three faults was met")
		assert.Equal(t, 2, broken.Hits())
	})
}

func TestStatusFollowsTheDeployment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t, custom)
		go run(t.Context(), server.Config())
		go server.WaitFor(t.Context(), func() bool { simulate.Deployments(server); return false }) // after each change
		require.NoError(t, server.Create(newApp("shop", 2)))
		<-time.After(time.Minute)

		deployment := deploymentOf("shop")
		require.NoError(t, server.Get(deployment))
		assert.EqualValues(t, 2, *deployment.Spec.Replicas)
		app := newApp("shop", 2)
		require.NoError(t, server.Get(app))
		assert.EqualValues(t, 2, app.Status.ReadyReplicas)
		before := len(server.Requests(reflectortest.Verb("patch")))
		<-time.After(time.Hour)
		assert.Len(t, server.Requests(reflectortest.Verb("patch")), before, "a settled App causes no requests")
	})
}

func TestDeploymentOfAnotherOwnerIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t, custom)
		theirs := newApp("shop", 2).deployment() // no field differs, so an apply would not conflict
		theirs.OwnerReferences = nil
		require.NoError(t, server.Create(theirs))
		require.NoError(t, server.Create(newApp("shop", 2)))
		go run(t.Context(), server.Config())
		<-time.After(time.Hour)
		require.NoError(t, server.Get(theirs))
		assert.Empty(t, theirs.OwnerReferences)
		require.NoError(t, server.Delete(theirs))
		<-time.After(10 * time.Minute)
		require.NoError(t, server.Get(theirs))
		assert.Len(t, theirs.OwnerReferences, 1, "the name is free, so the App gets its Deployment")
	})
}

// Another Deployment takes the name while an apply for the one of the App is on its way.
func TestDeploymentThatTookTheNameIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t, custom)
		go run(t.Context(), server.Config())
		app, theirs := newApp("shop", 2), newApp("shop", 3).deployment() // no field will differ, so an apply would not conflict
		require.NoError(t, server.Create(app))
		<-time.After(time.Minute)
		arrives := make(chan struct{})
		onItsWay := server.Inject(reflectortest.Stall(arrives).On("patch", "deployments").Times(1))
		require.NoError(t, server.Get(app))
		app.Spec.Replicas = 3
		require.NoError(t, server.Update(app))
		synctest.Wait()
		require.Equal(t, 1, onItsWay.Hits())
		theirs.OwnerReferences = nil
		require.NoError(t, server.Delete(deploymentOf("shop")))
		require.NoError(t, server.Create(theirs))
		close(arrives)
		<-time.After(time.Hour)
		require.NoError(t, server.Get(theirs))
		assert.Empty(t, theirs.OwnerReferences)
	})
}

func TestDeletedAppOfAnOldListIsNotApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t, custom)
		require.NoError(t, server.Create(newApp("shop", 2)))
		config := server.Config()
		config.Wrap(func(to http.RoundTripper) http.RoundTripper { return &lagging{RoundTripper: to, server: server} })
		go run(t.Context(), config)
		<-time.After(time.Minute)
		app, deployment := newApp("shop", 2), deploymentOf("shop")
		require.NoError(t, server.Get(app))
		require.NoError(t, server.Get(deployment))
		assert.NotEmpty(t, server.Requests(reflectortest.Verb("get"), reflectortest.ForResource("apps")), "the App is read live")
		assert.Equal(t, app.UID, deployment.OwnerReferences[0].UID)
	})
}

// lagging is an API server on which the App is deleted and created again just before it is read live.
// The cache of the operator still shows the old one, as after a first list from the past.
type lagging struct {
	http.RoundTripper
	server *reflectortest.Server
	once   sync.Once
}

func (l *lagging) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/apps/shop") {
		l.once.Do(func() {
			_ = l.server.Delete(newApp("shop", 2))
			_ = l.server.Create(newApp("shop", 2))
		})
	}
	return l.RoundTripper.RoundTrip(r)
}
