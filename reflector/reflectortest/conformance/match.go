package conformance

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// values are what a table has kept under names.
type values map[string]string

var reference = regexp.MustCompile(`\$[a-zA-Z0-9]+`)

// expand puts kept values in the place of their names.
func (v values) expand(s string) string {
	return reference.ReplaceAllStringFunc(s, func(name string) string {
		if value, ok := v[name[1:]]; ok {
			return value
		}
		return name
	})
}

func (v values) version(t *testing.T, name string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(v.expand(name), 10, 64)
	require.NoError(t, err)
	return n
}

// match compares an answer with what is expected of it, and keeps what the
// expectation names.
func (v values) match(expected string, actual []byte) error {
	var want, got any
	if err := exactly([]byte(expected), &want); err != nil {
		return fmt.Errorf("the table's JSON: %w", err)
	}
	if err := exactly(actual, &got); err != nil {
		return fmt.Errorf("the answer's JSON: %w", err)
	}
	return v.compare("", want, got)
}

// exactly decodes JSON with numbers as texts: as a float64, large ones that differ look equal.
func exactly(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(into)
}

func (v values) compare(at string, want, got any) error {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is %v, not an object", at, got)
		}
		for name, w := range want {
			if name == "managedFields" {
				sortManagers(object[name])
			}
			if err := v.compare(at+"."+name, w, object[name]); err != nil {
				return err
			}
		}
		return nil
	case []any:
		array, _ := got.([]any)
		if len(array) != len(want) {
			return fmt.Errorf("%s has %d elements, not %d: %v", at, len(array), len(want), got)
		}
		for i, w := range want {
			if err := v.compare(fmt.Sprintf("%s[%d]", at, i), w, array[i]); err != nil {
				return err
			}
		}
		return nil
	case string:
		return v.compareString(at, want, got)
	default:
		if want != got {
			return fmt.Errorf("%s is %v, not %v", at, got, want)
		}
		return nil
	}
}

// sortManagers sorts managedFields by manager and subresource. The server sorts them by time in
// seconds first, which no table can predict.
func sortManagers(entries any) {
	list, _ := entries.([]any)
	key := func(entry any) string {
		fields, _ := entry.(map[string]any)
		return fmt.Sprint(fields["manager"], fields["subresource"])
	}
	slices.SortFunc(list, func(a, b any) int { return cmp.Compare(key(a), key(b)) })
}

func (v values) compareString(at, want string, got any) error {
	if want == "*" {
		if got == nil {
			return fmt.Errorf("%s is absent", at)
		}
		return nil
	}
	s, ok := got.(string)
	if !ok {
		return fmt.Errorf("%s is %v, not %q", at, got, want)
	}
	if name := strings.TrimPrefix(want, "$"); reference.FindString(want) == want && want != "" {
		if _, kept := v[name]; !kept {
			v[name] = s
			return nil
		}
	}
	want = v.expand(want)
	if part, ok := strings.CutPrefix(want, "%"); ok {
		if !strings.Contains(s, part) {
			return fmt.Errorf("%s is %q, without %q", at, s, part)
		}
		return nil
	}
	if s != want {
		return fmt.Errorf("%s is %q, not %q", at, s, want)
	}
	return nil
}
