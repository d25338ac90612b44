package e2e_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the warehouse is PostgreSQL
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// The real server, in two versions that are published.
const (
	olderServer = "0.34.62"
	newerServer = "0.35.81"
)

// Models of the table that is in the warehouse.
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
	// brokenModel is YAML, and no model: the server says so when it compiles it.
	brokenModel = ordersModel + "      - {name: impossible, sql: \"{nothing.like_this}\", type: sum}\n"
)

const ordersByStatus = `{"measures": ["orders.count"], "dimensions": ["orders.status"], "order": {"orders.status": "asc"}}`

// Journeys b, c, e and f as those see them who query data: containers of the real server, a
// warehouse, a Git server, and two gateways before it all.
var _ = Describe("Somebody queries data", Ordered, ContinueOnFailure, func() {
	var (
		t        *tenant
		api      *dataAPI
		control  *frontEnd
		repo     *gitRepository
		endpoint string // of production
		token    string // for production's data
		right    string // the warehouse's answer to ordersByStatus
	)

	BeforeAll(func(ctx SpecContext) {
		onlyReal("simulated pods answer nothing")
		t = newServerTenant(ctx, "data", "v"+olderServer)
		repo = newGitRepository()
		repo.commit("main", ordersModel)
		warehousePassword(ctx, t)
		t.create(ctx, "sales", replicas(2), progressDeadline(120), modelIn(repo.source()), onWarehouse)
		control, api = runFrontEnd(ctx, t), runGateways(ctx)
		kubectl(ctx, "wait", "qdep/sales", "-n", t.name, "--for=condition=Ready", "--timeout=180s")
		endpoint = t.dataURL(ctx, v1alpha1.ProductionName("sales"))
		token = control.issue(ctx, "tokens", v1alpha1.ProductionName("sales"))
		right = askWarehouse(ctx, `SELECT status AS "orders.status", count(*)::text AS "orders.count" FROM public.orders GROUP BY 1 ORDER BY 1`)
	})

	answerRight := func(ctx context.Context) {
		GinkgoHelper()
		c := api.client(0)
		defer c.CloseIdleConnections()
		r := load(ctx, c, endpoint, token, ordersByStatus)
		Expect(r).To(haveStatus(http.StatusOK))
		Expect(rows(r)).To(Equal(right))
	}
	// nobodyNotices ends the work of analysts, who have had right answers only.
	nobodyNotices := func(at *analysts) map[string]int {
		GinkgoHelper()
		answers, failures := at.end()
		AddReportEntry("right answers, by version", answers)
		Expect(failures).To(BeEmpty())
		return answers
	}

	It("gets the model's metadata, and rows from the warehouse", func(ctx SpecContext) {
		meta := api.ask(ctx, http.MethodGet, endpoint+"/v1/meta", token, "")
		Expect(meta).To(haveStatus(http.StatusOK))
		Expect(meta.text).To(And(ContainSubstring(`"orders.count"`), Not(ContainSubstring("total_amount"))))
		Expect(meta.version).To(Equal("v" + olderServer))
		answerRight(ctx)
	})

	It("is refused without a token, and on hosts and branches that there are not, in JSON that says why", func(ctx SpecContext) {
		host, _ := url.Parse(endpoint)
		for _, c := range []struct {
			url, token, says string
			status           int
		}{
			{endpoint + "/v1/meta", "", "Authorization", 401},
			{endpoint + "/v1/meta", token + "x", "token", 401},
			{strings.Replace(endpoint, "//sales.", "//nobody.", 1) + "/v1/meta", token, "host", 404},
			{host.Scheme + "://" + host.Host + "/dev-mode/nothing/cubejs-api/v1/meta", token, "branch", 404},
		} {
			r := api.ask(ctx, http.MethodGet, c.url, c.token, "")
			Expect(r).To(haveStatus(c.status), c.url)
			Expect(r.body).To(HaveKeyWithValue("error", ContainSubstring(c.says)), c.url)
		}
	})

	It("reads metadata with a metadata token, and no data: not at the gateway, and nothing at all at a pod", func(ctx SpecContext) {
		metadata := control.issue(ctx, "tokens-for-meta-sync", v1alpha1.ProductionName("sales"))
		Expect(api.ask(ctx, http.MethodGet, endpoint+"/v1/meta", metadata, "")).To(haveStatus(http.StatusOK))
		Expect(api.ask(ctx, http.MethodGet, endpoint+"/v1/entities", metadata, "").text).To(ContainSubstring(`"orders"`))
		refused := api.ask(ctx, http.MethodPost, endpoint+"/v1/load", metadata, `{"query":`+ordersByStatus+`}`)
		Expect(refused).To(haveStatus(http.StatusForbidden))
		Expect(refused.body).To(HaveKeyWithValue("error", HavePrefix("API scope is missing: data")))
		pod := t.address(ctx, "sales") + "/cubejs-api/v1/meta"
		Expect(send(ctx, http.DefaultClient, http.MethodGet, pod, metadata, "")).To(haveStatus(http.StatusForbidden))
		Expect(send(ctx, http.DefaultClient, http.MethodGet, pod, token, "")).To(haveStatus(http.StatusOK), "the pod knows data tokens")
	})

	It("does not notice that a new commit of the model rolls in, but for what is new in it", func(ctx SpecContext) {
		work := api.query(ctx, endpoint, token, ordersByStatus, right)
		commit := repo.commit("main", ordersWithAmount)
		Eventually(t.environment("sales")).WithContext(ctx).WithTimeout(rolled).Should(And(beReady(), HaveField("Status.ModelCommit", commit)))
		nobodyNotices(work)
		Expect(api.ask(ctx, http.MethodGet, endpoint+"/v1/meta", token, "").text).To(ContainSubstring(`"orders.total_amount"`))
	}, SpecTimeout(5*patience))

	It("does not notice a commit that does not compile; whoever made it does", func(ctx SpecContext) {
		work := api.query(ctx, endpoint, token, ordersByStatus, right)
		broken := repo.commit("main", brokenModel)
		Eventually(t.deployment("sales")).WithContext(ctx).WithTimeout(rolled).Should(And(
			beStalled(v1alpha1.ReasonModelBroken), HaveField("Status.FailedModel.Commit", broken)))
		status := control.ask(ctx, 0, http.MethodGet, control.path(ctx)+"/build-status", nil)
		Expect(status.body).To(And(HaveKeyWithValue("status", "failed"), HaveKeyWithValue("errorText", ContainSubstring("nothing"))))
		nobodyNotices(work)
		repo.commit("main", ordersWithAmount)
		Eventually(t.deployment("sales")).WithContext(ctx).WithTimeout(rolled).Should(beReady())
		answerRight(ctx)
	}, SpecTimeout(6*patience))

	// rolls waits until production runs a version, and its pods of before are gone: they answer for
	// some seconds after they have been told to end.
	rolls := func(ctx context.Context, version string) {
		GinkgoHelper()
		Eventually(t.deployment("sales")).WithContext(ctx).WithTimeout(rolled).Should(run(version))
		Eventually(t.podNames).WithContext(ctx).WithArguments("sales").Should(HaveLen(2))
	}

	It("does not notice a new version of the server in the registry", func(ctx SpecContext) {
		work := api.query(ctx, endpoint, token, ordersByStatus, right)
		t.push(ctx, "v"+newerServer)
		rolls(ctx, newerServer)
		Expect(nobodyNotices(work)).To(And(HaveKey("v"+newerServer), HaveKey("v"+olderServer)))
	}, SpecTimeout(6*patience))

	It("does not notice another version of the server being chosen over REST", func(ctx SpecContext) {
		work := api.query(ctx, endpoint, token, ordersByStatus, right)
		Expect(control.ask(ctx, 0, http.MethodPut, control.path(ctx), map[string]any{"releaseChannelVersion": "v" + olderServer})).To(haveStatus(http.StatusOK))
		rolls(ctx, olderServer)
		Expect(nobodyNotices(work)).To(And(HaveKey("v"+newerServer), HaveKey("v"+olderServer)))
	}, SpecTimeout(6*patience))

	It("queries a branch while its staging environment is on, and is told when it is off", func(ctx SpecContext) {
		repo.commit("next", ordersModel+"      - {name: largest, sql: amount, type: max}\n")
		Eventually(t.branches).WithContext(ctx).Should(HaveLen(2))
		branch := t.branch(ctx, "next")
		t.patch(ctx, "qbr/"+branch.Name, `{"stagingEnvironmentEnabled": true}`)
		Eventually(func() *v1alpha1.Environment { return t.staging(ctx, "next") }).WithContext(ctx).WithTimeout(rolled).Should(And(Not(BeNil()), beReady()))
		staging := t.staging(ctx, "next")
		listed := control.ask(ctx, 0, http.MethodGet, control.path(ctx)+"/environments", nil)
		Expect(listed.text).To(ContainSubstring(`"type":"staging"`))
		of := t.dataURL(ctx, staging.Name)
		Expect(of).To(HaveSuffix("/dev-mode/next/cubejs-api"))
		its := control.issue(ctx, "tokens", staging.Name)
		Expect(api.ask(ctx, http.MethodGet, of+"/v1/meta", its, "").text).To(ContainSubstring(`"orders.largest"`))
		Expect(api.ask(ctx, http.MethodGet, of+"/v1/meta", token, "")).To(haveStatus(http.StatusUnauthorized), "production's token")
		Expect(api.ask(ctx, http.MethodGet, endpoint+"/v1/meta", its, "")).To(haveStatus(http.StatusUnauthorized), "at production")

		t.patch(ctx, "qbr/"+branch.Name, `{"stagingEnvironmentEnabled": false}`)
		kubectl(ctx, "wait", "qenv/"+staging.Name, "-n", t.name, "--for=delete", "--timeout=60s")
		Eventually(func() reply { return api.ask(ctx, http.MethodGet, of+"/v1/meta", its, "") }).WithContext(ctx).Should(haveStatus(http.StatusNotFound))
	}, SpecTimeout(5*patience))

	It("wakes a branch's environment by querying it", func(ctx SpecContext) {
		t.patch(ctx, "qdep/sales", `{"onDemand": {"roles": ["shared"], "idleSeconds": 600}}`)
		Eventually(func() *v1alpha1.Environment { return t.staging(ctx, "next") }).WithContext(ctx).Should(And(
			Not(BeNil()), WithTransform(readyReason, Equal(v1alpha1.ReasonAsleep)), HaveField("Status.Active", false)))
		staging := t.staging(ctx, "next")
		Eventually(func() reply {
			return api.ask(ctx, http.MethodGet, t.dataURL(ctx, staging.Name)+"/v1/meta", control.issue(ctx, "tokens", staging.Name), "")
		}).WithContext(ctx).WithTimeout(rolled).Should(And(haveStatus(http.StatusOK), WithTransform(reply.String, ContainSubstring(`"orders.largest"`))))
		// The status follows the pods that answer already.
		Eventually(func() *v1alpha1.Environment { return t.staging(ctx, "next") }).WithContext(ctx).Should(HaveField("Status.Active", true))
	}, SpecTimeout(5*patience))

	// After those about branches: staging environments run the newest version of the channel.
	It("does not notice a version that does not start", func(ctx SpecContext) {
		work := api.query(ctx, endpoint, token, ordersByStatus, right)
		t.push(ctx, "v0.35.99-broken")
		Eventually(t.channel).WithContext(ctx).Should(haveLatest("0.35.99-broken"))
		t.patch(ctx, "qdep/sales", `{"rollout": {"progressDeadlineSeconds": 30}, "releaseChannelVersion": "0.35.99-broken"}`)
		Eventually(t.deployment("sales")).WithContext(ctx).WithTimeout(rolled).Should(And(
			beStalled(v1alpha1.ReasonRolloutFailed), HaveField("Status.CurrentVersion", olderServer)))
		nobodyNotices(work)
		t.patch(ctx, "qdep/sales", `{"rollout": {"progressDeadlineSeconds": 120}, "releaseChannelVersion": "`+olderServer+`"}`)
		Eventually(t.deployment("sales")).WithContext(ctx).WithTimeout(rolled).Should(run(olderServer))
	}, SpecTimeout(6*patience))

	It("gets right answers while a pod, the controller and a gateway are killed", func(ctx SpecContext) {
		work := api.query(ctx, endpoint, token, ordersByStatus, right)
		more := func(n int) {
			GinkgoHelper()
			before := work.soFar()
			Eventually(work.soFar).WithContext(ctx).Should(BeNumerically(">=", before+n))
		}
		more(20)
		// As a node does that dies: no grace, no farewell.
		kubectl(ctx, "delete", "pod", t.pods(ctx, "sales")[0].Name, "-n", t.name, "--grace-period=0", "--force")
		more(20)
		quoin.kill()
		more(20)
		work.mayBreak.Store(true)
		api.replicas[0].kill()
		more(20)
		runUsualController(ctx)
		Eventually(t.deployment("sales")).WithContext(ctx).WithTimeout(rolled).Should(beReady())
		nobodyNotices(work)
	}, SpecTimeout(6*patience))
})

