package wirebench

import (
	"net/http"
	"testing"

	"github.com/kubereflector/kubereflector/internal/bench/measure"
	"github.com/kubereflector/kubereflector/internal/bench/objects"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
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
			counter := measure.NewCounter(1)
			counter.Expect(few)
			r := start(c, counter)
			require.NoError(t, counter.Wait())
			counter.Expect(few)
			tell(t, host, "modify?n=25")
			require.NoError(t, counter.Wait())
			require.NoError(t, r.Close())
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

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPairingsAreOfContendersThatExist(t *testing.T) {
	used := map[string]bool{}
	for _, p := range pairings {
		assert.Contains(t, datasets, p.dataset, p.name)
		for _, name := range []string{p.ours, p.peer} {
			assert.Contains(t, contenders, name, p.name)
			used[name] = true
		}
	}
	assert.Len(t, used, len(contenders), "each contender is in a case")
}

func TestFloorRefusesWhatIsNoProtobuf(t *testing.T) {
	assert.ErrorContains(t, unwrap([]byte("<html>"), &corev1.Pod{}), "<html>")
}
