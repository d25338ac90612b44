package dbt

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Profile is the connection profile with which dbt parses a project. Parsing opens no connection, but the
// manifest has the database and the schema of the profile.
type Profile struct {
	// Adapter is that of dbt, such as postgres.
	Adapter string
	// Target is the name of the target.
	Target string
	// Database and Schema are those of the models.
	Database, Schema string
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

// output returns the settings of the adapter.
func (p Profile) output() (map[string]any, error) {
	login := map[string]any{"type": p.Adapter, "host": placeholder, "user": placeholder, "password": placeholder, "schema": p.Schema, "threads": 1}
	with := func(more map[string]any) (map[string]any, error) {
		for name, value := range more {
			login[name] = value
		}
		return login, nil
	}
	switch p.Adapter {
	case "postgres":
		return with(map[string]any{"port": 5432, "dbname": p.Database})
	case "redshift":
		return with(map[string]any{"port": 5439, "dbname": p.Database})
	case "clickhouse":
		return with(map[string]any{"port": 8123})
	case "snowflake":
		return map[string]any{
			"type": p.Adapter, "account": placeholder, "user": placeholder, "password": placeholder, "warehouse": placeholder,
			"database": p.Database, "schema": p.Schema, "threads": 1,
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
