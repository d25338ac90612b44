package e2e_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/e2e/internal/gitserver"
)

// Journey e: see docs/journeys/e-staging.md. On simulated nodes nothing fetches the model; the test checks the commit in the
// pod template. On a real node the journey of the Helm chart has these specs.
var _ = Describe("A deployment with its model in Git", Ordered, func() {
	t := &tenant{}

	BeforeAll(func(ctx SpecContext) {
		onlySimulated("the journey of the Helm chart does the same on a real node")
		*t = *newTenant(ctx, "branches", "v1.2.3")
	})

	t.followBranches()
})

// gitModel is an account with a deployment whose model is in Git. No other deployment of the account has a repository.
type gitModel struct {
	*tenant
	repo *gitserver.Repository
}

// followBranches adds the specs of journey e.
func (t *tenant) followBranches() {
	w := &gitModel{tenant: t}
	var initial string

	BeforeAll(func(ctx SpecContext) {
		w.repo = gitserver.Start(world.Address())
		initial = gitserver.Git(w.repo.Dir, "", "rev-parse", "main")
		t.install(ctx, "sales", modelIn(w.repo.Source()))
	})

	It("runs the head of the default branch", func(ctx SpecContext) {
		Expect(t.environment("sales")(ctx)).To(And(beReady(), HaveField("Status.ModelCommit", initial)))
		Expect(t.branches(ctx)).To(ConsistOf(And(
			HaveField("Spec.Name", "main"), HaveField("Spec.Role", v1alpha1.BranchProduction), HaveField("Status.LastHash", initial))))
	})

	It("has a Branch with the commit for every branch of the repository", func(ctx SpecContext) {
		next, alice := w.repo.Commit("next", "cubes: []"), w.repo.Commit("dev-alice", "cubes: []")
		Eventually(t.branches).WithContext(ctx).Should(ConsistOf(
			HaveField("Spec.Name", "main"),
			And(HaveField("Spec.Name", "next"), HaveField("Spec.Role", v1alpha1.BranchShared), HaveField("Status.LastHash", next)),
			And(HaveField("Spec.Name", "dev-alice"), HaveField("Spec.Role", v1alpha1.BranchPersonal), HaveField("Status.LastHash", alice)),
		))
	})

	It("rolls out a new commit of the production branch", func(ctx SpecContext) {
		moved := w.repo.Commit("main", "cubes: [{name: customers, sql_table: public.customers}]")
		Eventually(t.environment("sales")).WithContext(ctx).Should(And(
			beReady(), HaveField("Spec.ModelCommit", moved), HaveField("Status.ModelCommit", moved)))
		Expect(t.branch(ctx, "main")).To(HaveField("Status.LastHash", moved))
		Expect(t.pods(ctx, "sales")).To(ConsistOf(HaveField("Spec.InitContainers", ConsistOf(
			HaveField("Args", ContainElements("model-fetch", "--url="+w.repo.URL, "--commit="+moved))))))
	})

	w.stage()
	w.loseBranches()
}

