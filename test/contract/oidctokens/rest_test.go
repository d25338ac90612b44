package oidctokens_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

func TestConfigurationsAreManagedOverREST(t *testing.T) {
	aws := acme.config(t, map[string]any{
		"audienceType": "AWS", "targetEnvVar": "AWS_WEB_IDENTITY_TOKEN_FILE", "subFormat": "{region}:{deployment_id}", "customClaims": map[string]any{"team": []any{"a", 1.5}},
	})
	custom := acme.config(t, map[string]any{"audienceType": "custom", "customAudience": "vault", "name": "vault", "isEnabled": false, "subFormat": nil, "customClaims": nil})
	second := acme.config(t, map[string]any{"audienceType": "aws"})
	list := acme.call(t, acme.admin, "GET", configsPath, nil).Is(200)
	list.Want(map[string]string{
		"length": "3", "0.name": `"aws"`, "0.audienceType": `"aws"`, "0.audience": `"sts.amazonaws.com"`, "0.isEnabled": "true", "0.targetEnvVar": `"AWS_WEB_IDENTITY_TOKEN_FILE"`,
		"0.subFormat": `"{region}:{deployment_id}"`, "0.customClaims": `{"team":["a",1.5]}`,
		"1.name": `"vault"`, "1.audience": `"vault"`, "1.isEnabled": "false", "1.subFormat": "null", "1.targetEnvVar": "null", "1.customClaims": "null", "2.name": `"aws-2"`,
	})
	if list.At("0.createdAt") == nil || list.At("0.updatedAt") == nil {
		t.Errorf("no times: %s", list.Body)
	}
	acme.call(t, acme.admin, "GET", aws, nil).Is(200).Want(map[string]string{"name": `"aws"`})
	acme.call(t, acme.admin, "PUT", aws, map[string]any{"name": "cloud", "isEnabled": false}).Is(200).
		Want(map[string]string{"name": `"cloud"`, "isEnabled": "false", "targetEnvVar": `"AWS_WEB_IDENTITY_TOKEN_FILE"`, "customClaims": `{"team":["a",1.5]}`})
	acme.call(t, acme.admin, "PUT", aws, map[string]any{"targetEnvVar": nil, "customClaims": nil, "subFormat": nil, "customAudience": "mine", "isEnabled": nil}).Is(200).
		Want(map[string]string{"targetEnvVar": "null", "customClaims": "null", "subFormat": "null", "audience": `"mine"`, "isEnabled": "true"})
	acme.call(t, acme.admin, "PUT", aws, map[string]any{"customAudience": nil}).Is(200).Want(map[string]string{"audience": `"sts.amazonaws.com"`})
	acme.call(t, acme.admin, "PUT", aws, nil).Is(200).Want(map[string]string{"name": `"cloud"`})
	acme.call(t, acme.admin, "PUT", custom, map[string]any{"customAudience": nil}).Rejected(400, "customAudience", "custom")
	acme.call(t, acme.admin, "PUT", second, map[string]any{"name": "vault"}).Rejected(409, "name", "vault")
	acme.call(t, acme.admin, "PUT", aws, map[string]any{"audienceType": "gcp"}).Rejected(400, "audienceType")
	globex.call(t, globex.admin, "GET", aws, nil).Rejected(404, "id")
	globex.call(t, globex.admin, "PUT", aws, map[string]any{}).Rejected(404, "id")
	globex.call(t, globex.admin, "DELETE", aws, nil).Rejected(404, "id")
	globex.call(t, globex.admin, "GET", configsPath, nil).Is(200).Want(map[string]string{"length": "0"})
	acme.call(t, acme.admin, "DELETE", second, nil).Is(200)
	acme.call(t, acme.admin, "DELETE", second, nil).Rejected(404, "id")
	acme.call(t, acme.admin, "GET", configsPath, nil).Is(200).Want(map[string]string{"length": "2"})

	text := string(acme.call(t, acme.admin, "GET", "/api/v1/audit-logs/export", nil).Is(200).Body)
	for _, event := range []string{"Created OIDC token configuration", "Updated OIDC token configuration", "Deleted OIDC token configuration"} {
		if !strings.Contains(text, event) {
			t.Errorf("the audit log has no event %q", event)
		}
	}
}

