package query

import (
	"context"
	"errors"
	"io"
	"time"
)

// Sink receives a result row by row.
type Sink interface {
	// Begin is called once, before the rows. The result has everything but rows and LimitReached.
	Begin(r *Result) error
	// Row receives a row with a value for each column, which it does not keep.
	Row(row []any) error
}

// lateError is a failure after the first row: the query cannot be run again for the same sink.
type lateError struct{ error }

// Unwrap returns the failure.
func (e *lateError) Unwrap() error { return e.error }

// errBroken means that a response ended within a result.
var errBroken = &UnavailableError{"the data API ended the response before the end of the result"}

// sinkError is an error of a sink.
type sinkError struct{ error }

// Unwrap returns the error of the sink.
func (e *sinkError) Unwrap() error { return e.error }

// Stream runs a query and sends its result to a sink. That of SQL is never in memory as a whole, and each caller has a run of its
// own; that of a JSON query is one of Run. The result is complete if there is no error: rows may come before one.
//
// A value that does not fit the type of its column is a string.
func (r *Runner) Stream(ctx context.Context, p *Plan, t Target, l Limits, to Sink) error {
	q, err := p.Query.normalize()
	if err != nil {
		return err
	}
	if q.SQL == "" {
		return r.sendAll(ctx, p, t, l, to)
	}
	work := newRun(r.HTTP, q, t, l)
	return work.within(ctx, func(ctx context.Context) error {
		s := &sending{to: to, names: p.names, result: Result{TimeZone: q.TimeZone}}
		return work.sql(ctx, func(body io.Reader) error {
			err := work.receive(body, s)
			if err == nil {
				err = s.begin() // there may be no row
			}
			if err != nil && s.hasBegun {
				return s.late(err)
			}
			return err
		})
	})
}

// sendAll sends the result of a JSON query.
func (r *Runner) sendAll(ctx context.Context, p *Plan, t Target, l Limits, to Sink) error {
	result, err := r.RunPlan(ctx, p, t, l)
	if err != nil {
		return err
	}
	defer result.Release()
	if err := to.Begin(result); err != nil {
		return err
	}
	for _, row := range result.Rows {
		if err := to.Row(row); err != nil {
			return err
		}
	}
	return nil
}

// sending sends the parts of a response to a sink. Nothing is sent before the first row, so that the query can be run again.
type sending struct {
	to       Sink
	names    map[string]string
	result   Result
	hasBegun bool
}

// schema implements receiver.
func (s *sending) schema(columns []Column, lastRefresh time.Time) error {
	s.result.Columns, s.result.LastRefresh = renamed(columns, s.names), lastRefresh
	return nil
}

// row implements receiver.
func (s *sending) row(row []any) error {
	if err := s.begin(); err != nil {
		return err
	}
	for i, v := range row {
		value, ok := s.result.Columns[i].Type.value(v)
		if !ok {
			value, _ = String.value(v)
		}
		row[i] = value
	}
	if err := s.to.Row(row); err != nil {
		return &sinkError{err}
	}
	return nil
}

func (s *sending) begin() error {
	if s.hasBegun {
		return nil
	}
	s.hasBegun = true
	if err := s.to.Begin(&s.result); err != nil {
		return &sinkError{err}
	}
	return nil
}

// late returns the error of a result that is not complete.
func (s *sending) late(err error) error {
	if reported := (*streamError)(nil); !isOfQuery(err) && !errors.As(err, &reported) {
		err = errBroken
	}
	return &lateError{err}
}
