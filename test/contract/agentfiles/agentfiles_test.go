// Package agentfiles_test tests the files that configure agents, from the repository to the REST API and the conditions of Agents:
// quoin apiserver runs in the test process with the permissions of its role, with a real kube-apiserver and a database in SQLite.
package agentfiles_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
	"github.com/quoin-dev/quoin/test/internal/inprocess"
)

const namespace = "acme"

var (
	// anyone is an HTTP client that trusts the server.
	anyone *http.Client
	// tokens are those of the keys of the account: admin, agents, which may only read agents, and none, which may not.
	tokens map[string]string
	k8s    client.Client
	apiURL string
)

func TestMain(m *testing.M) { clustertest.Main(m, run) }

func run(ctx context.Context, c *clustertest.Cluster, m *testing.M) (int, error) {
	server, err := inprocess.Serve(ctx, c, apiserver.Config{})
	if err != nil {
		return 0, err
	}
	var keys []client.Object
	keys, tokens, err = clustertest.Keys(namespace, map[string]v1alpha1.ApiKeySpec{
		"admin":  {},
		"agents": {Permissions: []v1alpha1.Permission{v1alpha1.PermissionDeploymentAgentRead}},
		"none":   {Permissions: []v1alpha1.Permission{v1alpha1.PermissionDeploymentRead}},
	})
	if err != nil {
		return 0, err
	}
	_, port, err := net.SplitHostPort(server.Address.String())
	if err != nil {
		return 0, err
	}
	k8s, apiURL = c.Client, "https://localhost:"+port
	spec := v1alpha1.AccountSpec{Host: v1alpha1.Host("localhost:" + port), Plan: v1alpha1.PlanEnterprise}
	kept := deployment("kept", 1, v1alpha1.ModelSource{Repository: &v1alpha1.RepositorySource{}})
	other := deployment("other", 2, v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}})
	if err := c.Account(ctx, namespace, spec, append(keys, kept, other)...); err != nil {
		return 0, err
	}
	roots, err := c.Roots(ctx)
	if err != nil {
		return 0, err
	}
	anyone = &http.Client{Transport: apiclient.Transport(roots, server.Address.String), Timeout: apiclient.Timeout}
	return server.Run(m)
}

func deployment(name string, number int, model v1alpha1.ModelSource) *v1alpha1.Deployment {
	return &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{v1alpha1.LabelID: fmt.Sprint(number)}},
		Spec:       v1alpha1.DeploymentSpec{ReleaseChannel: "latest", Model: model},
	}
}

// call sends a request with a key.
func call(t *testing.T, key, method, path string, body any) *apiclient.Answer {
	t.Helper()
	return apiclient.Call(t, anyone, tokens[key], method, apiURL+path, body)
}

// agent creates an Agent with a number, as its controller gives it.
func agent(t *testing.T, name, of string, number int64, change func(spec *v1alpha1.AgentSpec)) *v1alpha1.Agent {
	t.Helper()
	a := &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.AgentSpec{
		DeploymentRef: v1alpha1.LocalReference{Name: of}, ModelEndpointRef: v1alpha1.ModelEndpointReference{Name: "local"},
	}}
	if change != nil {
		change(&a.Spec)
	}
	if err := k8s.Create(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	before := a.DeepCopy()
	a.Status.ID = number
	if err := k8s.Status().Patch(t.Context(), a, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	return a
}

// awaitFiles waits for the condition FilesRead with a reason and a part of the message.
func awaitFiles(t *testing.T, a *v1alpha1.Agent, status metav1.ConditionStatus, reason, part string) {
	t.Helper()
	var found *metav1.Condition
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		if err := k8s.Get(ctx, client.ObjectKeyFromObject(a), a); err != nil {
			return false, err
		}
		found = meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionFilesRead)
		return found != nil && found.Status == status && found.Reason == reason && strings.Contains(found.Message, part), nil
	})
	if err != nil {
		t.Fatalf("%v: the condition is %+v, want %s with %q", err, found, reason, part)
	}
}

