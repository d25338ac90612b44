package replay

import (
	"encoding/json"

	"github.com/quoin-dev/quoin/internal/agent/grading"
	"github.com/quoin-dev/quoin/internal/agent/stream"
)

// Reasons beyond those of package grading.
const (
	QueryMissing grading.Reason = "query missing"
	QueryAdded   grading.Reason = "query added"
	AnswerOnly   grading.Reason = "answer changed"
	NotRecorded  grading.Reason = "input not in the recording"
)

// table is the result of a query as a call has it.
type table struct {
	grading.Result
	// cut is true if the call has the first rows only.
	cut bool
}

// tableOf returns the result of a query; nil if a call has failed, or was none of a query.
func tableOf(c *stream.ToolCall) *table {
	if c == nil || c.Result == nil {
		return nil
	}
	var r struct {
		Error  *string
		Schema []struct{ Name string }
		// Data is a list in the results of queries. An older form has objects.
		Data         [][]*string
		TotalRows    *int
		LimitReached bool
	}
	if json.Unmarshal([]byte(*c.Result), &r) != nil || r.Error != nil || r.Schema == nil || r.TotalRows == nil {
		return nil
	}
	t := &table{cut: r.LimitReached || *r.TotalRows != len(r.Data)}
	for _, s := range r.Schema {
		t.Columns = append(t.Columns, s.Name)
	}
	t.Rows = r.Data
	return t
}

// compare grades a result against a recorded one.
func compare(recorded, replayed *table) grading.Grade {
	if recorded.cut || replayed.cut {
		return grading.Grade{Verdict: grading.Review, Reason: grading.TooLarge, Detail: "chats have the first 100 rows of a result, and there are more"}
	}
	return grading.Compare(&recorded.Result, &replayed.Result)
}

// lastTable returns the result of the last query that has succeeded; nil if there is none.
func lastTable(messages []stream.Message) *table {
	for i := len(messages) - 1; i >= 0; i-- {
		if t := tableOf(messages[i].ToolCall); t != nil {
			return t
		}
	}
	return nil
}
