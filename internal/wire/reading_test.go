package wire

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// piece is a frame whose bytes stay.
type piece struct{ Type, Object string }

type nexter interface{ Next() (*Batch, error) }

// readAll returns all frames, and the error that ended them unless it is io.EOF.
func readAll(n nexter) ([]piece, error) {
	var all []piece
	for {
		batch, err := n.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		for _, f := range batch.Frames {
			all = append(all, piece{f.Type, string(f.Object)})
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

// A value that comes in small pieces costs what it costs at once, not the square of it.
func TestPiecesOfAValueAreScannedOnce(t *testing.T) {
	many := func(s string) string { return strings.Repeat(s, 4096) }
	line := event("{}") + "\n"
	for name, c := range map[string]struct {
		cutter cutter
		body   string
		poison byte
		want   []string
	}{
		"a number in a list":        {&jsonItems{meta: &ListMeta{}}, `{"items":[` + many("1") + "]}", ',', []string{many("1")}},
		"a number beside the items": {&jsonItems{meta: &ListMeta{}}, `{"a":` + many("1") + "}", ',', nil},
		"a string in a list":        {&jsonItems{meta: &ListMeta{}}, `{"items":["` + many("1") + `"]}`, '"', []string{`"` + many("1") + `"`}},
		"a member's name":           {&jsonItems{meta: &ListMeta{}}, `{"` + many("a") + `":1}`, '"', nil},
		"space after a name":        {&jsonItems{meta: &ListMeta{}}, `{"a"` + many(" ") + `:1}`, '"', nil},
		"an event":                  {&jsonEvents{}, event(`{"a":"` + many("x") + `"}`), '}', []string{`{"a":"` + many("x") + `"}`}},
		"a line":                    {&jsonEvents{lines: true}, event(`{"a":"`+many("x")+`"}`) + "\n", '\n', []string{`{"a":"` + many("x") + `"}`}},
		"space in a line":           {&jsonEvents{lines: true}, line + `{"type":"ADDED","object":{"a":` + many(" ") + "1}}\n", '}', []string{"{}", `{"a":` + many(" ") + "1}"}},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, cutForgetfully(t, c.cutter, c.body, c.poison))
		})
	}
}

// endlessBodies never come to the end of a frame, or of what is around frames.
var endlessBodies = map[string]struct {
	format      Format
	list        bool
	begin, more string
}{
	"space":                     {JSON, false, "", " "},
	"space after an event":      {JSON, false, event("{}") + "\n", "\n"},
	"an object":                 {JSON, false, event("{}") + `{"type":"ADDED","object":{`, `"a":{},`},
	"an event":                  {JSON, false, `{`, `"a":1,`},
	"a type":                    {JSON, false, `{"type":"`, "x"},
	"a line":                    {JSON, false, event("{}") + "\n" + `{"type":"ADDED","object":{"a":"`, "secret"},
	"brackets":                  {JSON, false, `{"object":`, "["},
	"a number":                  {JSON, false, `{"object":`, "1"},
	"space before a list":       {JSON, true, "", "\n"},
	"a name":                    {JSON, true, `{"`, "x"},
	"space after a name":        {JSON, true, `{"a"`, " "},
	"space before a value":      {JSON, true, `{"a":`, " "},
	"metadata":                  {JSON, true, `{"metadata":{"continue":"`, "x"},
	"a member that is a number": {JSON, true, `{"a":`, "1"},
	"members":                   {JSON, true, `{`, `"a":1,`},
	"space before items":        {JSON, true, `{"items":[`, " "},
	"an item":                   {JSON, true, `{"items":[{"data":"`, "secret"},
	"an item that is a number":  {JSON, true, `{"items":[`, "1"},
	"members after the items":   {JSON, true, `{"items":[{}]`, `,"a":1`},
	"space after a list":        {JSON, true, `{"items":[{}]}`, " "},
	"a protobuf event":          {Protobuf, false, "\x7f\xff\xff\xff", "x"},
	"fields of an envelope":     {Protobuf, true, "k8s\x00", "\x28\x01"},
	"a field of an envelope":    {Protobuf, true, "k8s\x00\x0a\xff\xff\xff\x7f", "x"},
	"fields of a protobuf list": {Protobuf, true, "k8s\x00\x12\xff\xff\xff\xff\xff\x7f", "\x28\x01"},
	"a protobuf item":           {Protobuf, true, "k8s\x00\x12\xff\xff\xff\xff\xff\x7f\x12\xff\xff\xff\x7f", "x"},
}

