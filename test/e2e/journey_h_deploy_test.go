package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/quoin-dev/quoin/test/e2e/internal/cluster"
	"github.com/quoin-dev/quoin/test/e2e/internal/pages"
	"github.com/quoin-dev/quoin/test/e2e/internal/servers"
	"github.com/quoin-dev/quoin/test/internal/cubejs"
)

// modelWorld is the account of the journeys of data models over REST: its deployment has the real server and a repository
// that Quoin keeps, and is created by docs/journeys/h-deploy.md.
type modelWorld struct {
	*tenant
	rest  *servers.REST
	shell *pages.Shell
}

// object is the name of the deployment of the pages.
const object = "shop"

// deployModels adds the specs of journeys h and i to the journey of the Helm chart: they run the commands of
// docs/journeys/h-deploy.md and i-dev-mode.md.
func (i *installation) deployModels() {
	w := &modelWorld{}
	var deploying *pages.Page

	BeforeAll(func(ctx SpecContext) {
		w.start(ctx, i)
		deploying = pages.Open(cluster.Repository("docs", "journeys", "h-deploy.md"), w.shell)
	}, NodeTimeout(rolled))

	It("serves the starter project of a deployment that is created over REST", func(ctx SpecContext) {
		deploying.Run("Create a deployment")
		Eventually(w.deployment(object)).WithContext(ctx).Should(run(newerServer))
	}, SpecTimeout(2*rolled))

	It("is deployed with npm cubejs-cli, and serves rows of the warehouse", func(ctx SpecContext) {
		deploying.Run("Deploy with npm cubejs-cli")
		Expect(w.uploads(ctx)).To(Equal(2), "uploaded files: the cube and cube.js")
		outputs := deploying.Run("Query it")
		Expect("{" + outputs[len(outputs)-3] + "}").To(MatchJSON(`{"data":` + w.warehouse(ctx, "orders.status", "count(*)", "orders.count") + `}`))
		Expect(last(outputs)).To(And(ContainSubstring("shipped"), Not(ContainSubstring("completed"))), "the rule in cube.js")
	}, SpecTimeout(2*rolled))

	It("is deployed again with only the files that have changed", func(ctx SpecContext) {
		before := w.uploads(ctx)
		w.returns(ctx, deploying.Run("Deploy a change"), "sum(amount)", "orders.total_amount")
		Expect(w.uploads(ctx)-before).To(Equal(1), "uploaded files: the cube")
	}, SpecTimeout(2*rolled))

	It("is deployed over the newer protocol, and GET returns its files", func(ctx SpecContext) {
		outputs := deploying.Run("Deploy with the newer protocol")
		Expect(outputs[2]).To(And(ContainSubstring(`"cube.js"`), ContainSubstring(`"model/cubes/orders.yml"`), Not(ContainSubstring("README.md"))))
		w.returns(ctx, outputs, "max(amount)", "orders.largest")
		files := w.rest.Ask(ctx, 0, "GET", w.build(ctx)+"/data-model/files?withContent=true", nil)
		Expect(files.String()).To(And(HavePrefix("200 "), ContainSubstring("largest")))
	}, SpecTimeout(2*rolled))

	It("is deployed with git push; a push that is no fast forward is rejected, and the branch stays", func(ctx SpecContext) {
		outputs := deploying.Run("Push with git")
		w.returns(ctx, outputs[:len(outputs)-2], "min(amount)", "orders.smallest")
		Expect(last(outputs)).To(ContainSubstring("rejected"))
		pushed, _ := w.shell.Run("git rev-parse HEAD@{1}")
		Expect(w.branch(ctx, "main").Status.LastHash).To(Equal(pushed))
		Expect(w.environment(object)(ctx)).To(HaveField("Status.ModelCommit", pushed))
	}, SpecTimeout(2*rolled))

	w.changeInDevMode()
}

// uploads returns the number of files that cubejs-cli has uploaded, from the access logs.
func (w *modelWorld) uploads(ctx context.Context) int {
	GinkgoHelper()
	id := strings.TrimPrefix(w.path(ctx, object), "/api/v1/deployments/")
	log := kubectl(ctx, "logs", "--namespace="+cluster.Namespace, "--selector=app.kubernetes.io/component=apiserver", "--tail=-1")
	return strings.Count(log, `"path":"/build/deploy/`+id+`/upload-file","status":200,`)
}

// build returns the path of the routes of the data model.
func (w *modelWorld) build(ctx context.Context) string { return "/build" + w.path(ctx, object) }

// warehouse returns the rows of a measure in the warehouse, by status if that is the name of a member.
func (w *modelWorld) warehouse(ctx context.Context, status, measure, name string) string {
	GinkgoHelper()
	columns, group := measure+`::text AS "`+name+`"`, ""
	if status != "" {
		columns, group = `status AS "`+status+`", `+columns, " GROUP BY 1 ORDER BY 1"
	}
	return askWarehouse(ctx, "SELECT "+columns+" FROM public.orders"+group)
}

// returns checks the last output of a section: the result of a query for a measure.
func (w *modelWorld) returns(ctx context.Context, outputs []string, measure, name string) {
	GinkgoHelper()
	Expect("{" + last(outputs) + "}").To(MatchJSON(`{"data":` + w.warehouse(ctx, "", measure, name) + `}`))
}

// start creates the account, and a shell with the variables of .local/env.
func (w *modelWorld) start(ctx context.Context, i *installation) {
	GinkgoHelper()
	// Deployments that are created over REST follow the first channel by name, which is that of this account.
	w.tenant = i.newTenant(ctx, "builds", "v"+newerServer)
	w.rest = servers.InstalledREST(ctx, world, w.name, w.host())
	gateways := servers.InstalledGateways(ctx, world)
	servers.ForwardInstalled(ctx, world)
	authority, err := os.ReadFile(w.rest.CAFile)
	Expect(err).NotTo(HaveOccurred())
	client := cubejs.New(GinkgoTB(), w.host(), world.RESTAddress(), authority)
	above := filepath.Dir(client.Folder)
	client.Write(GinkgoTB(), "../bin/npx", "#!/bin/sh\n# npx cubejs-cli, which is installed in another folder.\nshift\nexec "+client.Program+" \"$@\"\n")
	Expect(os.Chmod(filepath.Join(above, "bin", "npx"), 0o700)).To(Succeed())
	client.Write(GinkgoTB(), "../.local/env", w.variables(gateways))
	w.shell = pages.NewShell(above, append(client.Env, "PATH="+filepath.Join(above, "bin")+":"+os.Getenv("PATH"),
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C", "no_proxy=*")...)
}

// variables returns .local/env: the variables of the account, and those of the cluster that pages use.
func (w *modelWorld) variables(gateways *servers.Gateways) string {
	all := map[string]string{
		"QUOIN_URL": "https://" + w.host(), "QUOIN_CA_FILE": w.rest.CAFile, "QUOIN_API_KEY": w.rest.Token, "QUOIN_DATA_CA_FILE": gateways.CAFile,
	}
	for name, value := range world.Env {
		if strings.HasPrefix(name, "QUOIN_WAREHOUSE_") {
			all[name] = value
		}
	}
	var text strings.Builder
	for name, value := range all {
		fmt.Fprintf(&text, "export %s='%s'\n", name, value)
	}
	return text.String()
}

// last returns the last output of a section.
func last(outputs []string) string { return outputs[len(outputs)-1] }
