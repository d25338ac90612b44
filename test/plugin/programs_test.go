package plugin_test

import (
	"encoding/base64"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Programs that the plugin runs. kubectl prints the line of a forwarded port and runs until it is stopped, as the real one;
// psql prints what it is given, and the first byte of the password only.
var fakePrograms = map[string]string{
	"kubectl": `#!/bin/sh
echo "kubectl $*" >> "$CALLS"
[ -z "$REFUSED" ] || { echo "error: $REFUSED" >&2; exit 1; }
echo $$ > "$CALLS.process"
echo "Forwarding from 127.0.0.1:15432 -> 15432"
while :; do sleep 0.05; done
`,
	"psql": `#!/bin/sh
echo "psql $*" >> "$CALLS"
printf 'ssl: %s, password: %s bytes\n' "$PGSSLMODE" "${#PGPASSWORD}"
printf '%s' "$PGPASSWORD" > "$CALLS.password"
exit "${PSQL_CODE:-0}"
`,
}

// TestPsqlExec: psql runs on a forwarded port of the environment, with the password of its Secret in the environment and
// never in the arguments.
func TestPsqlExec(t *testing.T) {
	folder := t.TempDir()
	for name, script := range fakePrograms {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	secret := &corev1.Secret{}
	if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "sales-production-credentials"}, secret); err != nil {
		t.Fatal(err)
	}
	password := string(secret.Data["sqlPassword"])
	if password == "" {
		t.Fatal("the Secret has no password")
	}
	args := []string{"psql", "sales", "-n", namespace, "--exec", "--", "--no-psqlrc", "-c", "SELECT 1"}
	for _, tt := range []struct {
		name      string
		args      []string
		variables []string
		calls     []string // prefixes
	}{
		{"psql-exec", args, nil, []string{"kubectl port-forward --namespace=demo service/sales-production-api :15432", "psql -h 127.0.0.1 -p 15432 -U cube --no-psqlrc -c SELECT 1"}},
		{"psql-exec-failed", args, []string{"PSQL_CODE=2"}, []string{"kubectl", "psql"}},
		{"psql-exec-refused", args, []string{"REFUSED=services is forbidden"}, []string{"kubectl"}},
		{"psql-exec-viewer", append([]string{"--as", "jane"}, args...), nil, nil},
		{"psql-exec-missing", []string{"psql", "sales", "-n", namespace, "--exec"}, []string{"PATH=/does/not/exist"}, nil},
		{"psql-arguments", []string{"psql", "sales", "-n", namespace, "--", "-c", "SELECT 1"}, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			calls := filepath.Join(t.TempDir(), "calls")
			variables := append([]string{"PATH=" + folder + string(os.PathListSeparator) + os.Getenv("PATH"), "CALLS=" + calls}, tt.variables...)
			r := quoin(t, variables, tt.args...)
			golden(t, tt.name, r, tt.args)
			text, _ := os.ReadFile(calls) // absent without calls
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			for i, prefix := range tt.calls {
				if i >= len(lines) || !strings.HasPrefix(lines[i], prefix) {
					t.Errorf("calls: %q, want %q", lines, tt.calls)
				}
			}
			if len(tt.calls) == 0 && len(text) > 0 {
				t.Errorf("calls: %q, want none", lines)
			}
			if strings.Contains(r.stdout+r.stderr+string(text), password) {
				t.Error("the password is printed, or an argument")
			}
			if process, err := os.ReadFile(calls + ".process"); err == nil {
				if _, err := os.Stat("/proc/" + strings.TrimSpace(string(process))); err == nil {
					t.Error("kubectl still runs")
				}
			}
			if given, err := os.ReadFile(calls + ".password"); err == nil && string(given) != password {
				t.Error("the password is not that of the Secret")
			}
		})
	}
}

// TestBundleHasNoSecretOfTheCluster: an archive of all accounts has the objects, and no value of any Secret of the cluster, in no form.
func TestBundleHasNoSecretOfTheCluster(t *testing.T) {
	name := filepath.Join(t.TempDir(), "bundle.tar.gz")
	r := quoin(t, nil, "bundle", "-A", "--logs=false", "--file", name)
	if r.code != 0 || r.stdout != name+"\n" {
		t.Fatalf("%+v", r)
	}
	var list []string
	all := ""
	for file, text := range filesOf(t, name) {
		list, all = append(list, file), all+file+"\n"+text
		if strings.Contains(text, "kind: Secret\n") {
			t.Errorf("%s has Secrets", file)
		}
	}
	slices.Sort(list)
	golden(t, "bundle", result{r.code, strings.Join(list, "\n") + "\n", strings.ReplaceAll(r.stderr, name, "FILE")}, []string{"bundle", "-A", "--logs=false"})
	// What the archive is for: the objects and why they are not ready.
	for _, text := range []string{"name: crashing", "ImagePullBackOff", "DeadlineExceeded", "CUBEJS_DB_HOST", "[HIDDEN]"} {
		if !strings.Contains(all, text) {
			t.Errorf("the archive does not have %q", text)
		}
	}
	secrets := &corev1.SecretList{}
	if err := k8s.List(t.Context(), secrets); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{planted: "planted", apiKey: "API key", base64.StdEncoding.EncodeToString([]byte(planted)): "planted, in base64"}
	for _, s := range secrets.Items {
		for key, value := range s.Data {
			of := s.Namespace + "/" + s.Name + " " + key
			// A CA certificate is public, and is part of the bundles of webhooks and APIServices.
			if len(value) < 8 || strings.HasSuffix(key, ".crt") {
				continue
			}
			for _, form := range []string{string(value), base64.StdEncoding.EncodeToString(value), url.QueryEscape(string(value))} {
				values[form] = of
			}
		}
	}
	if len(values) < 6 {
		t.Fatalf("the cluster has %d secret values, want at least 6", len(values))
	}
	for value, of := range values {
		if strings.Contains(all, value) {
			t.Errorf("the archive has the value of %s", of)
		}
	}
}
