package dbtsandbox

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quoin-dev/quoin/internal/dbt"
)

// run runs a command and returns its exit code and its termination message.
func run(t *testing.T, do func(c command) int) (int, string) {
	t.Helper()
	termination := filepath.Join(t.TempDir(), "termination-log")
	write(t, termination, "")
	var stdout, stderr bytes.Buffer
	code := do(command{stdout: &stdout, stderr: &stderr, termination: termination, firstDelay: time.Millisecond})
	text, err := os.ReadFile(termination)
	if err != nil {
		t.Fatal(err)
	}
	return code, string(text)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDeliver: the manifest arrives with the selected models, also if the server is unavailable at first.
func TestDeliver(t *testing.T) {
	var requests int
	var body string
	status := []int{503, 429, 204}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		_, password, _ := r.BasicAuth()
		if password != "secret" || r.Method != http.MethodPut || r.ContentLength != int64(len(text)) {
			t.Errorf("%s with %q and length %d", r.Method, password, r.ContentLength)
		}
		body = string(text)
		w.WriteHeader(status[min(requests, len(status)-1)])
		fmt.Fprint(w, "some reason")
		requests++
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "password"), "secret")
	write(t, filepath.Join(dir, "ca.crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	write(t, filepath.Join(dir, "manifest.json"), `{"nodes":{}}`)
	write(t, filepath.Join(dir, "selected.jsonl"), "12:00:00  Found 2 models\n{\"unique_id\": \"model.shop.orders\"}\n")
	args := []string{"--url=" + server.URL, "--credentials-dir=" + dir, "--manifest=" + filepath.Join(dir, "manifest.json"), "--selected=" + filepath.Join(dir, "selected.jsonl")}
	deliver := func(c command) int { return c.deliver(t.Context(), args) }
	if code, text := run(t, deliver); code != exitDone || requests != 3 || body != `{"selected":["model.shop.orders"],"manifest":{"nodes":{}}}` {
		t.Errorf("%d after %d requests: %s; %s", code, requests, text, body)
	}
	write(t, filepath.Join(dir, "catalog.json"), `{"nodes":{}}`)
	requests, status, args = 0, []int{204}, append(args, "--catalog="+filepath.Join(dir, "catalog.json"))
	if code, text := run(t, deliver); code != exitDone || body != `{"selected":["model.shop.orders"],"catalog":{"nodes":{}},"manifest":{"nodes":{}}}` {
		t.Errorf("%d: %s; %s", code, text, body)
	}
	requests, status = 0, []int{409}
	if code, text := run(t, deliver); code != exitFailed || requests != 1 || text != "quoin apiserver rejects the manifest: 409 some reason" {
		t.Errorf("%d after %d requests: %q", code, requests, text)
	}
	requests, status = 0, []int{401, 401, 204} // another replica does not know the sync yet
	if code, text := run(t, deliver); code != exitDone || requests != 3 {
		t.Errorf("%d after %d requests: %q", code, requests, text)
	}
	requests, status = 0, []int{401, 503, 401}
	if code, text := run(t, deliver); code != exitFailed || requests != maxUnknown+1 || text != "quoin apiserver rejects the manifest: 401 some reason" {
		t.Errorf("%d after %d requests: %q", code, requests, text)
	}
	server.Close()
	args = append(args, "--timeout=20ms")
	if code, text := run(t, deliver); code != exitFailed || strings.Contains(text, "secret") || !strings.Contains(text, "gave up") {
		t.Errorf("%d: %q", code, text)
	}
}

// TestDeliverWithoutAManifest fails at once.
func TestDeliverWithoutAManifest(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "password"), "secret")
	code, text := run(t, func(c command) int {
		return c.deliver(t.Context(), []string{"--url=https://127.0.0.1:1", "--credentials-dir=" + dir, "--manifest=" + filepath.Join(dir, "manifest.json")})
	})
	if code != exitFailed || text != "dbt has written no manifest.json" {
		t.Errorf("%d: %q", code, text)
	}
	large, err := os.Create(filepath.Join(dir, "catalog.json"))
	if err == nil {
		err = large.Truncate(dbt.MaxCatalogBytes + 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	code, text = run(t, func(c command) int {
		return c.deliver(t.Context(), []string{"--url=https://127.0.0.1:1", "--credentials-dir=" + dir, "--manifest=x", "--catalog=" + large.Name()})
	})
	if code != exitFailed || text != "the catalog has 33554433 bytes; allowed: 33554432" {
		t.Errorf("%d: %q", code, text)
	}
}

// TestProfile: the profile is generated if a schema is given, or must be there.
func TestProfile(t *testing.T) {
	o := cloneOptions{target: t.TempDir(), path: "warehouse"}
	wantError := func(want string) {
		t.Helper()
		if err := o.writeProfile(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	wantError(`"warehouse" of the repository has none`)
	write(t, filepath.Join(o.target, projectFile), "name: shop\nprofile: shop_profile\n")
	wantError("set schema")
	o.profile.Schema, o.profile.Target = "analytics", "dev"
	wantError("CUBEJS_DB_TYPE")
	o.profile.Adapter = "postgres"
	wantError("CUBEJS_DB_NAME")
	o.profile.Database = "shop"
	if err := o.writeProfile(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(o.target, profilesFile))
	if err != nil || !strings.HasPrefix(string(text), "shop_profile:\n") || !strings.Contains(string(text), "dbname: shop\n") || !strings.Contains(string(text), "schema: analytics\n") {
		t.Errorf("%v: %s", err, text)
	}
	o.profile.Schema = "" // now the project has one
	if err := o.writeProfile(); err != nil {
		t.Error(err)
	}
}

func TestInvalidFlags(t *testing.T) {
	for _, args := range [][]string{{}, {"--url=ftp://x/y", "--target=/x"}, {"--url=https://x/y.git", "--target=/x", "more"}} {
		if code, text := run(t, func(c command) int { return c.clone(t.Context(), args) }); code != exitUsage || text == "" {
			t.Errorf("%q: %d %q", args, code, text)
		}
	}
}
