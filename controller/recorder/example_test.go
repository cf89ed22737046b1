package recorder_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kubereflector/kubereflector/controller/recorder"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

// What a controller does to a ConfigMap is told to those who look at it, with kubectl describe
// for instance.
func Example() {
	server, err := reflectortest.NewServer() // in place of a cluster
	if err != nil {
		panic(err)
	}
	defer server.Close()
	clientset := kubernetes.NewForConfigOrDie(server.Config())

	events := recorder.New(clientset.EventsV1(), "painter")
	till := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "till", UID: "b1"}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- events.Run(ctx) }() // a manager does this for its members
	events.Eventf(till, nil, corev1.EventTypeNormal, "Painted", "Paint", "It is %s now", "red")
	events.Eventf(till, nil, corev1.EventTypeWarning, "NotDried", "Dry", "It is still wet after %d hours", 3)
	cancel()
	fmt.Println("ended:", <-ended)

	written, err := clientset.EventsV1().Events("shop").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		panic(err)
	}
	for _, e := range written.Items {
		fmt.Println(e.Regarding.Kind, e.Regarding.Name, e.Type, e.Reason, e.ReportingController+":", e.Note)
	}
	// Unordered output:
	// ended: <nil>
	// ConfigMap till Normal Painted painter: It is red now
	// ConfigMap till Warning NotDried painter: It is still wet after 3 hours
}
