package evaluations

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/apiserver/agents"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/agent/project"
	"github.com/quoin-dev/quoin/internal/content/chat"
	"github.com/quoin-dev/quoin/internal/content/evaluation"
)

// errNoDatabase is the response without a database.
var errNoDatabase = rest.Unavailable("evaluations need a database: quoin apiserver has no --database-url")

// errClosed is the response while the content store is not open.
var errClosed = rest.Unavailable("evaluations are not available now: try again later").Later(retryAfter)

// evaluate starts the evaluation of questions.
func (s *Service) evaluate(ctx context.Context, in *StartBody) (*evaluation.Evaluation, error) {
	if s == nil || s.Evaluations == nil {
		return nil, errNoDatabase
	}
	asker, err := s.Agents.Caller(ctx)
	if err != nil {
		return nil, err
	}
	a, err := s.Agents.Named(ctx, value(in.AgentName))
	if err != nil {
		return nil, err
	}
	j := &job{agent: a, asker: asker, branch: value(in.BranchName), tokens: tokensOf(in.MaxTokens)}
	if err := s.useEndpoint(ctx, j, in.ModelEndpoint); err != nil {
		return nil, err
	}
	files, commit, err := s.Agents.Configured(ctx, a, j.branch)
	if err != nil {
		return nil, err
	}
	questions, err := chosen(files, value(in.QuestionFile))
	if err != nil {
		return nil, err
	}
	for _, q := range questions {
		j.items = append(j.items, s.asking(q, files))
	}
	return s.start(ctx, j, evaluation.Questions, Request{BranchName: in.BranchName, CommitHash: nilIfEmpty(commit), QuestionFile: in.QuestionFile})
}

// chosen returns the questions of a file; all if it is empty. A file is named by its path, or by the end of it.
func chosen(files *project.Configured, file string) (out []project.Question, err error) {
	var known []string
	for _, q := range files.Questions {
		if !slices.Contains(known, q.Place.Path) {
			known = append(known, q.Place.Path)
		}
		if file == "" || q.Place.Path == file || strings.HasSuffix(q.Place.Path, "/"+file) {
			out = append(out, q)
		}
	}
	switch {
	case len(known) == 0:
		return nil, rest.Conflict("there are no questions for the agent in eval_questions.yml or eval_questions/**.yml of the commit: questions of its space %q are evaluated", rest.Clip(files.Space))
	case len(out) == 0:
		return nil, rest.NotFound("questionFile: %q has no questions for the agent; allowed: one of %s", rest.Clip(file), strings.Join(known[:min(len(known), 20)], ", "))
	case len(out) > evaluation.MaxItems:
		return nil, rest.Conflict("questionFile: there are %d questions; allowed: %d at a time: name one of the files %s", len(out), evaluation.MaxItems, strings.Join(known[:min(len(known), 20)], ", "))
	}
	return out, nil
}

// replay starts the replay of a chat.
func (s *Service) replay(ctx context.Context, in *ReplayBody) (*evaluation.Evaluation, error) {
	if s == nil || s.Evaluations == nil {
		return nil, errNoDatabase
	}
	scope := rest.ScopeFrom(ctx)
	a, err := s.Agents.Find(ctx, in.AgentID)
	if err != nil {
		return nil, err
	}
	if a.Deployment.UID != scope.Deployment.UID {
		return nil, rest.NotFound("agentId: agent %d is not one of the deployment", in.AgentID)
	}
	session, err := in.SessionSettings.Settings()
	if err != nil {
		return nil, err
	}
	asker, err := s.Agents.Asker(ctx, a, session)
	if err != nil {
		return nil, err
	}
	isLive := in.ToolResults == "live"
	if !isLive && in.BranchName != nil {
		return nil, rest.BadRequest("branchName: is set, but nothing is queried with toolResults %q; allowed: with \"live\"", in.ToolResults)
	}
	j := &job{agent: a, asker: asker, branch: value(in.BranchName), isRecorded: !isLive, tokens: tokensOf(in.MaxTokens)}
	if err := s.useEndpoint(ctx, j, in.ModelEndpoint); err != nil {
		return nil, err
	}
	if j.items, err = s.recorded(ctx, j, in.ChatID); err != nil {
		return nil, err
	}
	return s.start(ctx, j, evaluation.Replay, Request{BranchName: in.BranchName, ChatID: &in.ChatID, ToolResults: &in.ToolResults})
}

