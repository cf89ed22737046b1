package series

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/stretchr/testify/assert"
)

// An observer waits for the pods of a database, and only those of a web site are produced.
func TestPart11APairIsRefusedOnlyWhenTheProgramRuns(t *testing.T) {
	inWorld(t, "the model", func(t *testing.T, ctx context.Context, w world) {
		w.create(t, "web")
		heard := &notes{}
		c := NewContainer()
		Produces(c, "web", FromClient(w.pods))
		Observes(c, "db", func(event Event[pod]) { Deliver(heard, event) })
		assert.EqualError(t, c.Run(ctx), `no producer of *v1.Pod "db": call Produces with this type and qualifier`)

		Produces(c, "db", FromClient(w.pods))
		assert.EqualError(t, c.Run(ctx), `no observer of *v1.Pod "web": call Observes with this type and qualifier`)

		Observes(c, "web", func(Event[pod]) {})
		ctx, stop := context.WithTimeout(ctx, time.Minute)
		defer stop()
		assert.NoError(t, c.Run(ctx))
		assert.Equal(t, []string{"added web"}, heard.all())
	})
	inWorld(t, "the library", func(t *testing.T, ctx context.Context, w world) {
		w.create(t, "web")
		heard := &notes{}
		pods := informer.New(w.pods)
		pods.Handle(heard.library()) // with a handler for another type, this does not compile
		go func() { assert.NoError(t, pods.Run(ctx)) }()
		synctest.Wait()
		assert.Equal(t, []string{"added web"}, heard.all())
	})
}
