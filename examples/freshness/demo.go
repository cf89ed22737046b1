package main

import (
	"context"
	"io"
	"time"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// often lets the server send a bookmark every second instead of every minute.
var often = reflectortest.WithBookmarkInterval(time.Second)

// demo runs the informer of the lamps with a slow watch. After two events, the lamp and the end of the
// first list, no event arrives until catchUp is called.
func demo(ctx context.Context, out io.Writer, c cluster.Cluster) error {
	if err := c.Memory.Create(newLamp("lamp", "bedroom", "off")); err != nil {
		return err
	}
	arrives := make(chan struct{})
	cluster.Server(c).Inject(reflectortest.StallAfterEvents(2, arrives).On("watch", "configmaps"))
	bedroom := reflector.WithLabelSelector(labels.Set{"room": "bedroom"}.AsSelector())
	lamps := informer.New(c.CoreV1().ConfigMaps("default"), informer.WithReflector(bedroom))
	return cluster.While(ctx, lamps.Run, func(ctx context.Context) error {
		if err := lamps.WaitForSync(ctx); err != nil {
			return err
		}
		return run(ctx, out, c, lamps.Cache(), func() { close(arrives) })
	})
}

func newLamp(name, room, light string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"room": room}},
		Data:       map[string]string{"light": light},
	}
}

func light(lamps *store.View[*corev1.ConfigMap]) string {
	lamp, _ := lamps.Get(store.Key{Namespace: "default", Name: "lamp"})
	return lamp.Data["light"]
}
