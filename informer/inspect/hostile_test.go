package inspect_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/informer/inspect"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// stuck is a client that takes no answer.
type stuck struct {
	*httptest.ResponseRecorder
	writing, release chan struct{}
	text             string
}

func (s *stuck) Write(data []byte) (int, error) {
	close(s.writing)
	<-s.release
	s.text = string(data)
	return len(data), nil
}

func TestClientThatTakesNoAnswerStopsNobodyElse(t *testing.T) {
	p := inspect.New()
	client := &stuck{httptest.NewRecorder(), make(chan struct{}), make(chan struct{}), ""}
	served, seen := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(served)
		p.ServeHTTP(client, httptest.NewRequest(http.MethodGet, home+"/object?informer="+strings.Repeat("%00", 100_000), nil))
	}()
	<-client.writing
	go func() {
		defer close(seen)
		p.State()
		p.AddRunnable("late", member{})()
	}()
	select {
	case <-seen:
	case <-time.After(10 * time.Second):
		t.Error("the page waits for the client")
	}
	close(client.release)
	<-served
	<-seen
	assert.Less(t, len(client.text), 2000, "a long question has a short answer")
}

// bomb panics when it is encoded.
type bomb struct {
	name    string
	encoded *atomic.Int32
}

func (b *bomb) MarshalJSON() ([]byte, error) {
	b.encoded.Add(1)
	panic("ouch")
}

// shy is an error that has no text.
type shy struct{}

func (shy) Error() string { panic("no comment") }

func TestMethodsThatPanicAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := reflectortest.Start(t)
		for n := range 100 {
			require.NoError(t, s.Create(configMap(fmt.Sprint("a", n))))
		}
		var encoded atomic.Int32
		i := informer.NewTransformed(clientset(t, s).CoreV1().ConfigMaps(""), func(cm *corev1.ConfigMap) (*bomb, error) {
			return &bomb{cm.Name, &encoded}, nil
		}, func(b *bomb) (store.Key, error) { return store.Key{Namespace: "default", Name: b.name}, nil }, informer.WithName("bombs"))
		i.Handle(informer.HandlerFuncs[*bomb]{}, informer.WithName("fine"))
		p := inspect.New()
		inspect.Add(p, i)
		p.AddRunnable("shy", member{shy{}})
		p.AddRunnable("joined", member{errors.Join(shy{})})
		runs(t, i)
		<-i.Synced()
		var state inspect.State
		require.NotPanics(t, func() { state = p.State() })
		assert.Equal(t, 100, state.Informers[0].Objects)
		assert.Zero(t, state.Informers[0].Bytes)
		assert.EqualValues(t, 32, encoded.Load(), "failures count as well")
		require.Len(t, state.Runnables, 2)
		assert.Contains(t, state.Runnables[0].Reason, "no comment")
		<-time.After(2 * time.Second)
		p.State()
		assert.EqualValues(t, 32, encoded.Load(), "an estimate holds for some time, also that of nothing")

		object := getJSON[inspect.ObjectState](t, p, "/object.json?informer=bombs&namespace=default&name=a7")
		assert.Contains(t, object.Error, "(*bomb).MarshalJSON (hostile_test.go:")
		assert.NotContains(t, object.Error, "ouch", "it may be the value of a Secret")
		assert.Empty(t, object.YAML)
	})
}
