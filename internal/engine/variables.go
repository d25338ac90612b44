package engine

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// reservedByServer are the variables of the server that users may not set: those that the platform
// sets, and those that would make pods reject the platform's tokens or accept others.
// CUBEJS_TELEMETRY and HOME are set by the platform too, but only as defaults.
var reservedByServer = []string{
	"CUBEJS_API_SECRET",
	"CUBEJS_API_SECRETS",
	"CUBEJS_CACHE_AND_QUEUE_DRIVER",
	"CUBEJS_CUBESTORE_HOST",
	"CUBEJS_CUBESTORE_PORT",
	"CUBEJS_DEV_MODE",
	"CUBEJS_GRACEFUL_SHUTDOWN",
	"CUBEJS_JWK_URL",
	"CUBEJS_JWT_ALGS",
	"CUBEJS_JWT_AUDIENCE",
	"CUBEJS_JWT_ISSUER",
	"CUBEJS_JWT_KEY",
	"CUBEJS_JWT_SUBJECT",
	"CUBEJS_PG_SQL_PORT",
	"CUBEJS_PLAYGROUND_AUTH_SECRET",
	"CUBEJS_PRE_AGGREGATIONS_BUILDER",
	"CUBEJS_REFRESH_WORKER",
	"CUBEJS_SCHEMA_PATH",
	"CUBEJS_SQL_PASSWORD",
	"CUBEJS_SQL_USER",
	"NODE_ENV",
	"PORT",
}

// Variables of the data source that dbt syncs use.
const (
	VariableCatalog  = "CUBEJS_DB_DATABRICKS_CATALOG"
	VariableDatabase = "CUBEJS_DB_NAME"
	VariableType     = "CUBEJS_DB_TYPE"
)

// LiteralVariable returns the value of an environment variable of a deployment; empty if it is not in the
// spec, or in a Secret.
func LiteralVariable(d *v1alpha1.Deployment, name string) string {
	for _, v := range d.Spec.Env {
		if v.Name == name && v.Value != nil {
			return *v.Value
		}
	}
	return ""
}

// DataSourceVariables returns the variables of a deployment with which dbt connects to its data source: those whose names
// begin with CUBEJS_DB_ or DBT_ENV_, and those of the Secrets in spec.envFrom. Values from Secrets have the prefix before
// their names, unless they begin with it.
func DataSourceVariables(d *v1alpha1.Deployment, secretPrefix string) ([]corev1.EnvVar, []corev1.EnvFromSource) {
	var env []corev1.EnvVar
	for _, v := range merge(nil, d.Spec.Env) {
		if !strings.HasPrefix(v.Name, "CUBEJS_DB_") && !strings.HasPrefix(v.Name, "DBT_ENV_") {
			continue
		}
		if v.ValueFrom != nil && !strings.HasPrefix(v.Name, secretPrefix) {
			v.Name = secretPrefix + v.Name
		}
		env = append(env, v)
	}
	from := envFrom(names(d.Spec.EnvFrom))
	for i := range from {
		from[i].Prefix = secretPrefix
	}
	return env, from
}

// reservedByStore are the variables of the store that users may not set: its addresses, ports and
// directories.
var reservedByStore = []string{
	"CUBESTORE_BIND_ADDR",
	"CUBESTORE_DATA_DIR",
	"CUBESTORE_HTTP_BIND_ADDR",
	"CUBESTORE_HTTP_PORT",
	"CUBESTORE_META_ADDR",
	"CUBESTORE_META_BIND_ADDR",
	"CUBESTORE_META_PORT",
	"CUBESTORE_PORT",
	"CUBESTORE_REMOTE_DIR",
	"CUBESTORE_SERVER_NAME",
	"CUBESTORE_STATUS_BIND_ADDR",
	"CUBESTORE_STATUS_PORT",
	"CUBESTORE_WORKERS",
	"CUBESTORE_WORKER_BIND_ADDR",
	"CUBESTORE_WORKER_PORT",
	"POD_NAME",
}

// ReservedVariable reports whether spec.env must not set a variable. InputsFor checks spec.env; it
// does not know the keys of Secrets in spec.envFrom, but those that the platform sets have no
// effect.
func ReservedVariable(name string) bool { return slices.Contains(reservedByServer, name) }

// value returns a variable with a literal value. Dollar signs are escaped, because Kubernetes
// expands $(NAME) and $$.
func value(name, v string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, Value: Literal(v)}
}

// Literal escapes the expansions of Kubernetes in variables and arguments.
func Literal(s string) string { return strings.ReplaceAll(s, "$", "$$") }

func fromSecret(name, secret, key string, optional bool) corev1.EnvVar {
	selector := &corev1.SecretKeySelector{Key: key}
	selector.Name = secret
	if optional {
		selector.Optional = &optional
	}
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: selector}}
}

// merge appends the user's variables, which are sorted, to the platform's. The user's value takes
// precedence.
func merge(platform []corev1.EnvVar, user []v1alpha1.EnvVar) []corev1.EnvVar {
	env := slices.DeleteFunc(platform, func(p corev1.EnvVar) bool {
		return slices.ContainsFunc(user, func(u v1alpha1.EnvVar) bool { return u.Name == p.Name })
	})
	for _, u := range user {
		switch {
		case u.ValueFrom != nil:
			ref := u.ValueFrom.SecretKeyRef
			env = append(env, fromSecret(u.Name, ref.Name, ref.Key, false))
		case u.Value != nil:
			env = append(env, value(u.Name, *u.Value))
		default:
			env = append(env, value(u.Name, ""))
		}
	}
	return env
}

func envFrom(secrets []string) []corev1.EnvFromSource {
	out := make([]corev1.EnvFromSource, 0, len(secrets))
	for _, name := range secrets {
		source := corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{}}
		source.SecretRef.Name = name
		out = append(out, source)
	}
	return out
}
