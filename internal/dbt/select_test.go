package dbt

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// pathsOf returns the base names of the files, without suffix.
func pathsOf(m *Model) string {
	var all []string
	for _, f := range m.Files {
		all = append(all, strings.TrimSuffix(strings.TrimPrefix(f.Path, DefaultOutputPath+"/"), fileSuffix))
	}
	return strings.Join(all, " ")
}

// TestSkipped: what is no cube.
func TestSkipped(t *testing.T) {
	other := func(kind string) object {
		return with(model(kind), object{"unique_id": kind + ".shop." + kind, "resource_type": kind})
	}
	m := convert(t, Options{}, "postgres", model("orders"), model("metricflow_time_spine"), other("seed"), other("snapshot"), other("source"), other("analysis"),
		with(model("inline"), object{"config": object{"materialized": "ephemeral"}}), with(model("off"), object{"config": object{"enabled": false}}),
		with(model("quoted"), object{"alias": `a"b`}), model(strings.Repeat("x", 256)), with(model("braces"), object{"schema": "{{ env_var('X') }}"}))
	if got := pathsOf(m); got != "orders" {
		t.Errorf("%q", got)
	}
	if len(m.Warnings) != 3 {
		t.Errorf("%q", m.Warnings)
	}
}

// TestNames: names of cubes and files that differ, whatever those of the models.
func TestNames(t *testing.T) {
	from := func(project, name string) object {
		return with(model(name), object{"unique_id": "model." + project + "." + name, "package_name": project})
	}
	m := convert(t, Options{}, "postgres", from("shop", "orders"), from("a_package", "orders"), from("shop", "Orders"), from("shop", "my-model.v1"), from("shop", "my model v1"),
		from("shop", "日付"), from("shop", "2024"), from("shop", "constructor"), from("shop", "a_package_orders"))
	if got, want := pathsOf(m), "Orders _2024 __ a_package_orders a_package_orders_2 constructor_ my_model_v1 shop_my_model_v1 shop_orders"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// Models of the project itself keep their names.
	for _, f := range m.Files {
		if f.Path == DefaultOutputPath+"/Orders.yml" || f.Path == DefaultOutputPath+"/orders.yml" {
			if line, _ := modelLine(f.Content); !strings.Contains(line, "model.shop.") {
				t.Errorf("%s: %s", f.Path, line)
			}
		}
	}
}

// TestNamesOfSelector: a model has the same file and cube, whichever models a selector selects.
func TestNamesOfSelector(t *testing.T) {
	nodes := []object{model("orders"), with(model("orders"), object{"unique_id": "model.stripe.orders", "package_name": "stripe"})}
	before := convert(t, Options{}, "postgres", nodes...)
	after := convert(t, Options{Selected: map[string]bool{"model.stripe.orders": true}}, "postgres", nodes...)
	if got := pathsOf(after); got != "stripe_orders" || only(t, after, "").Name != "dbt_stripe_orders" {
		t.Errorf("%s: cube %s", got, only(t, after, "").Name)
	}
	files := map[string][]byte{}
	var existing []string
	for _, f := range before.Files {
		files[f.Path], existing = f.Content, append(existing, f.Path)
	}
	stale, err := after.Stale(existing, func(path string) ([]byte, error) { return files[path], nil })
	if err != nil || len(stale) != 0 {
		t.Errorf("removed %v: %v", stale, err)
	}
}

// TestMembers: members that differ, whatever the columns.
func TestMembers(t *testing.T) {
	c := only(t, convert(t, Options{}, "postgres", model("orders", "ID integer", "id integer", object{"name": "a b"}, "a-b text", "count integer", "total_amount integer", "amount integer", "__proto__ text", "CUBE text",
		`quo"te text`, "bra{ce text", "new\nline text")), "")
	if got, want := dimensionsOf(c), "CUBE_ string, ID number key, __proto___ string, a_b string, a_b_2 string, amount number, count number, id_2 number, total_amount number"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var measures []string
	for _, m := range c.Measures {
		measures = append(measures, m.Name)
	}
	if got, want := strings.Join(measures, " "), "count_2 total_amount_2 total_total_amount"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, d := range c.Dimensions {
		if want := map[string]string{"ID": `{CUBE}."ID"`, "a_b": `{CUBE}."a b"`}[d.Name]; strings.Contains(d.SQL, `"`) && want != "" && d.SQL != want {
			t.Errorf("%s: %s, want %s", d.Name, d.SQL, want)
		}
	}
}

