package agents_test

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

const (
	evaluations = "/api/v1/deployments/1/evaluations"
	replays     = "/api/v1/deployments/1/chat-replays"
	byCountry   = "SELECT country, MEASURE(count) FROM orders_view GROUP BY 1"
)

// questions are the files of the data model with questions, by name. The model calls cubeSqlApi for questions that begin with sql.
var questions = map[string]string{
	"agents/eval_questions/right.yml": `eval_questions:
  - {name: countries, question: "sql ` + byCountry + `", sql: "SELECT MEASURE(count), country FROM orders_view GROUP BY 2"}
  - {name: certified, question: "sql ` + byCountry + `", certifiedQuery: countries}
`,
	"agents/eval_questions/mixed.yml": `eval_questions:
  - {name: right, question: "sql ` + byCountry + `", sql: "` + byCountry + `"}
  - {name: rows, question: "sql ` + byCountry + `", sql: "SELECT 1 FROM two"}
  - {name: more, question: "sql SELECT 1 FROM two", sql: "` + byCountry + `"}
  - {name: many, question: "sql SELECT 1 FROM many", sql: "SELECT 1 FROM many"}
  - {name: hidden, question: "sql ` + byCountry + `", sql: "SELECT secret FROM orders_view"}
  - {name: none, question: "sql ` + byCountry + `", certifiedQuery: nowhere}
  - {name: text, question: "hello", sql: "` + byCountry + `"}
  - {name: denied, question: "sql SELECT secret FROM orders_view", sql: "` + byCountry + `"}
  - {name: refused, question: "refuse", sql: "` + byCountry + `"}
  - {name: searched, question: "meta orders", sql: "` + byCountry + `"}
`,
	"agents/eval_questions/wait.yml":      "eval_questions:\n  - {name: slow, question: wait evaluated, sql: SELECT 1 FROM two}\n",
	"agents/eval_questions/other.yml":     "space: other\neval_questions:\n  - {name: other, question: hello, sql: SELECT 1}\n",
	"agents/config.yml":                   "spaces: [{name: other}]\n",
	"agents/certified_queries/country.md": "---\nname: countries\nuser_request: Orders by country?\n---\n" + byCountry + "\n",
	"model/a.yml":                         "cubes: []\n",
}

// evaluable uploads the files of questions, and makes production serve their commit.
func (a *account) evaluable(t *testing.T) {
	t.Helper()
	e := &v1alpha1.Environment{}
	if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: a.name, Name: v1alpha1.ProductionName(deployment)}, e); err != nil {
		t.Fatal(err)
	}
	if e.Status.ModelCommit != "" {
		return
	}
	const base = "/build/api/v1/deployments/1/data-model/upload"
	transaction, err := json.Marshal(a.call(t, a.admin, "POST", base+"/start", nil).Is(200).At("transaction"))
	if err != nil {
		t.Fatal(err)
	}
	hashes := object{}
	for name, text := range questions {
		a.upload(t, base+"/file", string(transaction), name, text)
		sum := sha1.Sum([]byte(text))
		hashes[name] = object{"hash": hex.EncodeToString(sum[:])}
	}
	finish := object{"transaction": json.RawMessage(transaction), "files": hashes}
	commit, _ := a.call(t, a.admin, "POST", base+"/finish", finish).Is(200).At("lastHash").(string)
	before := e.DeepCopy()
	e.Status.ModelCommit = commit
	if err := k8s.Status().Patch(t.Context(), e, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	apiclient.Soon(t, func() error { // the cache has the commit
		got := a.call(t, a.admin, "GET", "/api/v1/deployments/1/agents", nil)
		if !strings.Contains(string(got.Body), `"agentSpace"`) {
			return fmt.Errorf("%s", got.Body)
		}
		return nil
	})
}

// upload sends a file of an upload.
func (a *account) upload(t *testing.T, path, transaction, name, text string) {
	t.Helper()
	body := &bytes.Buffer{}
	form := multipart.NewWriter(body)
	_ = form.WriteField("transaction", transaction) // a buffer
	_ = form.WriteField("fileName", name)
	part, _ := form.CreateFormFile("file", name[strings.LastIndex(name, "/")+1:])
	_, _ = io.WriteString(part, text)
	_ = form.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+a.host()+path, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+a.admin)
	request.Header.Set("Content-Type", form.FormDataContentType())
	response, err := anyone.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(response.Body)
	if _ = response.Body.Close(); response.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", response.StatusCode, answer)
	}
}

