package contract_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
)

// variables are the environment variables of a deployment of acme.
type variables struct{ id string }

func (v variables) path() string { return "/api/v1/deployments/" + v.id + "/env-vars" }

// set sends names and values, alternating.
func (v variables) set(t *testing.T, pairs ...string) *response {
	t.Helper()
	var all []any
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, map[string]any{"name": pairs[i], "value": pairs[i+1]})
	}
	return acme.as(acme.admin).call(t, "PUT", v.path(), map[string]any{"env_variables": all})
}

// secrets returns the values in the deployment's Secret, by the name of the variable.
func (v variables) secrets(t *testing.T) map[string]string {
	t.Helper()
	secret := &corev1.Secret{}
	if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: acme.name, Name: object(t, acme, v.id).Name + "-variables"}, secret); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for key, value := range secret.Data {
		name, _, _ := strings.Cut(key, ".")
		all[name] += string(value)
	}
	return all
}

// Contract: "D/env-vars".
func TestSecretVariablesAreStoredInASecretAndMasked(t *testing.T) {
	v := variables{create(t, acme, "Variables")}
	acme.as(acme.admin).call(t, "GET", v.path(), nil).is(200).want("pageInfo.hasNextPage", false)
	v.set(t, "CUBEJS_DB_TYPE", "postgres", "CUBEJS_DB_PASS", "hunter2", "Api_Key", "k-1").is(200)
	a := v.set(t, "CUBEJS_DB_HOST", "db", "CUBEJS_DB_TYPE", "mysql").is(200)
	for i, want := range []string{"Api_Key=[ENCRYPTED]", "CUBEJS_DB_HOST=db", "CUBEJS_DB_PASS=[ENCRYPTED]", "CUBEJS_DB_TYPE=mysql"} {
		name, value, _ := strings.Cut(want, "=")
		a.want(fmt.Sprintf("items.%d.name", i), name).want(fmt.Sprintf("data.%d.value", i), value)
	}
	if got := v.secrets(t); got["CUBEJS_DB_PASS"] != "hunter2" || got["Api_Key"] != "k-1" || len(got) != 2 {
		t.Errorf("the Secret has %v", got)
	}
	if text := fmt.Sprintf("%+v", object(t, acme, v.id).Spec.Env); strings.Contains(text, "hunter2") {
		t.Errorf("the spec contains the secret: %s", text)
	}
	t.Run("a new value of a secret changes the spec and replaces the old value", func(t *testing.T) {
		before := object(t, acme, v.id).Generation
		v.set(t, "CUBEJS_DB_PASS", "hunter3").is(200)
		if generation := object(t, acme, v.id).Generation; generation == before {
			t.Error("the spec is unchanged: no pod would use the new value")
		}
		if got := v.secrets(t); got["CUBEJS_DB_PASS"] != "hunter3" {
			t.Errorf("the Secret has %v", got)
		}
	})
	t.Run("the same values again change nothing, and beside a new one keep their keys", func(t *testing.T) {
		before := object(t, acme, v.id)
		v.set(t, "Api_Key", "k-1", "CUBEJS_DB_PASS", "hunter3", "CUBEJS_DB_TYPE", "mysql").is(200).want("items.0.value", "[ENCRYPTED]")
		if generation := object(t, acme, v.id).Generation; generation != before.Generation {
			t.Error("the spec has changed: all pods would be replaced")
		}
		v.set(t, "CUBEJS_DB_PASS", "hunter3", "Api_Key", "k-2").is(200)
		after := object(t, acme, v.id)
		if got := v.secrets(t); got["CUBEJS_DB_PASS"] != "hunter3" || got["Api_Key"] != "k-2" || len(got) != 2 {
			t.Errorf("the Secret has %v", got)
		}
		if x, y := keyOf(before, "CUBEJS_DB_PASS"), keyOf(after, "CUBEJS_DB_PASS"); x != y {
			t.Errorf("the key of an unchanged value was %s and is %s", x, y)
		}
		if x, y := keyOf(before, "Api_Key"), keyOf(after, "Api_Key"); x == y {
			t.Errorf("a new value has the key %s of the previous one", y)
		}
	})
}