// TestWarehouses: tables and quotation marks of each warehouse.
func TestWarehouses(t *testing.T) {
	quoted := object{"relation_name": `"Prod"."Sales Data"."Orders"`, "database": "Prod", "schema": "Sales Data", "alias": "Orders"}
	for adapter, c := range map[string]struct{ plain, quoted, column string }{
		"postgres":   {"analytics.orders", `"Sales Data"."Orders"`, `{CUBE}."Name"`},
		"redshift":   {"warehouse.analytics.orders", `"Prod"."Sales Data"."Orders"`, `{CUBE}."Name"`},
		"snowflake":  {`"warehouse"."analytics"."orders"`, `"Prod"."Sales Data"."Orders"`, `{CUBE}."Name"`},
		"bigquery":   {"warehouse.analytics.orders", "Prod.`Sales Data`.Orders", "Name"},
		"databricks": {"hive_metastore.analytics.orders", "hive_metastore.`Sales Data`.Orders", "Name"},
		"athena":     {"analytics.orders", `"Sales Data"."Orders"`, `{CUBE}."Name"`},
		"clickhouse": {"analytics.orders", "`Sales Data`.Orders", "Name"},
		"duckdb":     {"warehouse.analytics.orders", `Prod."Sales Data".Orders`, "Name"},
	} {
		t.Run(adapter, func(t *testing.T) {
			column := object{"name": "Name", "quote": true}
			if got := only(t, convert(t, Options{}, adapter, model("orders", column)), ""); got.SQLTable != c.plain || got.Dimensions[0].SQL != c.column {
				t.Errorf("%s, %s", got.SQLTable, got.Dimensions[0].SQL)
			}
			if got := only(t, convert(t, Options{}, adapter, with(model("orders"), quoted)), ""); got.SQLTable != c.quoted {
				t.Errorf("%s, want %s", got.SQLTable, c.quoted)
			}
		})
	}
	if got := only(t, convert(t, Options{Catalog: "main"}, "databricks", model("orders")), ""); got.SQLTable != "main.analytics.orders" {
		t.Error(got.SQLTable)
	}
	unquoted := with(model("orders"), object{"relation_name": "WAREHOUSE.analytics.orders", "database": "WAREHOUSE"})
	if got := only(t, convert(t, Options{}, "snowflake", unquoted), ""); got.SQLTable != "WAREHOUSE.analytics.orders" {
		t.Error(got.SQLTable)
	}
	if got := only(t, convert(t, Options{}, "postgres", with(model("orders"), object{"schema": nil, "database": nil})), ""); got.SQLTable != "orders" {
		t.Error(got.SQLTable)
	}
}

// TestStaleOfSelector: files of models that a selector excludes are kept if the project has the model.
func TestStaleOfSelector(t *testing.T) {
	before := convert(t, Options{}, "postgres", model("gone"), model("staging"), model("orders"), model("inlined"))
	files := map[string][]byte{}
	var existing []string
	for _, f := range before.Files {
		files[f.Path], existing = f.Content, append(existing, f.Path)
	}
	after := convert(t, Options{Selected: map[string]bool{"model.shop.orders": true}}, "postgres",
		model("staging"), model("orders"), with(model("inlined"), object{"config": object{"materialized": "ephemeral"}}))
	stale, err := after.Stale(existing, func(path string) ([]byte, error) { return files[path], nil })
	if err != nil || len(after.Files) != 1 {
		t.Fatalf("%v; %d files", err, len(after.Files))
	}
	if diff := cmp.Diff([]string{DefaultOutputPath + "/gone.yml", DefaultOutputPath + "/inlined.yml"}, sorted(stale)); diff != "" {
		t.Error(diff)
	}
}

