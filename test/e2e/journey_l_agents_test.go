package e2e_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/internal/agent/stream"
	"github.com/quoin-dev/quoin/test/e2e/internal/chatlines"
	"github.com/quoin-dev/quoin/test/e2e/internal/cluster"
	"github.com/quoin-dev/quoin/test/e2e/internal/gitserver"
	"github.com/quoin-dev/quoin/test/e2e/internal/models"
	"github.com/quoin-dev/quoin/test/e2e/internal/servers"
	"github.com/quoin-dev/quoin/test/internal/modelserver"
)

const (
	// modelKey is the API key of the scripted model.
	modelKey = "sk-of-the-scripted-model"
	// heldAfter is the number of pieces of text of an answer of the model after which it is held.
	heldAfter = 5
	// modelContext is the context of the model in tokens, as in docs/journeys/l-agents.md.
	modelContext = 8192
	// customersSQL is customersByCountry in SQL.
	customersSQL = "SELECT country, MEASURE(count) AS customers FROM customers GROUP BY 1 ORDER BY 1"
)

// scriptedAgent is a second model, which calls tools as a script says: the calls of the small one are unreliable.
const scriptedAgent = `
apiVersion: platform.quoin.dev/v1alpha1
kind: ModelEndpoint
metadata: {name: scripted}
spec:
  protocol: OpenAI
  baseURL: %[2]s/v1
  model: scripted
  apiKeySecretRef: {name: scripted-model, key: apiKey}
  allowedAccounts: [%[1]s]
---
apiVersion: platform.quoin.dev/v1alpha1
kind: Agent
metadata: {name: scripted, namespace: %[1]s}
spec:
  deploymentRef: {name: customers}
  modelEndpointRef: {name: scripted}
`

// questions are those of an evaluation. The scripted model takes each question as its query.
const questions = `
eval_questions:
- name: customers-by-country
  question: ` + customersSQL + `
  sql: SELECT MEASURE(count), country FROM customers GROUP BY 2
- name: all-customers
  question: ` + customersSQL + `
  sql: SELECT country, MEASURE(count) FROM customers WHERE country = 'CH' GROUP BY 1
- name: names
  question: SELECT name FROM customers GROUP BY 1 ORDER BY 1 LIMIT 1
  sql: SELECT name FROM customers GROUP BY 1 ORDER BY 1 LIMIT 1
`

// agentsWorld is an account whose people ask agents.
type agentsWorld struct {
	*tenant
	control *servers.REST
	// model is a proxy of the real model, and scripted the other one.
	model    *models.Proxy
	scripted *models.Scripted
	// guide and analyst are the addresses of the chats of their agents.
	guide, analyst string
	messages       int
}

// askAgents adds the specs of journey l to a journey of the Helm chart: apply the manifests of docs/journeys/j-data-access.md and
// l-agents.md. A real model answers, and a scripted one queries real pods.
func (i *installation) askAgents() {
	w := &agentsWorld{}
	BeforeAll(func(ctx SpecContext) { w.start(ctx, i) }, NodeTimeout(3*rolled))

	w.answersOnce()
	w.survivesAReplica()
	w.recordsTools()
	w.showsNoMore()
	w.isEvaluated()
}

