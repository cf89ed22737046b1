package wire

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// cut is a frame whose bytes stay.
type cut struct{ Type, Object string }

type nexter interface{ Next() (*Batch, error) }

// readAll returns all frames, and the error that ended them unless it is io.EOF.
func readAll(n nexter) ([]cut, error) {
	var all []cut
	for {
		batch, err := n.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		for _, f := range batch.Frames {
			all = append(all, cut{f.Type, string(f.Object)})
		}
		batch.Release()
	}
}

// pieces are ways in which a body can arrive.
func pieces(body string) map[string]io.Reader {
	return map[string]io.Reader{
		"at once":               strings.NewReader(body),
		"byte by byte":          iotest.OneByteReader(strings.NewReader(body)),
		"half of what is asked": iotest.HalfReader(strings.NewReader(body)),
		"with the error":        iotest.DataErrReader(strings.NewReader(body)),
	}
}

func TestABatchIsWhatHasArrived(t *testing.T) {
	r, w := io.Pipe()
	watch := NewWatch(r, JSON, 0)
	type answer struct {
		objects []string
		err     error
	}
	answers := make(chan answer)
	go func() {
		defer close(answers)
		for {
			batch, err := watch.Next()
			a := answer{err: err}
			if batch != nil {
				for _, f := range batch.Frames {
					a.objects = append(a.objects, string(f.Object))
				}
				batch.Release()
			}
			answers <- a
			if err != nil {
				return
			}
		}
	}()
	for _, step := range []struct {
		write string
		want  []string
	}{
		{event(`{"a":1}`) + "\n", []string{`{"a":1}`}},
		{event(`{"a":2}`) + "\n" + event(`{"a":3}`) + "\n" + `{"type":"AD`, []string{`{"a":2}`, `{"a":3}`}},
		{`DED","object":{"a":4}}`, []string{`{"a":4}`}}, // the end of the line need not come
		{"\n" + event(`{"a":5}`), []string{`{"a":5}`}},
	} {
		_, err := io.WriteString(w, step.write)
		require.NoError(t, err)
		a := <-answers
		require.NoError(t, a.err)
		assert.Equal(t, step.want, a.objects)
	}
	lost := errors.New("lost")
	w.CloseWithError(lost)
	assert.Same(t, lost, (<-answers).err, "the reader's own error")
}

func TestAReaderThatReadsNothingIsGivenUp(t *testing.T) {
	_, err := NewWatch(iotest.ErrReader(nil), JSON, 0).Next()
	assert.Same(t, io.ErrNoProgress, err)
}

func TestBatchesDoNotShareMemoryWhileTheyAreHeld(t *testing.T) {
	var lines []string
	for i := range 200 {
		lines = append(lines, event(`{"a":"`+strings.Repeat(string(rune('a'+i%26)), 2000)+`"}`))
	}
	watch := NewWatch(strings.NewReader(strings.Join(lines, "\n")), JSON, 0)
	var batches []*Batch
	var got []string
	for {
		batch, err := watch.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		batches = append(batches, batch)
	}
	require.Greater(t, len(batches), 2)
	for _, batch := range batches {
		for _, f := range batch.Frames {
			got = append(got, event(string(f.Object)))
		}
		assert.Positive(t, batch.Size())
		batch.Release()
	}
	assert.True(t, slices.Equal(lines, got))
}

func event(object string) string { return `{"type":"ADDED","object":` + object + `}` }
