package dbt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// object is a JSON object of a manifest.
type object = map[string]any

// manifestOf returns a manifest of a project shop in PostgreSQL with nodes.
func manifestOf(adapter string, nodes ...object) []byte {
	byID := object{}
	for _, n := range nodes {
		byID[fmt.Sprint(n["unique_id"])] = n
	}
	data, err := json.Marshal(object{
		"metadata": object{
			"dbt_schema_version": "https://schemas.getdbt.com/dbt/manifest/v12.json", "dbt_version": "1.10.2", "adapter_type": adapter, "project_name": "shop",
			"generated_at": "2026-11-22T12:00:00.123456Z",
		},
		"nodes": byID, "sources": object{"source.shop.raw": object{}}, "macros": object{"macro.a": object{}, "macro.b": object{}},
		"child_map": object{"model.shop.orders": []string{"x"}}, "docs": nil, "group_map": []any{1, object{"a": 1}},
	})
	if err != nil {
		panic(err)
	}
	return data
}

// model returns a model of the project shop with columns, each as name or "name type".
func model(name string, columns ...any) object {
	byName := object{}
	for _, c := range columns {
		switch c := c.(type) {
		case string:
			column, kind, _ := strings.Cut(c, " ")
			byName[column] = object{"name": column, "data_type": kind}
		case object:
			byName[fmt.Sprint(c["name"])] = c
		}
	}
	return object{
		"unique_id": "model.shop." + name, "resource_type": "model", "name": name, "alias": name, "package_name": "shop", "path": name + ".sql",
		"database": "warehouse", "schema": "analytics", "relation_name": `"warehouse"."analytics"."` + name + `"`, "columns": byName,
		"config": object{"materialized": "table", "enabled": true},
	}
}

// with returns an object with more fields.
func with(o object, more object) object {
	o = maps.Clone(o)
	maps.Copy(o, more)
	return o
}

// testOf returns a generic test of a column of a model.
func testOf(name, of, column string, kwargs, config object) object {
	id := fmt.Sprintf("test.shop.%s_%s_%s_%d", name, of, column, len(config))
	return object{
		"unique_id": id, "resource_type": "test", "name": id, "column_name": column, "attached_node": "model.shop." + of,
		"config": with(object{"severity": "ERROR", "error_if": "!= 0", "fail_calc": "count(*)", "where": nil}, config), "depends_on": object{"nodes": []string{"model.shop." + of}},
		"test_metadata": object{"name": name, "namespace": nil, "kwargs": with(object{"column_name": column, "model": "{{ get_where_subquery(ref('" + of + "')) }}"}, kwargs)},
	}
}

func relationship(of, column, to, field string) object {
	return testOf("relationships", of, column, object{"to": "ref('" + to + "')", "field": field}, nil)
}

func convert(t *testing.T, o Options, adapter string, nodes ...object) *Model {
	t.Helper()
	m, err := Read(bytes.NewReader(manifestOf(adapter, nodes...)))
	if err != nil {
		t.Fatal(err)
	}
	out, err := m.Convert(o)
	if err != nil {
		t.Fatal(err)
	}
	checkFiles(t, out)
	return out
}

// generated is a generated cube.
type generated struct {
	Name, Title, Description string
	SQLTable                 string `json:"sql_table"`
	Dimensions               []struct {
		Name, SQL, Type, Description string
		PrimaryKey                   bool `json:"primary_key"`
	}
	Measures []struct{ Name, SQL, Type string }
	Joins    []struct{ Name, SQL, Relationship string }
}

// cubeOf returns the cube in a file.
func cubeOf(t *testing.T, content []byte) generated {
	t.Helper()
	var file struct{ Cubes []generated }
	if err := yaml.UnmarshalStrict(content, &file); err != nil || len(file.Cubes) != 1 {
		t.Fatalf("%v, %d cubes:\n%s", err, len(file.Cubes), content)
	}
	return file.Cubes[0]
}

// only returns the only cube of a model, or that of a name.
func only(t *testing.T, m *Model, name string) generated {
	t.Helper()
	for _, f := range m.Files {
		if c := cubeOf(t, f.Content); name == "" || c.Name == name {
			return c
		}
	}
	t.Fatalf("no cube %q", name)
	return generated{}
}