// run starts an evaluation, and returns its path.
func (a *account) run(t *testing.T, token, path string, body object) string {
	t.Helper()
	got := a.call(t, token, "POST", path, body).Is(202)
	id, _ := got.At("id").(float64)
	if id < 1 || id != float64(int64(id)) || got.At("status") != "running" {
		t.Fatalf("%s", got.Body)
	}
	return fmt.Sprintf("%s/%d", evaluations, int64(id))
}

// finished waits for the end of an evaluation, as the upstream command-line client does: completed and failed end the wait.
func (a *account) finished(t *testing.T, token, path string) *apiclient.Answer {
	t.Helper()
	var got *apiclient.Answer
	apiclient.Soon(t, func() error {
		got = a.call(t, token, "GET", path, nil).Is(200)
		if status, _ := got.At("status").(string); !strings.EqualFold(status, "completed") && !strings.EqualFold(status, "failed") {
			return fmt.Errorf("%s", got.Body)
		}
		return nil
	})
	return got
}

// graded returns the results of an evaluation: <name>: <verdict> <reason>. As the client does, it requires that they are all.
func (a *account) graded(t *testing.T, token, path string) (out []string, items []object) {
	t.Helper()
	got := a.call(t, token, "GET", path+"/results", nil).Is(200)
	if more, ok := got.At("pageInfo.hasNextPage").(bool); !ok || more {
		t.Fatalf("hasNextPage is not false: %s", got.Body)
	}
	list, ok := got.At("items").([]any)
	if !ok {
		t.Fatalf("items is no array: %s", got.Body)
	}
	for _, item := range list {
		o, _ := item.(object)
		name := o["questionName"]
		if name == nil {
			name = o["questionTextSnapshot"]
		}
		line := fmt.Sprintf("%v: %v", name, o["verdict"])
		if o["reason"] != nil {
			line += fmt.Sprintf(", %v", o["reason"])
		}
		out, items = append(out, line), append(items, o)
	}
	return out, items
}

// exitCode is that of the client after --wait: 0 if there are results, all of which pass, and the evaluation has not failed.
func (a *account) exitCode(t *testing.T, token, path string) int {
	t.Helper()
	status, _ := a.finished(t, token, path).At("status").(string)
	lines, items := a.graded(t, token, path)
	for _, item := range items {
		if verdict, _ := item["verdict"].(string); !strings.EqualFold(verdict, "pass") {
			return 1
		}
	}
	if len(lines) == 0 || strings.EqualFold(status, "failed") {
		return 1
	}
	return 0
}

func equal(t *testing.T, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("got  %s\nwant %s", g, w)
	}
}

// TestUpstreamClientEvaluates: evals run --wait, status and results of the upstream command-line client work, and it exits by the
// verdicts.
func TestUpstreamClientEvaluates(t *testing.T) {
	acme.startPod(t)
	acme.evaluable(t)
	body := object{"branchName": "main", "agentName": "agent-1", "questionFile": "agents/eval_questions/right.yml"}
	path := acme.run(t, acme.ada, evaluations, body)
	equal(t, acme.exitCode(t, acme.ada, path), 0)
	got := acme.finished(t, acme.ada, path)
	for field, want := range map[string]any{
		"kind": "questions", "status": "completed", "branchName": "main", "agentName": "agent-1", "agentId": 1, "modelEndpoint": "scripted", "total": 2,
		"counts": object{"pass": 2, "fail": 0, "review": 0, "error": 0}, "error": nil, "questionFile": "agents/eval_questions/right.yml",
	} {
		equal(t, got.At(field), want)
	}
	if commit, _ := got.At("commitHash").(string); len(commit) != 40 || got.At("endedAt") == nil {
		t.Errorf("%s", got.Body)
	}
	body["questionFile"] = "mixed.yml"
	equal(t, acme.exitCode(t, acme.ada, acme.run(t, acme.ada, evaluations, body)), 1)
	first := acme.call(t, acme.ada, "GET", path+"/results?first=1", nil).Is(200)
	after, _ := first.At("pageInfo.endCursor").(string)
	second := acme.call(t, acme.ada, "GET", path+"/results?first=1&after="+after, nil).Is(200)
	equal(t, []any{first.At("items.0.id"), first.At("pageInfo.hasNextPage"), second.At("items.0.id"), second.At("pageInfo.hasNextPage")}, []any{1, true, 2, false})
}

