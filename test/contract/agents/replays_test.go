package agents_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
)

// replayOf is the body of a replay of a chat with the analyst.
func replayOf(chat, results string, more object) object {
	body := object{"agentId": analyst, "chatId": chat, "toolResults": results}
	for name, value := range more {
		body[name] = value
	}
	return body
}

// TestReplayOnRecordedResults: the messages of a chat are answered again without any query, and the differences are shown.
func TestReplayOnRecordedResults(t *testing.T) {
	p := acme.startPod(t)
	for _, input := range []string{"sql " + byCountry, "hello", "meta orders", "sql SELECT secret FROM orders_view"} {
		acme.chat(t, acme.ada, object{"input": input, "chatId": "c-recorded"}).Is(200)
	}
	before := len(p.received(""))
	path := acme.run(t, acme.ada, replays, replayOf("c-recorded", "recorded", nil))
	got := acme.finished(t, acme.ada, path)
	for field, want := range map[string]any{"kind": "replay", "status": "completed", "chatId": "c-recorded", "toolResults": "recorded", "total": 4, "counts": object{"pass": 4, "fail": 0, "review": 0, "error": 0}} {
		equal(t, got.At(field), want)
	}
	equal(t, len(p.received("")), before)
	lines, items := acme.graded(t, acme.ada, path)
	equal(t, strings.Join(lines, "; "), "sql "+byCountry+": pass; hello: pass; meta orders: pass; sql SELECT secret FROM orders_view: pass")
	call := items[0]["toolCalls"].([]any)[0].(object)
	for field, want := range map[string]any{"change": "same", "tool": "cubeSqlApi", "verdict": "pass", "recordedInput": nil, "error": nil} {
		equal(t, call[field], want)
	}
	answer, _ := items[0]["answer"].(string)
	recorded, _ := items[0]["recordedAnswer"].(string)
	if !strings.Contains(answer, "CH") || !strings.Contains(recorded, "CH") || items[0]["messageId"] == nil {
		t.Errorf("%v", items[0])
	}
	denied := items[3]["toolCalls"].([]any)[0].(object)
	if text, _ := denied["error"].(string); !strings.HasPrefix(text, "ForbiddenError: ") || denied["recordedError"] != denied["error"] {
		t.Errorf("%v", denied)
	}
}

// TestReplayDiverges: a call that is not in the recording is not run and not invented, and ends the answer.
func TestReplayDiverges(t *testing.T) {
	p := acme.startPod(t)
	acme.chat(t, acme.ada, object{"input": "sql " + byCountry, "chatId": "c-diverged"}).Is(200)
	scripted.rewrite(t, byCountry, "SELECT 1 FROM two")
	before, asked := len(p.received("")), len(scripted.asked("c-diverged"))
	path := acme.run(t, acme.ada, replays, replayOf("c-diverged", "recorded", nil))
	equal(t, acme.finished(t, acme.ada, path).At("counts"), object{"pass": 0, "fail": 0, "review": 1, "error": 0})
	lines, items := acme.graded(t, acme.ada, path)
	equal(t, lines, "[sql "+byCountry+": review, input not in the recording]")
	equal(t, []int{len(p.received("")), len(scripted.asked("c-diverged"))}, []int{before, asked})
	call := items[0]["toolCalls"].([]any)[0].(object)
	input, _ := call["input"].(string)
	recorded, _ := call["recordedInput"].(string)
	if call["change"] != "changed" || !strings.Contains(input, "FROM two") || !strings.Contains(recorded, "FROM orders_view") || !strings.Contains(call["error"].(string), "not in the recording") {
		t.Errorf("%v", call)
	}
	equal(t, items[0]["answer"], nil)
	equal(t, items[0]["inputTokens"], 10)

	// With queries, the differences are those of the results.
	path = acme.run(t, acme.ada, replays, replayOf("c-diverged", "live", object{"modelEndpoint": "other", "branchName": "main"}))
	got := acme.finished(t, acme.ada, path)
	equal(t, []any{got.At("modelEndpoint"), got.At("branchName"), got.At("counts.fail")}, []any{"other", "main", 1})
	if lines, _ := acme.graded(t, acme.ada, path); lines[0] != "sql "+byCountry+": fail, missing columns" {
		t.Error(lines)
	}
	if len(p.received("FROM two")) != 1 {
		t.Error(p.received(""))
	}
}

