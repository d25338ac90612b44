package e2e_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // driver of the warehouse
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/e2e/internal/cluster"
	"github.com/quoin-dev/quoin/test/e2e/internal/gitserver"
	"github.com/quoin-dev/quoin/test/e2e/internal/servers"
)

// Two published versions of the real server.
const (
	olderServer = "0.34.62"
	newerServer = "0.35.81"
)

// Models of the table in the warehouse.
const (
	ordersModel = `cubes:
  - name: orders
    sql_table: public.orders
    dimensions:
      - {name: id, sql: id, type: number, primary_key: true}
      - {name: status, sql: status, type: string}
    measures:
      - {name: count, type: count}
`
	ordersWithAmount = ordersModel + "      - {name: total_amount, sql: amount, type: sum}\n"
	// brokenModel is valid YAML, but does not compile.
	brokenModel = ordersModel + "      - {name: impossible, sql: \"{nothing.like_this}\", type: sum}\n"
)

const ordersByStatus = `{"measures": ["orders.count"], "dimensions": ["orders.status"], "order": {"orders.status": "asc"}}`

// Journeys b, c, e and f for clients of the data API: containers of the real server, a warehouse, a Git server and two
// gateways.
var _ = Describe("Querying data", Ordered, ContinueOnFailure, func() {
	var (
		t        *tenant
		api      *servers.Gateways
		control  *servers.REST
		repo     *gitserver.Repository
		endpoint string // of the production environment
		token    string // for data of the production environment
		right    string // the expected result of ordersByStatus
	)

	BeforeAll(func(ctx SpecContext) {
		onlyReal("simulated pods do not respond")
		t = newServerTenant(ctx, "data", "v"+olderServer)
		repo = gitserver.Start(world.Address())
		repo.Commit("main", ordersModel)
		warehousePassword(ctx, t)
		t.create(ctx, "sales", replicas(2), progressDeadline(120), modelIn(repo.Source()), onWarehouse)
		control, api = startREST(ctx, t), servers.StartGateways(ctx, world)
		kubectl(ctx, "wait", "qdep/sales", "-n", t.name, "--for=condition=Ready", "--timeout=180s")
		endpoint = t.dataURL(ctx, v1alpha1.ProductionName("sales"))
		token = t.issue(ctx, control, "tokens", v1alpha1.ProductionName("sales"))
		right = askWarehouse(ctx, `SELECT status AS "orders.status", count(*)::text AS "orders.count" FROM public.orders GROUP BY 1 ORDER BY 1`)
	})

	answerRight := func(ctx context.Context) {
		GinkgoHelper()
		c := api.Client(0)
		defer c.CloseIdleConnections()
		r := servers.Load(ctx, c, endpoint, token, ordersByStatus)
		Expect(r).To(servers.HaveStatus(http.StatusOK))
		Expect(servers.Rows(r)).To(Equal(right))
	}
	// noFailures waits until the analysts have another correct response, stops them, and checks that all were correct. A query
	// that has no result yet is no failure.
	noFailures := func(ctx context.Context, at *servers.Analysts) map[string]int {
		GinkgoHelper()
		Eventually(at.SoFar).WithContext(ctx).Should(BeNumerically(">", at.SoFar()), "correct responses")
		answers, failures := at.End()
		AddReportEntry("right answers, by version", answers)
		Expect(failures).To(BeEmpty())
		return answers
	}

	It("returns metadata of the model, and rows from the warehouse", func(ctx SpecContext) {
		meta := api.Ask(ctx, http.MethodGet, endpoint+"/v1/meta", token, "")
		Expect(meta).To(servers.HaveStatus(http.StatusOK))
		Expect(meta.Text).To(And(ContainSubstring(`"orders.count"`), Not(ContainSubstring("total_amount"))))
		Expect(meta.Version).To(Equal("v" + olderServer))
		answerRight(ctx)
	})

	It("is rejected without a token, and on unknown hosts and branches, with a reason in JSON", func(ctx SpecContext) {
		host, _ := url.Parse(endpoint)
		for _, c := range []struct {
			url, token, says string
			status           int
		}{
			{endpoint + "/v1/meta", "", "Authorization", 401},
			{endpoint + "/v1/meta", token + "x", "token", 401},
			{strings.Replace(endpoint, "//sales.", "//unknown.", 1) + "/v1/meta", token, "host", 404},
			{host.Scheme + "://" + host.Host + "/dev-mode/nothing/cubejs-api/v1/meta", token, "branch", 404},
		} {
			r := api.Ask(ctx, http.MethodGet, c.url, c.token, "")
			Expect(r).To(servers.HaveStatus(c.status), c.url)
			Expect(r.Body).To(HaveKeyWithValue("error", ContainSubstring(c.says)), c.url)
		}
	})

	It("returns only metadata for a metadata token, which pods reject", func(ctx SpecContext) {
		metadata := t.issue(ctx, control, "tokens-for-meta-sync", v1alpha1.ProductionName("sales"))
		Expect(api.Ask(ctx, http.MethodGet, endpoint+"/v1/meta", metadata, "")).To(servers.HaveStatus(http.StatusOK))
		Expect(api.Ask(ctx, http.MethodGet, endpoint+"/v1/entities", metadata, "").Text).To(ContainSubstring(`"orders"`))
		refused := api.Ask(ctx, http.MethodPost, endpoint+"/v1/load", metadata, `{"query":`+ordersByStatus+`}`)
		Expect(refused).To(servers.HaveStatus(http.StatusForbidden))
		Expect(refused.Body).To(HaveKeyWithValue("error", HavePrefix("API scope is missing: data")))
		pod := t.address(ctx, "sales") + "/cubejs-api/v1/meta"
		Expect(servers.Send(ctx, http.DefaultClient, http.MethodGet, pod, metadata, "")).To(servers.HaveStatus(http.StatusForbidden))
		Expect(servers.Send(ctx, http.DefaultClient, http.MethodGet, pod, token, "")).To(servers.HaveStatus(http.StatusOK), "the pod accepts data tokens")
	})

	It("has no failed request while a new commit of the model is rolled out", func(ctx SpecContext) {
		work := api.Query(ctx, endpoint, token, ordersByStatus, right)
		commit := repo.Commit("main", ordersWithAmount)
		Eventually(t.environment("sales")).WithContext(ctx).WithTimeout(rolled).Should(And(beReady(), HaveField("Status.ModelCommit", commit)))
		noFailures(ctx, work)
		Expect(api.Ask(ctx, http.MethodGet, endpoint+"/v1/meta", token, "").Text).To(ContainSubstring(`"orders.total_amount"`))
	}, SpecTimeout(5*timeout))

	It("has no failed request after a commit that does not compile, which the Deployment reports", func(ctx SpecContext) {
		work := api.Query(ctx, endpoint, token, ordersByStatus, right)
		broken := repo.Commit("main", brokenModel)
		Eventually(t.deployment("sales")).WithContext(ctx).WithTimeout(rolled).Should(And(
			beStalled(v1alpha1.ReasonModelBroken), HaveField("Status.FailedModel.Commit", broken)))
		status := control.Ask(ctx, 0, http.MethodGet, t.path(ctx, "sales")+"/build-status", nil)
		Expect(status.Body).To(And(HaveKeyWithValue("status", "failed"), HaveKeyWithValue("errorText", ContainSubstring("nothing"))))
		noFailures(ctx, work)
		repo.Commit("main", ordersWithAmount)
		Eventually(t.deployment("sales")).WithContext(ctx).WithTimeout(rolled).Should(beReady())
		answerRight(ctx)
	}, SpecTimeout(6*timeout))

	// rolls waits until production runs a version and the old pods are gone: they serve for some seconds after SIGTERM.
	rolls := func(ctx context.Context, version string) {
		GinkgoHelper()
		Eventually(t.deployment("sales")).WithContext(ctx).WithTimeout(rolled).Should(run(version))
		Eventually(t.podNames).WithContext(ctx).WithArguments("sales").Should(HaveLen(2))
	}

	It("has no failed request while a new version from the registry is rolled out", func(ctx SpecContext) {
		work := api.Query(ctx, endpoint, token, ordersByStatus, right)
		t.push(ctx, "v"+newerServer)
		rolls(ctx, newerServer)
		Expect(noFailures(ctx, work)).To(And(HaveKey("v"+newerServer), HaveKey("v"+olderServer)))
	}, SpecTimeout(6*timeout))

	It("has no failed request while a version chosen over REST is rolled out", func(ctx SpecContext) {
		work := api.Query(ctx, endpoint, token, ordersByStatus, right)
		Expect(control.Ask(ctx, 0, http.MethodPut, t.path(ctx, "sales"), map[string]any{"releaseChannelVersion": "v" + olderServer})).To(servers.HaveStatus(http.StatusOK))
		rolls(ctx, olderServer)
		Expect(noFailures(ctx, work)).To(And(HaveKey("v"+newerServer), HaveKey("v"+olderServer)))
	}, SpecTimeout(6*timeout))

	It("works on a branch while its staging environment is on, and is rejected with a reason when it is off", func(ctx SpecContext) {
		repo.Commit("next", ordersModel+"      - {name: largest, sql: amount, type: max}\n")
		Eventually(t.branches).WithContext(ctx).Should(HaveLen(2))
		branch := t.branch(ctx, "next")
		t.patch(ctx, "qbr/"+branch.Name, `{"stagingEnvironmentEnabled": true}`)
		Eventually(func() *v1alpha1.Environment { return t.staging(ctx, "next") }).WithContext(ctx).WithTimeout(rolled).Should(And(Not(BeNil()), beReady()))
		staging := t.staging(ctx, "next")
		listed := control.Ask(ctx, 0, http.MethodGet, t.path(ctx, "sales")+"/environments", nil)
		Expect(listed.Text).To(ContainSubstring(`"type":"staging"`))
		of := t.dataURL(ctx, staging.Name)
		Expect(of).To(HaveSuffix("/dev-mode/next/cubejs-api"))
		its := t.issue(ctx, control, "tokens", staging.Name)
		Expect(api.Ask(ctx, http.MethodGet, of+"/v1/meta", its, "").Text).To(ContainSubstring(`"orders.largest"`))
		Expect(api.Ask(ctx, http.MethodGet, of+"/v1/meta", token, "")).To(servers.HaveStatus(http.StatusUnauthorized), "token of the production environment")
		Expect(api.Ask(ctx, http.MethodGet, endpoint+"/v1/meta", its, "")).To(servers.HaveStatus(http.StatusUnauthorized), "at the production environment")

		t.patch(ctx, "qbr/"+branch.Name, `{"stagingEnvironmentEnabled": false}`)
		kubectl(ctx, "wait", "qenv/"+staging.Name, "-n", t.name, "--for=delete", "--timeout=60s")
		Eventually(func() servers.Reply { return api.Ask(ctx, http.MethodGet, of+"/v1/meta", its, "") }).WithContext(ctx).Should(servers.HaveStatus(http.StatusNotFound))
	}, SpecTimeout(5*timeout))

	It("wakes the environment of a branch", func(ctx SpecContext) {
		t.patch(ctx, "qdep/sales", `{"onDemand": {"roles": ["shared"], "idleSeconds": 600}}`)
		Eventually(func() *v1alpha1.Environment { return t.staging(ctx, "next") }).WithContext(ctx).Should(And(
			Not(BeNil()), WithTransform(readyReason, Equal(v1alpha1.ReasonAsleep)), HaveField("Status.Active", false)))
		staging := t.staging(ctx, "next")
		Eventually(func() servers.Reply {
			return api.Ask(ctx, http.MethodGet, t.dataURL(ctx, staging.Name)+"/v1/meta", t.issue(ctx, control, "tokens", staging.Name), "")
		}).WithContext(ctx).WithTimeout(rolled).Should(And(servers.HaveStatus(http.StatusOK), WithTransform(servers.Reply.String, ContainSubstring(`"orders.largest"`))))
		// The status is updated after the pods are ready.
		Eventually(func() *v1alpha1.Environment { return t.staging(ctx, "next") }).WithContext(ctx).Should(HaveField("Status.Active", true))
	}, SpecTimeout(5*timeout))

	// After the branches: staging environments run the newest version of the channel.
	It("has no failed request after a version that does not start", func(ctx SpecContext) {
		work := api.Query(ctx, endpoint, token, ordersByStatus, right)
		t.push(ctx, "v0.35.99-broken")
		Eventually(t.channel).WithContext(ctx).Should(haveLatest("0.35.99-broken"))
		t.patch(ctx, "qdep/sales", `{"rollout": {"progressDeadlineSeconds": 30}, "releaseChannelVersion": "0.35.99-broken"}`)
		Eventually(t.deployment("sales")).WithContext(ctx).WithTimeout(rolled).Should(And(
			beStalled(v1alpha1.ReasonRolloutFailed), HaveField("Status.CurrentVersion", olderServer)))
		noFailures(ctx, work)
		t.patch(ctx, "qdep/sales", `{"rollout": {"progressDeadlineSeconds": 120}, "releaseChannelVersion": "`+olderServer+`"}`)
		Eventually(t.deployment("sales")).WithContext(ctx).WithTimeout(rolled).Should(run(olderServer))
	}, SpecTimeout(6*timeout))

	It("returns correct results while a pod, the controller and a gateway are killed", func(ctx SpecContext) {
		work := api.Query(ctx, endpoint, token, ordersByStatus, right)
		more := func(n int) {
			GinkgoHelper()
			before := work.SoFar()
			Eventually(work.SoFar).WithContext(ctx).Should(BeNumerically(">=", before+n))
		}
		more(20)
		// Without a grace period, as after a node failure.
		kubectl(ctx, "delete", "pod", t.pods(ctx, "sales")[0].Name, "-n", t.name, "--grace-period=0", "--force")
		more(20)
		quoin.Kill()
		more(20)
		work.MayBreak.Store(true)
		api.Replicas[0].Kill()
		more(20)
		runDefaultController(ctx)
		Eventually(t.deployment("sales")).WithContext(ctx).WithTimeout(rolled).Should(beReady())
		noFailures(ctx, work)
	}, SpecTimeout(6*timeout))
})