// rolled is how long pods of the real server may take to be replaced, one after another, each
// of which compiles the model first.
const rolled = 2 * patience

// onlyReal leaves a journey out where nothing runs in the pods.
func onlyReal(why string) {
	if world.nodes != real {
		Skip(fmt.Sprintf("only on a real node: %s", why))
	}
}

// warehousePassword is in a Secret, as users' are.
func warehousePassword(ctx context.Context, t *tenant) {
	GinkgoHelper()
	Expect(world.api.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: t.name, Name: "warehouse"},
		StringData: map[string]string{"password": world.env["QUOIN_WAREHOUSE_PASSWORD"]},
	})).To(Succeed())
}

// onWarehouse connects a deployment to the warehouse.
func onWarehouse(s *v1alpha1.DeploymentSpec) {
	plain := func(name, value string) { s.Env = append(s.Env, v1alpha1.EnvVar{Name: name, Value: &value}) }
	plain("CUBEJS_DB_TYPE", "postgres")
	plain("CUBEJS_DB_HOST", world.env["QUOIN_WAREHOUSE_HOST"])
	plain("CUBEJS_DB_PORT", world.env["QUOIN_WAREHOUSE_PORT"])
	plain("CUBEJS_DB_NAME", world.env["QUOIN_WAREHOUSE_DATABASE"])
	plain("CUBEJS_DB_USER", world.env["QUOIN_WAREHOUSE_USER"])
	s.Env = append(s.Env, v1alpha1.EnvVar{Name: "CUBEJS_DB_PASS", ValueFrom: &v1alpha1.EnvVarSource{
		SecretKeyRef: v1alpha1.SecretKeyReference{Name: "warehouse", Key: "password"},
	}})
}