// TestVerdicts: each way in which a question can be answered has its verdict and reason, with what was compared.
func TestVerdicts(t *testing.T) {
	p := acme.startPod(t)
	acme.evaluable(t)
	path := acme.run(t, acme.ada, evaluations, object{"agentName": "agent-1", "questionFile": "mixed.yml"})
	equal(t, acme.finished(t, acme.ada, path).At("counts"), object{"pass": 1, "fail": 2, "review": 1, "error": 6})
	lines, items := acme.graded(t, acme.ada, path)
	equal(t, strings.Join(lines, "\n"), strings.Join([]string{
		"right: pass", "rows: fail, row count mismatch", "more: fail, missing columns", "many: review, results too large", "hidden: error, ground-truth query failed",
		"none: error, ground truth not found", "text: error, agent error", "denied: error, query error", "refused: error, agent error", "searched: error, agent error",
	}, "\n"))
	right := items[0]
	for field, want := range map[string]any{
		"score": 1, "questionTextSnapshot": "sql " + byCountry, "expectedQuery": byCountry, "actualQuery": byCountry, "questionPlace": "agents/eval_questions/mixed.yml:2",
		"expected": object{"columns": []string{"country", "n"}, "rows": [][]string{{"CH", "1"}}, "totalRows": 1}, "inputTokens": 20, "outputTokens": 10, "isDataHidden": false,
		"toolCalls": []object{{"tool": "cubeSqlApi", "input": `{"sqlQuery":"` + byCountry + `","queryTitle":"Orders","description":"Orders","userRequest":"Orders"}`}},
	} {
		equal(t, right[field], want)
	}
	if answer, _ := right["answer"].(string); !strings.HasPrefix(answer, "The result: ") {
		t.Error(answer)
	}
	for n, words := range map[int][]string{1: {"2 rows are expected, the result has 1"}, 4: {"ForbiddenError"}, 5: {"nowhere"}, 6: {"without a query"}, 7: {"ForbiddenError"}, 8: {"the model failed"}} {
		detail, _ := items[n]["detail"].(string)
		for _, word := range words {
			if !strings.Contains(detail, word) {
				t.Errorf("%s: no %q in %q", lines[n], word, detail)
			}
		}
	}
	equal(t, items[1]["score"], 0)
	equal(t, items[3]["score"], nil)
	// All queries are those of the person who has started it.
	for _, q := range p.received("/v1/cubesql") {
		if !strings.Contains(q, " CH ") {
			t.Errorf("a query of another person: %s", q)
		}
	}
}

// TestEvaluationIsOfItsCaller: others see verdicts, and no data, queries or answers.
func TestEvaluationIsOfItsCaller(t *testing.T) {
	acme.startPod(t)
	acme.evaluable(t)
	path := acme.run(t, acme.admin, evaluations, object{"agentName": "agent-1", "questionFile": "right.yml"})
	equal(t, acme.exitCode(t, acme.admin, path), 0)
	for name, token := range map[string]string{"ada": acme.ada, "ben": acme.ben} {
		equal(t, acme.exitCode(t, token, path), 0)
		_, items := acme.graded(t, token, path)
		for _, field := range []string{"expectedQuery", "actualQuery", "expected", "actual", "answer", "toolCalls", "detail"} {
			if items[0][field] != nil {
				t.Errorf("%s sees %s: %v", name, field, items[0][field])
			}
		}
		equal(t, items[0]["isDataHidden"], true)
		acme.call(t, token, "DELETE", path, nil).Rejected(403, "DeploymentUpdate")
	}
	mine := acme.run(t, acme.ada, evaluations, object{"agentName": "agent-1", "questionFile": "right.yml"})
	acme.finished(t, acme.ada, mine)
	if _, items := acme.graded(t, acme.evaluator, mine); items[0]["answer"] == nil { // another key of the same person
		t.Error("a person does not see an evaluation that another key of the person has started")
	}
	acme.call(t, acme.ada, "DELETE", mine, nil).Rejected(409, "has ended")
	page := acme.call(t, acme.ben, "GET", evaluations+"?first=2", nil).Is(200)
	equal(t, fmt.Sprintf("%s/%v %s/%v", evaluations, page.At("items.0.id"), evaluations, page.At("items.1.id")), mine+" "+path)
	if page.At("items.0.id") == nil || page.At("pageInfo.hasNextPage") != true {
		t.Errorf("%s", page.Body)
	}
}

