package chatlines

import (
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/quoin-dev/quoin/internal/agent/stream"
)

// Result is the result of a tool: an error, rows, or cubes.
type Result struct {
	Error  string `json:"error"`
	Schema []struct {
		Name       string `json:"name"`
		ColumnType string `json:"column_type"`
	} `json:"schema"`
	Data      [][]string `json:"data"`
	TotalRows int        `json:"totalRows"`
	Cubes     []struct {
		Members []struct {
			Name string `json:"name"`
		} `json:"members"`
	} `json:"cubes"`
}

// Rows returns the rows of a query by the names of their columns.
func (r Result) Rows() (rows []map[string]string) {
	GinkgoHelper()
	Expect(r.Error).To(BeEmpty())
	Expect(r.Schema).To(HaveEach(HaveField("ColumnType", Not(BeEmpty()))))
	for _, cells := range r.Data {
		Expect(cells).To(HaveLen(len(r.Schema)))
		row := map[string]string{}
		for i, cell := range cells {
			row[r.Schema[i].Name] = cell
		}
		rows = append(rows, row)
	}
	return rows
}

// Members returns the names of the members of all cubes.
func (r Result) Members() (names []string) {
	for _, c := range r.Cubes {
		for _, m := range c.Members {
			names = append(names, m.Name)
		}
	}
	return names
}

// Results returns the results of the tools of an answer by name: of cubeMeta and another one.
func Results(lines []*stream.Line) map[string]Result {
	GinkgoHelper()
	results := map[string]Result{}
	for _, l := range lines {
		if l.ToolCall == nil || l.ToolCall.Result == nil {
			continue
		}
		var r Result
		Expect(json.Unmarshal([]byte(*l.ToolCall.Result), &r)).To(Succeed(), *l.ToolCall.Result)
		Expect(results).NotTo(HaveKey(l.ToolCall.Name))
		results[l.ToolCall.Name] = r
	}
	Expect(results).To(And(HaveLen(2), HaveKey("cubeMeta")))
	return results
}
