package conformance

import (
	"bufio"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is how long a watch may take to give its next event.
const patience = 20 * time.Second

var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

func isMethod(word string) bool { return slices.Contains(methods, word) }

func isCode(word string) bool {
	n, err := strconv.Atoi(word)
	return err == nil && n >= 100 && n < 600
}

func itoa(n int) string { return strconv.Itoa(n) }

func token(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

type answer struct {
	code   int
	header http.Header
	body   []byte
}

func (r *runner) request(ctx context.Context, method, target string, header http.Header, body string) *http.Request {
	r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, r.base+target, strings.NewReader(body))
	require.NoError(r.t, err)
	for name, values := range header {
		req.Header[name] = values
	}
	if req.Header.Get("Content-Type") == "" && body != "" {
		media := "application/json"
		if method == http.MethodPatch {
			media = "application/merge-patch+json"
		}
		req.Header.Set("Content-Type", media)
	}
	return req
}

func (r *runner) do(method, target string, header http.Header, body string) *answer {
	r.t.Helper()
	resp, err := r.client.Do(r.request(r.t.Context(), method, target, header, body))
	require.NoError(r.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(r.t, err)
	return &answer{code: resp.StatusCode, header: resp.Header, body: b}
}

// stream is an open watch. Its events are read when they are asked for.
type stream struct {
	cancel context.CancelFunc
	body   io.ReadCloser
	lines  *bufio.Reader
}

func (r *runner) open(where, target string, header http.Header) *stream {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	resp, err := r.client.Do(r.request(ctx, http.MethodGet, target, header, ""))
	require.NoError(r.t, err, where)
	require.Equal(r.t, http.StatusOK, resp.StatusCode, where)
	return &stream{cancel: cancel, body: resp.Body, lines: bufio.NewReader(resp.Body)}
}

// next gives the next event, io.EOF at the orderly end of the watch.
func (s *stream) next() ([]byte, error) {
	timer := time.AfterFunc(patience, s.cancel)
	defer timer.Stop()
	line, err := s.lines.ReadBytes('\n')
	if err == io.EOF && len(line) > 0 {
		err = io.ErrUnexpectedEOF
	}
	return line, err
}

func (s *stream) close() {
	s.cancel()
	_ = s.body.Close()
}
