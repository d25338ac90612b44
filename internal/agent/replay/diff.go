package replay

import (
	"github.com/quoin-dev/quoin/internal/agent/grading"
	"github.com/quoin-dev/quoin/internal/agent/stream"
)

// Change is how a call differs from the recorded one.
type Change string

// The changes.
const (
	// Same: the same tool with the same input.
	Same Change = "same"
	// Changed: the same tool with another input.
	Changed Change = "changed"
	// Missing: the call is in the recording only.
	Missing Change = "missing"
	// Added: the call is not in the recording.
	Added Change = "added"
)

// Diff is how an answer differs from the recorded one.
type Diff struct {
	Calls []Call
	// Recorded and Replayed are the answers.
	Recorded, Replayed string
	// Grade compares the results of the last queries. Without queries it compares the answers.
	Grade grading.Grade
}

// Call is a call of one or of both answers.
type Call struct {
	Change Change
	Tool   string
	// Recorded and Replayed are nil if the answer does not have the call.
	Recorded, Replayed *Side
	// Grade compares the results; nil if they are not both those of queries that have succeeded.
	Grade *grading.Grade
}

// Side is a call in one of the answers.
type Side struct {
	// Input is a JSON text.
	Input string
	// Failed is the class and the message of a failure; empty for a success.
	Failed string
	table  *table
}

// maxCalls is the number of calls of an answer that are compared; the limit of calls is smaller.
const maxCalls = 500

// Compare compares the messages of an answer with those of the recorded one.
func Compare(recorded, replayed *stream.Messages) Diff {
	d := Diff{Calls: align(callsOf(recorded.All()), callsOf(replayed.All()))}
	d.Recorded, _ = recorded.Answer()
	d.Replayed, _ = replayed.Answer()
	want, got := lastTable(recorded.All()), lastTable(replayed.All())
	switch {
	case want != nil && got != nil:
		d.Grade = compare(want, got)
	case want != nil:
		d.Grade = grading.Grade{Verdict: grading.Fail, Reason: QueryMissing, Detail: "the recorded answer has a result of a query, and this one has none"}
	case got != nil:
		d.Grade = grading.Grade{Verdict: grading.Fail, Reason: QueryAdded, Detail: "this answer has a result of a query, and the recorded one has none"}
	case d.Recorded == d.Replayed:
		d.Grade = grading.Grade{Verdict: grading.Pass}
	default:
		d.Grade = grading.Grade{Verdict: grading.Review, Reason: AnswerOnly, Detail: "no query was run, so that only the texts can be compared"}
	}
	return d
}

// call is a call with what identifies it.
type call struct {
	tool, key string
	side      Side
}

func callsOf(messages []stream.Message) (out []call) {
	for i := range messages {
		c := messages[i].ToolCall
		if c == nil || len(out) == maxCalls {
			continue
		}
		side := Side{Input: c.Input, table: tableOf(c)}
		if c.Result == nil {
			side.Failed = "it has no result"
		} else if class, message, failed := failureOf(*c.Result); failed {
			side.Failed = class + ": " + message
		}
		out = append(out, call{c.Name, keyOf(c.Name, c.Input), side})
	}
	return out
}

// align pairs calls in their order: as many equal ones as possible, and between them those of the same tool.
func align(recorded, replayed []call) []Call {
	var out []Call
	i, j := 0, 0
	for _, pair := range append(common(recorded, replayed), [2]int{len(recorded), len(replayed)}) {
		out = append(out, between(recorded[i:pair[0]], replayed[j:pair[1]])...)
		if pair[0] < len(recorded) {
			out = append(out, pairOf(Same, &recorded[pair[0]], &replayed[pair[1]]))
		}
		i, j = pair[0]+1, pair[1]+1
	}
	return out
}

// common returns the indexes of a longest common subsequence.
func common(a, b []call) (pairs [][2]int) {
	length := make([][]int, len(a)+1)
	for i := range length {
		length[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i].key == b[j].key {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i].key == b[j].key:
			pairs = append(pairs, [2]int{i, j})
			i, j = i+1, j+1
		case length[i+1][j] >= length[i][j+1]:
			i++
		default:
			j++
		}
	}
	return pairs
}

// between pairs calls of which none are equal: those of the same tool, in their order.
func between(recorded, replayed []call) (out []Call) {
	for i := range recorded {
		at := -1
		for j := range replayed {
			if replayed[j].tool == recorded[i].tool {
				at = j
				break
			}
		}
		if at < 0 {
			out = append(out, pairOf(Missing, &recorded[i], nil))
			continue
		}
		for j := range at {
			out = append(out, pairOf(Added, nil, &replayed[j]))
		}
		out = append(out, pairOf(Changed, &recorded[i], &replayed[at]))
		replayed = replayed[at+1:]
	}
	for j := range replayed {
		out = append(out, pairOf(Added, nil, &replayed[j]))
	}
	return out
}

// pairOf returns a call of one or of both answers.
func pairOf(change Change, recorded, replayed *call) Call {
	out := Call{Change: change}
	if recorded != nil {
		out.Tool, out.Recorded = recorded.tool, &recorded.side
	}
	if replayed != nil {
		out.Tool, out.Replayed = replayed.tool, &replayed.side
	}
	if recorded != nil && replayed != nil && recorded.side.table != nil && replayed.side.table != nil {
		grade := compare(recorded.side.table, replayed.side.table)
		out.Grade = &grade
	}
	return out
}
