package wirebench

import (
	"net/http"
	"testing"

	"github.com/kubereflector/kubereflector/internal/bench/objects"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

func TestFloorsDecodeEverything(t *testing.T) {
	want := objects.Pods(few, objects.Templated)
	for name, d := range map[string]floorDecoder{"json": floorJSON{}, "protobuf": floorProtobuf{}} {
		t.Run(name, func(t *testing.T) {
			host, _ := newServer(t, "pods")
			c, err := floor(d)(&rest.Config{Host: host}, datasets["pods"])
			require.NoError(t, err)
			r := start(c)
			require.NoError(t, r.wait(few))
			tell(t, host, "modify?n=25")
			require.NoError(t, r.wait(few))
			require.NoError(t, r.close())
			http.DefaultClient.CloseIdleConnections()

			held := c.(*floorLoop).pods
			require.Len(t, held, few)
			for _, pod := range want {
				got := held[pod.Namespace+"/"+pod.Name]
				require.NotNil(t, got)
				require.NotEqual(t, pod.ResourceVersion, got.ResourceVersion)
				pod := pod.DeepCopy()
				pod.ResourceVersion = got.ResourceVersion
				requireSamePod(t, pod, got)
			}
		})
	}
}

func TestContenderThatEndsIsNotWaitedFor(t *testing.T) {
	c, err := floor(floorJSON{})(&rest.Config{Host: "http://127.0.0.1:1"}, datasets["pods"])
	require.NoError(t, err)
	r := start(c)
	assert.ErrorContains(t, r.wait(1), "0 of 1 calls")
	assert.Error(t, r.close())
}

func TestCounterTellsOfEachTarget(t *testing.T) {
	c := newCounter()
	for _, calls := range []int{3, 1, 2} {
		reached := c.reach(calls)
		for range calls {
			select {
			case <-reached:
				t.Fatal("told too early")
			default:
			}
			c.handled()
		}
		<-reached
	}
	c.handled()
	c.handled()
	<-c.reach(1)
	c.forget()
	reached := c.reach(1)
	select {
	case <-reached:
		t.Fatal("what was before does not count")
	default:
	}
	c.handled()
	<-reached
}

func TestFloorRefusesWhatIsNoProtobuf(t *testing.T) {
	assert.ErrorContains(t, unwrap([]byte("<html>"), &corev1.Pod{}), "<html>")
}