// rolled is the timeout for replacing pods of the real server one after another, each of which compiles the model first.
const rolled = 2 * timeout

// onlyReal skips a journey on simulated nodes.
func onlyReal(reason string) {
	if world.Nodes != cluster.Real {
		Skip(fmt.Sprintf("only on a real node: %s", reason))
	}
}

// warehousePassword creates the Secret with the password.
func warehousePassword(ctx context.Context, t *tenant) {
	GinkgoHelper()
	Expect(world.API.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: t.name, Name: "warehouse"},
		StringData: map[string]string{"password": world.Env["QUOIN_WAREHOUSE_PASSWORD"]},
	})).To(Succeed())
}

// onWarehouse connects a deployment to the warehouse.
func onWarehouse(s *v1alpha1.DeploymentSpec) {
	plain := func(name, value string) { s.Env = append(s.Env, v1alpha1.EnvVar{Name: name, Value: &value}) }
	plain("CUBEJS_DB_TYPE", "postgres")
	plain("CUBEJS_DB_HOST", world.Env["QUOIN_WAREHOUSE_HOST"])
	plain("CUBEJS_DB_PORT", world.Env["QUOIN_WAREHOUSE_PORT"])
	plain("CUBEJS_DB_NAME", world.Env["QUOIN_WAREHOUSE_DATABASE"])
	plain("CUBEJS_DB_USER", world.Env["QUOIN_WAREHOUSE_USER"])
	s.Env = append(s.Env, v1alpha1.EnvVar{Name: "CUBEJS_DB_PASS", ValueFrom: &v1alpha1.EnvVarSource{
		SecretKeyRef: v1alpha1.SecretKeyReference{Name: "warehouse", Key: "password"},
	}})
}

