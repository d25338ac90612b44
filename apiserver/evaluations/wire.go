package evaluations

import (
	"encoding/json"
	"slices"
	"time"
	"unicode/utf8"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/internal/agent/grading"
	"github.com/quoin-dev/quoin/internal/agent/semantic"
	"github.com/quoin-dev/quoin/internal/content/evaluation"
)

// Evaluation is an evaluation.
type Evaluation struct {
	ID        int64            `json:"id" minimum:"1"`
	Kind      evaluation.Kind  `json:"kind" enum:"questions,replay" doc:"Questions with known answers, or the messages of a recorded chat."`
	Status    evaluation.State `json:"status" enum:"completed,running,failed" doc:"completed: there is a result for each question or message, whatever its verdict. failed: error has the reason, and what was finished has results."`
	Error     *string          `json:"error,omitempty" nullable:"true" example:"it was cancelled by ApiKey:key-x7k2m9q4ab" doc:"Why the evaluation has failed."`
	AgentID   int64            `json:"agentId" minimum:"1"`
	StartedBy string           `json:"startedBy" example:"ApiKey:key-x7k2m9q4ab"`
	StartedAt time.Time        `json:"startedAt"`
	EndedAt   *time.Time       `json:"endedAt,omitempty" nullable:"true"`
	Request
	Total  int    `json:"total" minimum:"1" doc:"The number of questions or messages."`
	Counts Counts `json:"counts" doc:"The numbers of results."`
}

// Request is what an evaluation was started with, as it is stored.
type Request struct {
	AgentName     string  `json:"agentName" example:"analyst" doc:"The name of the Agent."`
	BranchName    *string `json:"branchName,omitempty" nullable:"true" doc:"The branch whose environment is queried; absent for production."`
	CommitHash    *string `json:"commitHash,omitempty" nullable:"true" example:"9fceb02d0ae598e95dc970b74767f19372d61af8" doc:"The commit with the questions."`
	QuestionFile  *string `json:"questionFile,omitempty" nullable:"true" example:"agents/eval_questions/orders.yml"`
	ModelEndpoint string  `json:"modelEndpoint" example:"claude" doc:"The ModelEndpoint that has answered."`
	ChatID        *string `json:"chatId,omitempty" nullable:"true" doc:"The chat that is replayed."`
	ToolResults   *string `json:"toolResults,omitempty" nullable:"true" enum:"recorded,live"`
	MaxTokens     int64   `json:"maxTokens"`
}

// Counts are numbers of results by verdict.
type Counts struct {
	Pass   int `json:"pass" minimum:"0"`
	Fail   int `json:"fail" minimum:"0"`
	Review int `json:"review" minimum:"0"`
	Error  int `json:"error" minimum:"0"`
}

// shown returns an evaluation as documented.
func shown(e *evaluation.Evaluation) (Evaluation, error) {
	out := Evaluation{
		ID: e.ID, Kind: e.Kind, Status: e.State, AgentID: e.Agent, StartedBy: e.Caller, StartedAt: e.StartedAt, Total: e.Total,
		Counts: Counts{e.Counts.Pass, e.Counts.Fail, e.Counts.Review, e.Counts.Errors},
	}
	if e.Failure != "" {
		out.Error = &e.Failure
	}
	if !e.EndedAt.IsZero() {
		out.EndedAt = &e.EndedAt
	}
	return out, json.Unmarshal(e.Request, &out.Request)
}

// Result is the result of a question or of a message, as documented and as it is stored.
type Result struct {
	ID      int             `json:"id" minimum:"1" doc:"The number of the question or message in the evaluation."`
	Verdict grading.Verdict `json:"verdict" enum:"pass,fail,review,error" doc:"review: a person has to look at it. error: there is no result to compare."`
	Score   *float64        `json:"score,omitempty" nullable:"true" minimum:"0" maximum:"1" doc:"1 for pass and 0 for fail; absent otherwise."`
	Reason  *string         `json:"reason,omitempty" nullable:"true" enum:"row count mismatch,missing columns,value mismatch,unexpected rows,query error,ground-truth query failed,ground truth not found,agent error,results too large,query missing,query added,answer changed,input not in the recording" doc:"Why the verdict is not pass."`
	Detail  *string         `json:"detail,omitempty" nullable:"true" example:"12 rows are expected, the result has 11"`

	QuestionTextSnapshot string  `json:"questionTextSnapshot" example:"Orders by status?" doc:"The question or the message, as it was asked; empty for the message of a chat of another person."`
	QuestionName         *string `json:"questionName,omitempty" nullable:"true"`
	QuestionPlace        *string `json:"questionPlace,omitempty" nullable:"true" example:"agents/eval_questions/orders.yml:3" doc:"The file of the question, and the line."`
	MessageID            *string `json:"messageId,omitempty" nullable:"true" doc:"The message of the chat that is replayed."`

	ExpectedQuery *string `json:"expectedQuery,omitempty" nullable:"true" doc:"The query whose result is right."`
	ActualQuery   *string `json:"actualQuery,omitempty" nullable:"true" doc:"The last query of the agent that has succeeded: SQL, or JSON."`
	Expected      *Rows   `json:"expected,omitempty"`
	Actual        *Rows   `json:"actual,omitempty"`

	Answer         *string `json:"answer,omitempty" nullable:"true" doc:"What the agent has said."`
	RecordedAnswer *string `json:"recordedAnswer,omitempty" nullable:"true" doc:"What it has said in the chat that is replayed."`
	IsAnswerSame   *bool   `json:"isAnswerSame,omitempty" nullable:"true" doc:"Whether both texts are equal. It does not decide the verdict where there are results of queries."`
	ToolCalls      []Call  `json:"toolCalls,omitempty" nullable:"true" doc:"The tool calls of the agent; for a replay, those of both answers."`

	InputTokens  int64   `json:"inputTokens"`
	OutputTokens int64   `json:"outputTokens"`
	Seconds      float64 `json:"seconds"`
	IsDataHidden bool    `json:"isDataHidden" doc:"Whether queries, rows, answers, tool calls and messages of chats are absent, because another person has started the evaluation and may see other data than the caller."`
}

