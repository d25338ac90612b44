package dbt

import "testing"

// constraint returns a constraint of a model or column.
func constraint(kind string, more object) object { return with(object{"type": kind}, more) }

// TestKeys: which columns are the primary key of the model orders.
func TestKeys(t *testing.T) {
	pair := func(column string, config object) []object {
		return []object{testOf("unique", "stg_orders", column, nil, config), testOf("not_null", "stg_orders", column, nil, nil)}
	}
	columns := []any{"code text", "customer_id integer", "id integer", "order_id integer"}
	for name, c := range map[string]struct {
		model object
		tests []object
		want  string
	}{
		"suffix, named after the model":        {model("stg_orders", columns...), nil, "order_id"},
		"suffix, id":                           {model("stg_orders", "code", "customer_id", "id"), nil, "id"},
		"suffix, the only one":                 {model("stg_orders", "code", "customer_id"), nil, "customer_id"},
		"no key":                               {model("stg_orders", "code", "name"), nil, ""},
		"no columns":                           {model("stg_orders"), nil, ""},
		"tests before the suffix":              {model("stg_orders", columns...), pair("code", nil), "code"},
		"tests in another case":                {model("stg_orders", columns...), pair("CODE", nil), "code"},
		"tests of a quoted column":             {model("stg_orders", object{"name": "Order Code", "quote": true}, "order_id"), pair(`"Order Code"`, nil), "Order_Code"},
		"two tested columns":                   {model("stg_orders", columns...), append(pair("code", nil), pair("order_id", nil)...), "order_id"},
		"unique only":                          {model("stg_orders", columns...), pair("code", nil)[:1], "order_id"},
		"unique where":                         {model("stg_orders", columns...), pair("code", object{"where": "code is not null"}), "order_id"},
		"unique warns":                         {model("stg_orders", columns...), pair("code", object{"severity": "warn"}), "order_id"},
		"unique tolerates":                     {model("stg_orders", columns...), pair("code", object{"error_if": ">10"}), "order_id"},
		"unique is disabled":                   {model("stg_orders", columns...), pair("code", object{"enabled": false}), "order_id"},
		"unique of a package":                  {model("stg_orders", columns...), []object{with(pair("code", nil)[0], object{"test_metadata": object{"name": "unique", "namespace": "dbt_utils", "kwargs": object{}}}), pair("code", nil)[1]}, "order_id"},
		"a tested column is not documented":    {model("stg_orders", columns...), pair("other", nil), "order_id"},
		"constraint of a column":               {model("stg_orders", object{"name": "code", "constraints": []object{constraint("primary_key", nil)}}, "order_id"), pair("order_id", nil), "code"},
		"constraint of the model, composite":   {with(model("stg_orders", columns...), object{"constraints": []object{constraint("primary_key", object{"columns": []string{"id", "CODE"}})}}), nil, "code, id"},
		"constraint with an unknown column":    {with(model("stg_orders", columns...), object{"constraints": []object{constraint("primary_key", object{"columns": []string{"id", "line"}})}}), nil, "order_id"},
		"other constraints":                    {with(model("stg_orders", columns...), object{"constraints": []object{constraint("unique", object{"columns": []string{"code"}})}}), nil, "order_id"},
		"constraints that are not a list":      {with(model("stg_orders", columns...), object{"constraints": object{}}), nil, "order_id"},
		"a test without a node, before 1.5":    {model("stg_orders", columns...), []object{with(pair("code", nil)[0], object{"attached_node": nil}), with(pair("code", nil)[1], object{"attached_node": nil})}, "code"},
		"the key of a model of several words":  {model("stg_orders", "order_item_id", "order_id"), nil, "order_id"},
		"a name that is not that of the model": {model("stg_orders", "a_id", "b_id"), nil, "a_id"},
	} {
		t.Run(name, func(t *testing.T) {
			m := convert(t, Options{}, "postgres", append([]object{c.model}, c.tests...)...)
			if got := keysOf(only(t, m, "dbt_stg_orders")); got != c.want {
				t.Errorf("key %q, want %q; %q", got, c.want, m.Warnings)
			}
		})
	}
}

// TestKeysOfReferences: a column that refers to another model is the key only if no other can be, and a
// column that is referred to is of the key.
func TestKeysOfReferences(t *testing.T) {
	m := convert(t, Options{}, "postgres",
		model("payments", "customer_id", "transaction_id"), model("customers", "email text", "id"), model("profiles", "customer_id"),
		relationship("payments", "customer_id", "customers", "email"), relationship("profiles", "customer_id", "customers", "email"))
	for name, want := range map[string]string{"dbt_payments": "transaction_id", "dbt_customers": "email, id", "dbt_profiles": "customer_id"} {
		if got := keysOf(only(t, m, name)); got != want {
			t.Errorf("%s: key %q, want %q", name, got, want)
		}
	}
}

// TestEntities: what a row of a model is.
func TestEntities(t *testing.T) {
	for name, want := range map[string]string{
		"stg_customers": "customer", "stg_shop__orders": "order", "dim_countries": "country", "fct_addresses": "address", "boxes": "box", "order": "order", "class": "class", "int_houses": "house", "stg_": "",
	} {
		found := want == ""
		for _, e := range entitiesOf(name) {
			found = found || e == want
		}
		if !found {
			t.Errorf("%s: %q, want %q", name, entitiesOf(name), want)
		}
	}
}
