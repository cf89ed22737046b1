package main

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/examples/internal/cluster"
	"github.com/kubereflector/kubereflector/examples/internal/clustertest"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Each case is a fault, or none. Whatever goes wrong, every ConfigMap has its stamp
// in the end. Time is that of a synctest bubble: waiting costs nothing.
func TestEveryConfigMapIsStamped(t *testing.T) {
	patches, watches := [2]string{"patch", "configmaps"}, [2]string{"watch", "configmaps"}
	for _, tc := range []struct {
		name   string
		faults []reflectortest.Fault
		on     [2]string
	}{
		{name: "nothing goes wrong"},
		{"the server fails to patch", []reflectortest.Fault{reflectortest.Answer(500).Times(3)}, patches},
		{"the server is too busy to patch", []reflectortest.Fault{reflectortest.Answer(429).Times(3)}, patches},
		{"the first list is refused", []reflectortest.Fault{reflectortest.Refuse().Times(2)}, watches}, // it is a watch-list
		{"the watch breaks", []reflectortest.Fault{reflectortest.ResetAfterEvents(1).Times(2)}, watches},
		{"a frame is cut short", []reflectortest.Fault{reflectortest.TruncateFrame(1).Times(1)}, watches},
		{"the history is lost while the watch is broken", []reflectortest.Fault{
			reflectortest.ResetAfterEvents(1).Times(1), reflectortest.LoseHistory().After(1).Times(1),
		}, watches},
		{"a proxy answers", []reflectortest.Fault{reflectortest.AnswerHTML(502).Times(2)}, watches},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := reflectortest.Start(t)
				var injected []*reflectortest.Injection
				for _, fault := range tc.faults {
					injected = append(injected, server.Inject(fault.On(tc.on[0], tc.on[1])))
				}
				c, err := cluster.Of(server)
				require.NoError(t, err)
				create(t, server, "early")
				stop := startStamper(t, c)

				for i := range 5 {
					<-time.After(time.Minute)
					create(t, server, fmt.Sprintf("late-%d", i))
				}
				<-time.After(5 * time.Minute)
				stop()
				for _, fault := range injected {
					assert.Positive(t, fault.Hits(), "a fault that no request meets tests nothing")
				}

				configMaps, err := reflectortest.List[*corev1.ConfigMap](server, "default")
				require.NoError(t, err)
				require.Len(t, configMaps, 6)
				for _, c := range configMaps {
					assert.Equal(t, "yes", c.Annotations[stamp], c.Name)
				}
				stamped := server.Requests(reflectortest.Verb("patch"), reflectortest.Answered(200))
				assert.Len(t, stamped, 6, "none is stamped twice")
			})
		})
	}
}

func create(t *testing.T, server *reflectortest.Server, name string) {
	t.Helper()
	require.NoError(t, server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}))
}

// startStamper runs the controller until the returned function is called.
func startStamper(t *testing.T, c cluster.Cluster) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	stamper := newStamper(c)
	go func() { result <- stamper.Run(ctx) }()
	return func() {
		cancel()
		assert.NoError(t, <-result)
	}
}

func TestDemonstration(t *testing.T) {
	assert.Equal(t, "letter has a stamp: yes\n", clustertest.Output(t, cluster.With(run, demo)))
}
