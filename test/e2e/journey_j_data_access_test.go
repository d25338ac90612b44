package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/directory/number"
	"github.com/quoin-dev/quoin/test/e2e/internal/servers"
)

// policyServer is a published version of the real server that has access policies.
const policyServer = "1.6.57"

const (
	customersByCountry = `{"measures": ["customers.count"], "dimensions": ["customers.country"], "order": {"customers.country": "asc"}}`
	customerNames      = `{"dimensions": ["customers.name"], "order": {"customers.name": "asc"}, "limit": 1}`
)

// people is an account whose data model has access policies, and whose people have keys.
type people struct {
	*tenant
	control *servers.REST
	api     *servers.Gateways
}

// seeTheirRows adds the specs of journeys j and k to the journey of the Helm chart: they apply the manifests of
// docs/journeys/j-data-access.md and k-reports.md. Access policies of the model decide by the groups and attributes that Quoin
// writes into tokens of people, and into those with which it runs reports for them.
func (i *installation) seeTheirRows() {
	w := &people{}

	BeforeAll(func(ctx SpecContext) {
		w.tenant = i.newTenant(ctx, "access", "v"+policyServer)
		warehousePassword(ctx, w.tenant)
		w.control, w.api = servers.InstalledREST(ctx, world, w.name, w.host()), servers.InstalledGateways(ctx, world)
		w.applyDocumented(ctx, "j-data-access.md", "k-reports.md")
		kubectl(ctx, "wait", "suser,sgrp,uattr,qkey", "--all", "-n", w.name, "--for=condition=Ready", "--timeout=60s")
		kubectl(ctx, "wait", "qdep/customers", "-n", w.name, "--for=condition=Ready", "--timeout=180s")
	}, NodeTimeout(3*rolled))

	It("returns the rows of the person's country, by the attribute", func(ctx SpecContext) {
		Expect(w.countries(ctx, "ada")).To(Equal([]string{"CH"}))
		Expect(w.countries(ctx, "ben")).To(Equal([]string{"DE"}))
	}, SpecTimeout(timeout))

	It("returns all rows, and names, to members of a group only", func(ctx SpecContext) {
		Expect(w.countries(ctx, "cleo")).To(Equal([]string{"CH", "DE", "FR"}))
		Expect(w.query(ctx, "cleo", customerNames).Text).To(ContainSubstring("Customer 1"))
		Expect(w.query(ctx, "ada", customerNames).Text).To(And(ContainSubstring("error"), Not(ContainSubstring("Customer 1"))))
	}, SpecTimeout(timeout))

	w.runReports()

	It("follows a change of the attribute with the next token", func(ctx SpecContext) {
		w.patch(ctx, "suser/ada", `{"attributes": [{"name": "country", "string": "FR"}]}`)
		Eventually(w.countries).WithContext(ctx).WithArguments("ada").Should(Equal([]string{"FR"}))
	}, SpecTimeout(timeout))

	It("creates no token for a deactivated person", func(ctx SpecContext) {
		w.patch(ctx, "suser/ben", `{"active": false}`)
		Eventually(w.token).WithContext(ctx).WithArguments("ben").Should(servers.HaveStatus(http.StatusUnauthorized))
	}, SpecTimeout(timeout))
}

