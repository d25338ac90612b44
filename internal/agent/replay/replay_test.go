package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/internal/agent"
	"github.com/quoin-dev/quoin/internal/agent/grading"
	"github.com/quoin-dev/quoin/internal/agent/model"
	"github.com/quoin-dev/quoin/internal/agent/stream"
)

// answer returns the messages of an answer with calls, each of which is <tool> <input> = <result>, and a text.
func answer(text string, calls ...string) *stream.Messages {
	m := &stream.Messages{}
	sort := int64(0)
	add := func(l stream.Line) {
		sort++
		l.Sort = sort
		m.Add(&l)
	}
	for i, c := range calls {
		head, result, hasResult := strings.Cut(c, " = ")
		tool, input, _ := strings.Cut(head, " ")
		id := fmt.Sprint("c", i)
		add(stream.ToolStarted(id, tool, input))
		if hasResult {
			add(stream.ToolEnded(id, tool, input, result))
		}
	}
	if text != "" {
		add(stream.Whole("answer", text, stream.PathFinal))
	}
	return m
}

// rows returns the result of a query with one column.
func rows(total int, values ...string) string {
	var data [][]string
	for _, v := range values {
		data = append(data, []string{v})
	}
	text, _ := json.Marshal(map[string]any{"sqlQuery": "SELECT", "schema": []any{map[string]any{"name": "n", "column_type": "Int64"}}, "data": data, "totalRows": total, "uuid": "u"})
	return string(text)
}

func shown(d Diff) string {
	var out []string
	for _, c := range d.Calls {
		text := string(c.Change) + " " + c.Tool
		if c.Recorded != nil {
			text += " " + c.Recorded.Input + c.Recorded.Failed
		}
		if c.Replayed != nil {
			text += " -> " + c.Replayed.Input + c.Replayed.Failed
		}
		if c.Grade != nil {
			text += " " + string(c.Grade.Verdict)
		}
		out = append(out, text)
	}
	return strings.TrimSpace(fmt.Sprintf("%s; %s %s", strings.Join(out, ", "), d.Grade.Verdict, d.Grade.Reason))
}

// TestCompare: calls are paired in their order, and the verdict is that of the results of the last queries.
func TestCompare(t *testing.T) {
	const forbidden = `{"error":"Error: ForbiddenError: hidden"}`
	for name, c := range map[string]struct {
		recorded, replayed *stream.Messages
		want               string
	}{
		"the same": {
			answer("12", `meta {"a":1,"b":[1.0]} = {}`, "sql {} = "+rows(1, "12")), answer("Twelve", `meta { "b": [1.0], "a": 1 } = {}`, "sql {} = "+rows(1, "12.0")),
			`same meta {"a":1,"b":[1.0]} -> { "b": [1.0], "a": 1 }, same sql {} -> {} pass; pass`,
		},
		"another query with the same result": {
			answer("12", `sql {"q":1} = `+rows(1, "12")), answer("12", `meta {} = {}`, `sql {"q":2} = `+rows(1, "12")),
			`added meta -> {}, changed sql {"q":1} -> {"q":2} pass; pass`,
		},
		"another result": {answer("12", "sql {} = "+rows(1, "12")), answer("13", "sql {} = "+rows(1, "13")), "same sql {} -> {} fail; fail value mismatch"},
		"a query that fails, and then does not": {
			answer("12", "sql {} = "+rows(1, "12")), answer("12", `sql {"q":1} = `+forbidden, "sql {} = "+rows(1, "12")),
			`added sql -> {"q":1}ForbiddenError: hidden, same sql {} -> {} pass; pass`,
		},
		"queries are missing": {answer("12", "sql {} = "+rows(1, "12")), answer("12"), "missing sql {}; fail query missing"},
		"queries are added":   {answer("12", "sql {} = "+forbidden), answer("12", "sql {} = "+rows(1, "12")), "same sql {}ForbiddenError: hidden -> {}; fail query added"},
		"only the text":       {answer("Hello"), answer("Hi"), "; review answer changed"},
		"the same text":       {answer("Hello"), answer("Hello"), "; pass"},
		"nothing":             {answer(""), answer(""), "; pass"},
		"more rows than a chat has": {
			answer("12", "sql {} = "+rows(101, "12")), answer("12", "sql {} = "+rows(101, "12")), "same sql {} -> {} review; review results too large",
		},
		"a call without a result": {answer("", "sql {}"), answer("12", "sql {} = "+rows(1, "12")), "same sql {}it has no result -> {}; fail query added"},
		"another order": {
			answer("x", "a 1 = 1", "b 1 = 1", "c 1 = 1"), answer("x", "b 1 = 1", "c 1 = 1", "a 1 = 1"), "missing a 1, same b 1 -> 1, same c 1 -> 1, added a -> 1; pass",
		},
		"an error that is not Quoin's": {answer("x", `a 1 = {"error":"no"}`), answer("x", "a 1 = 1"), "same a 1InternalError: no -> 1; pass"},
	} {
		if got := shown(Compare(c.recorded, c.replayed)); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, c.want)
		}
	}
}