// TestEvaluationIsRecorded: usage has the source evaluation, and the audit log has start, tool calls and end.
func TestEvaluationIsRecorded(t *testing.T) {
	acme.startPod(t)
	acme.evaluable(t)
	path := acme.run(t, acme.ada, evaluations, object{"agentName": "agent-1", "questionFile": "right.yml"})
	acme.finished(t, acme.ada, path)
	usage := acme.call(t, acme.admin, "GET", "/api/v1/deployments/1/agent-usage?by=source&by=user", nil).Is(200)
	if text := string(usage.Body); !strings.Contains(text, `"user":"ScimUser:ada","source":"evaluation"`) {
		t.Error(text)
	}
	id := path[strings.LastIndex(path, "/")+1:]
	csv := string(acme.call(t, acme.admin, "GET", "/api/v1/audit-logs/export", nil).Is(200).Body)
	count := map[string]int{}
	for _, line := range strings.Split(csv, "\n") {
		for _, event := range []string{"Started agent evaluation", "Ended agent evaluation", "Called agent tool"} {
			isOf := strings.Contains(line, `""evaluation"":{""after"":`+id+`}`) || strings.Contains(line, "AgentEvaluation/acme/"+id+",")
			if strings.Contains(line, event) && isOf {
				count[event]++
			}
		}
	}
	if !strings.Contains(csv, "2 pass, 0 fail, 0 review, 0 error") {
		t.Error("the event of the end does not have the numbers of results")
	}
	equal(t, count, map[string]int{"Started agent evaluation": 1, "Ended agent evaluation": 1, "Called agent tool": 4})
}

// TestOtherEndpoint: an evaluation asks the model of another endpoint that the account may use.
func TestOtherEndpoint(t *testing.T) {
	acme.startPod(t)
	acme.evaluable(t)
	path := acme.run(t, acme.ada, evaluations, object{"agentName": "agent-1", "questionFile": "right.yml", "modelEndpoint": "other"})
	equal(t, acme.finished(t, acme.ada, path).At("modelEndpoint"), "other")
	equal(t, len(scripted.asked(`"model":"other"`)) > 0, true)
}

// TestEvaluationsEndEarly: a cancellation and a revoked credential end an evaluation, and the requests to the model, at once.
func TestEvaluationsEndEarly(t *testing.T) {
	acme.startPod(t)
	acme.evaluable(t)
	scripted.drain(t)
	slow := object{"agentName": "agent-1", "questionFile": "wait.yml"}
	path := acme.run(t, acme.ada, evaluations, slow)
	<-scripted.begun
	acme.call(t, acme.ada, "DELETE", path, nil).Is(204)
	<-scripted.ended
	got := acme.finished(t, acme.ada, path)
	if reason, _ := got.At("error").(string); got.At("status") != "failed" || !strings.HasPrefix(reason, "it was cancelled by ApiKey:") {
		t.Errorf("%s", got.Body)
	}
	equal(t, acme.exitCode(t, acme.ada, path), 1)

	path = acme.run(t, acme.evaluator, evaluations, slow)
	<-scripted.begun
	key := &v1alpha1.ApiKey{}
	key.Namespace, key.Name = acme.name, "evaluator"
	if err := k8s.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	<-scripted.ended
	if reason, _ := acme.finished(t, acme.ada, path).At("error").(string); !strings.Contains(reason, "the credential was revoked") {
		t.Error(reason)
	}
}

