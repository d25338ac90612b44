package podlogs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/quoin-dev/quoin/internal/podlogs"
)

// node returns logs as a kubelet does: the last lines, of these the first bytes.
type node struct {
	logs map[string]string // by pod/container, with -previous
	errs map[string]error
	// delay of each response.
	delay time.Duration

	mu                 sync.Mutex
	requests           int
	concurrent, peak   int
	bytesRead, maxRead int64
}

func (n *node) Stream(ctx context.Context, _, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error) {
	n.mu.Lock()
	n.requests++
	n.concurrent++
	n.peak = max(n.peak, n.concurrent)
	n.mu.Unlock()
	defer func() { n.mu.Lock(); n.concurrent--; n.mu.Unlock() }()
	select {
	case <-time.After(n.delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	name := pod + "/" + o.Container
	if o.Previous {
		name += "-previous"
	}
	if err := n.errs[name]; err != nil {
		return nil, err
	}
	var kept []string
	for line := range strings.Lines(n.logs[name]) {
		stamp, _, _ := strings.Cut(line, " ")
		if at, err := time.Parse(time.RFC3339Nano, stamp); err == nil && o.SinceTime != nil && at.Before(o.SinceTime.Time) {
			continue
		}
		kept = append(kept, line)
	}
	kept = kept[max(0, len(kept)-int(*o.TailLines)):]
	text := []byte(strings.Join(kept, ""))
	text = text[:min(int64(len(text)), *o.LimitBytes)]
	n.mu.Lock()
	n.bytesRead += int64(len(text))
	n.maxRead = max(n.maxRead, int64(len(text)))
	n.mu.Unlock()
	return io.NopCloser(bytes.NewReader(text)), nil
}

func source(pod string) podlogs.Source { return podlogs.Source{Pod: pod, Container: "cube"} }

func messages(lines []podlogs.Line) []string {
	var all []string
	for _, l := range lines {
		all = append(all, l.Source.Pod+": "+l.Message)
	}
	return all
}

// at returns a line of a log with a time in seconds after noon.
func at(seconds float64, message string) string {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	return noon.Add(time.Duration(seconds*float64(time.Second))).Format(time.RFC3339Nano) + " " + message + "\n"
}

func TestLinesOfPodsAreInterleavedByTime(t *testing.T) {
	n := &node{logs: map[string]string{
		"a/cube":          at(1, "a1") + at(3, "a3") + at(3, "a3 again"),
		"b/cube":          at(2, "b2") + "2026-11-22T13:00:03+01:00 b3 in another zone\n" + "without a time\n",
		"c/cube":          "failed to open the log\n",
		"a/cube-previous": at(0.5, "crashed\r"),
	}}
	started := source("c")
	started.Started = time.Date(2026, 11, 22, 11, 0, 0, 0, time.UTC)
	previous := source("a")
	previous.Previous = true
	got, err := podlogs.Tail(t.Context(), n, podlogs.Query{Sources: []podlogs.Source{source("b"), source("a"), started, previous}, Lines: 10})
	if err != nil || got.Cut || len(got.Failures) > 0 {
		t.Fatalf("%v, %+v", err, got)
	}
	want := []string{"c: failed to open the log", "a: crashed", "a: a1", "b: b2", "a: a3", "a: a3 again", "b: b3 in another zone", "b: without a time"}
	if diff := cmp.Diff(want, messages(got.Lines)); diff != "" {
		t.Error(diff)
	}
	for i, line := range got.Lines {
		after, before := podlogs.After(got.Lines, line)
		if len(after) != len(got.Lines)-i-1 || !before {
			t.Errorf("after line %d there are %d", i, len(after))
		}
	}
	newest, more := podlogs.Newest(got.Lines, 2)
	if diff := cmp.Diff(want[len(want)-2:], messages(newest)); diff != "" || !more {
		t.Error(diff)
	}
}

func TestOnlyLinesSinceATimeAreRead(t *testing.T) {
	n := &node{logs: map[string]string{"a/cube": at(1, "old") + at(2.1, "same second") + at(2.5, "new")}}
	got, err := podlogs.Tail(t.Context(), n, podlogs.Query{Sources: []podlogs.Source{source("a")}, Lines: 10, Since: time.Date(2026, 11, 22, 12, 0, 2, 3e8, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a: same second", "a: new"}, messages(got.Lines)); diff != "" {
		t.Error(diff)
	}
}

// A process that writes long lines: the newest are returned, and what is read is bounded.
func TestLongLinesAreBounded(t *testing.T) {
	var log strings.Builder
	for i := range 500 {
		log.WriteString(at(float64(i), fmt.Sprintf("%d %s", i, strings.Repeat("x", 20<<10))))
	}
	n := &node{logs: map[string]string{"huge/cube": at(1, strings.Repeat("y", 3<<20))}}
	sources := []podlogs.Source{source("huge")}
	for i := range 39 {
		pod := fmt.Sprintf("p%d", i)
		n.logs[pod+"/cube"] = log.String()
		sources = append(sources, source(pod))
	}
	got, err := podlogs.Tail(t.Context(), n, podlogs.Query{Sources: sources, Lines: 500})
	if err != nil || !got.Cut || len(got.Failures) > 0 {
		t.Fatalf("%v, cut %t", err, got.Cut)
	}
	newest := got.Lines[len(got.Lines)-1]
	if !strings.HasPrefix(newest.Message, "499 x") || len(newest.Message) > 17<<10 {
		t.Errorf("the newest line is %.20q with %d bytes", newest.Message, len(newest.Message))
	}
	for _, line := range got.Lines {
		if strings.HasPrefix(line.Message, "y") {
			t.Error("a line that was cut off is returned")
		}
	}
	// Of each log, at most four times its share of 4 MiB, never more than that at once.
	if share := int64(4 << 20 / 40); n.maxRead > share || n.bytesRead > 4*share*40 || n.peak > 4 {
		t.Errorf("%d bytes of one log, %d of all, %d concurrent requests", n.maxRead, n.bytesRead, n.peak)
	}
}

func TestSecretsAreHiddenBeforeLinesAreShortened(t *testing.T) {
	secret := strings.Repeat("s", 200)
	n := &node{logs: map[string]string{"a/cube": at(1, strings.Repeat("x", 16<<10-100)+secret) + at(2, "\xff"+secret)}}
	got, err := podlogs.Tail(t.Context(), n, podlogs.Query{Sources: []podlogs.Source{source("a")}, Lines: 10, Hide: func(lines []string) {
		for i := range lines {
			lines[i] = strings.ReplaceAll(lines[i], secret, "*")
		}
	}})
	if err != nil || len(got.Lines) != 2 {
		t.Fatal(got, err)
	}
	if strings.Contains(got.Lines[0].Message, "s") || got.Lines[1].Message != "\uFFFD*" {
		t.Errorf("%q", messages(got.Lines))
	}
}

func TestLogsThatCannotBeRead(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	n := &node{logs: map[string]string{"a/cube": at(1, "a")}, errs: map[string]error{
		"waits/cube": apierrors.NewBadRequest("container is waiting to start"),
		"down/cube":  apierrors.NewInternalError(errors.New("dial tcp 10.0.0.7:10250: connection refused")),
	}}
	query := podlogs.Query{Sources: []podlogs.Source{source("a"), source("waits"), source("down")}, Lines: 10}
	got, err := podlogs.Tail(t.Context(), n, query)
	if err != nil || len(got.Lines) != 1 || len(got.Failures) != 1 || got.Failures[0].Source.Pod != "down" {
		t.Errorf("%+v, %v", got, err)
	}
	n.errs["waits/cube"] = apierrors.NewForbidden(pods, "waits", errors.New("no"))
	if _, err := podlogs.Tail(t.Context(), n, query); !apierrors.IsForbidden(err) {
		t.Errorf("forbidden: %v", err)
	}
}

// Nodes that do not answer hold up a request for ten seconds, whatever the number of pods.
func TestNodesThatDoNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{delay: time.Hour}
		var sources []podlogs.Source
		for i := range 40 {
			sources = append(sources, source(fmt.Sprint(i)))
		}
		begin := time.Now()
		got, err := podlogs.Tail(t.Context(), n, podlogs.Query{Sources: sources, Lines: 10})
		if took := time.Since(begin); err != nil || len(got.Failures) != 40 || took != 10*time.Second {
			t.Errorf("%d failures after %s: %v", len(got.Failures), took, err)
		}
	})
}
