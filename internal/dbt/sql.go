package dbt

import (
	"errors"
	"regexp"
	"strings"
	"unicode"
)

// warehouse is the system in which the tables are.
type warehouse struct {
	adapter string
	// quote is the quotation mark of names.
	quote string
	// catalog is the first part of tables in Databricks.
	catalog string
}

func warehouseOf(adapter, catalog string) warehouse {
	w := warehouse{adapter: adapter, quote: `"`, catalog: catalog}
	switch adapter {
	case "bigquery", "databricks", "spark", "clickhouse", "mysql":
		w.quote = "`"
	}
	if w.catalog == "" {
		w.catalog = DefaultCatalog
	}
	return w
}

// errUnwritable is the error for a name that is not written into SQL: no warehouse needs it, and it could
// end the name, or refer to something else in the data model.
var errUnwritable = errors.New("a name contains a quotation mark, a backslash, a brace, a control character or one beyond 16 bits, is longer than 255 bytes or empty")

// writable reports whether a name can be written into SQL.
func writable(name string) bool {
	return name != "" && len(name) <= maxName && !strings.ContainsAny(name, "\"'`\\{}") &&
		strings.IndexFunc(name, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar || r > 0xFFFF }) < 0
}

var (
	plain      = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	plainLower = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)
	plainUpper = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)
)

// column returns the column in SQL. Without quotation marks the warehouse decides about its case.
func (w warehouse) column(name string, quoted bool) (string, error) {
	switch {
	case !writable(name):
		return "", errUnwritable
	case quoted && !w.isPlain(name), !plain.MatchString(name):
		return "{CUBE}." + w.quote + name + w.quote, nil
	}
	return name, nil
}

// isPlain reports whether a name means the same with and without quotation marks.
func (w warehouse) isPlain(name string) bool {
	switch w.adapter {
	case "bigquery", "databricks", "spark", "clickhouse", "duckdb":
		return plain.MatchString(name)
	case "snowflake":
		return plainUpper.MatchString(name)
	}
	return plainLower.MatchString(name)
}

// table returns the table of a model, with its database where the warehouse has several of them in a
// connection, and its schema. Parts that the manifest leaves empty are left out.
func (w warehouse) table(n *node) (string, error) {
	name := n.Alias
	if name == "" {
		name = n.Name
	}
	database := string(n.Database)
	switch w.adapter {
	case "databricks":
		database = w.catalog
	case "postgres", "athena", "clickhouse":
		database = ""
	}
	var parts []string
	for _, part := range []string{database, string(n.Schema), string(name)} {
		if part == "" {
			continue
		}
		if !writable(part) {
			return "", errUnwritable
		}
		isQuoted := strings.Contains(string(n.RelationName), `"`+part+`"`) || strings.Contains(string(n.RelationName), "`"+part+"`")
		if !plain.MatchString(part) || isQuoted && !w.isPlain(part) {
			part = w.quote + part + w.quote
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "."), nil
}
