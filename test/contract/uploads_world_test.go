package contract_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/serving/certificates"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
	"github.com/quoin-dev/quoin/test/internal/cubejs"
)

// modelFiles is a data model: contents by path.
type modelFiles map[string]string

var firstProject = modelFiles{
	"cube.js": "module.exports = {};\n", "model/cubes/orders.yml": "cubes:\n  - name: orders\n    sql_table: orders\n",
	"model/cubes/users.yml": "cubes:\n  - name: users\n    sql_table: users\n", ".gitignore": "node_modules\n",
}

// secondProject has one changed file, one new one, and lacks one.
var secondProject = modelFiles{
	"cube.js": "module.exports = {};\n", "model/cubes/orders.yml": "cubes:\n  - name: orders\n    sql_table: public.orders\n",
	"model/views/sales.yml": "views: []\n", ".gitignore": "node_modules\n",
}

func (p modelFiles) hashes() map[string]any {
	all := map[string]any{}
	for path, text := range p {
		sum := sha1.Sum([]byte(text))
		all[path] = map[string]any{"hash": hex.EncodeToString(sum[:])}
	}
	return all
}

// newRepository creates a deployment whose model is in a repository of Quoin, and returns its id.
func newRepository(t *testing.T, a *account, name string) string {
	t.Helper()
	d := &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: name},
		Spec:       v1alpha1.DeploymentSpec{ReleaseChannel: "latest", Model: v1alpha1.ModelSource{Repository: &v1alpha1.RepositorySource{}}},
	}
	if err := k8s.Create(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(k8s.Delete(context.WithoutCancel(t.Context()), d)); err != nil {
			t.Error(err)
		}
	})
	apiclient.Soon(t, func() error {
		if err := k8s.Get(t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		if d.Status.ID == "" {
			return fmt.Errorf("%s has no id: %v", name, d.Status.Conditions)
		}
		if got := a.as(a.admin).call(t, "GET", "/api/v1/deployments/"+d.Status.ID, nil); got.status != 200 {
			return fmt.Errorf("%d %s", got.status, got.raw)
		}
		return nil
	})
	return d.Status.ID
}

// protocol are the paths of one of the two upload protocols.
type protocol struct{ hashes, start, file, finish string }

func newer(id string) protocol {
	base := "/build/api/v1/deployments/" + id + "/data-model"
	return protocol{base + "/file-hashes", base + "/upload/start", base + "/upload/file", base + "/upload/finish"}
}

func legacy(id string) protocol {
	base := "/build/deploy/" + id
	return protocol{base + "/files", base + "/start-upload", base + "/upload-file", base + "/finish-upload"}
}

// sendFile uploads a file as clients do: cubejs-cli sends two Content-Type headers.
func (c caller) sendFile(t testing.TB, path string, transaction any, name, text string) *response {
	t.Helper()
	encoded, err := json.Marshal(transaction)
	if err != nil {
		t.Fatal(err)
	}
	body := &bytes.Buffer{}
	form := multipart.NewWriter(body)
	_ = form.WriteField("transaction", string(encoded)) // a buffer
	_ = form.WriteField("fileName", name)
	part, _ := form.CreateFormFile("file", name[strings.LastIndex(name, "/")+1:])
	_, _ = io.WriteString(part, text)
	_ = form.Close()
	return c.send(t, path, io.MultiReader(body), form.FormDataContentType(), "application/json") // of unknown length
}

// send posts a body with Content-Type headers.
func (c caller) send(t testing.TB, path string, body io.Reader, mediaTypes ...string) *response {
	t.Helper()
	request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, "https://"+acme.host+path, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = c.host
	request.Header.Set("Authorization", c.authorization)
	request.Header["Content-Type"] = mediaTypes
	got, err := httpClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = got.Body.Close() }()
	raw, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return &response{t: t, what: "POST " + path, status: got.StatusCode, header: got.Header, raw: raw}
}