// askWarehouse queries the warehouse directly, and returns the rows in the format of the data API.
func askWarehouse(ctx context.Context, query string) string {
	GinkgoHelper()
	db := openWarehouse()
	defer db.Close()
	var answer []byte
	Expect(db.QueryRowContext(ctx, "SELECT json_agg(r) FROM ("+query+") r").Scan(&answer)).To(Succeed())
	var parsed []map[string]string
	Expect(json.Unmarshal(answer, &parsed)).To(Succeed())
	Expect(parsed).NotTo(BeEmpty(), "the warehouse is empty")
	canonical, err := json.Marshal(parsed)
	Expect(err).NotTo(HaveOccurred())
	return string(canonical)
}

// openWarehouse opens the database of the warehouse, which the caller closes.
func openWarehouse() *sql.DB {
	GinkgoHelper()
	e := world.Env
	db, err := sql.Open("pgx", (&url.URL{
		Scheme: "postgres", User: url.UserPassword(e["QUOIN_WAREHOUSE_USER"], e["QUOIN_WAREHOUSE_PASSWORD"]),
		Host: e["QUOIN_WAREHOUSE_HOST"] + ":" + e["QUOIN_WAREHOUSE_PORT"], Path: e["QUOIN_WAREHOUSE_DATABASE"],
	}).String())
	Expect(err).NotTo(HaveOccurred())
	return db
}

