package runs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/ipc"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/directory/number"
	"github.com/quoin-dev/quoin/apiserver/queries"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// report creates a report that everyone may view, and returns the path of its runs.
func (a *account) report(t *testing.T, properties map[string]any) string {
	t.Helper()
	path, id := a.private(t, properties)
	a.share(t, "Report", id, nil)
	return path
}

// private creates a report that no person may view, and returns the path of its runs and its id.
func (a *account) private(t *testing.T, properties map[string]any) (path, id string) {
	t.Helper()
	properties["name"] = t.Name()
	id = a.call(t, a.admin, "POST", deploymentPath+"/reports", properties).Is(200).ID()
	t.Cleanup(func() { a.call(t, a.admin, "DELETE", deploymentPath+"/reports/"+id, nil).Is(200) })
	return deploymentPath + "/reports/" + id + "/run", id
}

// share lets a user view a report or a workbook; everyone if the number of the user is nil.
func (a *account) share(t *testing.T, kind, id string, user any) {
	t.Helper()
	body := map[string]any{"resourceType": kind, "resourceId": json.RawMessage(id), "userId": user, "action": kind + "Read"}
	a.call(t, a.admin, "PUT", "/api/v1/resource-policies/user", body).Is(200)
}

func (a *account) sql(t *testing.T, statement string) string {
	t.Helper()
	return a.report(t, map[string]any{"sqlQuery": statement})
}

// open sends a request for a run, whose response the caller reads and closes.
func (a *account) open(ctx context.Context, t *testing.T, token, path, accept string, body any) (*http.Response, error) {
	t.Helper()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			t.Fatal(err)
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+a.host()+path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	return anyone.Do(r)
}

// head is a response without its body.
type head struct {
	StatusCode int
	Header     http.Header
}

// get is open with the whole response.
func (a *account) get(t *testing.T, token, path, accept string, body any) (head, string, error) {
	t.Helper()
	response, err := a.open(t.Context(), t, token, path, accept, body)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return head{response.StatusCode, response.Header}, string(text), err
}

// TestPeopleSeeTheirRows: the same report has the rows of the person who runs it.
func TestPeopleSeeTheirRows(t *testing.T) {
	acme.startPod(t)
	path := acme.sql(t, "SELECT rows")
	for token, want := range map[string]string{acme.ada: "CH", acme.ben: "DE", acme.admin: "program"} {
		acme.call(t, token, "POST", path, nil).Is(200).Want(map[string]string{
			"rows": `[["` + want + `",1]]`, "columns": `[{"name":"country","type":"string"},{"name":"n","type":"integer"}]`, "timeZone": `"UTC"`,
			"lastRefresh": `"2026-11-23T12:00:00Z"`, "limitReached": "false", "stale": "false", "controls": "[]",
		})
	}
	// With an edit of their own, people could run any SQL; a JSON query is within what their tokens permit.
	acme.call(t, acme.eve, "POST", path, nil).Rejected(403, "SqlRunnerRead")
	acme.call(t, acme.eve, "POST", acme.report(t, map[string]any{"jsonQuery": `{"dimensions":["orders.country"]}`}), nil).Is(200).Want(map[string]string{"rows": `[["FR"]]`})
	// A program has what its tokens have.
	acme.call(t, acme.reader, "POST", path, nil).Rejected(403, "DeploymentUpdate")
}

// TestReportsThatAreNotShared: a person without a grant does not see that a report exists, whatever the role permits.
func TestReportsThatAreNotShared(t *testing.T) {
	acme.startPod(t)
	path, id := acme.private(t, map[string]any{"sqlQuery": "SELECT rows"})
	acme.share(t, "Report", id, number.Of("User", "ada"))
	acme.call(t, acme.ada, "POST", path, nil).Is(200).Want(map[string]string{"rows.0.0": `"CH"`})
	for _, token := range []string{acme.ben, acme.eve} {
		acme.call(t, token, "POST", path, nil).Rejected(404, "report "+id+" does not exist")
	}
}