// The longest name that the document allows is one of a secret too.
func TestSecretVariableWithTheLongestName(t *testing.T) {
	v, name := variables{create(t, acme, "Long variables")}, "A_TOKEN_"+strings.Repeat("x", 248)
	v.set(t, name, "hunter2").is(200).want("items.0.name", name).want("items.0.value", "[ENCRYPTED]")
	if got := v.secrets(t); len(got) != 1 || got[name[:240]] != "hunter2" {
		t.Errorf("the Secret has %v", got)
	}
}

// keyOf returns the key of a secret variable in the deployment's Secret.
func keyOf(d *v1alpha1.Deployment, name string) string {
	for _, e := range d.Spec.Env {
		if e.Name == name && e.ValueFrom != nil {
			return e.ValueFrom.SecretKeyRef.Key
		}
	}
	return ""
}

// A value that is replaced stays for the pods that refer to it: one that restarts needs it. A change after they are gone
// removes it.
func TestReplacedSecretsStayForPods(t *testing.T) {
	v := variables{create(t, acme, "Replaced secrets")}
	v.set(t, "CUBEJS_DB_PASS", "first").is(200)
	d := object(t, acme, v.id)
	ref := &corev1.SecretKeySelector{Key: d.Spec.Env[0].ValueFrom.SecretKeyRef.Key}
	ref.Name = d.Name + "-variables"
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: acme.name, Name: d.Name + "-before", Labels: map[string]string{
			engine.LabelManagedBy: engine.ManagedBy, v1alpha1.LabelDeployment: d.Name,
		}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: engine.ContainerServer, Image: "cube:test", Env: []corev1.EnvVar{
			{Name: "CUBEJS_DB_PASS", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: ref}},
		}}}},
	}
	createUntilEnd(t, pod)
	check := func(want ...string) {
		t.Helper()
		secret := &corev1.Secret{}
		if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: acme.name, Name: ref.Name}, secret); err != nil {
			t.Fatal(err)
		}
		var values []string
		for _, value := range secret.Data {
			values = append(values, string(value))
		}
		slices.Sort(values)
		if !slices.Equal(values, want) {
			t.Errorf("the Secret has %v, want %v", values, want)
		}
	}
	v.set(t, "CUBEJS_DB_PASS", "second").is(200)
	check("first", "second")
	v.set(t, "CUBEJS_DB_PASS", "third").is(200)
	check("first", "third")
	if err := k8s.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	v.set(t, "CUBEJS_DB_PASS", "fourth").is(200)
	check("fourth")
}

// A password in a value is a secret, whatever the name of the variable: over REST it is stored in the Secret, and one that was
// set with kubectl is not shown.
func TestVariablesWithCredentialsInTheirValueAreSecrets(t *testing.T) {
	v := variables{create(t, acme, "Credentials in values")}
	const url = "postgres://quoin:hunter2@db.example.com:5432/quoin"
	v.set(t, "DATABASE_URL", url, "DSN", "host=db password=hunter2", "PLAIN_URL", "https://db.example.com/a@b").is(200)
	if got := v.secrets(t); got["DATABASE_URL"] != url || got["DSN"] != "host=db password=hunter2" || len(got) != 2 {
		t.Errorf("the Secret has %v", got)
	}
	d := object(t, acme, v.id)
	if text, _ := json.Marshal(d.Spec); strings.Contains(string(text), "hunter2") {
		t.Errorf("the spec contains the secret: %s", text)
	}
	before := client.MergeFrom(d.DeepCopy())
	d.Spec.Env = append(d.Spec.Env, v1alpha1.EnvVar{Name: "WITH_KUBECTL", Value: ptr.To(url)})
	if err := k8s.Patch(t.Context(), d, before); err != nil {
		t.Fatal(err)
	}
	a := acme.as(acme.admin).call(t, "GET", v.path(), nil).is(200)
	for i, want := range []string{"DATABASE_URL=[ENCRYPTED]", "DSN=[ENCRYPTED]", "PLAIN_URL=https://db.example.com/a@b", "WITH_KUBECTL=[ENCRYPTED]"} {
		name, value, _ := strings.Cut(want, "=")
		a.want(fmt.Sprintf("items.%d.name", i), name).want(fmt.Sprintf("items.%d.value", i), value)
	}
}