// recorded returns the items of a chat of the one who asks.
func (s *Service) recorded(ctx context.Context, j *job, chatID string) (items []item, err error) {
	scope := rest.ScopeFrom(ctx).Content()
	thread, err := s.Threads.Find(ctx, scope, j.agent.ID, chatID, j.asker.Owner)
	switch {
	case errors.Is(err, chat.ErrUnknown):
		return nil, rest.NotFound("chatId: %s", chat.ErrUnknown)
	case errors.Is(err, chat.ErrForeign):
		return nil, rest.Forbidden("chatId: %s", chat.ErrForeign)
	case err != nil:
		return nil, err
	}
	runs, err := s.Threads.Runs(ctx, scope.Account.UID, thread.ID, evaluation.MaxItems+1)
	switch {
	case err != nil:
		return nil, err
	case len(runs) == 0:
		return nil, rest.Conflict("chatId: no message of the chat is answered yet")
	case len(runs) > evaluation.MaxItems:
		return nil, rest.Conflict("chatId: the chat has more than %d messages; allowed: %d", evaluation.MaxItems, evaluation.MaxItems)
	}
	for _, run := range runs {
		items = append(items, s.replaying(thread, run))
	}
	return items, nil
}

// useEndpoint sets the model endpoint of a job, if there is one, and checks that the agent can answer.
func (s *Service) useEndpoint(ctx context.Context, j *job, name *string) (err error) {
	if name != nil {
		if j.agent, err = s.Agents.WithEndpoint(ctx, j.agent, *name); err != nil {
			return err
		}
	}
	return j.agent.Available()
}

// start stores an evaluation and begins to work on it. The context is that of the request; the work goes on after it.
func (s *Service) start(ctx context.Context, j *job, kind evaluation.Kind, r Request) (*evaluation.Evaluation, error) {
	scope := rest.ScopeFrom(ctx)
	r.AgentName, r.ModelEndpoint, r.MaxTokens = j.agent.Name, j.agent.Endpoint.Name, j.tokens
	request, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	release, err := s.places.Acquire(ctx, j.asker)
	if err != nil {
		return nil, err
	}
	j.caller = scope.Caller()
	work, cancel := context.WithCancelCause(context.WithoutCancel(j.asker.With(ctx)))
	j.cancel = cancel
	started, err := s.admit(work, ctx, j, evaluation.New{Kind: kind, Agent: j.agent.ID, Owner: j.asker.Owner, Caller: j.caller, Request: request, Total: len(j.items)}, release)
	if err != nil {
		cancel(err)
		release()
	}
	return started, err
}

// admit begins a job if it can be prepared.
func (s *Service) admit(work, ctx context.Context, j *job, n evaluation.New, release func()) (*evaluation.Evaluation, error) {
	// What fails for all questions is a response, and no evaluation: a model without credentials, an environment that is not set up.
	q := agents.Question{Agent: j.agent, Asker: j.asker, Branch: j.branch, Recorded: j.isRecorded}
	if _, err := s.Agents.Prepare(work, q); err != nil {
		return nil, err
	}
	started, lease, err := s.Evaluations.Start(ctx, rest.ScopeFrom(ctx).Content(), n, s.holder)
	if err != nil {
		return nil, err
	}
	j.lease = lease
	if !s.begin(work, j, release) {
		return nil, errors.Join(errClosed, s.Evaluations.End(ctx, lease, errStopping.Error()))
	}
	return started, nil
}

func tokensOf(given *int64) int64 {
	if given == nil {
		return defaultTokens
	}
	return *given
}

func value(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