// runReports adds the spec of reports.
func (w *people) runReports() {
	It("runs a report with the rows of each person, who must have access to it", func(ctx SpecContext) {
		reports := w.path(ctx, "customers") + "/reports"
		ask := func(as *servers.REST, method, path string, body any) servers.Reply {
			GinkgoHelper()
			return as.Ask(ctx, 0, method, path, body)
		}
		created := ask(w.control, http.MethodPost, reports, map[string]any{
			"name": "Customers", "sqlQuery": "SELECT country, MEASURE(count) AS customers FROM customers GROUP BY 1 ORDER BY 1",
		})
		Expect(created).To(servers.HaveStatus(http.StatusOK), created.String())
		id := created.Body["id"]
		share := func(group string) {
			GinkgoHelper()
			r := ask(w.control, http.MethodPut, "/api/v1/resource-policies/group", map[string]any{
				"resourceType": "Report", "resourceId": id, "groupId": number.Of("Group", group), "action": "ReportRead",
			})
			Expect(r).To(servers.HaveStatus(http.StatusOK), r.String())
		}
		run := func(person string) servers.Reply {
			GinkgoHelper()
			return ask(w.as(ctx, person+"-reports"), http.MethodPost, fmt.Sprintf("%s/%.0f/run", reports, id), nil)
		}
		rows := func(person string) any {
			GinkgoHelper()
			r := run(person)
			Expect(r).To(servers.HaveStatus(http.StatusOK), r.String())
			return r.Body["rows"]
		}
		share("sales-people")
		Expect(rows("ada")).To(Equal([]any{[]any{"CH", 16.0}}))
		Expect(rows("ben")).To(Equal([]any{[]any{"DE", 17.0}}))
		Expect(run("cleo")).To(servers.HaveStatus(http.StatusNotFound))
		share("managers")
		Expect(rows("cleo")).To(Equal([]any{[]any{"CH", 16.0}, []any{"DE", 17.0}, []any{"FR", 17.0}}))
	}, SpecTimeout(timeout))
}

// as returns a client with a key.
func (w *people) as(ctx context.Context, key string) *servers.REST {
	GinkgoHelper()
	return w.withKey(ctx, w.control, key)
}

// token creates a data API token as a person, who has a key.
func (w *people) token(ctx context.Context, person string) servers.Reply {
	GinkgoHelper()
	return w.as(ctx, person).Ask(ctx, 0, http.MethodPost, w.path(ctx, "customers")+"/token", nil)
}

// query queries the data API as a person.
func (w *people) query(ctx context.Context, person, text string) servers.Reply {
	GinkgoHelper()
	created := w.token(ctx, person)
	Expect(created).To(servers.HaveStatus(http.StatusOK), created.String())
	its, _ := created.Body["cubeApiToken"].(string)
	c := w.api.Client(0)
	defer c.CloseIdleConnections()
	return servers.Load(ctx, c, w.dataURL(ctx, v1alpha1.ProductionName("customers")), its, text)
}

// countries returns the countries whose customers a person sees.
func (w *people) countries(ctx context.Context, person string) []string {
	GinkgoHelper()
	r := w.query(ctx, person, customersByCountry)
	Expect(r).To(servers.HaveStatus(http.StatusOK), r.String())
	var rows []map[string]string
	Expect(json.Unmarshal([]byte(servers.Rows(r)), &rows)).To(Succeed())
	var names []string
	for _, row := range rows {
		names = append(names, row["customers.country"])
	}
	return names
}

// applyDocumented applies the manifests of pages of docs/journeys, for the account instead of that of the pages.
func (t *tenant) applyDocumented(ctx context.Context, pages ...string) {
	GinkgoHelper()
	var manifests []string
	for _, page := range pages {
		manifests = append(manifests, documented(page))
	}
	apply(ctx, strings.NewReplacer(
		"namespace: demo", "namespace: "+t.name, "allowedAccounts: [demo]", "allowedAccounts: ["+t.name+"]", "releaseChannel: latest", "releaseChannel: "+t.name,
		"value: warehouse\n", "value: "+world.Env["QUOIN_WAREHOUSE_HOST"]+"\n",
		`value: "5432"`, `value: "`+world.Env["QUOIN_WAREHOUSE_PORT"]+`"`,
	).Replace(strings.Join(manifests, "---\n")))
}

// withKey returns a client with an API key of the account.
func (t *tenant) withKey(ctx context.Context, of *servers.REST, key string) *servers.REST {
	GinkgoHelper()
	secret := &corev1.Secret{}
	Expect(world.API.Get(ctx, client.ObjectKey{Namespace: t.name, Name: key + "-token"}, secret)).To(Succeed())
	with := *of
	with.Token = string(secret.Data["token"])
	return &with
}