// dataURL returns the data API URL of an environment.
func (t *tenant) dataURL(ctx context.Context, environment string) string {
	GinkgoHelper()
	e := &v1alpha1.Environment{}
	Expect(world.API.Get(ctx, client.ObjectKey{Namespace: t.name, Name: environment}, e)).To(Succeed())
	Expect(e.Status.APICredentials).NotTo(BeNil())
	return e.Status.APICredentials.REST.URL
}

// path returns the REST path of a deployment.
func (t *tenant) path(ctx context.Context, deployment string) string {
	GinkgoHelper()
	d, err := t.deployment(deployment)(ctx)
	Expect(err).NotTo(HaveOccurred())
	return "/api/v1/deployments/" + d.Labels[v1alpha1.LabelID]
}

// issue creates a token for an environment over REST.
func (t *tenant) issue(ctx context.Context, f *servers.REST, kind, environment string) string {
	GinkgoHelper()
	e := &v1alpha1.Environment{}
	Expect(world.API.Get(ctx, client.ObjectKey{Namespace: t.name, Name: environment}, e)).To(Succeed())
	path := t.path(ctx, e.Spec.DeploymentRef.Name) + "/environments/" + e.Labels[v1alpha1.LabelID] + "/" + kind
	created := f.Ask(ctx, 0, http.MethodPost, path, map[string]any{"security_context": map[string]any{}})
	Expect(created.Status).To(Equal(http.StatusOK), created.String())
	data, _ := created.Body["data"].(map[string]any)
	token, _ := data["token"].(string)
	Expect(token).NotTo(BeEmpty())
	return token
}