// TestManyEvaluations: a person has two evaluations at a time.
func TestManyEvaluations(t *testing.T) {
	acme.startPod(t)
	acme.evaluable(t)
	scripted.drain(t)
	slow := object{"agentName": "agent-1", "questionFile": "wait.yml"}
	paths := []string{acme.run(t, acme.ada, evaluations, slow), acme.run(t, acme.ada, evaluations, slow)}
	acme.call(t, acme.ada, "POST", evaluations, slow).Rejected(429, "2 evaluations of the user are in progress")
	for range paths {
		<-scripted.begun
		scripted.more <- struct{}{}
	}
	for _, path := range paths {
		equal(t, acme.finished(t, acme.ada, path).At("status"), "completed")
	}
	acme.finished(t, acme.ada, acme.run(t, acme.ada, evaluations, object{"agentName": "agent-1", "questionFile": "right.yml"}))
}

// TestEvaluationStatuses: what is wrong with a request is said with the field, and nothing is started.
func TestEvaluationStatuses(t *testing.T) {
	acme.startPod(t)
	acme.evaluable(t)
	before := acme.call(t, acme.admin, "GET", evaluations+"?first=1", nil).Is(200).At("items.0.id")
	with := func(field string, value any) object { return object{"agentName": "agent-1", field: value} }
	for name, c := range map[string]struct {
		token, method, path string
		body                any
		status              int
		words               []string
	}{
		"no token":            {"", "POST", evaluations, object{}, 401, nil},
		"another deployment":  {acme.scoped, "POST", evaluations, object{}, 403, []string{"deployment 1"}},
		"no SQL":              {acme.ben, "POST", evaluations, object{"agentName": "agent-1"}, 403, []string{"SqlRunnerRead"}},
		"a key that reads":    {acme.reader, "POST", evaluations, object{"agentName": "agent-1"}, 403, []string{"DeploymentUpdate"}},
		"which agent":         {acme.ada, "POST", evaluations, object{}, 400, []string{"agentName", "agent-1"}},
		"no such agent":       {acme.ada, "POST", evaluations, with("agentName", "nobody"), 404, []string{"agentName", "nobody", "agent-1"}},
		"an empty agent":      {acme.ada, "POST", evaluations, with("agentName", ""), 400, []string{"agentName"}},
		"suspended":           {acme.ada, "POST", evaluations, with("agentName", "agent-2"), 409, []string{"suspended"}},
		"agent without model": {acme.ada, "POST", evaluations, with("agentName", "agent-5"), 503, []string{"none"}},
		"no secret":           {acme.ada, "POST", evaluations, with("agentName", "agent-4"), 503, []string{"no-secret"}},
		"no such branch":      {acme.ada, "POST", evaluations, with("branchName", "nowhere"), 404, []string{"branchName", "nowhere"}},
		"an empty branch":     {acme.ada, "POST", evaluations, with("branchName", ""), 400, []string{"branchName"}},
		"no such file":        {acme.ada, "POST", evaluations, with("questionFile", "nowhere.yml"), 404, []string{"questionFile", "nowhere.yml", "mixed.yml"}},
		"a file of others":    {acme.ada, "POST", evaluations, with("questionFile", "other.yml"), 404, []string{"questionFile", "right.yml"}},
		"no such endpoint":    {acme.ada, "POST", evaluations, with("modelEndpoint", "nowhere"), 404, []string{"modelEndpoint", "nowhere"}},
		"another's endpoint":  {acme.ada, "POST", evaluations, with("modelEndpoint", "of-globex"), 404, []string{"modelEndpoint", "of-globex"}},
		"few tokens":          {acme.ada, "POST", evaluations, with("maxTokens", 999), 400, []string{"maxTokens", "999"}},
		"an unknown field":    {acme.ada, "POST", evaluations, with("questions", 1), 400, []string{"questions"}},
		"no body":             {acme.ada, "POST", evaluations, nil, 400, nil},
		"no such deployment":  {acme.ada, "POST", "/api/v1/deployments/9/evaluations", object{}, 404, []string{"9"}},
		"no such evaluation":  {acme.ada, "GET", evaluations + "/99999", nil, 404, []string{"evaluationId"}},
		"no such results":     {acme.ada, "GET", evaluations + "/99999/results", nil, 404, []string{"evaluationId"}},
		"nothing to cancel":   {acme.ada, "DELETE", evaluations + "/99999", nil, 404, []string{"evaluationId"}},
		"no number":           {acme.ada, "GET", evaluations + "/first", nil, 400, []string{"evaluationId"}},
		"an odd cursor":       {acme.ada, "GET", evaluations + "?after=x", nil, 400, []string{"after"}},
		"no agent of a chat":  {acme.ada, "POST", replays, object{"chatId": "c", "toolResults": "live"}, 400, []string{"agentId"}},
		"no such agent's":     {acme.ada, "POST", replays, object{"agentId": 99, "chatId": "c", "toolResults": "live"}, 404, []string{"agentId", "99"}},
		"no such chat":        {acme.ada, "POST", replays, object{"agentId": 1, "chatId": "nowhere", "toolResults": "live"}, 404, []string{"chatId"}},
		"how to replay":       {acme.ada, "POST", replays, object{"agentId": 1, "chatId": "c", "toolResults": "none"}, 400, []string{"toolResults", "none"}},
		"recorded branch":     {acme.ada, "POST", replays, object{"agentId": 1, "chatId": "c", "toolResults": "recorded", "branchName": "main"}, 400, []string{"branchName"}},
		"whose chat":          {acme.admin, "POST", replays, object{"agentId": 1, "chatId": "c", "toolResults": "live"}, 400, []string{"sessionSettings"}},
		"a person's session":  {acme.ada, "POST", replays, object{"agentId": 1, "chatId": "c", "toolResults": "live", "sessionSettings": object{"externalId": "x"}}, 403, []string{"DeploymentUpdate"}},
	} {
		got := acme.call(t, c.token, c.method, c.path, c.body)
		if got.Status != c.status {
			t.Errorf("%s: %d, want %d: %.500s", name, got.Status, c.status, got.Body)
			continue
		}
		for _, word := range c.words {
			if !strings.Contains(string(got.Body), word) {
				t.Errorf("%s: no %q in %.500s", name, word, got.Body)
			}
		}
	}
	equal(t, acme.call(t, acme.admin, "GET", evaluations+"?first=1", nil).Is(200).At("items.0.id"), before)
}