// TestStale: which files a sync removes.
func TestStale(t *testing.T) {
	marts := Options{DbtOptions: v1alpha1.DbtOptions{MartsOnly: ptr.To(true)}}
	before := convert(t, Options{}, "postgres", model("gone"), model("staging"), with(model("orders"), object{"path": `marts\orders.sql`}), model("metricflow"))
	files := map[string][]byte{
		DefaultOutputPath + "/README.md": []byte("x"), DefaultOutputPath + "/own.yml": []byte("cubes: []\n"), "model/cubes/gone.yml": before.Files[0].Content,
		DefaultOutputPath + "/renamed/orders.yml": before.Files[2].Content, DefaultOutputPath + "/crlf.yml": bytes.ReplaceAll(before.Files[0].Content, []byte("\n"), []byte("\r\n")),
	}
	var existing []string
	for _, f := range before.Files {
		files[f.Path] = f.Content
	}
	for name := range files {
		existing = append(existing, name)
	}
	after := convert(t, marts, "postgres", model("staging"), with(model("orders"), object{"path": `marts/orders.sql`}))
	stale, err := after.Stale(existing, func(path string) ([]byte, error) { return files[path], nil })
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"crlf.yml", "gone.yml", "metricflow.yml", "renamed/orders.yml"}
	for i := range want {
		want[i] = DefaultOutputPath + "/" + want[i]
	}
	if diff := cmp.Diff(want, sorted(stale)); diff != "" {
		t.Error(diff)
	}
	unreadable := errors.New("unreadable")
	if _, err := after.Stale(existing, func(string) ([]byte, error) { return nil, unreadable }); !errors.Is(err, unreadable) {
		t.Errorf("%v", err)
	}
}

// TestInvalid: what is rejected, and why.
func TestInvalid(t *testing.T) {
	valid := string(manifestOf("postgres", model("orders", "id")))
	for name, c := range map[string]struct{ manifest, want string }{
		"empty":                 {"", "not valid JSON"},
		"null":                  {"null", "not a manifest"},
		"a list":                {"[]", "not a manifest"},
		"another object":        {`{"a": 1}`, "not a manifest"},
		"a catalog":             {`{"metadata":{"dbt_schema_version":"https://schemas.getdbt.com/dbt/catalog/v1.json"},"nodes":{}}`, "not a manifest"},
		"no nodes":              {`{"metadata":{"dbt_schema_version":"https://schemas.getdbt.com/dbt/manifest/v12.json"}}`, "not a manifest"},
		"too old":               {strings.Replace(valid, "v12.json", "v3.json", 1), "version 3 of its schema; allowed: 4 or later"},
		"cut off":               {valid[:len(valid)/2], "not valid JSON: it is malformed at byte"},
		"more after its end":    {valid + "{}", "more after its end"},
		"garbage after its end": {valid + "x", "more after its end"},
		"nodes are a list":      {strings.Replace(valid, `"nodes":{`, `"nodes":[],"x":{`, 1), "not a manifest"},
		"config is a text":      {strings.Replace(valid, `"config":{`, `"config":"x","y":{`, 1), `"config" is a string`},
		"no models":             {string(manifestOf("postgres")), "no dbt models matched: of the 0 models"},
		"too long":              {`{"x":"` + strings.Repeat("x", MaxManifestBytes) + `"}`, "too large: it may have 50 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Read(strings.NewReader(c.manifest))
			if err == nil {
				_, err = m.Convert(Options{})
			}
			var rejected *Error
			if !errors.As(err, &rejected) || !strings.Contains(rejected.Message, c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	m, err := Read(strings.NewReader(valid))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Convert(Options{DbtOptions: v1alpha1.DbtOptions{MartsOnly: ptr.To(true)}}); err == nil || !strings.Contains(err.Error(), "martsOnly") {
		t.Errorf("%v", err)
	}
	broken := errors.New("broken")
	if _, err := Read(io.MultiReader(strings.NewReader(valid[:10]), failing{broken})); !errors.Is(err, broken) {
		t.Errorf("an error of the source is %v", err)
	}
}

type failing struct{ error }

func (f failing) Read([]byte) (int, error) { return 0, f.error }

// TestStats: the numbers of a manifest.
func TestStats(t *testing.T) {
	m, err := Read(bytes.NewReader(manifestOf("postgres", model("orders"), model("customers"))))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%d %d %d %s %s", m.Stats.Models, m.Stats.Sources, m.Stats.Macros, m.Stats.DbtVersion, m.Stats.GeneratedAt); got != "2 1 2 1.10.2 2026-11-22 12:00:00.123456 +0000 UTC" {
		t.Error(got)
	}
}

// TestWarnings: their number is bounded.
func TestWarnings(t *testing.T) {
	var columns []any
	for i := range 1000 {
		columns = append(columns, fmt.Sprintf("a%d\" text", i))
	}
	if m := convert(t, Options{}, "postgres", model("orders", columns...)); len(m.Warnings) != maxWarnings || m.Warnings[maxWarnings-1] != "there are more warnings" {
		t.Errorf("%d warnings", len(m.Warnings))
	}
}

func sorted(all []string) []string {
	slices.Sort(all)
	return all
}
