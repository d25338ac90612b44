package chat

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/quoin-dev/quoin/internal/agent"
	"github.com/quoin-dev/quoin/internal/agent/stream"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/chat"
	"github.com/quoin-dev/quoin/internal/fairsemaphore"
	"github.com/quoin-dev/quoin/internal/store"
)

const (
	// lineInterval is the minimum time between two lines with text of the same message: a model that is faster has several pieces
	// in a line.
	lineInterval = 10 * time.Millisecond
	// storeInterval is the time between two writes of lines with text, which readers on this replica have before they are stored.
	// All other lines are stored first.
	storeInterval = 500 * time.Millisecond
	// renewInterval is the time between two writes of a run without lines. The lease lasts chat.Lease.
	renewInterval = 5 * time.Second
	// storeTimeout is how long a write is repeated that fails; the lease is longer.
	storeTimeout = 20 * time.Second
	// maxUnstored is the number of lines that may wait to be stored.
	maxUnstored = 500
	// maxKept is how many bytes of stored lines are kept in memory for readers that are a little behind.
	maxKept = 1 << 10
)

// log is what a run needs of chat.Threads.
type log interface {
	AppendAll(ctx context.Context, batches ...*chat.Batch) error
	End(ctx context.Context, l *chat.RunLease, state chat.State, bodies ...[]byte) error
}

// live is a run that this replica works on. It implements agent.Log.
type live struct {
	log   log
	clock clock.WithTickerAndDelayedExecution
	// cancel ends the run with a cause.
	cancel context.CancelCauseFunc

	// storing guards what follows, and the order of writes.
	storing sync.Mutex
	lease   *chat.RunLease
	// written is when the last write began, and failing when writes in the background began to fail; zero if the last one has not.
	written, failing time.Time
	// batch has the lines of a write, and tried is the number of those of a write that has failed; 0 if the last one has not. They may be
	// stored all the same, so they are written again by themselves.
	batch [][]byte
	tried int

	mu sync.Mutex
	// tail has the last lines. Those through stored are in the store, and readers have those through shown.
	tail          lineBuffer
	stored, shown int64
	// pending is a line that is emitted next, if isPending: text that waits for the end of lineInterval.
	pending   stream.Line
	isPending bool
	timer     clock.Timer
	lastLine  time.Time
	// ended means that the end is stored, and left that another replica ends the run.
	ended, left bool
	// waiting are the channels that receive when there are further lines, or the run has ended.
	waiting []chan<- struct{}
}

func newLive(l log, clk clock.WithTickerAndDelayedExecution, lease *chat.RunLease, cancel context.CancelCauseFunc) *live {
	return &live{
		log: l, clock: clk, cancel: cancel, lease: lease,
		tail: lineBuffer{base: lease.LastSort}, stored: lease.LastSort, shown: lease.LastSort, written: clk.Now(),
	}
}

// Append implements agent.Log. Lines with text may be joined, and are stored in the background; others are in the store when it
// returns.
func (l *live) Append(ctx context.Context, line stream.Line) error {
	if !line.Delta() {
		return l.appendStored(ctx, line)
	}
	if err := l.add(line); err != nil {
		return err
	}
	if l.unstored() > maxUnstored {
		return l.store(ctx)
	}
	return nil
}

// appendStored adds a line and stores it.
func (l *live) appendStored(ctx context.Context, line stream.Line) error {
	turn, err := l.begin(ctx)
	if err != nil {
		return err
	}
	defer turn.End()
	if err := l.add(line); err != nil {
		return err
	}
	return l.store(ctx)
}

// begin waits until the run may write. What was said before the end of a run is stored after it.
func (l *live) begin(ctx context.Context) (*fairsemaphore.Turn, error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer stop()
	return writers.Begin(ctx, l.lease.Account.UID)
}

// add adds a line to the tail, or to the text that waits.
func (l *live) add(line stream.Line) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isPending && joins(&l.pending, &line) {
		text := *l.pending.Content + *line.Content
		l.pending.Content = &text
		l.pending.Thinking += line.Thinking
	} else {
		if err := l.emitPending(); err != nil {
			return err
		}
		l.pending, l.isPending = line, true
	}
	wait := lineInterval - l.clock.Since(l.lastLine)
	if wait <= 0 || !line.Delta() {
		return l.emitPending()
	}
	if l.timer == nil {
		l.timer = l.clock.AfterFunc(wait, func() { go l.emitLater() }) // clocks of tests call it with their lock held
	}
	return nil
}

// joins reports whether the text of a line can be appended to that of another one.
func joins(to, line *stream.Line) bool {
	return line.Delta() && to.ID == line.ID && to.Content != nil && line.Content != nil && len(*to.Content)+len(*line.Content)+len(to.Thinking)+len(line.Thinking) <= stream.MaxDelta
}

// emitLater emits the text that waits when the timer fires.
func (l *live) emitLater() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = nil
	if err := l.emitPending(); err != nil {
		l.cancel(err)
	}
}