// TestEvaluationsOfTwoAccounts: each route answers for an evaluation or a chat of another account as if it did not exist.
func TestEvaluationsOfTwoAccounts(t *testing.T) {
	acme.startPod(t)
	acme.evaluable(t)
	globex.startPod(t)
	path := acme.run(t, acme.admin, evaluations, object{"agentName": "agent-1", "questionFile": "right.yml"})
	for acme.finished(t, acme.admin, path).At("id") == nil {
		t.Fatal("there is no evaluation")
	}
	session := external("u-foreign", "CH")
	acme.chat(t, acme.admin, object{"input": "hello", "chatId": "c-foreign", "sessionSettings": session}).Is(200)
	if globex.call(t, globex.admin, "GET", path, nil).Status == 200 {
		t.Fatal("globex has an evaluation with the number of acme's: the test shows nothing")
	}
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{"GET", path, nil},
		{"GET", path + "/results", nil},
		{"DELETE", path, nil},
		{"POST", replays, object{"agentId": 1, "chatId": "c-foreign", "toolResults": "recorded", "sessionSettings": session}},
	} {
		globex.call(t, globex.admin, c.method, c.path, c.body).Is(404)
		globex.call(t, acme.admin, c.method, c.path, c.body).Is(401)
		acme.call(t, globex.admin, c.method, c.path, c.body).Is(401)
	}
	equal(t, globex.call(t, globex.admin, "GET", evaluations, nil).Is(200).At("items"), []any{})
	globex.call(t, globex.admin, "POST", evaluations, object{"agentName": "agent-1"}).Rejected(409, "the files of the agent", "serves no commit")
	equal(t, acme.finished(t, acme.admin, path).At("status"), "completed")
}