func TestInvalidConfigurationsAreRejected(t *testing.T) {
	acme.config(t, map[string]any{"audienceType": "gcp", "name": "first", "targetEnvVar": "TOKEN_FILE"})
	many := map[string]any{}
	for i := range 17 {
		many[strings.Repeat("a", i+1)] = i
	}
	for name, c := range map[string]struct {
		body   any
		status int
		words  []string
	}{
		"no body":              {nil, 400, nil},
		"no type":              {map[string]any{"name": "a"}, 400, []string{"audienceType"}},
		"unknown type":         {map[string]any{"audienceType": "oracle"}, 400, []string{"audienceType", "oracle", "aws, gcp, azure, snowflake, custom"}},
		"custom, no audience":  {map[string]any{"audienceType": "custom"}, 400, []string{"customAudience"}},
		"a space":              {map[string]any{"audienceType": "custom", "customAudience": "a b"}, 400, []string{"customAudience"}},
		"a path as name":       {map[string]any{"audienceType": "aws", "name": "../a"}, 400, []string{"name", "../a"}},
		"name taken":           {map[string]any{"audienceType": "aws", "name": "first"}, 409, []string{"name", "first"}},
		"variable taken":       {map[string]any{"audienceType": "aws", "targetEnvVar": "TOKEN_FILE"}, 409, []string{"targetEnvVar", "first", "TOKEN_FILE"}},
		"variable of platform": {map[string]any{"audienceType": "aws", "targetEnvVar": "CUBEJS_API_SECRET"}, 400, []string{"targetEnvVar", "CUBEJS_API_SECRET"}},
		"lower-case variable":  {map[string]any{"audienceType": "aws", "targetEnvVar": "a"}, 400, []string{"targetEnvVar"}},
		"unknown placeholder":  {map[string]any{"audienceType": "aws", "subFormat": "{user}"}, 400, []string{"subFormat", "{user}", "{deployment_id}"}},
		"long subject":         {map[string]any{"audienceType": "aws", "subFormat": strings.Repeat("a", 201)}, 400, []string{"subFormat", "200"}},
		"reserved claim":       {map[string]any{"audienceType": "aws", "customClaims": map[string]any{"sub": "admin"}}, 400, []string{"customClaims", "sub"}},
		"many claims":          {map[string]any{"audienceType": "aws", "customClaims": many}, 400, []string{"customClaims", "17", "16"}},
		"large claims":         {map[string]any{"audienceType": "aws", "customClaims": map[string]any{"a": strings.Repeat("a", 5000)}}, 400, []string{"customClaims", "4096"}},
		"null as claim":        {map[string]any{"audienceType": "aws", "customClaims": map[string]any{"a": nil}}, 400, []string{"customClaims", "null"}},
		"claims of a list":     {map[string]any{"audienceType": "aws", "customClaims": []any{}}, 400, []string{"customClaims"}},
		"unknown property":     {map[string]any{"audienceType": "aws", "path": "/tmp"}, 400, []string{"path"}},
	} {
		t.Run(name, func(t *testing.T) {
			acme.call(t, acme.admin, "POST", configsPath, c.body).Rejected(c.status, c.words...)
		})
	}
	acme.call(t, acme.admin, "GET", configsPath, nil).Is(200).Want(map[string]string{"length": "1"})
	for method, path := range map[string]string{"GET": configsPath, "POST": configsPath, "PUT": configsPath + "1", "DELETE": configsPath + "1"} {
		acme.call(t, acme.reader, method, path, nil).Rejected(403, "Admin")
		acme.call(t, "", method, path, nil).Is(401)
	}
	acme.call(t, acme.reader, "GET", configsPath+"1", nil).Rejected(403, "Admin")
}

// TestConfigurationsOfGit: a configuration that is applied with kubectl is shown, and cannot be deleted over REST.
func TestConfigurationsOfGit(t *testing.T) {
	const applied = `{"apiVersion":"platform.quoin.dev/v1alpha1","kind":"OidcTokenConfig","metadata":{"name":"azure"},"spec":{"audienceType":"Azure"}}`
	c := &v1alpha1.OidcTokenConfig{ObjectMeta: metav1.ObjectMeta{Namespace: globex.name, Name: "azure"}}
	if err := kubernetes.Client.Patch(t.Context(), c, client.RawPatch(types.ApplyPatchType, []byte(applied)), client.FieldOwner("argocd-controller")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kubernetes.Client.Delete(t.Context(), c) })
	var list *apiclient.Answer
	apiclient.Soon(t, func() error {
		if list = globex.call(t, globex.admin, "GET", configsPath, nil).Is(200); list.At("length") != 1.0 {
			return errors.New("the configuration is not listed")
		}
		return nil
	})
	list.Want(map[string]string{"0.name": `"azure"`, "0.audience": `"api://AzureADTokenExchange"`})
	id, _ := json.Marshal(list.At("0.id"))
	globex.call(t, globex.admin, "DELETE", configsPath+string(id), nil).Rejected(409, "argocd-controller")
}

// TestCallsOfTheCommandLineClient: each call is answered, and a response has what the client reads: of a list, the elements of the
// array.
func TestCallsOfTheCommandLineClient(t *testing.T) {
	data, err := os.ReadFile("testdata/cli-calls.json")
	if err != nil {
		t.Fatal(err)
	}
	var calls []struct {
		Command, Method, Path string
		Reads                 []string
	}
	if err := json.Unmarshal(data, &calls); err != nil || len(calls) != 5 {
		t.Fatalf("%v, %d calls", err, len(calls))
	}
	path := acme.config(t, map[string]any{"audienceType": "snowflake", "targetEnvVar": "SNOWFLAKE_TOKEN_FILE"})
	id := strings.TrimPrefix(path, configsPath)
	for _, name := range []string{"oidc list", "oidc get <config:int>", "oidc create -d JSON", "oidc update <config> -d JSON", "oidc delete <config>"} {
		i := slices.IndexFunc(calls, func(c struct {
			Command, Method, Path string
			Reads                 []string
		}) bool {
			return c.Command == name
		})
		if i < 0 {
			t.Fatalf("the client has no command %q", name)
		}
		var body any
		switch calls[i].Method {
		case http.MethodPost:
			body = map[string]any{"audienceType": "azure"}
		case http.MethodPut:
			body = map[string]any{"isEnabled": false}
		}
		got := acme.call(t, acme.admin, calls[i].Method, strings.ReplaceAll(calls[i].Path, "{configId}", id), body).Is(200)
		for _, read := range calls[i].Reads {
			if field := strings.TrimPrefix(read, "items[]."); got.At("0."+field) == nil {
				t.Errorf("%s: the first row has no %s: %s", name, field, got.Body)
			}
		}
		if calls[i].Method == http.MethodPost {
			created, _ := json.Marshal(got.At("id"))
			t.Cleanup(func() { acme.call(t, acme.admin, "DELETE", configsPath+string(created), nil).Is(200) })
		}
	}
}
