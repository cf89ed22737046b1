package record_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/record"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
)

// production is a recording of a failure in production. A Recorder writes such a file. Here a color
// changes to one that the program does not know.
const production = `{"format":"kubereflector recording","version":1,"reflector":"colors","type":"*k8s.io/api/core/v1.ConfigMap","began":"2026-01-01T00:00:00Z","watchList":false,"masked":true}
{"at":"0s","frame":"run"}
{"at":"0s","frame":"list","options":{"resourceVersion":"0"}}
{"at":"20ms","frame":"page","resourceVersion":"10","items":[{"metadata":{"namespace":"default","name":"sky","uid":"1","resourceVersion":"9"},"data":{"color":"blue"}}]}
{"at":"20ms","frame":"watch","options":{"resourceVersion":"10"}}
{"at":"25ms","frame":"opened"}
{"at":"3h12m0s","frame":"event","type":"MODIFIED","object":{"metadata":{"namespace":"default","name":"sky","uid":"1","resourceVersion":"11"},"data":{"color":"gray"}}}
`

// A bug in production becomes a test: its recording replaces the client, and continues frame by
// frame.
func ExampleNewReplay() {
	replay, err := record.NewReplay[*corev1.ConfigMap](strings.NewReader(production), record.WithReplaySteps())
	if err != nil {
		panic(err)
	}
	maps := store.New(store.ObjectKey[*corev1.ConfigMap])
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- reflector.New(replay, maps).Run(ctx) }()

	known := map[string]bool{"blue": true, "grey": true}
	for {
		frame, err := replay.Step(ctx)
		if err != nil {
			break // the recording has ended
		}
		fmt.Println(frame.At, frame.Text)
		for key, object := range maps.All() {
			if color := object.Data["color"]; !known[color] {
				fmt.Printf("  %s has the unknown color %s\n", key, color)
			}
		}
	}
	fmt.Println(replay.Err())
	stop()
	fmt.Println(<-ended)
	// Output:
	// 20ms page
	// 25ms opened
	// 3h12m0s MODIFIED
	//   default/sky has the unknown color gray
	// recording, line 7: recording ends before its reflector did
	// <nil>
}
