package chat

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/quoin-dev/quoin/internal/agent"
	"github.com/quoin-dev/quoin/internal/agent/stream"
	"github.com/quoin-dev/quoin/internal/content/chat"
)

// metrics are those of runs and streams.
type metrics struct {
	running, streams prometheus.Gauge
	runs, calls      *prometheus.CounterVec
	tokens           *prometheus.CounterVec
	firstLine        prometheus.Histogram
	duration         prometheus.Histogram
}

func newMetrics() *metrics {
	return &metrics{
		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "quoin_chat_runs_in_progress", Help: "Answers of agents that this replica works on."}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{Name: "quoin_chat_streams", Help: "Connections that read answers of agents."}),
		runs:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "quoin_chat_runs_total", Help: "Answers of agents that have ended, by state: done, failed, aborted."}, []string{"state"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "quoin_chat_tool_calls_total", Help: "Tool calls of agents, by tool and by the class of the failure, which is empty for a success.",
		}, []string{"tool", "failure"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "quoin_chat_tokens_total", Help: "Tokens of models, by kind: input, cached_input (a part of input), output."}, []string{"kind"}),
		firstLine: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "quoin_chat_first_answer_line_seconds", Help: "Time from a message to the first line of the model or of a tool.", Buckets: prometheus.ExponentialBuckets(0.05, 2, 12),
		}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "quoin_chat_run_duration_seconds", Help: "Duration of the answers of agents.", Buckets: prometheus.ExponentialBuckets(0.1, 2, 15),
		}),
	}
}

// Collectors returns the metrics.
func (s *Service) Collectors() []prometheus.Collector {
	m := s.metrics
	return []prometheus.Collector{m.running, m.streams, m.runs, m.calls, m.tokens, m.firstLine, m.duration}
}

// ran counts a run that has ended; summary is nil if it is not known.
func (m *metrics) ran(state chat.State, summary *agent.Summary) {
	m.runs.WithLabelValues(string(state)).Inc()
	if summary == nil {
		return
	}
	m.tokens.WithLabelValues("input").Add(float64(summary.Usage.Input))
	m.tokens.WithLabelValues("cached_input").Add(float64(summary.Usage.CachedInput))
	m.tokens.WithLabelValues("output").Add(float64(summary.Usage.Output))
}

// counted counts the calls that are recorded.
type counted struct {
	agent.Audit
	metrics *metrics
	// tools has the names of tools, so that names that a model invents are no time series.
	tools map[string]bool
}

// audit returns the records of a run, which counts them.
func (m *metrics) audit(r *agent.Run) agent.Audit {
	c := &counted{Audit: r.Audit, metrics: m, tools: map[string]bool{}}
	for i := range r.Tools {
		c.tools[r.Tools[i].Name] = true
	}
	return c
}

// After implements agent.Audit.
func (c *counted) After(ctx context.Context, call agent.Call, o agent.Outcome) error {
	tool := call.Tool
	if !c.tools[tool] {
		tool = "unknown"
	}
	c.metrics.calls.WithLabelValues(tool, o.Failed).Inc()
	return c.Audit.After(ctx, call, o)
}

// timed observes the time until the first line.
type timed struct {
	agent.Log
	first func()
}

// log returns the log of a run that has begun at a time.
func (m *metrics) log(l *live, begun time.Time) agent.Log {
	return &timed{l, sync.OnceFunc(func() { m.firstLine.Observe(l.clock.Since(begun).Seconds()) })}
}

// Append implements agent.Log.
func (t *timed) Append(ctx context.Context, line stream.Line) error {
	t.first()
	return t.Log.Append(ctx, line)
}