func TestInvalidVariablesChangeNothing(t *testing.T) {
	v := variables{create(t, acme, "Invalid variables")}
	admin := acme.as(acme.admin)
	for name, c := range map[string]struct {
		name, value string
		words       []string
	}{
		"placeholder": {"CUBEJS_DB_PASS", "[ENCRYPTED]", []string{"value", "[ENCRYPTED]"}},
		"name":        {"1A", "x", []string{"name", "1A"}},
		"reserved":    {"CUBEJS_API_SECRET", "x", []string{"CUBEJS_API_SECRET"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := object(t, acme, v.id).Generation
			v.set(t, "GOOD", "1", c.name, c.value).rejected(400, c.words...)
			if generation := object(t, acme, v.id).Generation; generation != before {
				t.Error("the spec has changed")
			}
		})
	}
	v.set(t, "TWICE", "1", "TWICE", "2").rejected(400, "TWICE")
	admin.call(t, "PUT", v.path(), map[string]any{}).rejected(400, "env_variables")
	if a := admin.call(t, "PUT", v.path(), map[string]any{"env_variables": []any{map[string]any{"name": "A_TOKEN", "value": 17}}}); strings.Contains(string(a.raw), "17") {
		t.Errorf("the error contains the value: %s", a.raw)
	}
}

// Contract: getDeploymentEnvironmentTokens. The list has what is kept of the caller's own tokens, and never a token.
func TestIssuedTokensAreListedWithoutTheToken(t *testing.T) {
	admin, id := acme.as(acme.admin), create(t, acme, "Tokens")
	environments := "/api/v1/deployments/" + id + "/environments"
	path := fmt.Sprintf("%s/%s/tokens", environments, admin.call(t, "GET", environments, nil).is(200).at("items.0.id"))
	admin.call(t, "GET", path, nil).is(200).want("pagination.total", 0.0)
	body := map[string]any{"security_context": map[string]any{"tenant": "private"}, "expires_in": 60}
	metadata := admin.call(t, "POST", path+"-for-meta-sync", body).is(200)
	data := admin.call(t, "POST", path, body).is(200)
	limited := admin.call(t, "POST", path, map[string]any{"security_context": map[string]any{}, "scopes": []string{"meta"}}).is(200)
	listed := admin.call(t, "GET", path, nil).is(200).want("pagination.total", 3.0)
	for i, issued := range []*response{metadata, data, limited} {
		for _, shape := range []string{"data", "items"} {
			at := fmt.Sprintf("%s.%d.", shape, i)
			for _, field := range []string{"id", "created_at", "expires_at"} {
				listed.want(at+field, issued.at("data."+field))
			}
			listed.want(at+"token", "[HIDDEN]")
		}
		if strings.Contains(string(listed.raw), fmt.Sprint(issued.at("data.token"))) {
			t.Errorf("the list has a token: %s", listed.raw)
		}
	}
	listed.want("items.0.scopes.0", "meta").want("items.2.scopes.0", "meta")
	if scopes := listed.at("items.1.scopes"); fmt.Sprint(scopes) != "[]" || strings.Contains(string(listed.raw), "private") {
		t.Errorf("the scopes of the data token are %v: %s", scopes, listed.raw)
	}
	first := admin.call(t, "GET", path+"?first=2", nil).is(200).want("pageInfo.hasNextPage", true)
	admin.call(t, "GET", fmt.Sprintf("%s?first=2&after=%s", path, first.at("pageInfo.endCursor")), nil).is(200).want("items.0.id", limited.at("data.id"))
	_, other := createAPIKey(t, map[string]any{"name": "Other", "permissions": []string{"DeploymentUpdate"}})
	acme.as(other).call(t, "GET", path, nil).is(200).want("pagination.total", 0.0)
}
