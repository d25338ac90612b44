package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/e2e/internal/cluster"
	"github.com/quoin-dev/quoin/test/e2e/internal/gitserver"
	"github.com/quoin-dev/quoin/test/e2e/internal/pages"
	"github.com/quoin-dev/quoin/test/e2e/internal/servers"
)

// dbtWorld is the account of the journey of dbt: the deployment of the sample config/samples/44-deployment-repository.yaml,
// with the dbt project of hack/dbt/example on a Git server.
type dbtWorld struct {
	modelWorld
	project *gitserver.Repository
}

// dbtDeployment is the name of the deployment.
const dbtDeployment = "finance"

// dbtAccess lets the controller run Jobs in the namespace.
const dbtAccess = `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: quoin-account-controller, namespace: %s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: quoin-account-controller}
subjects: [{kind: ServiceAccount, name: quoin-controller, namespace: quoin-system}]
`

// missingModel is the name of a model in the project's branch "broken" that does not exist.
const missingModel = "stg_orders_of_nobody"

// syncDbt adds the specs of journey h to a journey of the Helm chart: run the commands of docs/journeys/h-dbt-git.md with real dbt.
func (i *installation) syncDbt() {
	w := &dbtWorld{}
	var page *pages.Page

	BeforeAll(func(ctx SpecContext) {
		w.start(ctx, i)
		page = pages.Open(cluster.Repository("docs", "journeys", "h-dbt-git.md"), w.shell)
		Eventually(w.deployment(dbtDeployment)).WithContext(ctx).WithTimeout(rolled).Should(run(newerServer))
	}, NodeTimeout(3*rolled))

	It("has the tables of the project, which dbt has built and tested in a pod", func(ctx SpecContext) {
		outputs := page.Run("Build the tables")
		Expect(last(outputs)).To(ContainSubstring("ERROR=0"))
		Expect(askWarehouse(ctx, "SELECT count(*)::text AS orders FROM analytics.orders")).To(MatchJSON(`[{"orders":"200"}]`))
	}, SpecTimeout(2*rolled))

	It("gets cubes on a new branch, from the manifest that dbt has written in a pod", func(ctx SpecContext) {
		outputs := page.Run("Start a sync")
		Expect(outputs[len(outputs)-3]).To(ContainSubstring(`"status":"COMPLETED"`))
		Expect(outputs[len(outputs)-2]).To(And(ContainSubstring(`"phase":"repo-clone"`), ContainSubstring(`"phase":"dbt-deps"`), ContainSubstring(`"phase":"dbt-compile"`)))
		Expect(last(outputs)).To(And(ContainSubstring("model/cubes/dbt/customers.yml"), ContainSubstring("model/cubes/dbt/orders.yml"), Not(ContainSubstring("stg_"))))
		Eventually(w.heads).WithContext(ctx).Should(HaveLen(2), "the production branch, and that of the sync")
	}, SpecTimeout(2*rolled))

	It("serves rows of the warehouse through the generated cubes and joins, after the merge", func(ctx SpecContext) {
		outputs := page.Run("Merge and query")
		rows := askWarehouse(ctx, `SELECT c.country AS "dbt_customers.country", count(DISTINCT o.id)::text AS "dbt_orders.count", `+
			`(sum(p.amount_cents) / 100.0)::numeric(16, 2)::text AS "dbt_orders.total_amount" `+
			`FROM raw.orders o JOIN raw.customers c ON c.id = o.customer_id JOIN raw.payments p ON p.order_id = o.id GROUP BY 1 ORDER BY 1`)
		Expect("{" + last(outputs) + "}").To(MatchJSON(`{"data":` + rows + `}`))
		Eventually(w.heads).WithContext(ctx).Should(HaveLen(1))
	}, SpecTimeout(2*rolled))

	It("gets the selected models with a DbtSync", func(ctx SpecContext) {
		Expect(last(page.Run("With kubectl"))).To(MatchRegexp(`customers +finance +dbt-sync/customers +COMPLETED +True`))
		for replica := range w.rest.Replicas {
			files := w.rest.Ask(ctx, replica, "GET", "/build"+w.path(ctx, dbtDeployment)+"/data-model/files?branchName=dbt-sync/customers", nil)
			Expect(files.String()).To(And(HavePrefix("200 "), ContainSubstring("customers.yml")), "replica %d", replica)
		}
		Eventually(w.heads).WithContext(ctx).Should(HaveLen(2))
	}, SpecTimeout(2*rolled))

	It("has the types of the tables that dbt has built, if the deployment allows it", func(ctx SpecContext) {
		outputs := page.Run("Types from the data source")
		Expect(outputs[len(outputs)-2]).To(ContainSubstring("type: string"), "guessed from the name")
		Expect(last(outputs)).To(ContainSubstring("type: number"))
	}, SpecTimeout(2*rolled))

	w.endSyncs()
}

// endSyncs adds the specs of syncs that do not succeed.
func (w *dbtWorld) endSyncs() {
	It("fails with the message of dbt if the project is broken, and leaves all branches", func(ctx SpecContext) {
		before := w.heads(ctx)
		sync := w.sync(ctx, "broken")
		Eventually(w.status).WithContext(ctx).WithArguments(sync).WithTimeout(rolled).Should(And(
			HaveKeyWithValue("status", "FAILED"), HaveKeyWithValue("error", And(
				HavePrefix("dbt-compile: "), ContainSubstring("Compilation Error"),
				ContainSubstring("depends on a node named '"+missingModel+"' which was not found")))))
		Expect(w.heads(ctx)).To(Equal(before))
	}, SpecTimeout(2*rolled))

	It("stops the pod of a sync that is cancelled, which writes nothing", func(ctx SpecContext) {
		before := w.heads(ctx)
		sync := w.sync(ctx, "main")
		Eventually(w.running).WithContext(ctx).Should(HaveLen(1))
		Expect(w.rest.Ask(ctx, 1, "DELETE", w.syncs(ctx)+"/"+sync, nil)).To(servers.HaveStatus(200))
		Expect(w.status(ctx, sync)).To(And(HaveKeyWithValue("status", "FAILED"), HaveKeyWithValue("error", ContainSubstring("cancelled"))))
		Eventually(w.running).WithContext(ctx).Should(BeEmpty())
		Expect(w.heads(ctx)).To(Equal(before))
	}, SpecTimeout(rolled))
}

