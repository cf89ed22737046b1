package wire

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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

func TestErrorsShowNoObjects(t *testing.T) {
	failure := func(head string) string { return (&Error{Head: []byte(head), Err: ErrMalformed, Offset: 7}).Error() }
	for _, head := range []string{"", `{"kind":"SecretList"`, "\n [{", "k8s\x00\x0a", "\x00\x00\x02%\x0a\x05ADDED", "\xd9\xd9\xf7\xa2", "some\xfftext"} {
		assert.Equal(t, "malformed body at byte 7", failure(head))
	}
	assert.Equal(t, `malformed body at byte 7; the body begins with "upstream connect error"`, failure("upstream connect error\n"))
	assert.Less(t, len(failure(strings.Repeat("<", 512))), 200)
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
