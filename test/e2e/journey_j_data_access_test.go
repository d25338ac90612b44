package e2e_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/e2e/internal/servers"
)

// policyServer is a published version of the real server that has access policies.
const policyServer = "1.6.57"

const (
	customersByCountry = `{"measures": ["customers.count"], "dimensions": ["customers.country"], "order": {"customers.country": "asc"}}`
	customerNames      = `{"dimensions": ["customers.name"], "order": {"customers.name": "asc"}, "limit": 1}`
)

// Journey j: applies the manifests of docs/journeys/j-data-access.md. Access policies of the model decide by the groups and
// attributes that Quoin writes into tokens of people.
var _ = Describe("People with access policies", Ordered, func() {
	var (
		t       *tenant
		control *servers.REST
		api     *servers.Gateways
	)

	BeforeAll(func(ctx SpecContext) {
		onlyReal("simulated pods do not query data")
		t = newServerTenant(ctx, "access", "v"+policyServer)
		warehousePassword(ctx, t)
		control, api = startREST(ctx, t), servers.StartGateways(ctx, world)
		manifests := strings.NewReplacer(
			"namespace: demo", "namespace: "+t.name, "releaseChannel: latest", "releaseChannel: "+t.name,
			"value: warehouse\n", "value: "+world.Env["QUOIN_WAREHOUSE_HOST"]+"\n",
			`value: "5432"`, `value: "`+world.Env["QUOIN_WAREHOUSE_PORT"]+`"`,
		).Replace(documented("j-data-access.md"))
		apply(ctx, manifests)
		kubectl(ctx, "wait", "suser,sgrp,uattr,qkey", "--all", "-n", t.name, "--for=condition=Ready", "--timeout=60s")
		kubectl(ctx, "wait", "qdep/customers", "-n", t.name, "--for=condition=Ready", "--timeout=180s")
	}, NodeTimeout(3*rolled))

	// token creates a data API token as a person, who has a key.
	token := func(ctx context.Context, person string) servers.Reply {
		GinkgoHelper()
		secret := &corev1.Secret{}
		Expect(world.API.Get(ctx, client.ObjectKey{Namespace: t.name, Name: person + "-token"}, secret)).To(Succeed())
		as := *control
		as.Token = string(secret.Data["token"])
		return as.Ask(ctx, 0, http.MethodPost, t.path(ctx, "customers")+"/token", nil)
	}
	query := func(ctx context.Context, person, text string) servers.Reply {
		GinkgoHelper()
		created := token(ctx, person)
		Expect(created).To(servers.HaveStatus(http.StatusOK), created.String())
		its, _ := created.Body["cubeApiToken"].(string)
		c := api.Client(0)
		defer c.CloseIdleConnections()
		return servers.Load(ctx, c, t.dataURL(ctx, v1alpha1.ProductionName("customers")), its, text)
	}
	// countries returns the countries whose customers a person sees.
	countries := func(ctx context.Context, person string) []string {
		GinkgoHelper()
		r := query(ctx, person, customersByCountry)
		Expect(r).To(servers.HaveStatus(http.StatusOK), r.String())
		var rows []map[string]string
		Expect(json.Unmarshal([]byte(servers.Rows(r)), &rows)).To(Succeed())
		var names []string
		for _, row := range rows {
			names = append(names, row["customers.country"])
		}
		return names
	}

	It("returns the rows of the person's country, by the attribute", func(ctx SpecContext) {
		Expect(countries(ctx, "ada")).To(Equal([]string{"CH"}))
		Expect(countries(ctx, "ben")).To(Equal([]string{"DE"}))
	}, SpecTimeout(timeout))

	It("returns all rows, and names, to members of a group only", func(ctx SpecContext) {
		Expect(countries(ctx, "cleo")).To(Equal([]string{"CH", "DE", "FR"}))
		Expect(query(ctx, "cleo", customerNames).Text).To(ContainSubstring("Customer 1"))
		Expect(query(ctx, "ada", customerNames).Text).To(And(ContainSubstring("error"), Not(ContainSubstring("Customer 1"))))
	}, SpecTimeout(timeout))

	It("follows a change of the attribute with the next token", func(ctx SpecContext) {
		t.patch(ctx, "suser/ada", `{"attributes": [{"name": "country", "string": "FR"}]}`)
		Eventually(countries).WithContext(ctx).WithArguments("ada").Should(Equal([]string{"FR"}))
	}, SpecTimeout(timeout))

	It("creates no token for a deactivated person", func(ctx SpecContext) {
		t.patch(ctx, "suser/ben", `{"active": false}`)
		Eventually(token).WithContext(ctx).WithArguments("ben").Should(servers.HaveStatus(http.StatusUnauthorized))
	}, SpecTimeout(timeout))
})