// awaitList waits until a list has items, which are shown as text.
func awaitList(t *testing.T, path, want string, show func(item map[string]any) string) {
	t.Helper()
	var got string
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		items, _ := call(t, "agents", "GET", path, nil).Is(200).At("items").([]any)
		var all []string
		for _, item := range items {
			object, _ := item.(map[string]any)
			all = append(all, show(object))
		}
		got = strings.Join(all, "; ")
		return got == want, nil
	})
	if err != nil {
		t.Fatalf("%s: %s, want %s", path, got, want)
	}
}

// deploy uploads a data model with files, as clients do, and makes the production environment report its commit, as its controller
// does when all pods serve it.
func deploy(t *testing.T, e *v1alpha1.Environment, files map[string]string) {
	t.Helper()
	const base = "/build/api/v1/deployments/1/data-model/upload"
	transaction := call(t, "admin", "POST", base+"/start", nil).Is(200).At("transaction")
	encoded, err := json.Marshal(transaction)
	if err != nil {
		t.Fatal(err)
	}
	hashes := map[string]any{}
	for name, text := range files {
		upload(t, base+"/file", string(encoded), name, text)
		sum := sha1.Sum([]byte(text))
		hashes[name] = map[string]any{"hash": hex.EncodeToString(sum[:])}
	}
	commit, _ := call(t, "admin", "POST", base+"/finish", map[string]any{"transaction": transaction, "files": hashes}).Is(200).At("lastHash").(string)
	before := e.DeepCopy()
	e.Status.ModelCommit = commit
	if err := k8s.Status().Patch(t.Context(), e, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// upload sends a file of an upload.
func upload(t *testing.T, path, transaction, name, text string) {
	t.Helper()
	body := &bytes.Buffer{}
	form := multipart.NewWriter(body)
	_ = form.WriteField("transaction", transaction) // a buffer
	_ = form.WriteField("fileName", name)
	part, _ := form.CreateFormFile("file", name[strings.LastIndex(name, "/")+1:])
	_, _ = io.WriteString(part, text)
	_ = form.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, apiURL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+tokens["admin"])
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

const (
	agentsPath = "/api/v1/deployments/1/agents"
	skillsPath = "/api/v1/deployments/1/agent-skills"
	usagePath  = "/api/v1/deployments/1/agent-usage"
)

func shownAgent(item map[string]any) string {
	space, _ := item["agentSpace"].(map[string]any)
	return fmt.Sprintf("%v %v %v %v", item["id"], item["name"], item["agentConfigName"], space["name"])
}

func shownSkill(item map[string]any) string {
	return fmt.Sprintf("%v: %v", item["name"], item["title"])
}

const (
	config = "spaces: [{name: sales}]\nagents:\n  - {name: seller, space: sales}\nskills:\n  - {name: help, title: Help, description: Use for help, instructions: Help.}\n"
	skill  = "---\ntitle: Forecast\ndescription: Use for forecasts\n---\nSecret instructions.\n"
)

// TestFiles follows the files of a deployment from commit to commit.
func TestFiles(t *testing.T) {
	e := &v1alpha1.Environment{Spec: v1alpha1.EnvironmentSpec{DeploymentRef: v1alpha1.LocalReference{Name: "kept"}, Type: v1alpha1.EnvironmentProduction, Version: "1.2.3", Image: "cube:1"}}
	e.Namespace, e.Name = namespace, v1alpha1.ProductionName("kept")
	if err := k8s.Create(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	seller := agent(t, "seller", "kept", 3, func(spec *v1alpha1.AgentSpec) { spec.DisplayName, spec.AllowEmbedding = "Sales", ptr.To(true) })
	helper := agent(t, "helper", "kept", 4, nil)
	elsewhere := agent(t, "elsewhere", "other", 5, nil)
	awaitFiles(t, seller, metav1.ConditionUnknown, v1alpha1.ReasonWorkloadsNotReady, "serves no commit")
	awaitFiles(t, elsewhere, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, "no Git repository")
	awaitList(t, agentsPath, "3 Sales seller <nil>; 4 helper helper <nil>", shownAgent)
	awaitList(t, skillsPath, "", shownSkill)

	files := map[string]string{"model/a.yml": "cubes: []\n", "agents/config.yml": config, "agents/skills/sales/forecast.md": skill, "agents/rules/a.md": "---\ntype: never\n---\nx\n"}
	deploy(t, e, files)
	awaitFiles(t, seller, metav1.ConditionFalse, v1alpha1.ReasonInvalidFiles, `agents/rules/a.md:2: type: "never"; allowed: always, agent_requested`)
	files["agents/rules/a.md"] = "---\ntype: always\n---\nx\n"
	deploy(t, e, files)
	awaitFiles(t, seller, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, e.Status.ModelCommit)
	awaitFiles(t, helper, metav1.ConditionFalse, v1alpha1.ReasonNotDeclared, `has no "helper"`)

	awaitList(t, agentsPath, "3 Sales seller sales; 4 helper helper auto", shownAgent)
	awaitList(t, agentsPath+"?allowEmbedding=true", "3 Sales seller sales", shownAgent)
	awaitList(t, agentsPath+"?allowEmbedding=false", "4 helper helper auto", shownAgent)
	awaitList(t, agentsPath+"?first=1", "3 Sales seller sales", shownAgent)
	awaitList(t, "/api/v1/deployments/2/agents", "5 elsewhere elsewhere auto", shownAgent)
	awaitList(t, skillsPath, "forecast: Forecast; help: Help", shownSkill)
	awaitList(t, skillsPath+"?space=sales", "forecast: Forecast", shownSkill)
	awaitList(t, skillsPath+"?space=auto", "help: Help", shownSkill)
	if answer := call(t, "agents", "GET", skillsPath, nil).Is(200); strings.Contains(string(answer.Body), "instructions") {
		t.Errorf("the instructions are shown: %s", answer.Body)
	}
	// The branch is ahead of what production serves.
	served := e.Status.ModelCommit
	delete(files, "agents/skills/sales/forecast.md")
	deploy(t, e, files)
	awaitList(t, skillsPath+"?branchName=main", "help: Help", shownSkill)
	before := e.DeepCopy()
	e.Status.ModelCommit = served
	if err := k8s.Status().Patch(t.Context(), e, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	awaitFiles(t, seller, metav1.ConditionTrue, v1alpha1.ReasonSucceeded, served)
	awaitList(t, skillsPath, "forecast: Forecast; help: Help", shownSkill)

	for path, status := range map[string]int{
		skillsPath + "?space=none": 404, skillsPath + "?branchName=none": 404, "/api/v1/deployments/2/agent-skills?branchName=main": 404,
		agentsPath + "?allowEmbedding=maybe": 400, skillsPath + "?first=0": 400, "/api/v1/deployments/99/agents": 404,
		usagePath: 403,
	} {
		call(t, "agents", "GET", path, nil).Is(status)
	}
	for _, path := range []string{agentsPath, skillsPath, usagePath} {
		call(t, "none", "GET", path, nil).Is(403)
	}
}

// TestUsage: the report has limits, and no sums before the first run.
func TestUsage(t *testing.T) {
	for query, status := range map[string]int{
		"": 200, "?by=day&by=user&by=caller&by=endpoint&by=source&by=agent": 200, "?from=2026-11-01&to=2026-11-30": 200,
		"?by=name": 400, "?from=2026-13-01": 400, "?from=yesterday": 400, "?from=2026-11-02&to=2026-11-01": 400, "?from=2024-01-01&to=2026-01-01": 400,
		"?from=0001-01-01": 400,
	} {
		answer := call(t, "admin", "GET", usagePath+query, nil).Is(status)
		if items, _ := answer.At("items").([]any); status == 200 && len(items) != 0 {
			t.Errorf("%s: %v", query, items)
		}
	}
}
