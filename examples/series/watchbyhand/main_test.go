package main

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var port = regexp.MustCompile(`127\.0\.0\.1:\d+`)

func TestWatchByHand(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out, false))
	assert.Equal(t, `SERVER=http://127.0.0.1:PORT

# List, and note the resource version.
curl -s "$SERVER/api/v1/namespaces/default/configmaps"
  resource version 1, items: 0

# The ConfigMap colors was created and changed. Watch from the version of the list.
curl -sN "$SERVER/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=1"
  ADDED colors at resource version 2, with map[sky:blue]
  MODIFIED colors at resource version 3, with map[sky:grey]

# The server compacted its history, as an API server does every five minutes. Watch from there again.
curl -sN "$SERVER/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=1"
  ERROR {"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (2)","reason":"Expired","code":410}

# List again, and go on from the new version.
curl -s "$SERVER/api/v1/namespaces/default/configmaps"
  resource version 3, items: 1
`, port.ReplaceAllString(out.String(), "127.0.0.1:PORT"))
}

func TestServerStaysUntilItIsInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out lines
	out.last = func(line string) {
		if strings.Contains(line, `{"metadata":{"name":"mine"}}`) {
			stop()
		}
	}
	require.NoError(t, run(ctx, &out, true))
	assert.Contains(t, out.String(), `?watch=true&resourceVersion=3"`)
}

// lines calls last with what is written.
type lines struct {
	strings.Builder
	last func(string)
}

func (l *lines) Write(p []byte) (int, error) {
	defer l.last(string(p))
	return l.Builder.Write(p)
}
