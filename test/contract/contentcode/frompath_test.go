package contentcode_test

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// deploy uploads a project with one file, as clients do, and returns the commit.
func deploy(t *testing.T, number int, file, text string) string {
	t.Helper()
	base := fmt.Sprintf("/build/api/v1/deployments/%d/data-model/upload", number)
	transaction := call(t, "POST", base+"/start", nil).Is(200).At("transaction")
	encoded, err := json.Marshal(transaction)
	if err != nil {
		t.Fatal(err)
	}
	body := &bytes.Buffer{}
	form := multipart.NewWriter(body)
	_ = form.WriteField("transaction", string(encoded)) // a buffer
	_ = form.WriteField("fileName", file)
	part, _ := form.CreateFormFile("file", file[strings.LastIndex(file, "/")+1:])
	_, _ = io.WriteString(part, text)
	_ = form.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, apiURL+base+"/file", body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+admin)
	request.Header.Set("Content-Type", form.FormDataContentType())
	response, err := anyone.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(response.Body)
	if _ = response.Body.Close(); response.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", response.StatusCode, answer)
	}
	sum := sha1.Sum([]byte(text))
	files := map[string]any{file: map[string]any{"hash": hex.EncodeToString(sum[:])}}
	commit, _ := call(t, "POST", base+"/finish", map[string]any{"transaction": transaction, "files": files}).Is(200).At("lastHash").(string)
	return commit
}

// serve makes the production environment of a deployment report a commit, as its controller does when all pods serve it.
func serve(t *testing.T, e *v1alpha1.Environment, commit string) {
	t.Helper()
	before := e.DeepCopy()
	e.Status.ModelCommit = commit
	if err := k8s.Status().Patch(t.Context(), e, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// TestDefinitionsInTheRepository are read at the commit that production serves, and not before.
func TestDefinitionsInTheRepository(t *testing.T) {
	const number = 2
	d := newDeployment("kept", number)
	d.Spec.Model = v1alpha1.ModelSource{Repository: &v1alpha1.RepositorySource{}}
	e := &v1alpha1.Environment{Spec: v1alpha1.EnvironmentSpec{DeploymentRef: v1alpha1.LocalReference{Name: d.Name}, Type: v1alpha1.EnvironmentProduction, Version: "1.2.3", Image: "cube:1"}}
	e.Namespace, e.Name = namespace, v1alpha1.ProductionName(d.Name)
	for _, o := range []client.Object{d, e} {
		if err := k8s.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { remove(t, o) })
	}
	w := &v1alpha1.Workbook{}
	w.Namespace, w.Name, w.Spec.DeploymentRef.Name = namespace, "of-file", d.Name
	awaitReason(t, create(t, w, &w.Spec, "{slug: of-file, publish: true, fromPath: dashboards/sales.yaml}"), v1alpha1.ReasonWorkloadsNotReady)

	const file = `
reports:
- publicId: FileReport01
  name: %s
dashboardDraft:
  widgets:
  - {type: CHART, position: {x: 0, "y": 0, w: 1, h: 1}, config: {reportPublicId: FileReport01}}
`
	commits := make([]string, 0, 4)
	for _, text := range []string{fmt.Sprintf(file, "One"), fmt.Sprintf(file, "Two"), "reports: []\nwidgets: []\n", `{"reports": [{"publicId": "FileReport01", "name": "a"}, {"publicId": "FileReport01", "name": "b"}]}`} {
		commits = append(commits, deploy(t, number, "dashboards/sales.yaml", text))
	}
	name := func() string {
		t.Helper()
		path := fmt.Sprintf("/api/v1/deployments/%d/workbooks/%d", number, w.Status.WorkbookID)
		return fmt.Sprint(call(t, "GET", path, nil).Is(200).At("publishedDashboard.reportSnapshots.0.name"))
	}
	serve(t, e, commits[0])
	if ready(t, w); w.Status.Commit != commits[0] || w.Status.PublishedVersion != 1 || name() != "One" {
		t.Errorf("%s: %+v", name(), w.Status)
	}
	serve(t, e, commits[1])
	awaitCommit(t, w, commits[1])
	if w.Status.PublishedVersion != 2 || name() != "Two" {
		t.Errorf("%s: %+v", name(), w.Status)
	}
	for commit, part := range map[string]string{commits[2]: `unknown field "widgets"`, commits[3]: "reports[1].publicId", strings.Repeat("a", 40): "does not have the commit"} {
		serve(t, e, commit)
		awaitMessage(t, w, part)
	}
	serve(t, e, commits[1])
	ready(t, w)
	change(t, w, func() { w.Spec.FromPath = "dashboards/none.yaml" })
	awaitMessage(t, w, `has no file "dashboards/none.yaml"`)
	// The model of the other deployment is a ConfigMap: only a user can change that.
	awaitReason(t, workbook(t, "without-files", "{slug: without-files, fromPath: dashboards/sales.yaml}"), v1alpha1.ReasonInvalidSpec)
}
