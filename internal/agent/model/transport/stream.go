package transport

import (
	"context"
	"errors"
	"iter"

	"github.com/quoin-dev/quoin/internal/agent/model"
)

// Send sends an event to the caller of a stream. Its error means that the caller wants no more, and ends the request.
type Send func(model.Event) error

var errStopped = errors.New("no more events are wanted")

// Stream returns the events that receive sends, and its error. The context of receive ends with the stream.
func Stream(ctx context.Context, receive func(ctx context.Context, send Send) error) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		err := receive(ctx, func(e model.Event) error {
			if !yield(e, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(model.Event{}, err)
		}
	}
}
