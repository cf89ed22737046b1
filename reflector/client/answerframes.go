package client

import (
	"context"
	"io"

	"github.com/kubereflector/kubereflector/internal/wire"
	"github.com/kubereflector/kubereflector/reflector/internal/sharedwatch"
)

// answerFrames reads the frames of an answer.
type answerFrames struct {
	answer *answer
	limit  int
	format wire.Format
	watch  *wire.Watch // nil before the first frame
}

func (f *answerFrames) Next(context.Context) (sharedwatch.Batch, error) {
	if f.watch == nil {
		format, body, err := f.answer.open()
		if err != nil {
			return sharedwatch.Batch{}, err
		}
		f.format, f.watch = format, wire.NewWatch(body, format, f.limit)
	}
	batch, err := f.watch.Next()
	if err != nil && err != io.EOF {
		err = f.answer.fail(f.watch.Head(), err)
	}
	if batch != nil {
		batch.Format = f.format
	}
	return sharedwatch.Batch{Frames: batch}, err
}

func (f *answerFrames) Close() { f.answer.close() }

func (f *answerFrames) Response() any { return f.answer }