// deploy uploads a project as clients do. It returns the commit and the paths of the files that were
// uploaded because they differ.
func (c caller) deploy(t testing.TB, p protocol, files modelFiles) (lastHash string, uploaded []string) {
	t.Helper()
	known := map[string]struct{ Hash string }{}
	if err := json.Unmarshal(c.call(t, "GET", p.hashes, nil).is(200).raw, &known); err != nil {
		t.Fatal(err)
	}
	transaction := c.call(t, "POST", p.start, nil).is(200).at("transaction")
	hashes := files.hashes()
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if want, _ := hashes[path].(map[string]any); known[path].Hash != want["hash"] {
			c.sendFile(t, p.file, transaction, path, files[path]).is(200)
			uploaded = append(uploaded, path)
		}
	}
	lastHash, _ = c.call(t, "POST", p.finish, map[string]any{"transaction": transaction, "files": hashes}).is(200).at("lastHash").(string)
	return lastHash, uploaded
}

// files returns the files of a branch over REST.
func (c caller) files(t testing.TB, id, branch string) modelFiles {
	t.Helper()
	query := "?withContent=true&branchName=" + branch
	all := modelFiles{}
	var add func(nodes []map[string]any)
	add = func(nodes []map[string]any) {
		for _, n := range nodes {
			path, _ := n["path"].(string)
			if n["type"] == "file" {
				all[strings.TrimPrefix(path, "/")], _ = n["content"].(string)
			}
			children, _ := n["children"].([]any)
			for _, child := range children {
				inner, _ := child.(map[string]any)
				add([]map[string]any{inner})
			}
		}
	}
	add(c.call(t, "GET", "/build/api/v1/deployments/"+id+"/data-model/files"+query, nil).is(200).list("items"))
	return all
}

// wants checks the files of production.
func (c caller) wants(t testing.TB, id string, want modelFiles) {
	t.Helper()
	if got := c.files(t, id, v1alpha1.DefaultBranch); !maps.Equal(got, want) {
		t.Errorf("production has %q, want %q", got, want)
	}
}

// createDeployToken returns the deploy token of a deployment.
func (a *account) createDeployToken(t testing.TB, id string) string {
	t.Helper()
	token, _ := a.as(a.admin).call(t, "POST", "/build/api/v1/deployments/"+id+"/deploy-token", nil).is(200).at("token").(string)
	return token
}

// checkUploads checks the responses to valid requests that upload and write files. It adds their
// operations to those that have succeeded.
func (s *specification) checkUploads(t *testing.T, succeeded map[string]bool) {
	t.Helper()
	id, admin := newRepository(t, globex, "document-uploads"), globex.as(globex.admin)
	check := func(path, method string, got *response) *response {
		t.Helper()
		op := s.paths[path][method]
		if err := s.check(path, method, op, got.is(200)); err != nil {
			t.Error(err)
		}
		succeeded[op.OperationID] = true
		return got
	}
	send := func(method, path string, body any) *response {
		t.Helper()
		return check(path, strings.ToLower(method), admin.call(t, method, strings.Replace(path, "{deploymentId}", id, 1), body))
	}
	for _, p := range []protocol{newer("{deploymentId}"), legacy("{deploymentId}")} {
		transaction := send("POST", p.start, nil).at("transaction")
		files := modelFiles{"a.yml": p.start}
		check(p.file, "post", admin.sendFile(t, strings.Replace(p.file, "{deploymentId}", id, 1), transaction, "a.yml", p.start))
		send("POST", p.finish, map[string]any{"transaction": transaction, "files": files.hashes()})
		send("GET", p.hashes, nil)
	}
	send("POST", "/build/deploy/{deploymentId}/set-env", map[string]any{"envVariables": "{}"})
	token := send("POST", "/build/api/v1/deployments/{deploymentId}/deploy-token", nil).at("token")
	send("POST", "/build/api/v1/deployments/{deploymentId}/git-token", nil)
	send("POST", "/v1/token", map[string]any{"token": token})
	d := object(t, globex, id)
	d.Spec.OnDemand = &v1alpha1.OnDemand{Roles: []v1alpha1.OnDemandRole{"personal"}}
	if err := k8s.Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	admin.enterDevMode(t, id)
	send("GET", "/devmode/{deploymentId}/status", nil)
	send("POST", "/devmode/{deploymentId}/token", map[string]any{"tenant": "x"})
	const path = "/build/api/v1/deployments/{deploymentId}/data-model/files"
	send("PUT", path, map[string]any{"files": []map[string]string{{"path": "b.yml", "content": "b"}}})
	send("POST", path+"/rename", map[string]any{"files": []map[string]string{{"path": "b.yml", "newPath": "c.yml"}}})
	send("DELETE", path, map[string]any{"files": []map[string]string{{"path": "c.yml"}}})
	send("GET", path, nil)
	send("PUT", path, map[string]any{"files": []map[string]string{{"path": "d.yml", "content": "d"}}})
	send("POST", "/build/api/v1/deployments/{deploymentId}/commit", map[string]any{"message": "d"})
}

