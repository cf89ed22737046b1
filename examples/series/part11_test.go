package series

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector"
	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/fields"
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
		w.create(t, "db")
		named := func(name string) *informer.Informer[pod] {
			only := fields.OneTermEqualSelector("metadata.name", name)
			return informer.New(w.pods, informer.WithReflector(reflector.WithFieldSelector(only)))
		}
		web, db := named("web"), named("db") // two variables instead of two qualifiers
		heardOfWeb, heardOfDB := &notes{}, &notes{}
		web.Handle(heardOfWeb.library()) // with a handler for another type, this does not compile
		db.Handle(heardOfDB.library())
		go func() { assert.NoError(t, web.Run(ctx)) }()
		go func() { assert.NoError(t, db.Run(ctx)) }()
		synctest.Wait()
		assert.Equal(t, []string{"added web"}, heardOfWeb.all())
		assert.Equal(t, []string{"added db"}, heardOfDB.all())
	})
}
