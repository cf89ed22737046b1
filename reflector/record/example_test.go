package record_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/record"
	"github.com/kubereflector/kubereflector/store"
	"github.com/kubereflector/kubereflector/store/await"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

// production is a recording of a failure in production. A Recorder writes such a file. Here a color
// changes to one that the program does not know.
const production = `{"format":"kubereflector recording","version":2,"began":"2026-01-01T00:00:00Z"}
{"at":"0s","frame":"request","id":1,"path":"/api/v1/configmaps","query":"resourceVersion=0"}
{"at":"20ms","frame":"answer","id":1,"status":200,"contentType":"application/json","body":{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"10"},"items":[{"metadata":{"namespace":"default","name":"sky","uid":"1","resourceVersion":"9"},"data":{"color":"blue"}}]}}
{"at":"20ms","frame":"request","id":2,"path":"/api/v1/configmaps","query":"watch=true&resourceVersion=10"}
{"at":"25ms","frame":"answer","id":2,"status":200,"contentType":"application/json"}
{"at":"120ms","frame":"events","id":2,"events":[{"type":"MODIFIED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"namespace":"default","name":"sky","uid":"1","resourceVersion":"11"},"data":{"color":"gray"}}}]}
{"at":"200ms","frame":"closed","id":2}
{"at":"200ms","frame":"stopped"}
`

// A bug in production becomes a test: the program runs on the config of its recording.
func ExampleNewReplay() {
	replay, err := record.NewReplay(strings.NewReader(production))
	if err != nil {
		panic(err)
	}
	configMaps := kubernetes.NewForConfigOrDie(replay.Config()).CoreV1().ConfigMaps("")
	cache := store.New(store.ObjectKey[*corev1.ConfigMap])
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- reflector.New(configMaps, cache, reflector.WithoutWatchList()).Run(ctx) }()

	<-replay.Done()
	if err := await.Version(ctx, cache, "11"); err != nil { // outside of a bubble, it may not have handled the last event yet
		panic(err)
	}
	sky, _ := cache.Get(store.Key{Namespace: "default", Name: "sky"})
	fmt.Println(sky.Data["color"], replay.Err())
	stop()
	fmt.Println(<-ended)
	// Output:
	// gray <nil>
	// <nil>
}
