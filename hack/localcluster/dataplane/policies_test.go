package dataplane

import (
	"net/http"
	"strings"
	"testing"
)

// policies is a model with data access policies in YAML and JavaScript. The
// claim cubeCloud is that of Quoin's tokens of people; the configuration of
// quoin model-fetch takes the groups from it.
var policies = map[string]string{
	"model/customers.yml": `cubes:
  - name: customers
    sql_table: raw.customers
    dimensions:
      - {name: id, sql: id, type: number, primary_key: true}
      - {name: country, sql: country, type: string}
      - {name: name, sql: name, type: string}
    measures:
      - {name: count, type: count}
    access_policy:
      - group: Analysts
        member_level:
          excludes: [name]
        row_level:
          filters:
            - member: country
              operator: equals
              values: ["{ userAttributes.country }"]
      - groups: [Managers, Auditors]
        conditions:
          - if: "{ securityContext.cubeCloud.userAttributes.trusted }"
        row_level:
          allow_all: true
`,
	"model/payments.js": "cube(`payments`, {\n" +
		"  sql_table: `raw.payments`,\n" +
		"  dimensions: {\n" +
		"    id: { sql: `id`, type: `number`, primary_key: true },\n" +
		"    method: { sql: `method`, type: `string` },\n" +
		"  },\n" +
		"  measures: { count: { type: `count` } },\n" +
		"  access_policy: [{\n" +
		"    group: `Analysts`,\n" +
		"    row_level: { filters: [{ member: `method`, operator: `equals`, values: userAttributes.methods }] },\n" +
		"  }],\n" +
		"});\n",
}

// person returns a token as Quoin makes it for a person.
func person(t *testing.T, attributes map[string]any, groups ...string) string {
	t.Helper()
	return token(t, map[string]any{"cubeCloud": map[string]any{"groups": groups, "userAttributes": attributes}})
}

// testAccessPolicies: people with other groups and attributes see other members
// and rows.
func testAccessPolicies(t *testing.T, s server) {
	swiss := person(t, map[string]any{"country": "CH", "methods": []string{"cash", "card"}}, "Analysts")
	german := person(t, map[string]any{"country": "DE", "methods": []string{}}, "Analysts", "Everyone")
	manager := person(t, map[string]any{"trusted": true}, "Managers")
	untrusted := person(t, map[string]any{"trusted": false}, "Managers")
	stranger := person(t, map[string]any{"country": "CH"}, "Everyone")
	key := token(t, map[string]any{})

	const (
		countries = `{"measures": ["customers.count"], "dimensions": ["customers.country"], "order": {"customers.country": "asc"}}`
		names     = `{"dimensions": ["customers.name"], "limit": 1}`
		methods   = `{"measures": ["payments.count"], "dimensions": ["payments.method"], "order": {"payments.method": "asc"}}`
	)
	for name, want := range map[string]struct {
		token                      string
		countries, methods, public string // what the person sees
		mayName                    bool
	}{
		"analyst":           {token: swiss, countries: "CH", methods: "card cash", public: "payments.count payments.method customers.count customers.country"},
		"analyst of others": {token: german, countries: "DE", public: "payments.count payments.method customers.count customers.country"},
		"manager":           {token: manager, countries: "CH DE FR", public: "customers.count customers.country customers.name", mayName: true},
		"untrusted manager": {token: untrusted},
		"other group":       {token: stranger},
		"no person":         {token: key},
	} {
		t.Run(name, func(t *testing.T) {
			expectRows(t, s, want.token, countries, "customers.country", want.countries)
			expectRows(t, s, want.token, methods, "payments.method", want.methods)
			status, body := s.ask(t, "load", want.token, names)
			if (status == http.StatusOK) != want.mayName {
				t.Errorf("names: %d %v", status, body)
			}
			if _, body = s.ask(t, "meta", want.token, ""); visible(body) != want.public {
				t.Errorf("members: %q, want %q", visible(body), want.public)
			}
		})
	}
}

// expectRows checks the values of a member in the rows of a query; "" stands
// for no rows or a refusal.
func expectRows(t *testing.T, s server, token, query, member, want string) {
	t.Helper()
	status, body := s.ask(t, "load", token, query)
	if got := values(body, member); got != want || (want != "" && status != http.StatusOK) {
		t.Errorf("%s: %d, %q, want %q: %v", query, status, got, want, body)
	}
}

// visible returns the names of the members in metadata.
func visible(body map[string]any) string {
	var names []string
	cubes, _ := body["cubes"].([]any)
	for _, cube := range cubes {
		for _, kind := range []string{"measures", "dimensions"} {
			members, _ := cube.(map[string]any)[kind].([]any)
			for _, member := range members {
				names = append(names, member.(map[string]any)["name"].(string))
			}
		}
	}
	return strings.Join(names, " ")
}
