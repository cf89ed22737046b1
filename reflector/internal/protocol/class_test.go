package protocol

import (
	"errors"
	"fmt"
	"testing"

	"github.com/kubereflector/kubereflector/store"
	"github.com/stretchr/testify/assert"
)

func TestJudgeReturnsTheWorstVerdict(t *testing.T) {
	rejected := &store.RejectedError{Rejections: []store.Rejection{{Err: store.ErrBadKey}}}
	failure := errors.New("disk full")
	for name, tt := range map[string]struct {
		err  error
		want Verdict
	}{
		"nothing":                     {nil, Took},
		"a rejection":                 {rejected, Lacks},
		"a rejection, wrapped":        {fmt.Errorf("list: %w", fmt.Errorf("mine: %w", rejected)), Lacks},
		"two rejections":              {errors.Join(rejected, fmt.Errorf("mine: %w", rejected)), Lacks},
		"a failure":                   {failure, Broken},
		"a failure, wrapped":          {fmt.Errorf("list: %w", failure), Broken},
		"a rejection and a failure":   {errors.Join(rejected, failure), Broken},
		"a failure in a join of join": {errors.Join(rejected, errors.Join(rejected, fmt.Errorf("mine: %w", failure))), Broken},
		"a wrapper of nothing":        {emptyWrapper{}, Broken},
	} {
		assert.Equal(t, tt.want, Judge(tt.err), name)
	}
}

// emptyWrapper wraps no error.
type emptyWrapper struct{}

func (emptyWrapper) Error() string { return "empty" }
func (emptyWrapper) Unwrap() error { return nil }
