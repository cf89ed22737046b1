package protocol

import (
	"errors"
	"fmt"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
)

func TestClassOfNoErrorCostsNothing(t *testing.T) {
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if Classify(nil) != Other {
			t.Error("it is not Other")
		}
	}))
}

func TestRejectedUnlessTheStoreFailed(t *testing.T) {
	rejected := &store.RejectedError{Rejections: []store.Rejection{{Err: store.ErrBadKey}}}
	failure := errors.New("disk full")
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"a rejection":                 {rejected, true},
		"a rejection, wrapped":        {fmt.Errorf("list: %w", fmt.Errorf("mine: %w", rejected)), true},
		"two rejections":              {errors.Join(rejected, fmt.Errorf("mine: %w", rejected)), true},
		"a failure":                   {failure, false},
		"a failure, wrapped":          {fmt.Errorf("list: %w", failure), false},
		"a rejection and a failure":   {errors.Join(rejected, failure), false},
		"a failure in a join of join": {errors.Join(rejected, errors.Join(rejected, fmt.Errorf("mine: %w", failure))), false},
		"a wrapper of nothing":        {emptyWrapper{}, false},
		"a join of nothing":           {emptyJoin{}, false},
	} {
		assert.Equal(t, tt.want, Rejected(tt.err), name)
	}
}

// emptyWrapper wraps no error.
type emptyWrapper struct{}

func (emptyWrapper) Error() string { return "empty" }
func (emptyWrapper) Unwrap() error { return nil }

// emptyJoin joins no errors.
type emptyJoin struct{}

func (emptyJoin) Error() string   { return "empty" }
func (emptyJoin) Unwrap() []error { return nil }