// TestFormats: Accept selects the format.
func TestFormats(t *testing.T) {
	acme.startPod(t)
	path := acme.sql(t, "SELECT many")
	response, text, err := acme.get(t, acme.ada, path, "text/csv, application/json;q=0.5", nil)
	if want := "country,n\r\nCH,1\r\nCH,1\r\nCH,1\r\n"; err != nil || text != want || response.Header.Get("Content-Type") != "text/csv; charset=utf-8" {
		t.Errorf("%v %v %q", err, response.Header, text)
	}
	if name := response.Header.Get("Content-Disposition"); name != `attachment; filename="TestFormats.csv"` {
		t.Error(name)
	}
	response, text, err = acme.get(t, acme.ada, path, "application/vnd.apache.arrow.stream", map[string]any{"limit": 2})
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatal(err, response.StatusCode, text)
	}
	stream, err := ipc.NewReader(strings.NewReader(text))
	if err != nil || !stream.Next() {
		t.Fatal(err)
	}
	batch := stream.RecordBatch()
	if got := fmt.Sprint(batch.Schema(), batch.Column(0), batch.Column(1)); !strings.Contains(got, "type=utf8") || !strings.HasSuffix(got, `["CH" "CH"] [1 1]`) || stream.Next() {
		t.Error(got)
	}
	acme.call(t, acme.ada, "POST", path, map[string]any{"limit": 2}).Is(200).Want(map[string]string{"rows.length": "2", "limitReached": "true"})
	if response, text, _ := acme.get(t, acme.ada, path, "application/xml", nil); response.StatusCode != http.StatusNotAcceptable || !strings.Contains(text, "text/csv") {
		t.Error(response.StatusCode, text)
	}
}

// TestErrors: each failure has its status and the message of the data API.
func TestErrors(t *testing.T) {
	acme.startPod(t)
	for statement, want := range map[string]struct {
		status int
		text   string
	}{
		"SELECT wrong":   {400, "Table or CTE with name 'wrong' not found"},
		"SELECT hidden":  {403, "hidden member"},
		"SELECT refused": {403, "access denied"},
		"SELECT compile": {502, "Compile errors"},
		"SELECT nothing": {200, `"rows":[]`},
		"SELECT late":    {400, "connection to the database lost"},
	} {
		path := acme.sql(t, statement)
		if response, text, err := acme.get(t, acme.ada, path, "", nil); err != nil || response.StatusCode != want.status || !strings.Contains(text, want.text) {
			t.Errorf("%s: %d %s %v", statement, response.StatusCode, text, err)
		}
		response, text, err := acme.get(t, acme.ada, path, "text/csv", nil)
		switch statement {
		case "SELECT late":
			lines := strings.Split(text, "\r\n")
			if err == nil || response.StatusCode != http.StatusOK || len(lines) != 4 || !strings.HasPrefix(lines[2], "#ERROR the data API answered: connection to the database lost") {
				t.Errorf("%s: %v %q", statement, err, text)
			}
		case "SELECT nothing":
			if err != nil || text != "country,n\r\n" {
				t.Errorf("%s: %v %q", statement, err, text)
			}
		default:
			if err != nil || response.StatusCode != want.status || !strings.Contains(text, want.text) {
				t.Errorf("%s as CSV: %d %s %v", statement, response.StatusCode, text, err)
			}
		}
	}
	path := acme.sql(t, "SELECT rows")
	for body, words := range map[string]string{
		`{"timezone":"Europe/Nowhere"}`: "timezone", `{"limit":0}`: "limit", `{"limit":2000000}`: "limit", `{"cache":"all"}`: "cache", `{"own":1}`: "own",
		`{"controls":{"filters":[{"member":"x"}]}}`:                                   "controls.filters[0].member",
		`{"controls":{"timeGrains":[{"member":"orders.at","grain":"1"}]}}`:            "controls.timeGrains[0].grain",
		`{"controls":{"memberSwitchers":[{"member":"orders.n","selected":"a.b"}]}}`:   "controls.memberSwitchers[0].selected",
		`{"controls":{"filters":[{"member":"orders.country","operator":"matches"}]}}`: "controls.filters[0].operator",
	} {
		acme.call(t, acme.ada, "POST", path, json.RawMessage(body)).Rejected(400, words)
	}
	acme.call(t, acme.ada, "POST", acme.report(t, map[string]any{}), nil).Rejected(409, "has no query")
	acme.call(t, acme.ada, "POST", deploymentPath+"/reports/999999/run", nil).Rejected(404, "999999")
	acme.call(t, acme.ada, "POST", "/api/v1/deployments/7/reports/1/run", nil).Rejected(404, "7")
}

