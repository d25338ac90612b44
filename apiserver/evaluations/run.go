package evaluations

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/apiserver/agents"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/agent"
	"github.com/quoin-dev/quoin/internal/agent/model"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/evaluation"
	"github.com/quoin-dev/quoin/internal/content/usage"
	"github.com/quoin-dev/quoin/internal/store"
)

const (
	// renewInterval is the time between two renewals of a lease, after which a cancellation and the end of a credential are seen.
	renewInterval = 2 * time.Second
	// storeTimeout is how long a write is repeated that fails; the lease is longer.
	storeTimeout = 20 * time.Second
)

// jobKey identifies a job.
type jobKey struct {
	account string
	id      int64
}

// job is an evaluation that this replica works on.
type job struct {
	lease *evaluation.RunLease
	agent *agents.Agent
	asker *agents.Asker
	// branch is that of the queries; empty for that of production.
	branch string
	// isRecorded is true for a replay on recorded results of tools.
	isRecorded bool
	// caller is the principal of the request.
	caller string
	// items answer the questions or messages.
	items []item
	// tokens is the number of tokens that all answers may use, and used that of those that they have used.
	tokens int64
	used   atomic.Int64
	// exhausted is true if an item was left out for lack of tokens. Those in progress are finished.
	exhausted atomic.Bool

	cancel context.CancelCauseFunc
}

// item answers a question or a message with a number.
type item func(ctx context.Context, j *job, number int) *Result

// errCancelled is the cause of an evaluation that a caller has cancelled.
type errCancelled struct{ by string }

// Error implements error.
func (e *errCancelled) Error() string { return "it was cancelled by " + e.by }

// begin begins a job. It returns false if the server stops. The context is that of the job.
func (s *Service) begin(ctx context.Context, j *job, release func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isOpen {
		return false
	}
	s.working.Add(1)
	s.jobs[keyOf(j.lease)] = j
	go func() {
		defer s.working.Done()
		defer release()
		s.work(ctx, j)
	}()
	return true
}

func keyOf(l *evaluation.RunLease) jobKey { return jobKey{l.Scope.Account.UID, l.ID} }

// work works on a job until it ends.
func (s *Service) work(ctx context.Context, j *job) {
	s.metrics.running.Inc()
	defer s.metrics.running.Dec()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.jobs, keyOf(j.lease))
	}()
	defer j.cancel(context.Canceled)
	ctx, stop := context.WithTimeoutCause(ctx, maxDuration, &agent.LimitReached{Message: fmt.Sprintf("it has reached its limit of %s", maxDuration)})
	defer stop()
	keeping, stopKeeping := context.WithCancel(ctx)
	var kept sync.WaitGroup
	kept.Go(func() { s.keep(keeping, j) })
	s.all(ctx, j)
	cause := context.Cause(ctx)
	if cause == nil && j.exhausted.Load() {
		cause = &agent.LimitReached{Message: fmt.Sprintf("it has reached its limit of %d tokens", j.tokens)}
	}
	stopKeeping()
	kept.Wait()
	s.end(ctx, j, cause)
}

// all works on the items, several at a time.
func (s *Service) all(ctx context.Context, j *job) {
	next := make(chan int)
	var group sync.WaitGroup
	for range min(parallel, len(j.items)) {
		group.Go(func() {
			for n := range next {
				s.one(ctx, j, n)
			}
		})
	}
	for n := range j.items {
		select {
		case next <- n:
		case <-ctx.Done():
		}
	}
	close(next)
	group.Wait()
}

// one works on the item with an index, and stores its result. What is interrupted has none.
func (s *Service) one(ctx context.Context, j *job, n int) {
	if ctx.Err() != nil {
		return
	}
	if j.used.Load() >= j.tokens {
		j.exhausted.Store(true)
		return
	}
	if err := s.Agents.Check(ctx, j.asker); err != nil {
		j.cancel(err)
		return
	}
	result, err := s.answered(ctx, j, n)
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		var body []byte
		if body, err = result.encode(); err == nil {
			err = s.retry(ctx, func(ctx context.Context) error {
				return s.Evaluations.Add(ctx, j.lease, evaluation.Result{Number: n + 1, Verdict: result.Verdict, Body: body})
			})
		}
	}
	if err != nil {
		j.cancel(err)
		return
	}
	s.metrics.graded(j.lease.Kind, result.Verdict)
}

