package content

import (
	"context"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/store"
)

// sales resolves every id to the deployment "sales".
type sales struct{}

func (sales) Find(context.Context, string, string) (*v1alpha1.Deployment, error) {
	return &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "sales", UID: "d1", Labels: map[string]string{v1alpha1.LabelID: "1"}}}, nil
}

func (s sales) FindCached(ctx context.Context, namespace, id string) (*v1alpha1.Deployment, error) {
	return s.Find(ctx, namespace, id)
}

func TestContentIsUnavailableWithoutItsDatabase(t *testing.T) {
	for message, o := range map[string]Options{
		"has no --database-url":         {},
		"the database is not available": {Database: store.NewDatabase("postgres://127.0.0.1:1/quoin", nil)},
	} {
		api, err := rest.New(rest.Options{Deployments: sales{}}, New(o)...)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range []struct{ method, path, body string }{
			{"GET", "", ""}, {"POST", "", `{"name":"x"}`}, {"PUT", "/1", `{"name":"x"}`}, {"DELETE", "/1", ""}, {"GET", "/1/ancestors", ""},
		} {
			r := httptest.NewRequestWithContext(t.Context(), call.method, "/api/v1/deployments/1/folders"+call.path, strings.NewReader(call.body))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			api.ServeHTTP(w, r, &v1alpha1.Account{}, &auth.Principal{Grants: access.OnAll(v1alpha1.PermissionAdmin)})
			if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), message) {
				t.Errorf("%s %s: %d %s, want 503 with %q", call.method, call.path, w.Code, w.Body, message)
			}
		}
	}
}

// TestFilesOfANewTable checks the worked example "A new table" of docs/architecture.md: its files
// exist, and no others outside the package of folders refer to it, except those of the kind Folder.
func TestFilesOfANewTable(t *testing.T) {
	const root, most = "../../../", 6
	text, err := os.ReadFile(root + "docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## A new table\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(section, -1) {
		listed = append(listed, row[1])
		if _, err := os.Stat(root + row[1]); err != nil {
			t.Error(err)
		}
	}
	if len(listed) == 0 || len(listed) > most {
		t.Errorf("%d files are listed, want 1 to %d", len(listed), most)
	}
	for _, folder := range []string{"api", "apiserver", "cmd", "controllers", "gateway", "internal"} {
		err := filepath.WalkDir(root+folder, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			if strings.Contains(filepath.ToSlash(name), "/apiserver/contentobjects/") {
				return nil
			}
			source, err := os.ReadFile(name)
			name = strings.TrimPrefix(filepath.ToSlash(name), root)
			if strings.Contains(string(source), "internal/content/folder\"") && !slices.Contains(listed, name) {
				t.Errorf("%s imports the package of folders and is not listed", name)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}