// TestControls: those that have no effect are named, in all formats.
func TestControls(t *testing.T) {
	p := acme.startPod(t)
	filters := map[string]any{"controls": map[string]any{"filters": []any{
		map[string]any{"member": "orders.country", "operator": "equals", "value": []any{"CH", "DE"}}, map[string]any{"member": "users.name", "value": "x"},
	}}, "timezone": "Europe/Zurich"}
	json := acme.report(t, map[string]any{"jsonQuery": `{"dimensions":["orders.country"]}`})
	acme.call(t, acme.ada, "POST", json, filters).Is(200).Want(map[string]string{
		"controls.0.applied": "true", "controls.0.control": `"filters[0]"`, "controls.1.applied": "false", "controls.1.member": `"users.name"`, "timeZone": `"Europe/Zurich"`,
	})
	if q := <-p.queries; !strings.Contains(q, `{"member":"orders.country","operator":"equals","values":["CH","DE"]}`) || !strings.Contains(q, "Europe/Zurich") {
		t.Error(q)
	}
	response, text, err := acme.get(t, acme.ada, acme.sql(t, "SELECT rows"), "text/csv", filters)
	skipped := response.Header.Values(queries.SkippedHeader)
	if err != nil || text != "country,n\r\nCH,1\r\n" || len(skipped) != 2 || !strings.HasPrefix(skipped[0], "filters[0]; member=orders.country; reason=\"the SQL cannot be converted") {
		t.Errorf("%v %q %q", err, text, skipped)
	}
}

// TestDashboards: the published query is run, whatever the report has become.
func TestDashboards(t *testing.T) {
	acme.startPod(t)
	workbook := acme.call(t, acme.admin, "POST", deploymentPath+"/workbooks", map[string]any{"name": "Sales"}).Is(200).ID()
	path := deploymentPath + "/workbooks/" + workbook
	t.Cleanup(func() { acme.call(t, acme.admin, "DELETE", path, nil).Is(200) })
	var id any
	_ = json.Unmarshal([]byte(workbook), &id)
	acme.share(t, "Workbook", workbook, nil)
	report := acme.call(t, acme.admin, "POST", deploymentPath+"/reports", map[string]any{"name": "Orders", "workbookId": id, "sqlQuery": "SELECT rows"}).Is(200)
	acme.call(t, acme.ada, "POST", path+"/dashboard/reports/1/run", nil).Rejected(404, "no published dashboard")
	published := acme.call(t, acme.admin, "POST", path+"/publish", map[string]any{"workbookId": id, "config": map[string]any{
		"settings": map[string]any{"timezone": "Europe/Berlin"},
		"widgets": []any{map[string]any{
			"id": "a", "type": "CHART", "position": map[string]any{"x": 0, "y": 0, "w": 1, "h": 1}, "config": map[string]any{"reportPublicId": report.At("publicId")},
		}},
	}}).Is(200)
	acme.call(t, acme.admin, "PUT", deploymentPath+"/reports/"+report.ID(), map[string]any{"sqlQuery": "SELECT wrong"}).Is(200)
	run := fmt.Sprintf("%s/dashboard/reports/%v/run", path, published.At("reportSnapshots.0.id"))
	acme.call(t, acme.ben, "POST", run, nil).Is(200).Want(map[string]string{"rows": `[["DE",1]]`, "timeZone": `"Europe/Berlin"`})
	acme.call(t, acme.ben, "POST", path+"/dashboard/reports/999999/run", nil).Rejected(404, "999999")
	globex.call(t, globex.admin, "POST", run, nil).Is(404)
}

// TestTwoAccounts: no caller runs a report of another account, nor with a key of it.
func TestTwoAccounts(t *testing.T) {
	acme.startPod(t)
	globex.startPod(t)
	path := acme.sql(t, "SELECT rows")
	globex.call(t, globex.admin, "POST", path, nil).Is(404)
	globex.call(t, acme.ada, "POST", path, nil).Is(401)
	acme.call(t, globex.ada, "POST", path, nil).Is(401)
	globex.call(t, globex.ada, "POST", globex.sql(t, "SELECT rows"), nil).Is(200).Want(map[string]string{"rows.0.0": `"CH"`})
}

