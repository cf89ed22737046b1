package series

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/reflector/reflectortest"
	"github.com/stretchr/testify/assert"
)

// The version of a watch has expired, so everything is listed again. The pod has not changed.
func TestPart10ARelistIsNewsOfEverything(t *testing.T) {
	relist := func(t *testing.T, w world) {
		<-time.After(time.Second)
		w.Inject(reflectortest.Answer(http.StatusGone).On("watch", "pods").Times(1))
		<-time.After(2 * time.Hour)
		synctest.Wait()
		assert.Equal(t, 2, w.requestsForAllObjects())
	}
	inWorld(t, "the model", func(t *testing.T, ctx context.Context, w world) {
		w.create(t, "web")
		heard := &notes{}
		go Observe(ctx, FromClient(w.pods), func(event Event[pod]) { Deliver(heard, event) })
		relist(t, w)
		assert.Equal(t, []string{"added web", "updated web"}, heard.all())
	})
	inWorld(t, "the library", func(t *testing.T, ctx context.Context, w world) {
		w.create(t, "web")
		heard := &notes{}
		pods := informer.New(w.pods)
		pods.Handle(heard.library())
		go func() { assert.NoError(t, pods.Run(ctx)) }()
		relist(t, w)
		assert.Equal(t, []string{"added web"}, heard.all())
	})
}