// answered answers an item.
func (s *Service) answered(ctx context.Context, j *job, n int) (result *Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	begun := s.Clock.Now()
	result = j.items[n](ctx, j, n+1)
	result.Seconds = s.Clock.Since(begun).Seconds()
	return result, nil
}

// answer runs the agent, whose requests are metered, and adds what it uses.
func (s *Service) answer(ctx context.Context, j *job, run *agent.Run, messages []model.Message, result *Result) error {
	run.Limits.Tokens = min(run.Limits.Tokens, max(j.tokens-j.used.Load(), 1))
	summary, err := run.Answer(ctx, messages)
	used := summary.Usage
	j.used.Add(used.Input + used.Output)
	result.InputTokens, result.OutputTokens = used.Input, used.Output
	return err
}

// metered returns the model of an answer, which records what it uses.
func (s *Service) metered(j *job, n int, m model.Model) model.Model {
	return s.Meter.Model(m, j.lease.Scope, j.agent.Endpoint.Spec.Price, usage.Run{
		Source: usage.Evaluation, ID: fmt.Sprintf("%d/%d", j.lease.ID, n), StartedAt: s.Clock.Now(), Agent: j.agent.ID,
		Endpoint: j.agent.Endpoint.Name, Caller: j.caller, User: j.asker.Owner,
	})
}

// keep renews the lease until the context ends, and ends the job if it is cancelled, if the lease is lost, or if the caller may not
// ask any more.
func (s *Service) keep(ctx context.Context, j *job) {
	ticker := s.Clock.NewTicker(renewInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		var by string
		err := s.retry(ctx, func(ctx context.Context) (err error) {
			by, err = s.Evaluations.Renew(ctx, j.lease)
			return err
		})
		if err == nil && by != "" {
			err = &errCancelled{by}
		}
		if err == nil {
			err = s.Agents.Check(ctx, j.asker)
		}
		if err != nil && ctx.Err() == nil {
			j.cancel(err)
			return
		}
	}
}

// end ends an evaluation; cause is why it has not worked on all items, or nil.
func (s *Service) end(ctx context.Context, j *job, cause error) {
	if errors.Is(cause, evaluation.ErrLost) { // another replica has ended it, or it is deleted
		return
	}
	failure, state := "", evaluation.Completed
	if cause != nil {
		failure, state = explain(ctx, cause), evaluation.Failed
	}
	// What ends a job does not end the write of its end.
	err := s.retry(context.WithoutCancel(ctx), func(ctx context.Context) error { return s.Evaluations.End(ctx, j.lease, failure) })
	if err != nil {
		if !errors.Is(err, evaluation.ErrLost) {
			crlog.FromContext(ctx).Error(err, "The end of an evaluation could not be stored; another replica ends it", "account", j.lease.Scope.Account.Name, "evaluation", j.lease.ID)
		}
		return
	}
	s.metrics.ended(j.lease.Kind, state)
}

// explain returns the text of an error for users.
func explain(ctx context.Context, err error) string {
	var limit *agent.LimitReached
	var provider *model.Error
	var cancelled *errCancelled
	switch {
	case errors.As(err, &limit), errors.As(err, &cancelled), errors.Is(err, errStopping):
		return err.Error()
	case errors.As(err, &provider):
		return "the model failed: " + rest.Clip(provider.Message)
	}
	return rest.ProblemOf(ctx, err).Message
}

// retry calls do until it succeeds, or waiting cannot help.
func (s *Service) retry(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, stop := context.WithTimeout(ctx, storeTimeout)
	defer stop()
	return store.Retry(ctx, s.Clock, final, do)
}

// final reports whether a write that has failed is not tried again.
func final(err error) bool {
	var rejected *content.Error
	return errors.As(err, &rejected) || errors.Is(err, evaluation.ErrLost)
}