// TestOneRunAtATime: equal runs of people who see the same are one query. It ends when no caller waits for it.
func TestOneRunAtATime(t *testing.T) {
	p := acme.startPod(t)
	path := acme.sql(t, "SELECT wait")
	answers := make(chan string, 2)
	ask := func(ctx context.Context) {
		response, err := acme.open(ctx, t, acme.ada, path, "", nil)
		if err != nil {
			answers <- err.Error()
			return
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		answers <- string(text)
	}
	for range 2 {
		go ask(t.Context())
	}
	<-p.begun
	select {
	case p.more <- struct{}{}:
	case <-time.After(apiclient.Timeout):
		t.Fatal("the query does not run")
	}
	for range 2 {
		select {
		case text := <-answers:
			if !strings.Contains(text, `"CH"`) {
				t.Error(text)
			}
		case <-p.begun: // the second request came after the end of the first
			p.more <- struct{}{}
			text := <-answers
			t.Log("two runs", text)
			return
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	go ask(ctx)
	<-p.begun
	cancel()
	<-answers
	wantEnd(t, p)
}

// wantEnd waits until a query was ended in the pod.
func wantEnd(t *testing.T, p *pod) {
	t.Helper()
	select {
	case ended := <-p.ended:
		if !strings.HasPrefix(ended, "DELETE /v1/running-query/") {
			t.Error(ended)
		}
	case <-time.After(apiclient.Timeout):
		t.Error("the query goes on in the pod")
	}
}

// begin starts a run whose first row the caller has, and which does not end. It returns the rest of the response.
func begin(t *testing.T, p *pod, token string) io.Reader {
	t.Helper()
	response, err := acme.open(t.Context(), t, token, acme.sql(t, "SELECT rest"), "text/csv", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	<-p.begun
	if response.StatusCode != http.StatusOK {
		t.Fatal(response.Status)
	}
	return response.Body
}

// wantFailure reads a response that does not end as it should, with a reason in its last line.
func wantFailure(t *testing.T, response io.Reader, reason string) {
	t.Helper()
	text, err := io.ReadAll(response)
	lines := strings.Split(strings.TrimSuffix(string(text), "\r\n"), "\r\n")
	if last := lines[len(lines)-1]; !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(last, "#ERROR ") || !strings.Contains(last, reason) {
		t.Errorf("%v: %q", err, text)
	}
}

// TestRunsEndWithTheirCredential: a person whose key is deleted while rows are sent gets no more of them.
func TestRunsEndWithTheirCredential(t *testing.T) {
	p := acme.startPod(t)
	response := begin(t, p, acme.lost)
	key := &v1alpha1.ApiKey{}
	key.Namespace, key.Name = acme.name, "lost"
	if err := k8s.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, response, "revoked")
	wantEnd(t, p)
}

// TestGatewayThatEnds: rows that were sent before are not taken for the result.
func TestGatewayThatEnds(t *testing.T) {
	p := acme.startPod(t)
	response := begin(t, p, acme.ada)
	proxy.stop()
	wantFailure(t, response, "the data API ended the response")
	path := acme.sql(t, "SELECT rows")
	acme.call(t, acme.ada, "POST", path, nil).Rejected(502, "did not answer")
	if err := proxy.start(); err != nil {
		t.Fatal(err)
	}
	apiclient.Soon(t, func() error {
		if got := acme.call(t, acme.ada, "POST", path, nil); got.Status != 200 {
			return fmt.Errorf("%d: %s", got.Status, got.Body)
		}
		return nil
	})
}

// TestNoPod: a deployment without a pod is a 503 that a client tries again.
func TestNoPod(t *testing.T) {
	path := globex.sql(t, "SELECT rows")
	response, text, err := globex.get(t, globex.ada, path, "", nil)
	if err != nil || response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
		t.Error(err, response.StatusCode, response.Header, text)
	}
}

// TestTooManyRuns: a person has a number of runs at a time, with all keys together.
func TestTooManyRuns(t *testing.T) {
	p := acme.startPod(t)
	for range 8 {
		begin(t, p, acme.ben)
	}
	response, text, err := acme.get(t, acme.ben, acme.sql(t, "SELECT rows"), "", nil)
	if err != nil || response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") == "" || !strings.Contains(text, "allowed: 8") {
		t.Error(err, response.StatusCode, response.Header, text)
	}
	acme.call(t, acme.ada, "POST", acme.sql(t, "SELECT rows"), nil).Is(200)
}