// syncs returns the path of the syncs.
func (w *dbtWorld) syncs(ctx context.Context) string { return w.path(ctx, dbtDeployment) + "/dbt-sync" }

// sync starts a sync of a branch of the dbt project to the branch dbt-sync/customers, and returns its id.
func (w *dbtWorld) sync(ctx context.Context, ref string) string {
	GinkgoHelper()
	started := w.rest.Ask(ctx, 0, "POST", w.syncs(ctx), map[string]any{"ref": ref, "branchName": "dbt-sync/customers"})
	Expect(started).To(servers.HaveStatus(200), started.Text)
	return fmt.Sprint(started.Body["syncJobId"])
}

// status reads the status of a sync from the other replica.
func (w *dbtWorld) status(ctx context.Context, sync string) map[string]any {
	return w.rest.Ask(ctx, 1, "GET", w.syncs(ctx)+"/"+sync, nil).Body
}

// running returns the names of the Jobs that have not ended.
func (w *dbtWorld) running(ctx context.Context) ([]string, error) {
	list := &batchv1.JobList{}
	err := w.all(ctx, list)
	var names []string
	for i := range list.Items {
		if job := &list.Items[i]; job.DeletionTimestamp.IsZero() && len(job.Status.Conditions) == 0 {
			names = append(names, job.Name)
		}
	}
	return names, err
}

// heads returns the branches of the data model with their commits.
func (w *dbtWorld) heads(ctx context.Context) []string {
	GinkgoHelper()
	branches := w.rest.Ask(ctx, 0, "GET", "/build"+w.path(ctx, dbtDeployment)+"/branches", nil)
	Expect(branches).To(servers.HaveStatus(200), branches.Text)
	list, _ := branches.Body["data"].([]any)
	var heads []string
	for _, item := range list {
		branch, _ := item.(map[string]any)
		heads = append(heads, fmt.Sprintf("%v %v", branch["name"], branch["lastHash"]))
	}
	slices.Sort(heads)
	return heads
}

// start creates the account, and starts a shell with the variables of .local/env.
func (w *dbtWorld) start(ctx context.Context, i *installation) {
	GinkgoHelper()
	w.tenant = i.newTenant(ctx, "demo", "v"+newerServer)
	apply(ctx, fmt.Sprintf(dbtAccess, w.name))
	warehousePassword(ctx, w.tenant)
	w.rest = servers.InstalledReplicas(ctx, world, w.name, w.host())
	gateways := servers.InstalledGateways(ctx, world)
	servers.ForwardInstalled(ctx, world)

	example := cluster.Repository("hack", "dbt", "example")
	money := gitserver.StartWith(world.Address(), filepath.Join(example, "money"))
	money.CommitFiles("refs/tags/1.0.0", filepath.Join(example, "money"))
	use := []string{"http://git.quoin.localhost:15080/dbt-money.git", money.URL}
	w.project = gitserver.StartWith(world.Address(), filepath.Join(example, "project"), use...)
	w.project.CommitFiles("refs/heads/broken", filepath.Join(example, "project"), append(use, "ref('stg_orders')", "ref('"+missingModel+"')")...)
	w.createDeployment(ctx)

	folder := GinkgoT().TempDir()
	Expect(os.Mkdir(filepath.Join(folder, ".local"), 0o700)).To(Succeed())
	variables := w.variables(gateways)
	for name, value := range map[string]string{"QUOIN_IMAGE": quoinImage(), "QUOIN_DBT_IMAGE": dbtImage(), "QUOIN_DBT_URL": w.project.URL} {
		variables += fmt.Sprintf("export %s='%s'\n", name, value)
	}
	for _, name := range []string{"KUBECONFIG", "KUBECACHEDIR", "QUOIN_BIN"} {
		variables += fmt.Sprintf("export %s='%s'\n", name, world.Env[name])
	}
	Expect(os.WriteFile(filepath.Join(folder, ".local", "env"), []byte(variables), 0o600)).To(Succeed())
	Expect(os.Symlink(cluster.Repository("hack"), filepath.Join(folder, "hack"))).To(Succeed())
	w.shell = pages.NewShell(folder, "LC_ALL=C", "no_proxy=*")
}

// createDeployment creates the deployment of the sample, with the addresses of this cluster.
func (w *dbtWorld) createDeployment(ctx context.Context) {
	GinkgoHelper()
	sample, err := os.ReadFile(cluster.Repository("config", "samples", "44-deployment-repository.yaml"))
	Expect(err).NotTo(HaveOccurred())
	apply(ctx, strings.NewReplacer(
		"http://git.quoin.localhost:15080/dbt.git", w.project.URL,
		"releaseChannel: latest", "releaseChannel: "+w.name,
		"value: warehouse\n", "value: "+world.Env["QUOIN_WAREHOUSE_HOST"]+"\n",
		`value: "5432"`, `value: "`+world.Env["QUOIN_WAREHOUSE_PORT"]+`"`,
	).Replace(string(sample)))
	Eventually(w.deployment(dbtDeployment)).WithContext(ctx).Should(HaveField("Labels", HaveKey(v1alpha1.LabelID)))
}
