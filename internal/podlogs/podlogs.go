// Package podlogs reads the newest lines of the logs of containers: those of several pods,
// interleaved by time, with limits on everything that is read.
package podlogs

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Limits of a Tail.
const (
	// maxBytes is read of all logs together, within the bounds for one log.
	maxBytes        = 4 << 20
	minBytesOfOne   = 64 << 10
	maxBytesOfOne   = 1 << 20
	maxMessageBytes = 16 << 10
	concurrency     = 4
	timeout         = 10 * time.Second
)

// Reader reads the log of a container through the Kubernetes API server. The errors are those of
// that server.
type Reader interface {
	Stream(ctx context.Context, namespace, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error)
}

// Source is the log of a container.
type Source struct {
	Pod, Container string
	// Previous selects the previous instance of a container that has been restarted.
	Previous bool
	// Started is when the container was started: the time of lines that have none.
	Started time.Time
}

// Line is a line of a log.
type Line struct {
	Source Source
	// Time with the resolution of the container runtime, in UTC.
	Time time.Time
	// Index among the lines of the source with the same time.
	Index   int
	Message string
}

// Compare orders lines by time; those of the same time by pod, container and position.
func Compare(a, b Line) int {
	return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.Source.key(), b.Source.key()), cmp.Compare(a.Index, b.Index))
}

// key identifies a source; the previous instance of a container is before the current one.
func (s Source) key() string {
	if s.Previous {
		return s.Pod + "/" + s.Container + "/0"
	}
	return s.Pod + "/" + s.Container + "/1"
}

// Failure is a log that could not be read.
type Failure struct {
	Source Source
	Err    error
}

// Query selects lines.
type Query struct {
	Namespace string
	Sources   []Source
	// Lines of each log, the newest, at most.
	Lines int
	// Since omits lines of seconds before this time, unless it is zero.
	Since time.Time
	// Hide hides secrets in consecutive lines of one log, in place; it may be nil.
	Hide func(lines []string)
}

// Result is what was read.
type Result struct {
	// Lines in the order of Compare.
	Lines []Line
	// Cut reports whether there may be older lines.
	Cut bool
	// Failures are the logs that could not be read, in the order of the query.
	Failures []Failure
}

// Tail reads the newest lines. The error is that of a Kubernetes API server that forbids reading the
// logs. A container that has no log yet has no lines.
func Tail(ctx context.Context, r Reader, q Query) (*Result, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	t := &tail{Reader: r, Query: q, limit: min(max(maxBytes/max(1, len(q.Sources)), minBytesOfOne), maxBytesOfOne)}
	logs := make([]oneLog, len(q.Sources))
	slots := make(chan struct{}, concurrency)
	var group sync.WaitGroup
	for i := range q.Sources {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			logs[i] = t.read(ctx, q.Sources[i])
		})
	}
	group.Wait()
	out := &Result{}
	for i, l := range logs {
		switch {
		case apierrors.IsForbidden(l.err):
			return nil, l.err
		case l.err != nil:
			out.Failures = append(out.Failures, Failure{q.Sources[i], l.err})
		}
		out.Lines, out.Cut = append(out.Lines, l.lines...), out.Cut || l.cut
	}
	slices.SortStableFunc(out.Lines, Compare)
	return out, nil
}

type tail struct {
	Reader
	Query
	// limit of the bytes of one log.
	limit int
}

// oneLog is what was read of one source.
type oneLog struct {
	lines []Line
	cut   bool
	err   error
}

// read reads the newest lines of a source. The limit in bytes would cut off the newest of them: if it is
// reached, fewer lines are read.
func (t *tail) read(ctx context.Context, s Source) oneLog {
	for lines := t.Lines; ; lines = (lines + 9) / 10 {
		text, err := t.text(ctx, s, lines)
		switch {
		case apierrors.IsBadRequest(err): // the container has not been started, or has no previous instance
			return oneLog{}
		case err != nil:
			return oneLog{err: err}
		}
		whole := len(text) < t.limit
		if whole || lines == 1 {
			found := t.parse(s, text, whole)
			return oneLog{lines: found, cut: !whole || lines < t.Lines || len(found) >= lines}
		}
	}
}

// text returns the newest lines of a source, at most limit bytes.
func (t *tail) text(ctx context.Context, s Source, lines int) ([]byte, error) {
	o := &corev1.PodLogOptions{
		Container: s.Container, Previous: s.Previous, Timestamps: true,
		TailLines: ptr.To(int64(lines)), LimitBytes: ptr.To(int64(t.limit)),
	}
	if !t.Since.IsZero() {
		o.SinceTime = ptr.To(metav1.NewTime(t.Since.Truncate(time.Second)))
	}
	body, err := t.Stream(ctx, t.Namespace, s.Pod, o)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, int64(t.limit)))
	if err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	return text, nil
}

// parse returns the lines of a log, without the last one if the text is not whole: the rest of a
// secret in it may be missing.
func (t *tail) parse(s Source, text []byte, whole bool) []Line {
	var lines []Line
	var messages []string
	last := s.Started.UTC()
	for raw := range bytes.Lines(text) {
		line, ended := bytes.CutSuffix(raw, []byte("\n"))
		if !ended && !whole {
			break
		}
		stamp, message, _ := bytes.Cut(line, []byte(" "))
		if at, err := time.Parse(time.RFC3339Nano, string(stamp)); err == nil {
			last, line = at.UTC(), message
		}
		index := 0
		if n := len(lines); n > 0 && lines[n-1].Time.Equal(last) {
			index = lines[n-1].Index + 1
		}
		lines = append(lines, Line{Source: s, Time: last, Index: index})
		messages = append(messages, string(bytes.TrimSuffix(line, []byte("\r"))))
	}
	if t.Hide != nil {
		t.Hide(messages)
	}
	for i := range lines {
		lines[i].Message = clip(strings.ToValidUTF8(messages[i], "\uFFFD"))
	}
	return lines
}

// clip shortens a long message.
func clip(message string) string {
	if len(message) <= maxMessageBytes {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessageBytes], "") + "…"
}

// Newest returns the n newest of lines in order, and whether there are others.
func Newest(lines []Line, n int) ([]Line, bool) {
	from := max(0, len(lines)-n)
	return lines[from:], from > 0
}

// After returns the lines after a position, and whether there are lines before it.
func After(lines []Line, position Line) ([]Line, bool) {
	i, found := slices.BinarySearchFunc(lines, position, Compare)
	if found {
		i++
	}
	return lines[i:], i > 0
}