// start creates the account with its people, models and agents, and waits until both replicas know them.
func (w *agentsWorld) start(ctx context.Context, i *installation) {
	GinkgoHelper()
	w.model, w.scripted = models.StartProxy(world.Address(), modelserver.Start(GinkgoTB(), modelContext)), models.StartScripted(world.Address())
	w.tenant = i.newTenant(ctx, "agents", "v"+policyServer)
	kubectl(ctx, "patch", "acct/"+w.name, "--type=merge", "-p", `{"spec":{"plan":"Enterprise","auditLog":{"enabled":true}}}`)
	warehousePassword(ctx, w.tenant)
	w.control = servers.InstalledReplicas(ctx, world, w.name, w.host())
	key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: "scripted-model"}, StringData: map[string]string{"apiKey": modelKey}}
	Expect(world.API.Create(ctx, key)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		kubectl(ctx, "delete", "modelep/smollm2", "modelep/scripted", "--ignore-not-found")
		kubectl(ctx, "delete", "secret/scripted-model", "-n", cluster.Namespace)
	})
	w.applyDocumented(ctx, "j-data-access.md", "l-agents.md")
	// The model of the page is that of make up; this one has other ports.
	kubectl(ctx, "patch", "modelep/smollm2", "--type=merge", "-p", `{"spec":{"baseURL":"`+w.service(ctx, "smollm2", w.model.URL)+`/v1"}}`)
	apply(ctx, fmt.Sprintf(scriptedAgent, w.name, w.service(ctx, "scripted", w.scripted.URL)))
	kubectl(ctx, "wait", "suser,sgrp,uattr,qkey", "--all", "-n", w.name, "--for=condition=Ready", "--timeout=60s")
	kubectl(ctx, "wait", "qdep/customers", "-n", w.name, "--for=condition=Ready", "--timeout=180s")
	kubectl(ctx, "wait", "modelep/smollm2", "modelep/scripted", "--for=condition=Ready", "--timeout=60s")
	kubectl(ctx, "wait", "qagent", "--all", "-n", w.name, "--for=condition=Ready", "--timeout=60s")
	w.guide, w.analyst = w.chats(ctx, "guide"), w.chats(ctx, "scripted")
	// The caches of both replicas have the agents and the keys of all people.
	for _, person := range []string{"ada", "ben", "cleo"} {
		for _, agent := range []string{w.guide, w.analyst} {
			for replica := range w.control.Replicas {
				Eventually(func() servers.Reply {
					return w.as(ctx, person).Ask(ctx, replica, http.MethodPost, agent+"/stream-chat-state", map[string]any{"chatId": "none"})
				}).WithContext(ctx).Should(And(servers.HaveStatus(http.StatusNotFound), HaveField("Text", ContainSubstring("chatId"))))
			}
		}
	}
}

// chats returns the address of the chats of an agent.
func (w *agentsWorld) chats(ctx context.Context, agent string) string {
	GinkgoHelper()
	id := kubectl(ctx, "get", "qagent/"+agent, "-n", w.name, "-o", "jsonpath={.status.id}")
	Expect(id).To(MatchRegexp(`^[1-9]\d*$`))
	return "/api/v1/public/" + w.name + "/agents/" + id + "/chat"
}

// as returns a client with the key of a person.
func (w *agentsWorld) as(ctx context.Context, person string) *servers.REST {
	GinkgoHelper()
	return w.withKey(ctx, w.control, person+"-agents")
}

// message returns a message with a new id.
func (w *agentsWorld) message(chat, input string) map[string]any {
	w.messages++
	m := map[string]any{"input": input, "messageId": fmt.Sprintf("%d-message", 1795316968000+w.messages)}
	if chat != "" {
		m["chatId"] = chat
	}
	return m
}

// read reads a whole stream of an agent.
func (w *agentsWorld) read(ctx context.Context, by *servers.REST, replica int, agent string, body any) *servers.Chat {
	GinkgoHelper()
	c := by.Chat(ctx, replica, agent+"/stream-chat-state", body)
	Expect(c.Read()).To(Succeed(), c.Text)
	Expect(c.Text).NotTo(ContainSubstring(modelKey))
	return c
}

// ask sends a query to the scripted agent, and returns the results of its tools by name, and the answer.
func (w *agentsWorld) ask(ctx context.Context, by *servers.REST, m map[string]any) (results map[string]chatlines.Result, answer string) {
	GinkgoHelper()
	c := w.read(ctx, by, 0, w.analyst, m)
	answer, problem := chatlines.Check(c.Text, m["messageId"], m["input"])
	Expect(problem).To(BeEmpty())
	return chatlines.Results(c.Lines), answer
}

// calls returns the tool calls of a chat in the audit log, in their order, with their outcomes.
func (w *agentsWorld) calls(ctx context.Context, chat string) []string {
	GinkgoHelper()
	return toolCalls(ctx, w.control, chat)
}

// says reports whether a line has text of the answer.
func says(l *stream.Line) bool { return l.IsFinal() && l.Content != nil && *l.Content != "" }