// newCommandLine returns cubejs-cli with a project, whose server is that of acme.
func newCommandLine(t *testing.T) *cubejs.Client {
	t.Helper()
	authority := &corev1.Secret{}
	if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: clustertest.Namespace, Name: certificates.SecretName}, authority); err != nil {
		t.Fatal(err)
	}
	return cubejs.New(t, acme.host, serverAddress.String(), authority.Data["ca.crt"])
}

// writeProject replaces the files of a project.
func writeProject(t *testing.T, c *cubejs.Client, before, after modelFiles) {
	t.Helper()
	for path := range before {
		if _, kept := after[path]; !kept {
			c.Remove(t, path)
		}
	}
	for path, text := range after {
		c.Write(t, path, text)
	}
}

// uploads returns the number of files that were uploaded so far, from the access log of the server.
func uploads(t *testing.T, id string) int {
	t.Helper()
	logs, err := os.ReadFile(filepath.Join(os.TempDir(), "quoin-contract.log"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(logs), fmt.Sprintf("path=/build/deploy/%s/upload-file status=200", id))
}

// TestNPMClientDeploysAProject runs the npm package cubejs-cli, unmodified.
func TestNPMClientDeploysAProject(t *testing.T) {
	c := newCommandLine(t)
	id := newRepository(t, acme, "npm")
	command, _ := acme.as(acme.admin).call(t, "POST", "/build/api/v1/deployments/"+id+"/deploy-token", nil).is(200).at("command").(string)
	args, found := strings.CutPrefix(command, "npx cubejs-cli ")
	if !found {
		t.Fatal(command)
	}
	admin := acme.as(acme.admin)

	writeProject(t, c, nil, firstProject)
	c.MustRun(t, strings.Fields(args)...)
	admin.wants(t, id, firstProject)
	before := uploads(t, id)
	if before == 0 {
		t.Error("no file was uploaded")
	}

	writeProject(t, c, firstProject, secondProject)
	c.MustRun(t, "deploy") // the token is stored
	admin.wants(t, id, secondProject)
	if n := uploads(t, id) - before; n != 2 {
		t.Errorf("%d files were uploaded the second time, want the 2 that have changed", n)
	}

	c.Write(t, ".env", "CUBEJS_DB_TYPE=postgres\nCUBEJS_DB_PASS=secret\n")
	c.MustRun(t, "deploy", "--replace-env")
	variables := admin.call(t, "GET", "/api/v1/deployments/"+id+"/env-vars", nil).is(200)
	variables.want("items.0.name", "CUBEJS_DB_PASS").want("items.0.value", "[ENCRYPTED]").want("items.1.value", "postgres")

	acme.createDeployToken(t, id)
	if out, err := c.Run("deploy"); err == nil || !strings.Contains(out, "401") {
		t.Errorf("the replaced token is accepted: %v\n%s", err, out)
	}
}
