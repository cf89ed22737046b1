package client

import (
	"crypto/sha256"

	"github.com/kubereflector/kubereflector/reflector/internal/source"
)

// MaxAnswers is for the test of the bound.
const MaxAnswers = maxAnswers

// Remember adds an answer.
func Remember[T source.Object](r *Resource[T], intent string, written T) {
	r.answers.add(sha256.Sum256([]byte(intent)), written)
}

// Remembered returns the number of answers.
func Remembered[T source.Object](r *Resource[T]) int {
	return len(r.answers.recent) + len(r.answers.old)
}