// external is a person of another application.
func external(country string) map[string]any {
	return map[string]any{"externalId": "u-" + country, "groups": []string{"Sales people"}, "userAttributes": []map[string]any{{"name": "country", "value": country}}}
}

// answersOnce adds the specs of that a message is answered once, on all replicas.
func (w *agentsWorld) answersOnce() {
	It("streams an answer that all known clients read alike, and the same bytes again for the same message", func(ctx SpecContext) {
		const attempts = 5
		ada := w.as(ctx, "ada")
		// The model may end without text, or call a tool that there is not: also such an answer has the documented lines.
		for range attempts {
			m := w.message("", fmt.Sprintf("Say hello to customer %d in a few words.", w.messages))
			first := w.read(ctx, ada, 0, w.guide, m)
			answer, problem := chatlines.Check(first.Text, m["messageId"], m["input"])
			asked, _ := w.model.Asked(m["input"].(string))
			Expect(asked).To(BeNumerically(">", 0))

			m["chatId"] = chatlines.ChatID(first.Text)
			for replica := range w.control.Replicas {
				Expect(w.read(ctx, ada, replica, w.guide, m).Text).To(Equal(first.Text), "replica %d", replica)
			}
			again, _ := w.model.Asked(m["input"].(string))
			Expect(again).To(Equal(asked), "requests to the model")
			if answer != "" && problem == "" {
				return
			}
		}
		Fail(fmt.Sprintf("the model has not answered %d messages", attempts))
	}, SpecTimeout(3*timeout))

	It("ends an answer that is aborted on another replica, and keeps what was said", func(ctx SpecContext) {
		ada, ben := w.as(ctx, "ada"), w.as(ctx, "ben")
		abort := func(by *servers.REST, chat string) servers.Reply {
			GinkgoHelper()
			return by.Ask(ctx, 1, http.MethodPost, w.guide+"/abort", map[string]any{"chatId": chat})
		}
		DeferCleanup(w.model.Hold(heldAfter))
		m := w.message("aborted", "Tell me a long story about a river and its towns.")
		answering := ada.Chat(ctx, 0, w.guide+"/stream-chat-state", m)
		answering.Until(says)
		Expect(abort(ben, "aborted")).To(servers.HaveStatus(http.StatusForbidden))
		Expect(abort(ada, "none")).To(servers.HaveStatus(http.StatusNotFound))
		Expect(w.model.InProgress()).To(Equal(1))

		Expect(abort(ada, "aborted")).To(servers.HaveStatus(http.StatusNoContent))
		Expect(answering.Read()).To(Succeed())
		Eventually(w.model.InProgress).WithContext(ctx).Should(BeZero())
		_, left := w.model.Asked(m["input"].(string))
		Expect(left).To(Equal(1), "requests to the model that have been ended")

		said, problem := chatlines.Check(answering.Text, m["messageId"], m["input"])
		Expect(said).NotTo(BeEmpty())
		Expect(problem).To(BeEmpty())
		Expect(w.read(ctx, ada, 1, w.guide, m).Text).To(Equal(answering.Text))
		expectChat(w.read(ctx, ada, 0, w.guide, map[string]any{"chatId": "aborted"}), m["input"], said)
		Expect(abort(ada, "aborted")).To(servers.HaveStatus(http.StatusNoContent), "an answer that has ended")
	}, SpecTimeout(2*timeout))
}

