// Package chatlines checks the lines of chats of agents against docs/ai.md, without the packages that write them.
package chatlines

import (
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/quoin-dev/quoin/internal/agent/stream/streamtest"
)

// line is a line as it is sent.
type line = map[string]any

const (
	cutoff = "__cutoff__"
	state  = "__state__"
	uuid   = `^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`
)

// parse returns the lines of a stream, each of which is an object.
func parse(text string) (lines []line) {
	GinkgoHelper()
	Expect(text).To(HaveSuffix("\n"))
	for one := range strings.Lines(text) {
		l := line{}
		Expect(json.Unmarshal([]byte(one), &l)).To(Succeed(), one)
		lines = append(lines, l)
	}
	return lines
}

// ChatID returns the id of the chat in the first line.
func ChatID(text string) string {
	GinkgoHelper()
	its, _ := parse(text)[0]["state"].(line)
	id, _ := its["chatId"].(string)
	Expect(id).NotTo(BeEmpty())
	return id
}

// Check checks the lines of the answer to a message, from its beginning. It returns the answer, which may be empty, and the text of
// the error line, which is empty if the answer is complete.
func Check(text string, id, input any) (answer, problem string) {
	GinkgoHelper()
	lines := parse(text)
	if len(lines) < 3 {
		Fail("lines are missing: " + text)
	}
	checkFirst(lines[0])
	Expect(lines[1]).To(And(
		HaveKeyWithValue("id", id), HaveKeyWithValue("role", "user"), HaveKeyWithValue("content", input), HaveKeyWithValue("isDelta", false),
	))
	last := len(lines) - 1
	for _, l := range lines[2:last] {
		checkAssistant(l)
	}
	sorts := lines
	if shown, isError := lines[last]["error"].(string); isError {
		Expect(lines[last]).To(HaveLen(1))
		problem, sorts = shown, lines[:last]
	} else {
		checkState(lines[last])
	}
	for i, l := range sorts[1:] {
		Expect(l["sort"]).To(BeNumerically(">", sorts[i]["sort"]), "line %d of %s", i+1, text)
	}
	answer = checkAnswer(lines[2:last])
	for name, client := range streamtest.Clients {
		shown, err := client(strings.SplitAfter(text, "\n"))
		if problem == "" {
			Expect(err).NotTo(HaveOccurred(), "client %s", name)
			Expect(shown).To(Equal(answer), "client %s", name)
		} else {
			Expect(err).To(HaveOccurred(), "client %s", name)
		}
	}
	return answer, problem
}

func checkFirst(l line) {
	GinkgoHelper()
	Expect(l).To(And(HaveKeyWithValue("id", cutoff), HaveKeyWithValue("role", "assistant"), HaveKeyWithValue("sort", 0.0), HaveKey("state")))
	Expect(l["state"]).To(And(HaveKeyWithValue("chatId", Not(BeEmpty())), HaveKeyWithValue("isStreaming", true)))
}

func checkState(l line) {
	GinkgoHelper()
	Expect(l).To(And(HaveKeyWithValue("id", state), HaveKeyWithValue("role", "assistant"), HaveKeyWithValue("isDelta", false), HaveKey("state")))
	Expect(l["state"]).To(HaveKeyWithValue("messages", Not(BeEmpty())))
}

// checkAssistant checks a line of the assistant or of a tool.
func checkAssistant(l line) {
	GinkgoHelper()
	Expect(l).To(And(
		HaveKeyWithValue("id", MatchRegexp(uuid)), HaveKeyWithValue("role", "assistant"), HaveKeyWithValue("graphPath", Not(BeEmpty())),
		HaveKeyWithValue("isDelta", BeAssignableToTypeOf(true)), HaveKeyWithValue("isInProcess", BeAssignableToTypeOf(true)), Not(HaveKey("thinking")),
	))
	tool, isTool := l["toolCall"].(line)
	if !isTool {
		Expect(l).To(HaveKeyWithValue("content", BeAssignableToTypeOf("")))
		Expect(l["isInProcess"]).To(Equal(l["isDelta"]), "the line that is no delta is the last one of its id")
		return
	}
	Expect(l["isDelta"]).To(BeFalse())
	Expect(l["graphPath"]).To(HaveExactElements(Not(BeEmpty()), "tools"))
	Expect(tool).To(And(HaveKeyWithValue("name", Not(BeEmpty())), HaveKeyWithValue("input", WithTransform(isJSON, BeTrue()))))
	if l["isInProcess"] == true {
		Expect(tool).NotTo(HaveKey("result"))
		return
	}
	Expect(tool).To(HaveKeyWithValue("result", WithTransform(isJSON, BeTrue())))
}

// isJSON reports whether a value is a text of JSON.
func isJSON(value any) bool {
	text, isText := value.(string)
	return isText && json.Valid([]byte(text))
}

// checkAnswer checks that each text and each tool call ends with one line that is no delta, with all of it, and returns the text of
// the last one whose path begins with final.
func checkAnswer(lines []line) (answer string) {
	GinkgoHelper()
	deltas, open := map[any]string{}, map[any]bool{}
	for _, l := range lines {
		Expect(open).NotTo(HaveKeyWithValue(l["id"], false), "a line after the last one of its id")
		open[l["id"]] = l["isInProcess"] == true
		content, isText := l["content"].(string)
		switch {
		case !isText:
		case l["isDelta"] == true:
			deltas[l["id"]] += content
		default:
			Expect(deltas).To(HaveKeyWithValue(l["id"], content), "the whole text and its deltas")
		}
		if path, _ := l["graphPath"].([]any); len(path) > 0 && path[0] == "final" && l["isDelta"] == false {
			Expect(path).To(Or(HaveLen(1), HaveLen(2)))
			answer = content
		}
	}
	Expect(open).NotTo(ContainElement(true), "an id without its last line")
	return answer
}
