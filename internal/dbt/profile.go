package dbt

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Profile is the connection profile with which dbt parses a project. Parsing opens no connection, but the
// manifest has the database and the schema of the profile. With the variables of the deployment, dbt can connect to
// some data sources.
type Profile struct {
	// Adapter is that of dbt, such as postgres.
	Adapter string
	// Target is the name of the target.
	Target string
	// Database and Schema are those of the models.
	Database, Schema string
	// Connects is whether dbt connects to the data source.
	Connects bool
}

// adapters are the adapters of dbt by the type of the data source of a deployment.
var adapters = map[string]string{
	"postgres": "postgres", "redshift": "redshift", "snowflake": "snowflake", "bigquery": "bigquery", "databricks-jdbc": "databricks",
	"athena": "athena", "clickhouse": "clickhouse",
}

// AdapterOf returns the adapter of dbt for the type of a data source, CUBEJS_DB_TYPE; empty if there is none.
func AdapterOf(dataSource string) string { return adapters[dataSource] }

// placeholder is the value of settings that only connections need.
const placeholder = "unused"

// SecretPrefix begins the names of variables that come from Secrets: dbt hides their values in its output, and lets
// only profiles and packages read them.
const SecretPrefix = "DBT_ENV_SECRET_" //nolint:gosec // a name

// variable returns the template of a variable of the deployment.
func variable(name string) string {
	return "{{ env_var('" + SecretPrefix + name + "', env_var('" + name + "', '" + placeholder + "')) }}"
}

// portVariable returns the template of the port, which dbt needs as a number.
func portVariable(absent string) string {
	return "{{ env_var('CUBEJS_DB_PORT', '" + absent + "') | int }}"
}

// sslVariable is the template of the setting of TLS.
const sslVariable = "{{ 'require' if env_var('CUBEJS_DB_SSL', 'false') == 'true' else 'prefer' }}"

// connecting are the adapters whose profile connects.
var connecting = []string{"postgres", "redshift", "snowflake"}

// output returns the settings of the adapter.
func (p Profile) output() (map[string]any, error) {
	if p.Connects && p.Adapter != "" && !slices.Contains(connecting, p.Adapter) {
		return nil, errorf("no profile that connects can be generated for %s, which typesFromCatalog needs; allowed with schema: %s; or add profiles.yml to the dbt project and remove schema",
			p.Adapter, strings.Join(connecting, ", "))
	}
	login := map[string]any{
		"type": p.Adapter, "host": variable("CUBEJS_DB_HOST"), "user": variable("CUBEJS_DB_USER"), "password": variable("CUBEJS_DB_PASS"), "schema": p.Schema, "threads": 1,
	}
	with := func(more map[string]any) (map[string]any, error) {
		for name, value := range more {
			login[name] = value
		}
		return login, nil
	}
	switch p.Adapter {
	case "postgres":
		return with(map[string]any{"port": portVariable("5432"), "sslmode": sslVariable, "dbname": p.Database})
	case "redshift":
		return with(map[string]any{"port": portVariable("5439"), "sslmode": sslVariable, "dbname": p.Database})
	case "clickhouse":
		return with(map[string]any{"port": 8123})
	case "snowflake":
		return map[string]any{
			"type": p.Adapter, "account": variable("CUBEJS_DB_SNOWFLAKE_ACCOUNT"), "user": variable("CUBEJS_DB_USER"), "password": variable("CUBEJS_DB_PASS"),
			"warehouse": variable("CUBEJS_DB_SNOWFLAKE_WAREHOUSE"), "database": p.Database, "schema": p.Schema, "threads": 1,
		}, nil
	case "bigquery":
		return map[string]any{"type": p.Adapter, "method": "oauth", "project": p.Database, "dataset": p.Schema, "threads": 1}, nil
	case "databricks":
		return map[string]any{
			"type": p.Adapter, "host": placeholder, "http_path": placeholder, "token": placeholder, "catalog": p.Database, "schema": p.Schema, "threads": 1,
		}, nil
	case "athena":
		return map[string]any{
			"type": p.Adapter, "s3_staging_dir": "s3://" + placeholder, "region_name": placeholder, "database": p.Database, "schema": p.Schema, "threads": 1,
		}, nil
	}
	known := slices.Sorted(func(yield func(string) bool) {
		for source := range adapters {
			if !yield(source) {
				return
			}
		}
	})
	return nil, errorf("no profile can be generated: CUBEJS_DB_TYPE of the deployment is none of %s; add profiles.yml to the dbt project and remove schema",
		strings.Join(known, ", "))
}

// Of returns profiles.yml for a project, whose dbt_project.yml names the profile.
func (p Profile) Of(project []byte) ([]byte, error) {
	var settings struct {
		Name    string `json:"name"`
		Profile string `json:"profile"`
	}
	if err := yaml.Unmarshal(project, &settings); err != nil {
		return nil, errorf("dbt_project.yml is not valid YAML")
	}
	name := settings.Profile
	if name == "" {
		name = "default"
	}
	output, err := p.output()
	if err != nil {
		return nil, err
	}
	if p.Database == "" && p.Adapter != "clickhouse" {
		return nil, errorf("database: absent, and CUBEJS_DB_NAME of the deployment has no value; set it")
	}
	text, err := yaml.Marshal(map[string]any{name: map[string]any{"target": p.Target, "outputs": map[string]any{p.Target: output}}})
	if err != nil {
		return nil, fmt.Errorf("write profiles.yml: %w", err)
	}
	return text, nil
}