// survivesAReplica adds the specs of the kill of a replica.
func (w *agentsWorld) survivesAReplica() {
	It("ends an answer whose replica is killed, once, and the chat goes on", func(ctx SpecContext) {
		ada := w.as(ctx, "ada")
		resume := w.model.Hold(heldAfter)
		DeferCleanup(resume)
		m := w.message("killed", "Tell me a long story about a mountain and its animals.")
		answering := ada.Chat(ctx, 0, w.guide+"/stream-chat-state", m)
		answering.Until(says)
		// The other replica has what is stored.
		elsewhere := ada.Chat(ctx, 1, w.guide+"/stream-chat-state", m)
		stored := *elsewhere.Until(says).Content
		asked, _ := w.model.Asked(m["input"].(string))

		w.control.Replicas[0].Kill()
		Expect(answering.Read()).NotTo(Succeed(), "the connection to the replica that was killed")
		Eventually(w.model.InProgress).WithContext(ctx).Should(BeZero())
		w.control.Restart(ctx, 0)
		after := ada.Chat(ctx, 0, w.guide+"/stream-chat-state", m)
		for _, c := range []*servers.Chat{elsewhere, after} {
			Expect(c.Read()).To(Succeed())
			Expect(c.Lines[len(c.Lines)-1].Error).NotTo(BeEmpty(), c.Text)
		}

		whole := w.read(ctx, ada, 0, w.guide, m)
		said, problem := chatlines.Check(whole.Text, m["messageId"], m["input"])
		Expect(said).To(HavePrefix(stored))
		Expect(problem).NotTo(BeEmpty())
		Expect(w.read(ctx, ada, 1, w.guide, m).Text).To(Equal(whole.Text))
		again, _ := w.model.Asked(m["input"].(string))
		Expect(again).To(Equal(asked), "requests to the model")
		expectChat(w.read(ctx, ada, 1, w.guide, map[string]any{"chatId": "killed"}), m["input"], said)

		resume()
		next := w.message("killed", "Say hello.")
		chatlines.Check(w.read(ctx, ada, 0, w.guide, next).Text, next["messageId"], next["input"])
	}, SpecTimeout(3*timeout))
}

// recordsTools adds the specs of what the tools of an agent return, and what is recorded of them.
func (w *agentsWorld) recordsTools() {
	It("records each tool call before it runs and with its outcome", func(ctx SpecContext) {
		warehouse := openWarehouse()
		defer warehouse.Close()
		reading, err := warehouse.BeginTx(ctx, nil)
		Expect(err).NotTo(HaveOccurred())
		defer func() { _ = reading.Rollback() }() // no effect after the commit
		_, err = reading.ExecContext(ctx, "LOCK TABLE raw.customers IN ACCESS EXCLUSIVE MODE")
		Expect(err).NotTo(HaveOccurred())

		m := w.message("recorded", customersByCountry)
		c := w.as(ctx, "ada").Chat(ctx, 0, w.analyst+"/stream-chat-state", m)
		c.Until(func(l *stream.Line) bool { return l.ToolCall != nil && l.ToolCall.Name == "cubeJsonQuery" })
		Expect(w.calls(ctx, "recorded")).To(Equal([]string{"ScimUser:ada cubeMeta succeeded", "ScimUser:ada cubeJsonQuery attempted"}))
		Expect(reading.Commit()).To(Succeed())
		Expect(c.Read()).To(Succeed())
		Expect(chatlines.Results(c.Lines)["cubeJsonQuery"].Rows()).To(Equal([]map[string]string{{"customers.country": "CH", "customers.count": "16"}}))
		Expect(w.calls(ctx, "recorded")).To(Equal([]string{"ScimUser:ada cubeMeta succeeded", "ScimUser:ada cubeJsonQuery succeeded"}))
	}, SpecTimeout(2*timeout))

	It("queries with the rights of the person who asks", func(ctx SpecContext) {
		rows := func(counts ...string) (rows []map[string]string) {
			for i := 0; i < len(counts); i += 2 {
				rows = append(rows, map[string]string{"customers.country": counts[i], "customers.count": counts[i+1]})
			}
			return rows
		}
		of := []string{"customers.count", "customers.country"}
		for _, c := range []struct {
			person  string
			rows    []map[string]string
			members []string
		}{
			{"ada", rows("CH", "16"), of},
			{"ben", rows("DE", "17"), of},
			{"cleo", rows("CH", "16", "DE", "17", "FR", "17"), append(of, "customers.name")},
		} {
			results, answer := w.ask(ctx, w.as(ctx, c.person), w.message("", customersByCountry))
			Expect(results["cubeJsonQuery"].Rows()).To(Equal(c.rows), c.person)
			Expect(results["cubeJsonQuery"].TotalRows).To(Equal(len(c.rows)), c.person)
			Expect(results["cubeMeta"].Members()).To(ConsistOf(c.members), c.person)
			Expect(answer).To(ContainSubstring(c.rows[0]["customers.country"]), "what the model has of the rows of %s", c.person)
		}
		// A program asks for people of its own, with SQL.
		m := w.message("", customersSQL)
		m["sessionSettings"] = external("FR")
		results, _ := w.ask(ctx, w.control, m)
		Expect(results["cubeSqlApi"].Rows()).To(Equal([]map[string]string{{"country": "FR", "customers": "17"}}))
		Expect(results["cubeMeta"].Members()).To(ConsistOf(of))
		m = w.message("", customersSQL)
		m["sessionSettings"] = map[string]any{"externalId": "u-of-no-group"}
		results, _ = w.ask(ctx, w.control, m)
		Expect(results["cubeSqlApi"].Data).To(BeEmpty())
		Expect(w.scripted.Keys()).To(Equal([]string{"Bearer " + modelKey}))
	}, SpecTimeout(2*timeout))
}

