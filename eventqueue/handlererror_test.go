package eventqueue

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHandlerErrorHasTheVersionOfTheObjectThatItIsAbout(t *testing.T) {
	no := errors.New("no")
	for _, row := range []struct {
		name   string
		handle func(context.Context, *Queue[*thing]) error
		want   string
	}{
		{"the first event", func(context.Context, *Queue[*thing]) error { return no }, "1"},
		{"a panic", func(context.Context, *Queue[*thing]) error { panic("ouch") }, "1"},
		{"the second of two", failingAt("2", no), "2"},
		{"the second, for good", failingAt("2", Permanent(no)), "2"},
		{"after all of them", func(ctx context.Context, q *Queue[*thing]) error {
			return errors.Join(q.Each(ctx, func(Event[*thing]) error { return nil }), no)
		}, "2"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := newThings()
			defer c.Close()
			require.NoError(t, c.Add(at("a", "u", 1)))
			require.NoError(t, c.Update(at("a", "u", 2)))
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var reported []string
			c.Process(ctx, 1, row.handle, func(_ context.Context, err *HandlerError) {
				reported = append(reported, err.ResourceVersion)
				stop()
			})
			assert.Equal(t, []string{row.want}, reported)
		})
	}
}

// failingAt returns a handler that fails on a version.
func failingAt(version string, err error) func(context.Context, *Queue[*thing]) error {
	return func(ctx context.Context, q *Queue[*thing]) error {
		return q.Each(ctx, func(e Event[*thing]) error {
			if e.Object.version == version {
				return err
			}
			return nil
		})
	}
}
