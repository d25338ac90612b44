package e2e_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/e2e/internal/cluster"
	"github.com/quoin-dev/quoin/test/e2e/internal/pages"
)

// changeInDevMode adds the specs of journey i, which continue in the shell of journey h.
func (w *modelWorld) changeInDevMode() {
	var changing *pages.Page

	It("has a personal branch in dev mode, and a shared branch with a staging environment", func(ctx SpecContext) {
		changing = pages.Open(cluster.Repository("docs", "journeys", "i-dev-mode.md"), w.shell)
		Expect(last(changing.Run("Enter dev mode"))).To(And(ContainSubstring(`"active":true`), ContainSubstring(`"parentBranch":"next"`)))
	}, SpecTimeout(rolled))

	It("is validated by the server of the branch, which names the file of an error", func(ctx SpecContext) {
		outputs := changing.Run("Change a file")
		Expect(outputs[4]).To(And(ContainSubstring(`"valid":false`), ContainSubstring(`"fileName":"model/cubes/customers.js"`)))
		Expect(last(outputs)).To(And(ContainSubstring(`"valid":true`), ContainSubstring(`"cubesCount":2`)))
	}, SpecTimeout(3*rolled))

	It("shows pods and logs of all environments meanwhile, without secrets", func(ctx SpecContext) {
		outputs := changing.Run("Look at logs and pods")
		Expect(outputs[0]).To(And(ContainSubstring(`"name":"shop-production-api-`), ContainSubstring(`"name":"shop-dev-`), ContainSubstring(`"type":"api","status":"Running","ready":true`)))
		Expect(outputs[1]).To(And(ContainSubstring(`"pod":"shop-production-api-`), Not(ContainSubstring(world.Env["QUOIN_WAREHOUSE_PASSWORD"]))))
	}, SpecTimeout(rolled))

	It("is committed to the shared branch, whose staging environment follows, and merged to production", func(ctx SpecContext) {
		outputs := changing.Run("Commit and merge")
		statuses := askWarehouse(ctx, `SELECT count(DISTINCT status)::text AS "customers.count" FROM public.orders`)
		Expect("{" + outputs[len(outputs)-2] + "}").To(MatchJSON(`{"data":` + statuses + `}`))
		Eventually(w.branches).WithContext(ctx).Should(ConsistOf(
			HaveField("Spec.Name", "main"), And(HaveField("Spec.Role", v1alpha1.BranchPersonal), HaveField("Spec.ParentBranch", "main"))))
	}, SpecTimeout(3*rolled))
}