// checkFiles checks what holds for every result: paths, names and members are unique, files have the
// header and are no templates.
func checkFiles(t *testing.T, m *Model) {
	t.Helper()
	paths, cubes := map[string]bool{}, map[string]bool{}
	for _, f := range m.Files {
		c := cubeOf(t, f.Content)
		if paths[strings.ToLower(f.Path)] || cubes[strings.ToLower(c.Name)] || !plain.MatchString(c.Name) {
			t.Errorf("%s has cube %q, which is there twice or no identifier", f.Path, c.Name)
		}
		paths[strings.ToLower(f.Path)], cubes[strings.ToLower(c.Name)] = true, true
		texts := []string{c.Title, c.Description}
		members := map[string]bool{}
		for _, d := range c.Dimensions {
			if members[strings.ToLower(d.Name)] || !plain.MatchString(d.Name) {
				t.Errorf("%s: dimension %q", f.Path, d.Name)
			}
			members[strings.ToLower(d.Name)] = true
			texts = append(texts, d.Description)
		}
		if text := strings.Join(texts, ""); strings.ContainsAny(text, "{}\\\r") || strings.IndexFunc(text, func(r rune) bool { return r > 0xFFFF }) >= 0 {
			t.Errorf("%s: the compiler finds code in %q", f.Path, text)
		}
		for _, measure := range c.Measures {
			if members[strings.ToLower(measure.Name)] || !plain.MatchString(measure.Name) {
				t.Errorf("%s: measure %q", f.Path, measure.Name)
			}
			members[strings.ToLower(measure.Name)] = true
		}
		if _, isGenerated := modelLine(f.Content); !isGenerated {
			t.Errorf("%s has no header:\n%s", f.Path, f.Content)
		}
		for _, mark := range []string{"{{", "}}", "{%", "%}", "{#", "#}"} {
			if bytes.Contains(f.Content, []byte(mark)) {
				t.Errorf("%s contains %s:\n%s", f.Path, mark, f.Content)
			}
		}
	}
	if !slices.IsSortedFunc(m.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) }) {
		t.Error("files are not sorted")
	}
}

