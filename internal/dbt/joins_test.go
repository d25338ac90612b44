package dbt

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// joinsOf returns "name relationship sql" of each join.
func joinsOf(c generated) string {
	var all []string
	for _, j := range c.Joins {
		all = append(all, fmt.Sprintf("%s %s %s", j.Name, j.Relationship, j.SQL))
	}
	return strings.Join(all, "; ")
}

// TestJoins: from what the join of orders with customers follows.
func TestJoins(t *testing.T) {
	customers := model("customers", "id integer")
	foreignKey := func(more object) []object {
		return []object{with(model("orders", "customer_id", "order_id"), object{"constraints": []object{constraint("foreign_key", with(object{"columns": []string{"customer_id"}}, more))}})}
	}
	const simple = "dbt_customers many_to_one {CUBE.customer_id} = {dbt_customers.id}"
	orders := model("orders", "customer_id", "order_id")
	for name, c := range map[string]struct {
		nodes []object
		want  string
	}{
		"relationships":                       {[]object{orders, relationship("orders", "customer_id", "customers", "id")}, simple},
		"relationships, before 1.5":           {[]object{orders, with(relationship("orders", "customer_id", "customers", "id"), object{"attached_node": nil, "depends_on": object{"nodes": []string{"model.shop.customers", "model.shop.orders"}}})}, simple},
		"relationships with package":          {[]object{orders, with(relationship("orders", "customer_id", "x", "id"), object{"test_metadata": object{"name": "relationships", "kwargs": object{"to": `ref("shop", 'customers')`, "field": "id", "column_name": "customer_id"}}})}, simple},
		"relationships to another package":    {[]object{orders, with(relationship("orders", "customer_id", "x", "id"), object{"test_metadata": object{"name": "relationships", "kwargs": object{"to": `ref('other', 'customers')`, "field": "id"}}})}, ""},
		"relationships to a source":           {[]object{orders, with(relationship("orders", "customer_id", "x", "id"), object{"test_metadata": object{"name": "relationships", "kwargs": object{"to": `source('shop', 'customers')`, "field": "id"}}})}, ""},
		"relationships to nothing":            {[]object{orders, relationship("orders", "customer_id", "nobody", "id")}, ""},
		"relationships without field":         {[]object{orders, relationship("orders", "customer_id", "customers", "")}, ""},
		"columns that are not documented":     {[]object{orders, relationship("orders", "buyer", "customers", "code")}, "dbt_customers many_to_one {CUBE.buyer} = {dbt_customers.code}"},
		"relationships of quoted columns":     {[]object{model("orders", object{"name": "Customer", "quote": true}, "order_id"), relationship("orders", `"Customer"`, "customers", `"id"`)}, "dbt_customers many_to_one {CUBE.Customer} = {dbt_customers.id}"},
		"a disabled test":                     {[]object{orders, testOf("relationships", "orders", "customer_id", object{"to": "ref('customers')", "field": "id"}, object{"enabled": false})}, ""},
		"twice":                               {[]object{orders, relationship("orders", "customer_id", "customers", "id"), with(relationship("orders", "customer_id", "customers", "id"), object{"unique_id": "test.shop.z"})}, simple},
		"two references, the first column":    {[]object{model("orders", "b_id", "a_id", "order_id"), relationship("orders", "b_id", "customers", "id"), relationship("orders", "a_id", "customers", "id")}, "dbt_customers many_to_one {CUBE.a_id} = {dbt_customers.id}"},
		"foreign key by ref":                  {foreignKey(object{"to": "ref('customers')", "to_columns": []string{"id"}}), simple},
		"foreign key by relation":             {foreignKey(object{"to": `"warehouse"."analytics"."customers"`, "to_columns": []string{"id"}}), simple},
		"foreign key by another relation":     {foreignKey(object{"to": `"warehouse"."other"."customers"`, "to_columns": []string{"id"}}), ""},
		"foreign key by expression":           {foreignKey(object{"expression": "analytics.customers (id)"}), simple},
		"foreign key by references":           {foreignKey(object{"expression": `REFERENCES "analytics"."customers"("id")`}), simple},
		"foreign key with too few columns":    {foreignKey(object{"to": "ref('customers')"}), ""},
		"foreign key by a malformed text":     {foreignKey(object{"expression": "customers"}), ""},
		"foreign key of a column":             {[]object{model("orders", object{"name": "customer_id", "constraints": []object{constraint("foreign_key", object{"expression": "customers (id)"})}}, "order_id")}, simple},
		"composite foreign key":               {[]object{with(model("orders", "a", "b", "order_id"), object{"constraints": []object{constraint("foreign_key", object{"columns": []string{"a", "b"}, "to": "ref('customers')", "to_columns": []string{"id", "region"}})}})}, "dbt_customers many_to_one {CUBE.a} = {dbt_customers.id} AND {CUBE.b} = {dbt_customers.region}"},
		"a cube without key has no joins":     {[]object{model("orders", "customer"), relationship("orders", "customer", "customers", "id")}, ""},
		"a reference of a model to itself":    {[]object{orders, relationship("orders", "customer_id", "orders", "order_id")}, ""},
		"a keyword of the compiler":           {[]object{model("orders", object{"name": "from", "quote": true}, "order_id"), relationship("orders", "from", "customers", "class")}, "dbt_customers many_to_one {CUBE}.from = {dbt_customers}.class"},
		"a column that is not written in SQL": {[]object{orders, relationship("orders", `x" OR 1=1 --`, "customers", "id")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := convert(t, Options{}, "postgres", append(c.nodes, customers)...)
			if got := joinsOf(only(t, m, "dbt_orders")); got != c.want {
				t.Errorf("joins %q, want %q; %q", got, c.want, m.Warnings)
			}
		})
	}
}

