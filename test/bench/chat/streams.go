package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/quoin-dev/quoin/internal/agent/stream"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
)

// target streams text from the model.
type target struct {
	client *http.Client
	// build returns the request for a new stream.
	build func(ctx context.Context, n int) (*http.Request, error)
}

// piece is a piece of text that has arrived.
type piece struct {
	at      time.Time
	latency time.Duration
}

// measured is what a measurement has found.
type measured struct {
	// pieces are the latencies of the pieces that have arrived while all streams were in progress.
	pieces measure.Times
	// first are the times from the request until the first piece.
	first measure.Times
	// memory is the highest anonymous memory of the process in MiB.
	memory float64
	// processor is the processor time of the process for each piece, and busy the share of all processors that was in use by anyone.
	processor time.Duration
	busy      float64
}

// measure opens all streams at once and reads them to their ends. Memory and processor time are those of the process with an id, unless it is 0.
func (t *target) measure(ctx context.Context, o options, id int) (*measured, error) {
	var group sync.WaitGroup
	streams, errs := make([][]piece, o.streams), make([]error, o.streams)
	start, idle, used := time.Now(), process.Idle(), process.UsageOf(id).Processor
	for i := range o.streams {
		group.Go(func() { streams[i], errs[i] = t.read(ctx, i, o.rate*int(o.time/time.Second)) })
	}
	sampling, stop := context.WithCancel(ctx)
	sampled := make(chan float64)
	go func() { sampled <- sample(sampling, id) }()
	group.Wait()
	stop()
	idle, used = process.Idle()-idle, process.UsageOf(id).Processor-used
	out := &measured{memory: <-sampled, busy: 1 - idle/time.Since(start).Seconds()/float64(runtime.NumCPU())}
	pieces := 0
	for i := range streams {
		if errs[i] != nil {
			return nil, fmt.Errorf("stream %d: %w", i, errs[i])
		}
		pieces += len(streams[i])
	}
	out.processor = time.Duration(used / float64(pieces) * float64(time.Second))
	return out, out.add(streams, start)
}

// add adds the pieces that have arrived while all streams were in progress.
func (m *measured) add(streams [][]piece, start time.Time) error {
	begin, end := start, streams[0][len(streams[0])-1].at
	for _, s := range streams {
		m.first.Each = append(m.first.Each, s[0].at.Sub(start))
		if s[0].at.After(begin) {
			begin = s[0].at
		}
		if last := s[len(s)-1].at; last.Before(end) {
			end = last
		}
	}
	if m.first.Took = begin.Sub(start); end.Sub(begin) < time.Second {
		return fmt.Errorf("the streams were all in progress for %s only: -time must be longer than it takes until the last one begins, %s", max(end.Sub(begin), 0), begin.Sub(start))
	}
	m.pieces.Took = end.Sub(begin)
	for _, s := range streams {
		for _, p := range s {
			if !p.at.Before(begin) && !p.at.After(end) {
				m.pieces.Each = append(m.pieces.Each, p.latency)
			}
		}
	}
	return nil
}

// sample returns the highest anonymous memory of a process in MiB until the context ends; 0 if the id is 0.
func sample(ctx context.Context, id int) (highest float64) {
	for id != 0 && ctx.Err() == nil {
		if m, err := process.MemoryOf(id); err == nil {
			highest = max(highest, m.Anonymous)
		}
		process.Pause(ctx, 500*time.Millisecond)
	}
	return highest
}

// read reads a stream and returns its pieces, about n.
func (t *target) read(ctx context.Context, i, n int) ([]piece, error) {
	r, err := t.build(ctx, i)
	if err != nil {
		return nil, err
	}
	response, err := t.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, 300))
		return nil, fmt.Errorf("%s: %s", response.Status, body)
	}
	pieces := make([]piece, 0, n+n/8)
	lines := bufio.NewReaderSize(response.Body, 64<<10)
	for {
		line, err := lines.ReadSlice('\n')
		now := time.Now()
		switch {
		case errors.Is(err, bufio.ErrBufferFull): // the whole text at the end, or the state
			if err := skip(lines); err != nil {
				return nil, err
			}
			continue
		case errors.Is(err, io.EOF):
			if len(pieces) == 0 {
				return nil, errors.New("no piece of text")
			}
			return pieces, nil
		case err != nil:
			return nil, err
		case bytes.HasPrefix(line, []byte(`{"error":`)):
			return nil, fmt.Errorf("%s", line)
		case !isPiece(line):
			continue
		}
		if pieces, err = arrived(pieces, line, now); err != nil {
			return nil, err
		}
	}
}

// skip reads the rest of a line.
func skip(lines *bufio.Reader) error {
	for {
		_, err := lines.ReadSlice('\n')
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// isPiece reports whether a line has pieces of text: all lines of the bare proxy, and of a chat those that append to the answer.
func isPiece(line []byte) bool {
	return bytes.HasPrefix(line, []byte(`{"content":`)) || bytes.Contains(line, []byte(`"graphPath":["`+stream.PathFinal+`"]`)) && bytes.Contains(line, []byte(`"isDelta":true`))
}

// arrived adds the pieces in a line: a line of a chat may have several.
func arrived(pieces []piece, line []byte, now time.Time) ([]piece, error) {
	_, text, found := bytes.Cut(line, []byte(`"content":"`))
	text, _, ended := bytes.Cut(text, []byte(`"`))
	if !found || !ended {
		return nil, fmt.Errorf("a line without text: %s", line)
	}
	for field := range bytes.FieldsSeq(text) {
		sent, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("a line with another text: %s", line)
		}
		pieces = append(pieces, piece{now, now.Sub(time.Unix(0, sent))})
	}
	return pieces, nil
}
