package client

import (
	"github.com/kubereflector/kubereflector/internal/wire/stream"
)

// MaxAnswers is for the test of the bound.
const MaxAnswers = maxAnswers

// Remember adds an answer.
func Remember[T stream.Object](r *Resource[T], name string, written T) {
	r.answers.add(digest(name), applied{version: versionOf(digest(), written), content: contentOf(written)})
}

// Remembered returns the number of answers.
func Remembered[T stream.Object](r *Resource[T]) int {
	return len(r.answers.recent) + len(r.answers.old)
}
