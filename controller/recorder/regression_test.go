package recorder

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	corev1 "k8s.io/api/core/v1"
)

func TestEventWhoseAnswerWasLostIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zap.WarnLevel)
		server, r := loseAnswers(t, http.MethodPost, 1, WithLogger(zap.New(core)))
		stop := start(t, r)
		synctest.Wait()
		r.tell(foo("a"), "Told")
		<-time.After(time.Minute)
		require.NoError(t, stop())
		assert.Len(t, written(t, server), 1)
		for _, line := range lines.All() {
			assert.NotContains(t, line.ContextMap()["error"], "exist")
		}
	})
}

// The name of an Event has its time, so that two of one object at one time have one name.
func TestEventWhoseNameIsTakenIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zap.WarnLevel)
		server, r := newRecorder(t, WithLogger(zap.New(core)))
		stop := start(t, r)
		synctest.Wait()
		r.tell(foo("a"), "One")
		r.Eventf(Reference(foo("a"), fooKind), nil, corev1.EventTypeNormal, "Two", "Act", "hm")
		require.NoError(t, stop())
		require.Len(t, written(t, server), 1)
		require.Equal(t, 1, lines.Len())
		assert.Contains(t, lines.All()[0].ContextMap()["error"], "exist")
	})
}