// TestReplayOfAChatWithHistory: each message follows what was said before it in the recording.
func TestReplayOfAChatWithHistory(t *testing.T) {
	acme.startPod(t)
	for _, input := range []string{"hello first", "hello second"} {
		acme.chat(t, acme.ada, object{"input": input, "chatId": "c-history"}).Is(200)
	}
	before := len(scripted.asked("hello second"))
	path := acme.run(t, acme.ada, replays, replayOf("c-history", "live", nil))
	equal(t, acme.finished(t, acme.ada, path).At("counts.pass"), 2)
	asked := scripted.asked("hello second")
	if len(asked) != before+1 || !strings.Contains(asked[before], "You said hello first") {
		t.Errorf("%d conversations: %v", len(asked)-before, asked[before:])
	}
	_, items := acme.graded(t, acme.ada, path)
	equal(t, []any{items[1]["isAnswerSame"], items[1]["answer"]}, []any{true, "You said hello second"})
}

// TestReplayIsOfItsPerson: a chat is replayed by its person, or by a program that acts for the person.
func TestReplayIsOfItsPerson(t *testing.T) {
	p := acme.startPod(t)
	session := external("u-replay", "FR")
	acme.chat(t, acme.admin, object{"input": "sql " + byCountry, "chatId": "c-person", "sessionSettings": session}).Is(200)
	for _, token := range []string{acme.ada, acme.ben} {
		acme.call(t, token, "POST", replays, replayOf("c-person", "recorded", nil)).Rejected(403, "another user")
	}
	acme.call(t, acme.admin, "POST", replays, replayOf("c-person", "live", object{"sessionSettings": external("u-other", "FR")})).Rejected(403, "another user")
	path := acme.run(t, acme.admin, replays, replayOf("c-person", "live", object{"sessionSettings": session}))
	equal(t, acme.finished(t, acme.admin, path).At("counts.pass"), 1)
	queries := p.received("/v1/cubesql")
	if len(queries) != 2 || !strings.Contains(queries[1], " FR ") {
		t.Error(queries)
	}
	if _, items := acme.graded(t, acme.ada, path); items[0]["answer"] != nil || items[0]["toolCalls"] != nil || items[0]["questionTextSnapshot"] != "" || items[0]["isDataHidden"] != true {
		t.Errorf("ada sees the chat of another person: %v", items[0])
	}
	// A Viewer, who writes no SQL, replays a chat of their own.
	acme.chat(t, acme.ben, object{"input": "hello", "chatId": "c-ben"}).Is(200)
	equal(t, acme.finished(t, acme.ben, acme.run(t, acme.ben, replays, replayOf("c-ben", "recorded", nil))).At("counts.pass"), 1)
}

// TestReplayStates: a chat without an answer cannot be replayed, and neither can one of an agent of another deployment.
func TestReplayStates(t *testing.T) {
	acme.startPod(t)
	scripted.drain(t)
	acme.open(t.Context(), t, acme.ada, object{"input": "wait replayed", "chatId": "c-open"}) //nolint:bodyclose // open closes it when the test ends
	<-scripted.begun
	acme.call(t, acme.ada, "POST", replays, replayOf("c-open", "recorded", nil)).Rejected(409, "chatId", "no message of the chat is answered yet")
	scripted.more <- struct{}{}
	key, token, err := clustertest.Key(acme.name, "replayer", v1alpha1.ApiKeySpec{Permissions: []v1alpha1.Permission{v1alpha1.PermissionDeploymentRead}})
	if err != nil {
		t.Fatal(err)
	}
	if err := k8s.Create(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	apiclient.Soon(t, func() error {
		if got := acme.call(t, token, "GET", "/api/v1/deployments/1", nil); got.Status != 200 {
			return fmt.Errorf("%s", got.Body)
		}
		return nil
	})
	acme.call(t, token, "POST", replays, replayOf("c-open", "recorded", nil)).Rejected(403, "DeploymentAgentRead")
}
