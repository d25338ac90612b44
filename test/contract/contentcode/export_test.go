package contentcode_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/serving/certificates"
	"github.com/quoin-dev/quoin/plugin"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
)

// export runs kubectl quoin export workbook.
func export(t *testing.T, name string) string {
	t.Helper()
	secret := &corev1.Secret{}
	if err := k8s.Get(t.Context(), client.ObjectKey{Namespace: clustertest.Namespace, Name: certificates.SecretName}, secret); err != nil {
		t.Fatal(err)
	}
	caFile := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(caFile, secret.Data["ca.crt"], 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("QUOIN_API_KEY", admin)
	var stdout, stderr bytes.Buffer
	args := []string{"export", "workbook", name, "--kubeconfig", cluster.Kubeconfig(), "-n", namespace, "--deployment", "analytics", "--url", apiURL, "--ca-file", caFile}
	if code := plugin.Run(t.Context(), args, plugin.Options{Stdout: &stdout, Stderr: &stderr}); code != 0 {
		t.Fatalf("exit code %d: %s%s", code, &stdout, &stderr)
	}
	return stdout.String()
}

// maker makes random content.
type maker struct {
	*rand.Rand
	t *testing.T
}

// word returns a random text: also with characters that YAML and JSON treat in a special way.
func (m maker) word() string {
	words := []string{"y", "no", "null", "1.0", "Überschrift", "a: b", "#x", "'", `"`, "\\", "<b>&", "日本", "0x1", "- a", "=SUM(A1)", "2026-01-01"}
	return words[m.IntN(len(words))]
}

// value returns a random JSON value.
func (m maker) value(depth int) any {
	switch n := m.IntN(8); {
	case n == 0:
		return m.IntN(1 << 40)
	case n == 1:
		return float64(m.IntN(1000))/8 + 0.0625
	case n == 2:
		return m.IntN(2) == 0
	case n < 6 || depth == 0:
		return m.word()
	case n == 6:
		list := []any{}
		for range m.IntN(4) {
			list = append(list, m.value(depth-1))
		}
		return list
	}
	return m.object(depth - 1)
}

func (m maker) object(depth int) map[string]any {
	o := map[string]any{}
	for range m.IntN(4) {
		o[m.word()] = m.value(depth)
	}
	return o
}

// widgets returns widgets, of which some are charts of reports: by number, by public id, or by both.
func (m maker) widgets(reports map[string]any) (widgets []any) {
	for id, number := range reports {
		config := m.object(1)
		config["reportPublicId"], config["reportId"] = id, number
		switch m.IntN(3) {
		case 0:
			delete(config, "reportPublicId")
		case 1:
			delete(config, "reportId")
		}
		widgets = append(widgets, map[string]any{"id": "c" + id, "type": "CHART", "position": map[string]any{"x": m.IntN(9), "y": m.IntN(9), "w": 3, "h": 1}, "config": config})
	}
	for i := range m.IntN(3) {
		widgets = append(widgets, map[string]any{"id": fmt.Sprint("s", i), "type": "SPACER", "position": map[string]any{"x": 0, "y": i, "w": 1, "h": 1}, "style": m.object(2)})
	}
	return widgets
}

// workbook makes a workbook over REST, and returns its id and the ids of its folders.
func (m maker) workbook(slug string) (id string, folders []string) {
	body := map[string]any{"name": strings.TrimSpace("Book " + m.word()), "meta": m.object(3)}
	for i := range m.IntN(3) {
		created := map[string]any{"name": fmt.Sprintf("%s %d %s", slug, i, m.word()), "position": m.IntN(9)}
		if i > 0 {
			created["parentId"] = json.Number(folders[i-1])
		}
		folders = append(folders, call(m.t, "POST", foldersPath, created).Is(200).ID())
		body["folderId"] = json.Number(folders[i])
	}
	id = call(m.t, "PUT", workbooksPath+"/by-slug/"+slug, body).Is(200).ID()
	reports := map[string]any{}
	for range m.IntN(4) {
		r := map[string]any{"name": strings.TrimSpace("Report " + m.word()), "workbookId": json.Number(id), "meta": m.object(2)}
		if m.IntN(2) == 0 {
			r["title"], r["sqlQuery"] = m.word(), "SELECT '"+m.word()+"'\nFROM a\n"
		}
		if m.IntN(2) == 0 {
			r["jsonQuery"] = `{"measures": ["orders.count"],  "limit": 1.50}`
			r["pivotItems"] = map[string]any{"rows": []string{m.word()}, "columns": []string{}, "measures": []string{"a"}, "filters": []string{}, "showRowTotals": true}
		}
		created := call(m.t, "POST", reportsPath, r).Is(200)
		reports[fmt.Sprint(created.At("publicId"))] = json.Number(created.ID())
	}
	draft := map[string]any{"title": m.word(), "settings": m.object(3), "widgets": m.widgets(reports)}
	call(m.t, "PUT", workbooksPath+"/"+id+"/dashboard", map[string]any{"dashboardDraft": draft}).Is(200)
	if m.IntN(3) > 0 {
		call(m.t, "POST", workbooksPath+"/"+id+"/publish", map[string]any{"workbookId": json.Number(id), "allowEmbed": m.IntN(2) == 0, "description": ""}).Is(200)
	}
	return id, folders
}

// contentOf returns a workbook with its reports, without what differs between installations.
func contentOf(t *testing.T, id string) map[string]any {
	t.Helper()
	var book, reports map[string]any
	if err := json.Unmarshal(call(t, "GET", workbooksPath+"/"+id, nil).Is(200).Body, &book); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(call(t, "GET", reportsPath+"?first=100&workbookId="+id, nil).Is(200).Body, &reports); err != nil {
		t.Fatal(err)
	}
	public := map[float64]any{}
	items, _ := reports["items"].([]any)
	byPublicID := map[string]any{}
	for _, item := range items {
		r, _ := item.(map[string]any)
		number, _ := r["id"].(float64)
		public[number] = r["publicId"]
		byPublicID[fmt.Sprint(r["publicId"])] = pick(r, "publicId", "name", "title", "sqlQuery", "jsonQuery", "pivotItems", "meta", "currentQueryChecksum")
	}
	out := pick(book, "name", "slug", "meta", "dashboardPublished")
	published, _ := book["publishedDashboard"].(map[string]any)
	out["published"] = pick(published, "title", "description", "allowEmbed")
	out["reports"] = byPublicID
	var path []any
	places, _ := book["folderPath"].([]any)
	for _, p := range places {
		place, _ := p.(map[string]any)
		path = append(path, place["name"])
	}
	out["path"] = path
	meta, _ := out["meta"].(map[string]any)
	for _, dashboard := range []any{out["dashboardPublished"], meta["dashboardDraft"]} {
		withPublicIDs(dashboard, public)
	}
	return out
}

// withPublicIDs replaces the numbers of reports in charts.
func withPublicIDs(dashboard any, public map[float64]any) {
	object, _ := dashboard.(map[string]any)
	widgets, _ := object["widgets"].([]any)
	for _, item := range widgets {
		widget, _ := item.(map[string]any)
		config, _ := widget["config"].(map[string]any)
		if number, ok := config["reportId"].(float64); ok {
			config["reportPublicId"] = public[number]
			delete(config, "reportId")
		}
	}
}

func pick(from map[string]any, names ...string) map[string]any {
	out := map[string]any{}
	for _, name := range names {
		if value := from[name]; value != nil {
			out[name] = value
		}
	}
	return out
}

// TestExportsApplyToTheSameContent makes random workbooks, exports and deletes them, and applies what was exported.
func TestExportsApplyToTheSameContent(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			m := maker{rand.New(rand.NewPCG(seed, 89)), t}
			slug := fmt.Sprint("export-", seed)
			id, folders := m.workbook(slug)
			want := contentOf(t, id)
			text := export(t, slug)
			if byID := export(t, id); byID != text {
				t.Errorf("by id: %s", byID)
			}
			call(t, "DELETE", workbooksPath+"/"+id, nil).Is(200)
			for i := len(folders) - 1; i >= 0; i-- {
				call(t, "DELETE", foldersPath+"/"+folders[i], nil).Is(200)
			}
			var book *v1alpha1.Workbook
			for part := range strings.SplitSeq(text, "\n---\n") {
				book = applied(t, part)
			}
			ready(t, book)
			if diff := cmp.Diff(want, contentOf(t, fmt.Sprint(book.Status.WorkbookID))); diff != "" {
				t.Errorf("content (-want +got):\n%s\n%s", diff, text)
			}
		})
	}
}

// applied creates an exported object; it returns a Workbook, nil for a Folder.
func applied(t *testing.T, text string) *v1alpha1.Workbook {
	t.Helper()
	kind := struct{ Kind string }{}
	if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
		t.Fatal(err)
	}
	var obj client.Object = &v1alpha1.Workbook{}
	if kind.Kind == "Folder" {
		obj = &v1alpha1.Folder{}
	}
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if err := k8s.Create(t.Context(), obj); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	t.Cleanup(func() { remove(t, obj) })
	book, _ := obj.(*v1alpha1.Workbook)
	return book
}
