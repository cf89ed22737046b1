package reflector_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/client"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func TestUnknownFieldsAreReportedAndTheObjectIsStored(t *testing.T) {
	sized := strings.Replace(jsonObject("b", "8", "blue"), `"data":{`, `"data":{"size":3,`, 1)
	for name, server := range map[string]*scripted{
		"watch-list": {watches: []scriptedAnswer{{body: jsonStream("7", jsonObject("a", "5", "red")) + jsonEvent(watch.Added, sized), open: true}}},
		"list": {
			lists:   []scriptedAnswer{jsonList("7", jsonObject("a", "5", "red"), sized)},
			watches: []scriptedAnswer{{open: true}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var unknown []*client.DecodeError
				api := server.client(t, client.WithUnknownFields(func(err *client.DecodeError) {
					mu.Lock()
					defer mu.Unlock()
					unknown = append(unknown, err)
				}))
				var opts []reflector.Option
				if name == "list" {
					opts = append(opts, reflector.WithoutWatchList())
				}
				s := store.New(store.ObjectKey[*Paint])
				r := reflector.New(api, s, opts...)
				stop := start(t, r)
				assert.Equal(t, "a red, b blue", colors(s))
				assert.NoError(t, r.State().Err)
				stop()
				require.Len(t, unknown, 1)
				assert.Equal(t, "default/b", unknown[0].Namespace+"/"+unknown[0].Name)
				assert.Equal(t, "/data/size", unknown[0].Field)
			})
		})
	}
}

func TestFieldThatDoesNotFitIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		object := strings.Replace(jsonObject("b", "8", "blue"), `"color":"blue"`, `"color":7`, 1)
		server := &scripted{lists: []scriptedAnswer{jsonList("7", object)}}
		_, err := server.client(t).List(t.Context(), metav1.ListOptions{})
		var bad *client.DecodeError
		require.ErrorAs(t, err, &bad)
		assert.Equal(t, "/data/color", bad.Field)
	})
}

func TestUnknownFieldOfAnObjectThatDoesNotFitIsNotThatOfTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := strings.Replace(jsonObject("a", "5", "red"), `"color":"red"`, `"size":3,"color":7`, 1)
		server := &scripted{lists: []scriptedAnswer{jsonList("7", bad, jsonObject("b", "6", "blue"))}}
		api := server.client(t, client.WithUnknownFields(func(err *client.DecodeError) { t.Errorf("reported: %v", err) }))
		_, err := api.List(t.Context(), metav1.ListOptions{})
		var failure *client.DecodeError
		require.ErrorAs(t, err, &failure)
		assert.Equal(t, "a", failure.Name)
	})
}

// Placed is what a scheduler wants to know of a pod, in a struct of that.
type Placed struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Node string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase corev1.PodPhase `json:"phase"`
	} `json:"status"`
}

func TestSmallerStructHasTheSameFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		for i := range 5 {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("p", i), Labels: map[string]string{"a": "b"}}}
			pod.Spec.NodeName = fmt.Sprint("n", i)
			pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "image"}}
			pod.Status.Phase = corev1.PodRunning
			require.NoError(t, server.Create(pod))
		}
		resource := corev1.SchemeGroupVersion.WithResource("pods")
		whole, err := client.ForResource[*corev1.Pod](server.Config(), resource, "default")
		require.NoError(t, err)
		small, err := client.ForResource[*Placed](server.Config(), resource, "default")
		require.NoError(t, err)
		pods, places := store.New(store.ObjectKey[*corev1.Pod]), store.New(store.ObjectKey[*Placed])
		defer start(t, reflector.New(whole, pods))()
		defer start(t, reflector.New(small, places))()
		require.Equal(t, 5, places.Len())
		for key, pod := range pods.All() {
			place, ok := places.Get(key)
			require.True(t, ok)
			assert.Equal(t, pod.ObjectMeta, place.ObjectMeta)
			assert.Equal(t, pod.Spec.NodeName, place.Spec.Node)
			assert.Equal(t, pod.Status.Phase, place.Status.Phase)
		}
	})
}