// TestReverseJoins: a join back, unless the cube has one of its own, or one of the two has no key.
func TestReverseJoins(t *testing.T) {
	reverse := Options{DbtOptions: v1alpha1.DbtOptions{ReverseJoins: ptr.To(true)}}
	nodes := []object{model("orders", "customer_id", "order_id"), model("customers", "customer_id"), relationship("orders", "customer_id", "customers", "customer_id")}
	m := convert(t, reverse, "postgres", nodes...)
	const back = "dbt_orders one_to_many {CUBE.customer_id} = {dbt_orders.customer_id}"
	if got := joinsOf(only(t, m, "dbt_customers")); got != back {
		t.Errorf("%q, want %q", got, back)
	}
	nodes = append(nodes, relationship("customers", "last_order", "orders", "order_id"))
	m = convert(t, reverse, "postgres", nodes...)
	if got := only(t, m, "dbt_customers").Joins; len(got) != 1 {
		t.Errorf("%v", got)
	}
	m = convert(t, reverse, "postgres", model("orders", "customer"), model("customers", "customer_id"), relationship("orders", "customer", "customers", "customer_id"))
	for _, f := range m.Files {
		if c := cubeOf(t, f.Content); len(c.Joins) != 0 {
			t.Errorf("%s has joins with a cube without key: %v", c.Name, c.Joins)
		}
	}
}

// TestVersions: a reference names a version of a model.
func TestVersions(t *testing.T) {
	version := func(n int) object {
		return with(model("customers", "id"), object{"unique_id": fmt.Sprintf("model.shop.customers.v%d", n), "version": n, "alias": fmt.Sprintf("customers_v%d", n)})
	}
	test := relationship("orders", "customer_id", "customers", "id")
	test["test_metadata"] = object{"name": "relationships", "kwargs": object{"to": "ref('customers', v=2)", "field": "id"}}
	m := convert(t, Options{}, "postgres", model("orders", "customer_id", "order_id"), version(1), version(2), test)
	if got := joinsOf(only(t, m, "dbt_orders")); got != "dbt_customers_v2 many_to_one {CUBE.customer_id} = {dbt_customers_v2.id}" {
		t.Errorf("%q", got)
	}
	test = with(relationship("orders", "customer_id", "customers", "id"), object{"depends_on": object{"nodes": []string{"model.shop.customers.v2", "model.shop.orders"}}})
	m = convert(t, Options{}, "postgres", model("orders", "customer_id", "order_id"), version(1), version(2), test)
	if got := only(t, m, "dbt_orders").Joins; len(got) != 1 || got[0].Name != "dbt_customers_v2" {
		t.Errorf("%v", got)
	}
}
