package discreet

import (
	gojson "encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/kubereflector/kubereflector/internal/panicked"
	sigsjson "sigs.k8s.io/json"
)

// Known is an error that has a text without values of objects.
type Known interface {
	error
	Discreet() string
}

// New returns an error with a text that has no value of an object.
func New(text string) error { return &wrapped{text: text} }

// Error returns an error that wraps err and has the text of [Text].
func Error(err error) error { return &wrapped{Text(err), err} }

// WithText returns an error that has the text of err, and wraps it. Its text for logs is another one.
func WithText(text string, err error) error { return &known{err, text} }

type known struct {
	error
	text string
}

func (e *known) Discreet() string { return e.text }
func (e *known) Unwrap() error    { return e.error }

// Panic returns the error for a panic that is being recovered: call it in the deferred function itself. Its text
// for logs names the function that panicked and the type of the value, because the value may be one of an object.
func Panic(value any) error {
	return WithText(panicText(value)+": errors.Unwrap has the value and the stack", panicked.Error(value))
}

// Panicked is [Panic] without the value and the stack, where each object of a cache may have such an error.
func Panicked(value any) error { return &wrapped{panicText(value), panicked.Err} }

func panicText(value any) string {
	at := "a method"
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs[:])]) // the caller of the deferred function, and below
	for more := true; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		if of := frame.Function; of != "" && !strings.HasPrefix(of, "runtime.") && !strings.HasPrefix(of, "encoding/json.") { // which panics again
			at = fmt.Sprintf("%s (%s:%d)", of, filepath.Base(frame.File), frame.Line)
			break
		}
	}
	return fmt.Sprintf("%v of %.500s with a %.200T", panicked.Err, at, value)
}

type wrapped struct {
	text string
	err  error // nil if there is no cause
}

func (e *wrapped) Error() string    { return e.text }
func (e *wrapped) Discreet() string { return e.text }
func (e *wrapped) Unwrap() error    { return e.err }

// other is the text of every error that is not known to quote nothing. Such an error comes from a
// method of the object's type, or from a library that quotes what it could not decode.
const other = "a value does not fit, or a method of the type refuses it: errors.Unwrap has the cause, which may quote the value"

// Text returns the text of the error of a decoder without values of the object. The errors of the JSON
// libraries quote numbers and strings, and the error of a type's own method may quote anything. So only
// texts that are known to quote nothing are passed on.
func Text(err error) string {
	if known, ok := errors.AsType[Known](err); ok {
		return known.Discreet()
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		return withoutValue(semantic)
	}
	if old, ok := errors.AsType[*gojson.UnmarshalTypeError](err); ok {
		text := *old
		text.Value, _, _ = strings.Cut(old.Value, " ") // such as "number 7"
		if !slices.Contains(kinds, text.Value) {
			text.Value = "value" // by a method of the type
		}
		return text.Error()
	}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return syntactic.Error() // quotes a character or two
	}
	if syntactic, _ := sigsjson.SyntaxErrorOffset(err); syntactic {
		return err.Error() // quotes a character
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.ErrUnexpectedEOF.Error()
	}
	if text := err.Error(); generated.MatchString(text) {
		return text
	}
	return other
}

// kinds are how encoding/json names the kinds of values.
var kinds = []string{"array", "bool", "number", "object", "string"}

func withoutValue(semantic *json.SemanticError) string {
	text := *semantic
	text.JSONValue = nil
	switch semantic.Err {
	case json.ErrUnknownName, strconv.ErrRange, strconv.ErrSyntax:
		// These errors are constant.
	default:
		text.Err = nil
	}
	return text.Error()
}

// generated matches the errors of generated Unmarshal methods, which have no type. Other packages
// whose errors begin with "proto:" quote values.
var generated = regexp.MustCompile(`^proto: (negative length found during unmarshaling|integer overflow|unexpected end of group|illegal wireType \d+|wrong wireType = \d+ for field \w+|\w+: wiretype end group for non-group|\w+: illegal tag -?\d+ \(wire type -?\d+\))$`)

// HTTP returns an error of net/http without the bytes that it quotes, which a server sent in place of a head of HTTP:
// a proxy that forgets the empty line below it makes objects of them. Other errors are returned as they are.
func HTTP(err error) error {
	text := err.Error()
	for _, broken := range [...]string{"malformed HTTP ", "malformed MIME header"} {
		before, after, _ := strings.Cut(text, broken)
		if what, _, quotes := strings.Cut(after, "\""); quotes {
			return &wrapped{before + broken + what + "that is not shown: the port may speak TLS, HTTP/2 or something else, or a proxy breaks answers", err}
		}
	}
	return err
}