// stage adds the specs of staging environments.
func (w *gitModel) stage() {
	It("has a staging environment for a shared branch while it is switched on", func(ctx SpecContext) {
		name := "qbr/" + w.branch(ctx, "next").Name
		w.patch(ctx, name, `{"stagingEnvironmentEnabled": true}`)
		kubectl(ctx, "wait", name, "-n", w.name, "--for=condition=Ready", "--timeout=60s")
		staging := w.staging(ctx, "next")
		Expect(staging).To(And(beReady(), HaveField("Spec.Type", v1alpha1.EnvironmentStaging),
			HaveField("Spec.ModelCommit", w.branch(ctx, "next").Status.LastHash), HaveField("Status.Active", true)))
		Expect(staging.Status.APICredentials.REST.URL).To(HaveSuffix("/dev-mode/next/cubejs-api"))

		moved := w.repo.Commit("next", "cubes: [{name: next, sql_table: public.next}]")
		Eventually(func() *v1alpha1.Environment { return w.staging(ctx, "next") }).WithContext(ctx).
			Should(And(beReady(), HaveField("Status.ModelCommit", moved)))

		w.patch(ctx, name, `{"stagingEnvironmentEnabled": false}`)
		kubectl(ctx, "wait", "qenv/"+staging.Name, "-n", w.name, "--for=delete", "--timeout=60s")
		Eventually(w.podNames).WithContext(ctx).WithArguments("sales").Should(HaveLen(1), "only the production pod")
	})

	for _, branch := range []string{"dev-alice", "main"} {
		It("rejects a staging environment for "+branch+" and changes nothing", func(ctx SpecContext) {
			before := w.branch(ctx, branch)
			_, err := world.Kubectl(ctx, "", "patch", "qbr/"+before.Name, "-n", w.name, "--type=merge", "-p", `{"spec":{"stagingEnvironmentEnabled":true}}`)
			Expect(err).To(MatchError(ContainSubstring("a personal or production branch cannot have a staging environment")))
			Expect(w.branch(ctx, branch)).To(Equal(before))
			environments := &v1alpha1.EnvironmentList{}
			Expect(w.all(ctx, environments, client.MatchingLabels{v1alpha1.LabelDeployment: "sales"})).To(Succeed())
			Expect(environments.Items).To(ConsistOf(HaveField("Spec.Type", v1alpha1.EnvironmentProduction)))
		})
	}
}

// loseBranches adds the specs of a branch that is deleted, and of a Git server that does not respond.
func (w *gitModel) loseBranches() {
	It("deletes the Branch and its staging environment when the branch is deleted in Git", func(ctx SpecContext) {
		next := w.branch(ctx, "next")
		w.patch(ctx, "qbr/"+next.Name, `{"stagingEnvironmentEnabled": true}`)
		kubectl(ctx, "wait", "qbr/"+next.Name, "-n", w.name, "--for=condition=Ready", "--timeout=60s")
		staging := w.staging(ctx, "next")
		w.repo.Remove("next")
		kubectl(ctx, "wait", "qbr/"+next.Name, "qenv/"+staging.Name, "-n", w.name, "--for=delete", "--timeout=60s")
		Eventually(w.podNames).WithContext(ctx).WithArguments("sales").Should(HaveLen(1), "only the production pod")
		Expect(w.branches(ctx)).To(ConsistOf(HaveField("Spec.Name", "main"), HaveField("Spec.Name", "dev-alice")))
	})

	It("keeps running while the Git server does not respond", func(ctx SpecContext) {
		before, err := w.workload("sales")(ctx)
		Expect(err).NotTo(HaveOccurred())
		w.repo.BreakDown()
		Eventually(w.deployment("sales")).WithContext(ctx).Should(WithTransform(readyReason, Equal(v1alpha1.ReasonGitFailed)))
		Expect(w.workload("sales")(ctx)).To(Equal(before))
		Expect(w.branches(ctx)).To(HaveLen(2))
		w.repo.Repair()
		Eventually(w.deployment("sales")).WithContext(ctx).Should(beReady())
	})
}

// branches returns the Branch objects of the tenant.
func (t *tenant) branches(ctx context.Context) ([]v1alpha1.Branch, error) {
	list := &v1alpha1.BranchList{}
	err := t.all(ctx, list)
	return list.Items, err
}

// branch returns the Branch object of a branch.
func (t *tenant) branch(ctx context.Context, name string) *v1alpha1.Branch {
	GinkgoHelper()
	list := &v1alpha1.BranchList{}
	Expect(t.all(ctx, list, client.MatchingFields{"spec.name": name})).To(Succeed())
	Expect(list.Items).To(HaveLen(1))
	return &list.Items[0]
}

// staging returns the staging environment of a branch, or nil.
func (t *tenant) staging(ctx context.Context, branch string) *v1alpha1.Environment {
	GinkgoHelper()
	e := &v1alpha1.Environment{}
	name := t.branch(ctx, branch).Status.Environment
	if name == "" {
		return nil
	}
	err := world.API.Get(ctx, client.ObjectKey{Namespace: t.name, Name: name}, e)
	if apierrors.IsNotFound(err) {
		return nil
	}
	Expect(err).NotTo(HaveOccurred())
	return e
}
