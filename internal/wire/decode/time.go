package decode

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// readStandardTime reads a time of the standard library by its own method, as encoding/json does:
// the library would accept escapes.
func readStandardTime(dec *jsontext.Decoder, into *time.Time) error {
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	return into.UnmarshalJSON(raw)
}

const layout = `"2006-01-02T15:04:05Z"`

func parseTime(raw []byte) (time.Time, bool) {
	if len(raw) != len(layout) {
		return time.Time{}, false
	}
	for i, want := range []byte(layout) {
		if isDigit(want) != isDigit(raw[i]) || !isDigit(want) && raw[i] != want {
			return time.Time{}, false
		}
	}
	number := func(from int) int { return int(raw[from]-'0')*10 + int(raw[from+1]-'0') }
	year, month, day := number(1)*100+number(3), number(6), number(9)
	hour, minute, second := number(12), number(15), number(18)
	if month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 || second > 59 {
		return time.Time{}, false
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	return t.Local(), t.Day() == day
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
