package informer

import (
	"testing"
	"testing/synctest"

	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestSeveralObserversAreAllToldOfQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		require.NoError(t, server.Create(onNode("a", "n")))
		first, second := &usher{}, &usher{}
		i := newServed(t, server, WithName("pods"), WithObserver(first), WithObserver(inattentive{}), WithObserver(second))
		i.Handle(HandlerFuncs[*corev1.Pod]{}, WithName("only"))
		stop := start(t, i)
		synctest.Wait()
		require.NoError(t, stop())
		for _, one := range []*usher{first, second} {
			assert.Equal(t, []string{"pods/only a 0s"}, one.taken)
		}
	})
}
