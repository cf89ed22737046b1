package conformance

import (
	"embed"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
)

//go:embed testdata/*.txt
var tables embed.FS

// Options are what a table needs of a server and no client can ask for.
type Options struct {
	// Compact makes the server forget every version before a version. Tables that
	// need it are skipped where it is nil.
	Compact func(t *testing.T, version string)
	// Sharding says that the server knows shard selectors, as one does whose feature gate
	// ShardedListAndWatch is on.
	Sharding bool
	// Widgets says that the kinds of Widget and Gadgets are served.
	Widgets bool
	// Definitions says that the server follows CustomResourceDefinitions.
	Definitions bool
}

// Run runs every table against the server that config reaches. It is called for
// each table, with the table's own t, so that a double can be a new one each
// time. Tables run in parallel, but for those that compact or change what the server serves: they
// come last, for they take the past, or the order of discovery, from the others on a server that all
// share.
func Run(t *testing.T, config func(*testing.T) *rest.Config, options Options) {
	t.Helper()
	files, err := fs.Glob(tables, "testdata/*.txt")
	require.NoError(t, err)
	alone := map[string]string{}
	t.Run("tables", func(t *testing.T) {
		for _, file := range files {
			content, err := tables.ReadFile(file)
			require.NoError(t, err)
			name, script := strings.TrimSuffix(path.Base(file), ".txt"), string(content)
			if strings.Contains(script, "\nCOMPACT\n") || name == "definitions" {
				alone[name] = script
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				switch {
				case (name == "widgets" || name == "defaults") && !options.Widgets:
					t.Skip("the server serves no custom resources")
				case name == "shards" && !options.Sharding, name == "noshards" && options.Sharding:
					t.Skip("it is about servers whose feature gate ShardedListAndWatch is another")
				}
				newRunner(t, config(t), options).run(script)
			})
		}
		t.Run("protobuf", func(t *testing.T) {
			t.Parallel()
			protobufAgreesWithJSON(t, config(t))
		})
	})
	for name, script := range alone {
		t.Run(name, func(t *testing.T) {
			switch {
			case name == "definitions" && !options.Definitions:
				t.Skip("the server does not follow definitions")
			case name != "definitions" && options.Compact == nil:
				t.Skip("the server cannot be compacted")
			}
			newRunner(t, config(t), options).run(script)
		})
	}
}

// runner runs one table.
type runner struct {
	t       *testing.T
	options Options
	client  *http.Client
	base    string
	values  values
	watches map[string]*stream
}

func newRunner(t *testing.T, config *rest.Config, options Options) *runner {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	base, _, err := rest.DefaultServerUrlFor(config)
	require.NoError(t, err)
	r := &runner{
		t: t, options: options, client: client, base: strings.TrimSuffix(base.String(), "/"),
		values:  values{"ns": "conformance-" + utilrand.String(8)},
		watches: map[string]*stream{},
	}
	r.do(http.MethodPost, "/api/v1/namespaces", nil, `{"metadata":{"name":"`+r.values["ns"]+`"}}`)
	t.Cleanup(func() {
		for _, w := range r.watches {
			w.close()
		}
		client.CloseIdleConnections()
	})
	return r
}

func (r *runner) run(script string) {
	r.t.Helper()
	header := http.Header{}
	var last *answer
	for i, line := range strings.Split(script, "\n") {
		line = strings.TrimSpace(line)
		where := "line " + itoa(i+1) + ": " + line
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case word == ">":
			name, value, _ := strings.Cut(rest, ":")
			header.Set(name, r.values.expand(strings.TrimSpace(value)))
		case isMethod(word):
			target, body, _ := strings.Cut(rest, " ")
			last = r.do(word, r.values.expand(target), header, r.values.expand(body))
			header = http.Header{}
		case word == "UNTIL":
			last = r.until(where, rest)
		case isCode(word):
			require.NotNil(r.t, last, where)
			require.Equal(r.t, word, itoa(last.code), "%s\nbody: %s", where, last.body)
			if rest != "" {
				require.NoError(r.t, r.values.match(rest, last.body), "%s\nbody: %s", where, last.body)
			}
		case word == "HEADER":
			name, value, _ := strings.Cut(rest, ":")
			require.NoError(r.t, r.values.match(strconv.Quote(strings.TrimSpace(value)), []byte(strconv.Quote(last.header.Get(name)))), where)
		default:
			r.command(where, word, strings.TrimSpace(rest), header)
			header = http.Header{}
		}
	}
}

// until repeats a request without a body, and returns the expected answer. It keeps no values of the
// others.
func (r *runner) until(where, line string) *answer {
	r.t.Helper()
	method, line, _ := strings.Cut(line, " ")
	target, line, _ := strings.Cut(line, " ")
	code, body, _ := strings.Cut(line, " ")
	target = r.values.expand(target)
	var last *answer
	for deadline := time.Now().Add(2 * patience); ; {
		last = r.do(method, target, nil, "")
		kept := maps.Clone(r.values)
		if code == itoa(last.code) && (body == "" || kept.match(body, last.body) == nil) {
			r.values = kept
			return last
		}
		if time.Now().After(deadline) {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	require.FailNow(r.t, where, "the last answer: %d %s", last.code, last.body)
	return nil
}

func (r *runner) command(where, word, rest string, header http.Header) {
	r.t.Helper()
	name, rest, _ := strings.Cut(rest, " ")
	rest = strings.TrimSpace(rest)
	switch word {
	case "WATCH":
		r.watches[name] = r.open(where, r.values.expand(rest), header)
	case "EVENT":
		event, err := r.watches[name].next()
		require.NoError(r.t, err, where)
		require.NoError(r.t, r.values.match(rest, event), "%s\nevent: %s", where, event)
	case "END":
		event, err := r.watches[name].next()
		for err == nil && r.values.match(`{"type":"BOOKMARK"}`, event) == nil {
			// The real server counts in whole seconds, and so sends the last
			// bookmark twice now and then.
			event, err = r.watches[name].next()
		}
		require.ErrorIs(r.t, err, io.EOF, "%s\nevent: %s", where, event)
	case "CLOSE":
		r.watches[name].close()
	case "NEWER":
		a, b := r.values.version(r.t, name), r.values.version(r.t, rest)
		require.Greater(r.t, a, b, where)
	case "TOKEN":
		r.values[strings.TrimPrefix(name, "$")] = token(r.values.expand(rest))
	case "LETTERS":
		n, err := strconv.Atoi(rest)
		require.NoError(r.t, err, where)
		r.values[strings.TrimPrefix(name, "$")] = strings.Repeat("x", n)
	case "SHARD":
		words := strings.Fields(rest)
		require.Len(r.t, words, 3, where)
		r.shard(strings.TrimPrefix(name, "$"), strings.TrimPrefix(words[0], "$"), words[1], r.values.expand(words[2]))
	case "COMPACT":
		// The version of a fresh list, so that everything before it is forgotten.
		a := r.do(http.MethodGet, "/api/v1/namespaces/"+r.values["ns"]+"/configmaps", nil, "")
		require.NoError(r.t, r.values.match(`{"metadata":{"resourceVersion":"$compacted"}}`, a.body))
		r.options.Compact(r.t, r.values["compacted"])
		delete(r.values, "compacted")
	default:
		r.t.Fatalf("%s: no such command", where)
	}
}
