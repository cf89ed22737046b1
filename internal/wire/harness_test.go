package wire

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// endlessBody begins with text, and goes on with more of the same for ever.
type endlessBody struct {
	begin, more string
	read        int
}

func (e *endlessBody) Read(p []byte) (int, error) {
	for i := range p {
		if at := e.read + i; at < len(e.begin) {
			p[i] = e.begin[at]
		} else {
			p[i] = e.more[(at-len(e.begin))%len(e.more)]
		}
	}
	e.read += len(p)
	return len(p), nil
}

// zipped returns r compressed and decompressed, as a transport does it.
func zipped(t *testing.T, r io.Reader) io.Reader {
	t.Helper()
	source, sink := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w := gzip.NewWriter(sink)
		_, err := io.Copy(w, r)
		if err == nil {
			err = w.Close()
		}
		sink.CloseWithError(err)
	}()
	t.Cleanup(func() {
		source.Close()
		<-done
	})
	plain, err := gzip.NewReader(source)
	require.NoError(t, err)
	return plain
}

// cutForgetfully cuts a body that arrives in pieces. What a cut has seen and not used is overwritten
// before the next piece comes, but for the first byte and the last few. All of it is there again for
// the last piece. It returns the frames.
func cutForgetfully(t *testing.T, c cutter, body string, poison byte) (frames []string) {
	t.Helper()
	const piece, few = 64, 16
	start := 0
	for end := piece; ; end = min(end+piece, len(body)) {
		b := []byte(body)
		if end < len(body) && end-piece-few > start {
			copy(b[start+1:], bytes.Repeat([]byte{poison}, end-piece-few-start-1))
		}
		for start < end {
			frame, n, ok, err := c.cut(b[start:end])
			require.NoError(t, err, "after %d bytes", end)
			if start += n; ok {
				frames = append(frames, string(frame.Object))
			}
			if n == 0 {
				break
			}
		}
		if end == len(body) {
			require.Equal(t, end, start, "all is cut")
			return frames
		}
	}
}