// Rows are the first rows of a result.
type Rows struct {
	Columns   []string    `json:"columns" doc:"The first 64 columns: results with more are not compared."`
	Rows      [][]*string `json:"rows" doc:"Values as text; null is null."`
	TotalRows int         `json:"totalRows"`
}

// Call is a tool call.
type Call struct {
	Change        *string `json:"change,omitempty" nullable:"true" enum:"same,changed,missing,added" doc:"How the call of a replay differs from the recorded one."`
	Tool          string  `json:"tool" example:"cubeSqlApi"`
	Input         *string `json:"input,omitempty" nullable:"true" doc:"JSON."`
	Error         *string `json:"error,omitempty" nullable:"true" doc:"Why the call has failed."`
	RecordedInput *string `json:"recordedInput,omitempty" nullable:"true" doc:"JSON; absent if it is that of the call, or if the recording does not have the call."`
	RecordedError *string `json:"recordedError,omitempty" nullable:"true"`
	Verdict       *string `json:"verdict,omitempty" nullable:"true" enum:"pass,fail,review" doc:"Whether the results of a query and of the recorded one are the same."`
	Detail        *string `json:"detail,omitempty" nullable:"true"`
}

// Limits of what is stored of a result.
const (
	maxRows     = 10
	maxRowBytes = 4 << 10
	maxColumn   = 128
	maxText     = 8 << 10
	maxInput    = 2 << 10
	maxCalls    = 20
	maxDetail   = 1 << 10
)

// encode returns a result as it is stored. Texts and lists are cut, so that the results of an evaluation can be read at once: more if
// their JSON is much longer than they are.
func (r *Result) encode() ([]byte, error) {
	for divisor := 1; ; divisor *= 2 {
		r.fit(divisor)
		body, err := json.Marshal(r)
		if err != nil || len(body) <= evaluation.MaxBody {
			return body, err
		}
	}
}

// fit cuts texts and lists at their limits, divided by a number.
func (r *Result) fit(divisor int) {
	for text, most := range map[*string]int{r.ExpectedQuery: maxText, r.ActualQuery: maxText, r.Answer: maxText, r.RecordedAnswer: maxText, &r.QuestionTextSnapshot: maxText, r.Detail: maxDetail} {
		cut(text, most/divisor)
	}
	r.ToolCalls = r.ToolCalls[:min(len(r.ToolCalls), maxCalls/divisor)]
	for i := range r.ToolCalls {
		c := &r.ToolCalls[i]
		for text, most := range map[*string]int{c.Input: maxInput, c.RecordedInput: maxInput, c.Error: maxDetail, c.RecordedError: maxDetail, c.Detail: maxDetail, &c.Tool: maxDetail} {
			cut(text, most/divisor)
		}
	}
	for _, rows := range []*Rows{r.Expected, r.Actual} {
		if rows == nil {
			continue
		}
		for i := range rows.Columns {
			cut(&rows.Columns[i], maxColumn/divisor)
		}
	}
}

// cut cuts a text at a number of bytes, and marks it; nil is nothing.
func cut(text *string, most int) {
	if text == nil || len(*text) <= most {
		return
	}
	end := most
	for !utf8.RuneStart((*text)[end]) {
		end--
	}
	*text = (*text)[:end] + "…"
}

// rowsOf returns the first columns and rows of a result.
func rowsOf(t *semantic.Table) *Rows {
	columns := min(len(t.Columns), grading.MaxColumns)
	out := &Rows{Columns: slices.Clone(t.Columns[:columns]), Rows: [][]*string{}, TotalRows: len(t.Rows)}
	left := maxRowBytes
	for _, row := range t.Rows[:min(len(t.Rows), maxRows)] {
		row = row[:min(len(row), columns)]
		for _, v := range row {
			left -= len(ptr.Deref(v, ""))
		}
		if left < 0 {
			break
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// grade sets the verdict.
func (r *Result) grade(g grading.Grade) *Result {
	r.Verdict, r.Score, r.Reason, r.Detail = g.Verdict, nil, nil, nil
	switch g.Verdict {
	case grading.Pass:
		r.Score = ptr.To(1.0)
	case grading.Fail:
		r.Score = ptr.To(0.0)
	}
	if g.Reason != "" {
		r.Reason = ptr.To(string(g.Reason))
	}
	if g.Detail != "" {
		r.Detail = &g.Detail
	}
	return r
}

// errored sets the verdict of a question or message without a result.
func (r *Result) errored(reason grading.Reason, detail string) *Result {
	return r.grade(grading.Grade{Verdict: grading.Errored, Reason: reason, Detail: detail})
}

// hide removes what has data, and the message of a chat, which only its person reads.
func (r *Result) hide() {
	if r.MessageID != nil {
		r.QuestionTextSnapshot = ""
	}
	*r = Result{
		ID: r.ID, Verdict: r.Verdict, Score: r.Score, Reason: r.Reason, QuestionTextSnapshot: r.QuestionTextSnapshot, QuestionName: r.QuestionName,
		QuestionPlace: r.QuestionPlace, MessageID: r.MessageID, InputTokens: r.InputTokens, OutputTokens: r.OutputTokens, Seconds: r.Seconds, IsDataHidden: true,
	}
}
