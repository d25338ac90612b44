package scim

import (
	"bufio"
	"context"
	"io"

	"github.com/quoin-dev/quoin/internal/fairsemaphore"
)

// Steps of the decoding of a body, in bytes.
const (
	// receivedStep is how much is read from the client at once.
	receivedStep = 32 << 10
	// decodedStep is after how much the work of other accounts may run.
	decodedStep = 16 << 10
)

// decoding is the decoding of a request body. Beyond longBody, it runs in turns with the work of other accounts, except
// while it waits for the client.
type decoding struct {
	ctx     context.Context //nolint:containedctx // that of the request
	account string
	// body is what is decoded.
	body io.Reader
	// turn is nil as long as the body is short.
	turn *fairsemaphore.Turn
	// decoded is the length of what was decoded, and next that of the next step.
	decoded, next int64
}

// received returns a reader of what the client sends.
func (d *decoding) received(from io.Reader) io.Reader {
	return bufio.NewReaderSize(received{d, from}, receivedStep)
}

type received struct {
	*decoding
	from io.Reader
}

// Read implements io.Reader.
func (r received) Read(p []byte) (int, error) {
	if r.turn == nil {
		return r.from.Read(p)
	}
	return r.turn.Reader(r.from).Read(p)
}

// Read implements io.Reader.
func (d *decoding) Read(p []byte) (int, error) {
	n, err := d.body.Read(p)
	if d.decoded += int64(n); d.decoded <= max(longBody, d.next) || err != nil {
		return n, err //nolint:wrapcheck // io.EOF must not be wrapped
	}
	d.next = d.decoded + decodedStep
	if d.turn == nil {
		d.turn, err = fairsemaphore.Processors.Begin(d.ctx, d.account)
		return n, err
	}
	return n, d.turn.Yield()
}

// end ends the turn, and reports whether the body was long.
func (d *decoding) end() bool {
	if d.turn == nil {
		return false
	}
	d.turn.End()
	return true
}
