package inspect

import (
	"testing"

	"github.com/kubereflector/kubereflector/informer"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
)

func TestReflectorHasItsScopeOrSelector(t *testing.T) {
	for want, state := range map[string]informer.ScopeState{
		"":               {},
		"namespace shop": {Scope: store.Scope{Namespace: "shop"}},
		"app=web":        {Selector: "app=web"},
	} {
		assert.Equal(t, want, newReflector(state).Scope)
	}
}