// askWarehouse is what the warehouse itself answers, in the form of the data API's rows.
func askWarehouse(ctx context.Context, query string) string {
	GinkgoHelper()
	e := world.env
	db, err := sql.Open("pgx", (&url.URL{
		Scheme: "postgres", User: url.UserPassword(e["QUOIN_WAREHOUSE_USER"], e["QUOIN_WAREHOUSE_PASSWORD"]),
		Host: e["QUOIN_WAREHOUSE_HOST"] + ":" + e["QUOIN_WAREHOUSE_PORT"], Path: e["QUOIN_WAREHOUSE_DATABASE"],
	}).String())
	Expect(err).NotTo(HaveOccurred())
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

// dataURL is where an environment's data API is.
func (t *tenant) dataURL(ctx context.Context, environment string) string {
	GinkgoHelper()
	e := &v1alpha1.Environment{}
	Expect(world.api.Get(ctx, client.ObjectKey{Namespace: t.name, Name: environment}, e)).To(Succeed())
	Expect(e.Status.APICredentials).NotTo(BeNil())
	return e.Status.APICredentials.REST.URL
}

// path is that of the tenant's deployment "sales".
func (f *frontEnd) path(ctx context.Context) string {
	GinkgoHelper()
	d, err := f.tenant.deployment("sales")(ctx)
	Expect(err).NotTo(HaveOccurred())
	return "/api/v1/deployments/" + d.Labels[v1alpha1.LabelID]
}

// issue is a token for an environment of "sales", made over REST.
func (f *frontEnd) issue(ctx context.Context, kind, environment string) string {
	GinkgoHelper()
	e := &v1alpha1.Environment{}
	Expect(world.api.Get(ctx, client.ObjectKey{Namespace: f.tenant.name, Name: environment}, e)).To(Succeed())
	made := f.ask(ctx, 0, http.MethodPost, f.path(ctx)+"/environments/"+e.Labels[v1alpha1.LabelID]+"/"+kind, map[string]any{"security_context": map[string]any{}})
	Expect(made.status).To(Equal(http.StatusOK), made.String())
	data, _ := made.body["data"].(map[string]any)
	token, _ := data["token"].(string)
	Expect(token).NotTo(BeEmpty())
	return token
}