// showsNoMore adds the specs of what a person may not see.
func (w *agentsWorld) showsNoMore() {
	It("tells a person what the person may not see", func(ctx SpecContext) {
		results, _ := w.ask(ctx, w.as(ctx, "cleo"), w.message("names-of-cleo", customerNames))
		Expect(results["cubeJsonQuery"].Rows()).To(Equal([]map[string]string{{"customers.name": "Customer 1"}}))
		Expect(w.calls(ctx, "names-of-cleo")).To(Equal([]string{"ScimUser:cleo cubeMeta succeeded", "ScimUser:cleo cubeJsonQuery succeeded"}))
		results, answer := w.ask(ctx, w.as(ctx, "ada"), w.message("names-of-ada", customerNames))
		Expect(results["cubeJsonQuery"]).To(And(HaveField("Error", HavePrefix("Error: ForbiddenError: ")), HaveField("Data", BeEmpty())))
		Expect(answer).To(And(ContainSubstring("ForbiddenError"), Not(ContainSubstring("Customer 1"))))
		Expect(w.calls(ctx, "names-of-ada")).To(Equal([]string{"ScimUser:ada cubeMeta succeeded", "ScimUser:ada cubeJsonQuery failed"}))

		// The same in SQL, in which the server knows no hidden columns; a column that does not exist is something else.
		for column, class := range map[string]string{"name": "ForbiddenError", "shoe_size": "BadRequestError"} {
			m := w.message("", "SELECT "+column+" FROM customers GROUP BY 1")
			m["sessionSettings"] = external("CH")
			results, _ = w.ask(ctx, w.control, m)
			Expect(results["cubeSqlApi"]).To(And(HaveField("Error", HavePrefix("Error: "+class+": ")), HaveField("Data", BeEmpty())), column)
		}
	}, SpecTimeout(timeout))
}

// isEvaluated adds the specs of evaluations.
func (w *agentsWorld) isEvaluated() {
	// The model moves to Git, with the questions in it.
	It("evaluates an agent on questions with known answers, with the rights of the person who asks", func(ctx SpecContext) {
		repo := gitserver.StartWith(world.Address(), modelWithQuestions(ctx, w.tenant))
		w.patch(ctx, "qdep/customers", `{"model":{"configMapRef":null,"git":{"url":"`+repo.URL+`","interval":"1s"}}}`)
		w.patch(ctx, "sgrp/managers", `{"accountRoles":["Explorer"]}`)
		w.patch(ctx, "sgrp/sales-people", `{"accountRoles":["Explorer"]}`)
		for _, person := range []string{"ada", "cleo"} {
			w.patch(ctx, "qkey/"+person+"-agents", `{"permissions":["DeploymentRead","SchemaRead","DeploymentAgentRead","SqlRunnerRead"]}`)
		}
		address := w.path(ctx, "customers") + "/evaluations"
		verdicts := func(person string) map[string]string {
			GinkgoHelper()
			by, begun := w.as(ctx, person), servers.Reply{}
			Eventually(func() servers.Reply { // 409 until production serves the commit
				begun = by.Ask(ctx, 0, http.MethodPost, address, map[string]any{"agentName": "scripted"})
				return begun
			}).WithContext(ctx).WithTimeout(2 * time.Minute).Should(servers.HaveStatus(http.StatusAccepted))
			evaluation := fmt.Sprintf("%s/%.0f", address, begun.Body["id"])
			Eventually(func() any { return by.Ask(ctx, 1, http.MethodGet, evaluation, nil).Body["status"] }).WithContext(ctx).Should(Equal("completed"))
			verdicts := map[string]string{}
			for _, r := range by.Ask(ctx, 1, http.MethodGet, evaluation+"/results", nil).Body["data"].([]any) {
				r := r.(map[string]any)
				verdicts[fmt.Sprint(r["questionName"])] = fmt.Sprint(r["verdict"])
			}
			return verdicts
		}
		Expect(verdicts("cleo")).To(Equal(map[string]string{"customers-by-country": "pass", "all-customers": "fail", "names": "pass"}))
		// ada has one country, and no names.
		Expect(verdicts("ada")).To(Equal(map[string]string{"customers-by-country": "pass", "all-customers": "pass", "names": "error"}))
	}, SpecTimeout(3*rolled))
}

