package evaluations

import (
	"context"
	"encoding/json"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/apiserver/agents"
	"github.com/quoin-dev/quoin/internal/agent/grading"
	"github.com/quoin-dev/quoin/internal/agent/model"
	"github.com/quoin-dev/quoin/internal/agent/project"
	"github.com/quoin-dev/quoin/internal/agent/replay"
	"github.com/quoin-dev/quoin/internal/agent/semantic"
	"github.com/quoin-dev/quoin/internal/agent/stream"
)

// asking returns the item that asks a question. The result that is right is that of the ground truth, and the answer of the agent is
// the result of its last query that has succeeded.
func (s *Service) asking(q project.Question, files *project.Configured) item {
	return func(ctx context.Context, j *job, number int) *Result {
		place := q.Place.String()
		r := &Result{ID: number, QuestionTextSnapshot: q.Question, QuestionName: &q.Name, QuestionPlace: &place}
		sql, found := groundTruth(q, files)
		if !found {
			return r.errored(grading.GroundTruthMissing, "there is no certified query "+q.CertifiedQuery)
		}
		r.ExpectedQuery = &sql
		results, log := &tables{}, &collector{}
		run, err := s.Agents.Prepare(ctx, agents.Question{
			Agent: j.agent, Asker: j.asker, MessageID: q.Name, Branch: j.branch, Evaluation: j.lease.ID, Files: files, OnTable: results.add,
		})
		if err != nil {
			return r.errored(grading.AgentError, explain(ctx, err))
		}
		input, err := json.Marshal(map[string]string{"sqlQuery": sql})
		if err != nil {
			return r.errored(grading.GroundTruthFailed, err.Error())
		}
		run.Log = log
		if err := run.Call(ctx, semantic.SQLTool, input); err != nil {
			return r.errored(grading.GroundTruthFailed, explain(ctx, err))
		}
		expected := results.take()
		if expected == nil {
			return r.errored(grading.GroundTruthFailed, lastFailure(&log.messages))
		}
		r.Expected = rowsOf(expected)
		log = &collector{}
		run.Log, run.Model = log, s.metered(j, number, run.Model)
		err = s.answer(ctx, j, run, []model.Message{{Role: model.User, Text: q.Question}}, r)
		actual := results.take()
		r.describe(&log.messages, actual)
		switch {
		case err != nil:
			return r.errored(grading.AgentError, explain(ctx, err))
		case actual == nil:
			return r.withoutResult(&log.messages)
		case expected.Cut || actual.Cut:
			return r.grade(grading.Grade{Verdict: grading.Review, Reason: grading.TooLarge, Detail: "a result has more rows than are compared"})
		}
		return r.grade(grading.Compare(&grading.Result{Columns: expected.Columns, Rows: expected.Rows}, &grading.Result{Columns: actual.Columns, Rows: actual.Rows}))
	}
}

// groundTruth returns the SQL of the ground truth of a question.
func groundTruth(q project.Question, files *project.Configured) (sql string, found bool) {
	if q.CertifiedQuery == "" {
		return q.SQL, true
	}
	for i := range files.Queries {
		if files.Queries[i].Name == q.CertifiedQuery {
			return files.Queries[i].SQL(), true
		}
	}
	return "", false
}

// describe sets what the agent has done and said.
func (r *Result) describe(m *stream.Messages, last *semantic.Table) {
	if answer, ok := m.Answer(); ok {
		r.Answer = &answer
	}
	if last != nil {
		r.Actual = rowsOf(last)
		if r.ActualQuery = &last.SQL; last.SQL == "" {
			r.ActualQuery = ptr.To(string(last.JSON))
		}
	}
	for _, c := range replay.Compare(&stream.Messages{}, m).Calls {
		r.ToolCalls = append(r.ToolCalls, Call{Tool: c.Tool, Input: &c.Replayed.Input, Error: nilIfEmpty(c.Replayed.Failed)})
	}
}

// withoutResult grades an answer without a query that has succeeded.
func (r *Result) withoutResult(m *stream.Messages) *Result {
	if failure := lastFailure(m); failure != "" {
		return r.errored(grading.QueryError, failure)
	}
	return r.errored(grading.AgentError, "the agent has answered without a query")
}

// lastFailure returns the failure of the last call that has failed; empty if there is none.
func lastFailure(m *stream.Messages) (last string) {
	for _, c := range replay.Compare(&stream.Messages{}, m).Calls {
		if c.Replayed.Failed != "" {
			last = c.Replayed.Failed
		}
	}
	return last
}

func nilIfEmpty(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
