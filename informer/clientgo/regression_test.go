package clientgo

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"k8s.io/client-go/tools/cache"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
)

func TestLinesOfClientGosHandlersGoToTheLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := reflectortest.Start(t)
		create(t, server, named("a"))
		core, lines := observer.New(zap.ErrorLevel)
		s := NewTyped(configMaps(t, server),
			WithInformer(informer.WithName("maps"), informer.WithLogger(zap.New(core))))
		_, err := s.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { panic("ouch") }})
		require.NoError(t, err)
		run(t, s)
		<-time.After(time.Millisecond)
		observed := lines.FilterMessage("Observed a panic").All()
		require.NotEmpty(t, observed)
		assert.Equal(t, "maps", observed[0].ContextMap()["informer"])
		assert.Equal(t, "ouch", observed[0].ContextMap()["panic"])
	})
}
