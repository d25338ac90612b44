package evaluations

import (
	"context"
	"errors"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/apiserver/agents"
	"github.com/quoin-dev/quoin/internal/agent"
	"github.com/quoin-dev/quoin/internal/agent/grading"
	"github.com/quoin-dev/quoin/internal/agent/model"
	"github.com/quoin-dev/quoin/internal/agent/replay"
	"github.com/quoin-dev/quoin/internal/agent/semantic"
	"github.com/quoin-dev/quoin/internal/agent/stream"
	"github.com/quoin-dev/quoin/internal/content/chat"
)

// replaying returns the item that runs a message of a chat again, after what was said before it in the recording: differences of one
// message have no effect on others.
func (s *Service) replaying(thread *chat.Thread, recorded *chat.Run) item {
	return func(ctx context.Context, j *job, number int) *Result {
		r := &Result{ID: number, MessageID: &recorded.MessageID}
		account := j.lease.Scope.Account.UID
		before, err := s.Threads.Messages(ctx, account, thread.ID, chat.HistoryStart(recorded.After), recorded.After)
		if err != nil {
			return r.errored(grading.AgentError, explain(ctx, err))
		}
		was, err := s.Threads.Messages(ctx, account, thread.ID, recorded.After, recorded.Last)
		if err != nil {
			return r.errored(grading.AgentError, explain(ctx, err))
		}
		r.QuestionTextSnapshot = messageOf(was)
		run, err := s.Agents.Prepare(ctx, agents.Question{
			Agent: j.agent, Asker: j.asker, ChatID: thread.ChatID, MessageID: recorded.MessageID, Branch: j.branch, Evaluation: j.lease.ID, Recorded: j.isRecorded,
		})
		if err != nil {
			return r.errored(grading.AgentError, explain(ctx, err))
		}
		log := &collector{}
		run.Log, run.Model = log, s.metered(j, number, run.Model)
		if j.isRecorded {
			recording := replay.RecordingOf(was.All())
			run.Tools = recording.Tools(run.Tools, func(name string) bool { return name == semantic.SkillsTool })
			run.Model = recording.Model(run.Model)
		}
		question := model.Message{Role: model.User, Text: r.QuestionTextSnapshot}
		err = s.answer(ctx, j, run, append(agent.Conversation(before.All(), run.Fence), question), r)
		return r.compared(ctx, replay.Compare(was, &log.messages), err)
	}
}

// compared sets how an answer, which may have failed, differs from the recorded one.
func (r *Result) compared(ctx context.Context, d replay.Diff, err error) *Result {
	r.Answer, r.RecordedAnswer, r.IsAnswerSame = nilIfEmpty(d.Replayed), nilIfEmpty(d.Recorded), ptr.To(d.Recorded == d.Replayed)
	for i := range d.Calls {
		r.ToolCalls = append(r.ToolCalls, callOf(&d.Calls[i]))
	}
	switch {
	case errors.Is(err, replay.ErrDiverged):
		return r.grade(grading.Grade{Verdict: grading.Review, Reason: replay.NotRecorded, Detail: err.Error()})
	case err != nil:
		return r.errored(grading.AgentError, explain(ctx, err))
	}
	return r.grade(d.Grade)
}

// callOf returns a call as documented.
func callOf(c *replay.Call) Call {
	out := Call{Change: ptr.To(string(c.Change)), Tool: c.Tool}
	if c.Replayed != nil {
		out.Input, out.Error = &c.Replayed.Input, nilIfEmpty(c.Replayed.Failed)
	}
	if c.Recorded != nil {
		if c.Change != replay.Same {
			out.RecordedInput = &c.Recorded.Input
		}
		out.RecordedError = nilIfEmpty(c.Recorded.Failed)
	}
	if c.Grade != nil {
		out.Verdict, out.Detail = ptr.To(string(c.Grade.Verdict)), nilIfEmpty(c.Grade.Detail)
	}
	return out
}

// messageOf returns the text of the message of the user.
func messageOf(m *stream.Messages) string {
	for _, message := range m.All() {
		if message.Role == stream.RoleUser {
			return message.Content
		}
	}
	return ""
}