// emitPending emits the line that waits. The caller holds mu.
func (l *live) emitPending() error {
	if !l.isPending {
		return nil
	}
	err := l.emit(&l.pending)
	l.pending, l.isPending = stream.Line{}, false
	return err
}

// emit adds a line to the tail. Readers have a line with text at once, and others when they are stored. The caller holds mu.
func (l *live) emit(line *stream.Line) error {
	if line.Error == "" {
		line.Sort = l.tail.last() + 1
	}
	if err := l.tail.add(line); err != nil {
		return err
	}
	l.lastLine = l.clock.Now()
	if line.Delta() {
		l.show(l.tail.last())
	}
	return nil
}

// show lets readers have the lines through a sort. The caller holds mu.
func (l *live) show(sort int64) {
	l.shown = max(l.shown, sort)
	for _, changed := range l.waiting {
		notify(changed)
	}
	l.waiting = l.waiting[:0]
}

// notify lets the reader of a channel with a buffer of one go on.
func notify(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default: // it will
	}
}

func (l *live) unstored() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tail.last() - l.stored
}

// store writes the lines that are not stored.
func (l *live) store(ctx context.Context) error { return l.write(ctx, l.appendLines) }

func (l *live) appendLines(ctx context.Context, lines [][]byte) error {
	b := &chat.Batch{Lease: l.lease, Bodies: lines}
	if err := l.log.AppendAll(ctx, b); err != nil {
		return err
	}
	return b.Err
}

// finish adds the last lines of the run and ends it. The run is another replica's if it returns an error, or will be.
func (l *live) finish(ctx context.Context, state chat.State, last ...stream.Line) error {
	err := l.end(ctx, state, last)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended, l.left = err == nil, err != nil
	l.show(0)
	return err
}

func (l *live) end(ctx context.Context, state chat.State, last []stream.Line) error {
	turn, err := l.begin(ctx)
	if err != nil {
		return err
	}
	defer turn.End()
	if err := l.emitAll(last); err != nil {
		return err
	}
	return l.write(ctx, func(ctx context.Context, batch [][]byte) error { return l.log.End(ctx, l.lease, state, batch...) })
}

// emitAll emits the line that waits, and lines after it.
func (l *live) emitAll(lines []stream.Line) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.emitPending(); err != nil {
		return err
	}
	for i := range lines {
		if err := l.emit(&lines[i]); err != nil {
			return err
		}
	}
	return nil
}

// write calls do with the lines that are not stored, after those of a write that has failed.
func (l *live) write(ctx context.Context, do func(ctx context.Context, batch [][]byte) error) error {
	l.storing.Lock()
	defer l.storing.Unlock()
	// What was said before the end of a run is stored after it.
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer stop()
	if l.tried > 0 {
		if err := l.writeOnce(ctx, l.appendLines); err != nil {
			return err
		}
	}
	return l.writeOnce(ctx, do)
}

// writeOnce calls do with the lines of notStored, again and again while it fails for a reason that may pass. The caller holds storing.
func (l *live) writeOnce(ctx context.Context, do func(ctx context.Context, batch [][]byte) error) error {
	batch := l.notStored()
	if err := store.Retry(ctx, l.clock, final, func(ctx context.Context) error { return do(ctx, batch) }); err != nil {
		l.tried = len(batch)
		l.cancel(err)
		return err
	}
	l.wrote(len(batch))
	return nil
}

// notStored returns the lines that are not stored, which are now written: those of a write that has failed, if there are any. They are
// valid until wrote. The caller holds storing.
func (l *live) notStored() [][]byte {
	l.written = l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.batch = l.tail.appendTo(l.batch[:0], l.stored)
	if l.tried > 0 {
		l.batch = l.batch[:l.tried]
	}
	return l.batch
}

// wrote notes that the first lines that were not stored are. The caller holds storing.
func (l *live) wrote(count int) {
	l.failing, l.tried = time.Time{}, 0
	clear(l.batch)
	if l.lease.Abort {
		l.cancel(agent.ErrAborted)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stored += int64(count)
	l.tail.keep(l.stored, maxKept)
	if count > 0 {
		l.show(l.stored)
	}
}

// final reports whether a write that has failed is not tried again.
func final(err error) bool {
	var rejected *content.Error
	return errors.As(err, &rejected) || errors.Is(err, chat.ErrLost)
}

// after copies the lines after a sort that readers may have. known is false if they are in the store only. ended reports whether no
// more follow; otherwise, if there are no lines, changed receives when there may be some. Its buffer is one.
func (l *live) after(sort int64, to *lineBuffer, changed chan<- struct{}) (known, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sort < l.tail.base || l.left {
		return false, false
	}
	if sort < l.shown {
		l.tail.copyTo(to, sort, l.shown)
		return true, l.ended
	}
	to.reset(sort)
	if !l.ended && !slices.Contains(l.waiting, changed) {
		l.waiting = append(l.waiting, changed)
	}
	return true, l.ended
}