func TestEndlessBodiesAreGivenUpAtTheLimit(t *testing.T) {
	const limit = 100 << 10
	for name, c := range endlessBodies {
		t.Run(name, func(t *testing.T) {
			plain := &endlessBody{begin: c.begin, more: c.more}
			readers := []io.Reader{plain}
			if c.begin == "" { // compressed, the shortest of all
				readers = append(readers, zipped(t, &endlessBody{more: c.more}))
			}
			for _, r := range readers {
				var body nexter = NewWatch(r, c.format, limit)
				if c.list {
					body = NewList(r, c.format, limit)
				}
				_, err := readAll(body)
				require.ErrorIs(t, err, ErrTooLarge)
				assert.ErrorContains(t, err, "frame over the size limit of 102400 bytes at byte ")
				assert.NotContains(t, err.Error(), "begins", "the body is not shown")
			}
			assert.Less(t, plain.read, 4*limit)
		})
	}
}

func TestErrorsAreShortWhateverTheBodyHolds(t *testing.T) {
	long := strings.Repeat("é", 1<<20)
	for _, body := range []nexter{
		NewList(strings.NewReader(`{"kind":"`+long+`"}`), JSON, 0),
		NewList(strings.NewReader(`{"`+long+`" 1`), JSON, 0),
		NewList(strings.NewReader(`{"`+long+`":}`), JSON, 0),
		NewList(strings.NewReader(`{"metadata":{"`+long+`":1,"continue":{"`+long+`":1}}}`), JSON, 0),
		NewWatch(strings.NewReader(`{"`+long+`":01}`), JSON, 0),
	} {
		_, err := readAll(body)
		require.ErrorIs(t, err, ErrMalformed)
		assert.Less(t, len(err.Error()), 1<<10)
	}
}

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

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A program may have hundreds of idle watches: each must not hold a buffer of a whole chunk.
func TestIdleWatchHoldsASmallBuffer(t *testing.T) {
	event := func(size int) string {
		return `{"type":"ADDED","object":{"a":"` + strings.Repeat("x", size) + `"}}` + "\n"
	}
	reads := make(chan int, 1) // the room of the read that waits
	from := make(chan string, 1)
	w := NewWatch(readFunc(func(into []byte) (int, error) {
		reads <- len(into)
		return copy(into, <-from), nil
	}), JSON, 0)
	next := func() chan int {
		got := make(chan int, 1)
		go func() {
			batch, err := w.Next()
			if assert.NoError(t, err) {
				got <- len(batch.Frames)
				batch.Release()
			}
		}()
		return got
	}
	got := next()
	assert.Equal(t, waitingSize, <-reads, "before the first event")
	from <- event(10) + event(20)
	assert.Equal(t, 2, <-got)

	got = next()
	assert.Equal(t, waitingSize, <-reads)
	assert.Nil(t, w.batch)
	from <- event(2 * waitingSize)[:waitingSize]
	assert.Greater(t, <-reads, chunkSize/2, "more is there")
	from <- event(2 * waitingSize)[waitingSize:]
	assert.Equal(t, 1, <-got)

	got = next()
	assert.Equal(t, chunkSize, <-reads, "much came at once")
	from <- event(30)
	assert.Equal(t, 1, <-got)
	got = next()
	assert.Equal(t, waitingSize, <-reads)
	from <- event(40)
	assert.Equal(t, 1, <-got)
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(into []byte) (int, error) { return f(into) }
