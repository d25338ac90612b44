package e2e_test

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/quoin-dev/quoin/test/e2e/internal/cluster"
	"github.com/quoin-dev/quoin/test/e2e/internal/gitserver"
	"github.com/quoin-dev/quoin/test/e2e/internal/servers"
)

var _ = Describe("Logs over REST", func() {
	It("are those of the containers on a real node, and a clear answer on simulated nodes", func(ctx SpecContext) {
		t := newTenant(ctx, "logs", "v1.2.3")
		f := startREST(ctx, t)
		repo := gitserver.Start(world.Address())
		t.install(ctx, "sales", modelIn(repo.Source()))
		d, err := t.deployment("sales")(ctx)
		Expect(err).NotTo(HaveOccurred())
		path := "/api/v1/deployments/" + d.Status.ID
		pods := f.Ask(ctx, 0, "GET", path+"/pods", nil)
		Expect(pods).To(servers.HaveStatus(200))
		Expect(pods.Text).To(And(ContainSubstring(`"name":"sales-production-api-`), ContainSubstring(`"type":"api","status":"Running","ready":true`), ContainSubstring(`"containers":["model-fetch","cube"]`)))
		if world.Nodes == cluster.Simulated {
			Expect(f.Ask(ctx, 0, "GET", path+"/logs", nil).String()).To(And(HavePrefix("503 "), ContainSubstring("simulated nodes have none")))
			return
		}
		Expect(f.Ask(ctx, 0, "GET", path+"/logs?source=production", nil).String()).To(And(HavePrefix("200 "), ContainSubstring("Started version v1.2.3 on ports")))
		Expect(f.Ask(ctx, 0, "GET", path+"/logs?container=INIT", nil).String()).To(And(HavePrefix("200 "), ContainSubstring("commit")))
	}, SpecTimeout(5*time.Minute))
})