// dimensionsOf returns "name type" of each dimension, with " key" for those of the primary key.
func dimensionsOf(c generated) string {
	var all []string
	for _, d := range c.Dimensions {
		text := d.Name + " " + d.Type
		if d.PrimaryKey {
			text += " key"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// keysOf returns the names of the dimensions of the primary key.
func keysOf(c generated) string {
	var keys []string
	for _, d := range c.Dimensions {
		if d.PrimaryKey {
			keys = append(keys, d.Name)
		}
	}
	return strings.Join(keys, ", ")
}

// TestFile: a whole file, as it is committed.
func TestFile(t *testing.T) {
	orders := with(model("orders",
		object{"name": "id", "data_type": "integer", "description": "Key of the order."},
		object{"name": "customer_id", "data_type": "integer"},
		object{"name": "amount", "data_type": "numeric(12,2)", "description": "Of all lines:\n\"net\" {{ env_var('SECRET') }}"},
	), object{"description": "Orders, one a row. "})
	m := convert(t, Options{}, "postgres", orders, model("customers", "id integer"), relationship("orders", "customer_id", "customers", "id"))
	want := `# Generated by Quoin from a dbt project. Do not edit: the next sync overwrites this file.
# dbt model: model.shop.orders
# To change the cube, extend it in a file outside of this directory.

cubes:
  - name: dbt_orders
    title: "(dbt) orders"
    description: "Orders, one a row."
    sql_table: analytics.orders

    joins:
      - name: dbt_customers
        relationship: many_to_one
        sql: "{CUBE.customer_id} = {dbt_customers.id}"

    dimensions:
      - name: amount
        sql: amount
        type: number
        description: "Of all lines:\n\"net\" (( env_var('SECRET') ))"
      - name: customer_id
        sql: customer_id
        type: number
      - name: id
        sql: id
        type: number
        primary_key: true
        description: "Key of the order."

    measures:
      - name: count
        type: count
      - name: total_amount
        type: sum
        sql: amount
`
	if len(m.Files) != 2 || m.Files[1].Path != "model/cubes/dbt/orders.yml" {
		t.Fatalf("%v", m.Files)
	}
	if diff := cmp.Diff(want, string(m.Files[1].Content)); diff != "" {
		t.Error(diff)
	}
}

// TestOptions: each option, and its default.
func TestOptions(t *testing.T) {
	options := func(o v1alpha1.DbtOptions) Options { return Options{DbtOptions: o} }
	nodes := []object{
		with(model("orders", "order_sk integer", "customer_id integer", "amount integer"), object{"path": "marts/core/orders.sql"}), model("customers", "customer_id integer"),
		relationship("orders", "customer_id", "customers", "customer_id"),
	}
	for name, c := range map[string]struct {
		options Options
		want    string
	}{
		"defaults":     {Options{}, `model/cubes/dbt/orders.yml dbt_orders "(dbt) orders" keys=customer_id joins=1 reverse=0 measures=2 cubes=2`},
		"no prefixes":  {options(v1alpha1.DbtOptions{NamePrefix: ptr.To(""), TitlePrefix: ptr.To("")}), `model/cubes/dbt/orders.yml orders "orders" keys=customer_id joins=1 reverse=0 measures=2 cubes=2`},
		"a bad prefix": {options(v1alpha1.DbtOptions{NamePrefix: ptr.To("1 é/")}), `model/cubes/dbt/orders.yml _1___orders "(dbt) orders" keys=customer_id joins=1 reverse=0 measures=2 cubes=2`},
		"output path":  {options(v1alpha1.DbtOptions{OutputPath: "/model/generated//x/"}), `model/generated/x/orders.yml dbt_orders "(dbt) orders" keys=customer_id joins=1 reverse=0 measures=2 cubes=2`},
		"suffixes":     {options(v1alpha1.DbtOptions{PrimaryKeySuffix: ptr.To("_key, _SK")}), `model/cubes/dbt/orders.yml dbt_orders "(dbt) orders" keys=order_sk joins=1 reverse=0 measures=2 cubes=2`},
		"no suffix":    {options(v1alpha1.DbtOptions{PrimaryKeySuffix: ptr.To("")}), `model/cubes/dbt/orders.yml dbt_orders "(dbt) orders" keys= joins=0 reverse=0 measures=2 cubes=2`},
		"no measures":  {options(v1alpha1.DbtOptions{DefaultMeasures: ptr.To(false)}), `model/cubes/dbt/orders.yml dbt_orders "(dbt) orders" keys=customer_id joins=1 reverse=0 measures=0 cubes=2`},
		"marts only":   {options(v1alpha1.DbtOptions{MartsOnly: ptr.To(true)}), `model/cubes/dbt/orders.yml dbt_orders "(dbt) orders" keys=customer_id joins=0 reverse=0 measures=2 cubes=1`},
		"no joins":     {options(v1alpha1.DbtOptions{Joins: ptr.To(false), PrimaryKeySuffix: ptr.To("_sk")}), `model/cubes/dbt/orders.yml dbt_orders "(dbt) orders" keys=order_sk joins=0 reverse=0 measures=2 cubes=2`},
		"reverse":      {options(v1alpha1.DbtOptions{ReverseJoins: ptr.To(true), PrimaryKeySuffix: ptr.To("_sk")}), `model/cubes/dbt/orders.yml dbt_orders "(dbt) orders" keys=order_sk joins=1 reverse=1 measures=2 cubes=2`},
	} {
		t.Run(name, func(t *testing.T) {
			m := convert(t, c.options, "postgres", nodes...)
			file := m.Files[len(m.Files)-1]
			orders, reverse := cubeOf(t, file.Content), 0
			for _, f := range m.Files[:len(m.Files)-1] {
				reverse += len(cubeOf(t, f.Content).Joins)
			}
			got := fmt.Sprintf("%s %s %q keys=%s joins=%d reverse=%d measures=%d cubes=%d", file.Path, orders.Name, orders.Title, keysOf(orders), len(orders.Joins), reverse, len(orders.Measures), len(m.Files))
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	m, err := Read(bytes.NewReader(manifestOf("postgres", nodes...)))
	if err != nil {
		t.Fatal(err)
	}
	for _, outside := range []string{"..", "/", "../x", "a/../../b", "./", "\xff"} {
		if _, err := m.Convert(options(v1alpha1.DbtOptions{OutputPath: outside})); err == nil {
			t.Errorf("outputPath %q is accepted", outside)
		}
	}
}