// TestRecording: a call that was recorded has its result without running, and another one is a divergence after which the model is
// not asked again.
func TestRecording(t *testing.T) {
	r := RecordingOf(answer("x", `sql {"q": 1} = {"n":1}`, `sql {"q":1} = {"n":2}`, `sql {"q":2} = {"error":"Error: BadRequestError: no: such table"}`, `sql {"q":3}`).All())
	ran := 0
	run := func(context.Context, agent.Input) (*agent.Result, error) { ran++; return &agent.Result{}, nil }
	tools := r.Tools([]agent.Tool{{Tool: model.Tool{Name: "sql"}, Run: run}, {Tool: model.Tool{Name: "skills"}, Run: run}}, func(name string) bool { return name == "skills" })
	call := func(tool int, input string) string {
		result, err := tools[tool].Run(t.Context(), agent.Input{JSON: json.RawMessage(input)})
		if err != nil {
			return err.Error()
		}
		return string(result.Wire)
	}
	asked := 0
	m := r.Model(scripted(func() { asked++ }))
	ask := func() (failed error) {
		for _, err := range m.Stream(t.Context(), &model.Request{}) {
			failed = err
		}
		return failed
	}
	for i, c := range []struct{ input, want string }{
		{`{"q":1}`, `{"n":1}`}, {`{ "q": 1 }`, `{"n":2}`}, {`{"q":1}`, `{"n":2}`}, {`{"q":2}`, "BadRequestError: no: such table"},
	} {
		if got := call(0, c.input); got != c.want {
			t.Errorf("call %d has %s, want %s", i, got, c.want)
		}
	}
	if err := ask(); err != nil || asked != 1 || ran != 0 {
		t.Errorf("asked %d times with %v; %d tools have run", asked, err, ran)
	}
	if call(1, "{}"); ran != 1 {
		t.Error("the tool without data has not run")
	}
	for _, input := range []string{`{"q":3}`, `{"q":"1"}`} {
		if got := call(0, input); got != "NotRecordedError: this call is not in the recording" {
			t.Error(got)
		}
	}
	if err := ask(); !errors.Is(err, ErrDiverged) || asked != 1 {
		t.Errorf("asked %d times with %v after a divergence", asked, err)
	}
}

// scripted is a model that answers nothing.
type scripted func()

// Stream implements model.Model.
func (s scripted) Stream(context.Context, *model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		s()
		yield(model.Event{Stop: model.StopEnd}, nil)
	}
}

// FuzzCompare: results of tools are texts that a server has stored, of any release; none of them is a panic, and an answer has no
// difference from itself.
func FuzzCompare(f *testing.F) {
	f.Add(`{"q":1}`, rows(1, "12"))
	f.Add(`{`, `{"error":{}}`)
	f.Add(`[1e400]`, `{"schema":[{}],"data":[[null,"1"],null],"totalRows":2}`)
	f.Fuzz(func(t *testing.T, input, result string) {
		m := answer("x", "sql {} = {}")
		l := stream.ToolEnded("f", "sql", input, result)
		m.Add(&l)
		d := Compare(m, m)
		if len(d.Calls) != 2 || d.Calls[0].Change != Same || d.Calls[1].Change != Same || d.Grade.Verdict != grading.Pass && d.Grade.Verdict != grading.Review {
			t.Errorf("%+v", d)
		}
		r := RecordingOf(m.All())
		if _, err := r.result("sql", input); r.diverged {
			t.Error(err)
		}
	})
}
