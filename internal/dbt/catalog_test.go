package dbt

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

const catalogHead = `{"metadata":{"dbt_schema_version":"https://schemas.getdbt.com/dbt/catalog/v1.json"},"nodes":`

func decodeCatalog(text string) (*Catalog, error) {
	return DecodeCatalog(json.NewDecoder(strings.NewReader(text)))
}

// TestGoldenCatalog converts manifests with catalogs that hack/dbt/catalogs has dbt write.
func TestGoldenCatalog(t *testing.T) {
	for _, warehouse := range []string{"duckdb", "postgres"} {
		name := "testdata/catalog/" + warehouse
		source, err := os.Open(name + "-manifest.json")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = source.Close() }()
		m, err := Read(source)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(name + "-catalog.json")
		if err != nil {
			t.Fatal(err)
		}
		types, err := decodeCatalog(string(text))
		if err != nil || types.Models() != 1 {
			t.Fatalf("%v: %+v", err, types)
		}
		out, err := m.Convert(Options{Types: types})
		if err != nil {
			t.Fatal(err)
		}
		checkFiles(t, out)
		compare(t, name+".golden", textOf(out))
		without, err := m.Convert(Options{})
		if err != nil || textOf(without) == textOf(out) {
			t.Errorf("%v: the catalog changes nothing", err)
		}
	}
}

// TestTypesFromCatalog: the declared type is first, then that of the catalog, then the name.
func TestTypesFromCatalog(t *testing.T) {
	c, err := decodeCatalog(catalogHead + `{
		"model.shop.orders":{"columns":{"ORDER_DATE":{"type":"TEXT"},"Twice":{"type":"INT"},"TWICE":{"type":"DATE"},"twice":{"type":"BOOL"},"declared":{"type":"text"},"untyped_at":{"type":" "}}},
		"model.shop.empty":{},"model.shop.list":{"columns":[1]},"source.shop.raw":{"columns":{"ORDER_DATE":{"type":"INT"}}}},
		"sources":{"source.shop.a":{"columns":{"id":{"type":1}}}},"errors":null}`)
	if err != nil {
		t.Fatal(err)
	}
	if c.Models() != 3 || c.has("source.shop.raw") || !c.has("model.shop.empty") {
		t.Errorf("%+v", c)
	}
	conversion := &conversion{options: Options{Types: c}}
	for name, want := range map[string]kind{"order_date": characters, "ORDER_DATE": characters, "twice": boolean, "Twice": number, "TWICE": moment, "untyped_at": moment, "absent_count": number} {
		if got := conversion.kindOf(&cube{node: &node{UniqueID: "model.shop.orders"}}, &column{Name: text(name)}); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if got := conversion.kindOf(&cube{node: &node{UniqueID: "model.shop.orders"}}, &column{Name: "declared", DataType: "date"}); got != moment {
		t.Error(got)
	}
}

func TestInvalidCatalogs(t *testing.T) {
	columns := strings.Repeat(`"c":{"type":"int"},`, 10)
	for text, want := range map[string]string{
		`null`:              "not a catalog of dbt",
		`{}`:                "not a catalog of dbt",
		`[]`:                "not a catalog of dbt: it has a value of another type where an object is expected",
		catalogHead + `[]}`: "not a catalog of dbt",
		catalogHead + `{"model.a.b":{"columns":{`: "the catalog is not valid JSON",
		catalogHead + `{"model.a.b":7}}`:          "not a catalog of dbt",
		`{"metadata":{"dbt_schema_version":"https://schemas.getdbt.com/dbt/manifest/v12.json"},"nodes":{}}`: "not a catalog of dbt",
		catalogHead + `{"model.a.b":{"columns":{` + columns + `"x":7}}}}`:                                   "not a catalog of dbt",
		catalogHead + `{"source.a":{"x":"` + strings.Repeat("x", MaxCatalogBytes) + `"}}}`:                  "the catalog is too large: it may have 32 MiB",
	} {
		_, err := decodeCatalog(text)
		var rejected *Error
		if !errors.As(err, &rejected) || !strings.Contains(rejected.Message, want) {
			t.Errorf("%.100s: %v, want %q", text, err, want)
		}
	}
	var many strings.Builder
	many.WriteString(catalogHead + `{"model.a.b":{"columns":{"a":{"type":"int"}`)
	for i := range maxCatalogColumns {
		fmt.Fprintf(&many, `,"%d":{"type":"x"}`, i)
	}
	many.WriteString("}}}}")
	if _, err := decodeCatalog(many.String()); err == nil || !strings.Contains(err.Error(), "too many columns; allowed: 500000") {
		t.Error(err)
	}
}

// FuzzCatalog: whatever a catalog contains, the result is an *Error or a catalog, and the same every time.
func FuzzCatalog(f *testing.F) {
	f.Add([]byte(catalogHead + `{"model.shop.orders":{"columns":{"ID":{"type":"NUMBER(38,0)"},"id":{"type":"text"},"Id":{"type":"date"},"iD":{"type":"bool"}}}}}`))
	f.Add([]byte(catalogHead + `{"model.a":null,"model.b":{"columns":null},"model.a":{"columns":{"":{"type":null}}}},"sources":[[{}]],"errors":["x"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var first *Catalog
		for range 2 {
			c, err := decodeCatalog(string(data))
			var rejected *Error
			if err != nil && !errors.As(err, &rejected) {
				t.Fatalf("%T: %v", err, err)
			}
			if err != nil {
				return
			}
			if first == nil {
				first = c
			}
			if a, b := fmt.Sprint(first.models), fmt.Sprint(c.models); a != b {
				t.Errorf("%s; %s", a, b)
			}
		}
	})
}

// TestProfilesThatConnect: no value is in the profile, only the names of variables.
func TestProfilesThatConnect(t *testing.T) {
	for adapter, want := range map[string]string{
		"postgres":   `password: '{{ env_var(''DBT_ENV_SECRET_CUBEJS_DB_PASS'', env_var(''CUBEJS_DB_PASS'', ''unused'')) }}'`,
		"redshift":   `port: '{{ env_var(''CUBEJS_DB_PORT'', ''5439'') | int }}'`,
		"snowflake":  `account: '{{ env_var(''DBT_ENV_SECRET_CUBEJS_DB_SNOWFLAKE_ACCOUNT'', env_var(''CUBEJS_DB_SNOWFLAKE_ACCOUNT'', ''unused'')) }}'`,
		"bigquery":   "no profile that connects can be generated for bigquery, which typesFromCatalog needs; allowed with schema: postgres, redshift, snowflake;",
		"clickhouse": "no profile that connects can be generated for clickhouse",
		"":           "CUBEJS_DB_TYPE",
	} {
		got, err := Profile{Adapter: adapter, Target: "dev", Database: "shop", Schema: "analytics", Connects: true}.Of([]byte("name: shop"))
		if text := strings.Join(strings.Fields(string(got)+fmt.Sprint(err)), " "); !strings.Contains(text, want) {
			t.Errorf("%s: %s", adapter, text)
		}
	}
}
