package feed

import (
	"context"
	"testing"

	"github.com/kubereflector/kubereflector/reflector"
	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// still is a feed that fills nothing.
type still struct{}

func (still) Run(ctx context.Context) error                   { <-ctx.Done(); return nil }
func (still) State() (none reflector.State)                   { return none }
func (still) Changed(reflector.State) (never <-chan struct{}) { return nil }
func (still) Synced() (never <-chan struct{})                 { return nil }

func TestPartThatPanicsWhenItIsRemovedIsGone(t *testing.T) {
	all := NewReflectors("test", func(Place) (store.Store[int], error) { return nil, nil }, func(Place) error { panic("ouch") })
	at := Place{Scope: store.Scope{Namespace: "a"}}
	require.NoError(t, all.Add(at, func(store.Store[int]) Feed { return still{} }))
	one := all.Sources()[0]
	changed := all.Changed(all.State())
	assert.Panics(t, func() { _ = all.Drop(at) })
	<-one.Gone
	<-changed
	assert.ErrorIs(t, all.Drop(at), ErrNone)
}