// service creates a Service that leads to a server on this machine, at a URL without path, and returns its URL in the cluster: models
// without TLS must be Services.
func (t *tenant) service(ctx context.Context, name, server string) string {
	GinkgoHelper()
	at, err := url.Parse(server)
	Expect(err).NotTo(HaveOccurred())
	apply(ctx, fmt.Sprintf(modelService, name, t.name, at.Hostname(), at.Port()))
	return "http://" + name + "." + t.name + ".svc"
}

const modelService = `
apiVersion: v1
kind: Service
metadata: {name: %[1]s, namespace: %[2]s}
spec: {ports: [{port: 80, targetPort: %[4]s}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s, namespace: %[2]s, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
endpoints: [{addresses: [%[3]s]}]
ports: [{port: %[4]s}]
`

// modelWithQuestions returns a folder with the model of the deployment customers, and questions beside it.
func modelWithQuestions(ctx context.Context, t *tenant) string {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	Expect(os.Mkdir(filepath.Join(folder, "agents"), 0o700)).To(Succeed())
	model := kubectl(ctx, "get", "configmap/customers-model", "-n", t.name, "-o", `jsonpath={.data.customers\.yml}`)
	Expect(os.WriteFile(filepath.Join(folder, "customers.yml"), []byte(model), 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(folder, "agents", "eval_questions.yml"), []byte(questions), 0o600)).To(Succeed())
	return folder
}

// expectChat checks that a chat has a message once, and ends with what was said to it.
func expectChat(c *servers.Chat, input, said any) {
	GinkgoHelper()
	m := &stream.Messages{}
	for _, l := range c.Lines {
		m.Add(l)
	}
	var texts []string
	for _, message := range m.All() {
		Expect(message.InProcess).To(BeFalse())
		texts = append(texts, message.Content)
	}
	Expect(texts).NotTo(BeEmpty())
	Expect(texts[0]).To(Equal(input))
	Expect(texts[1:]).NotTo(ContainElement(input))
	Expect(texts[len(texts)-1]).To(Equal(said))
}

// toolCalls returns the events of the tool calls of a chat in the order of the audit log: the person, the tool and the outcome.
func toolCalls(ctx context.Context, control *servers.REST, chat string) (calls []string) {
	GinkgoHelper()
	r := control.Ask(ctx, 1, http.MethodGet, "/api/v1/audit-logs/export?eventName="+url.QueryEscape("Called agent tool"), nil)
	Expect(r).To(servers.HaveStatus(http.StatusOK), r.String())
	Expect(r.Text).NotTo(ContainSubstring(modelKey))
	records, err := csv.NewReader(strings.NewReader(r.Text)).ReadAll()
	Expect(err).NotTo(HaveOccurred())
	column := map[string]int{}
	for i, name := range records[0] {
		column[name] = i
	}
	for _, record := range records[1:] {
		var data struct {
			Changes map[string]struct {
				After any `json:"after"`
			} `json:"changes"`
		}
		Expect(json.Unmarshal([]byte(record[column["data"]]), &data)).To(Succeed())
		if data.Changes["chat"].After == chat {
			calls = append(calls, fmt.Sprint(data.Changes["asker"].After, " ", data.Changes["tool"].After, " ", record[column["outcome"]]))
		}
	}
	return calls
}
