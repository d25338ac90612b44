package permission_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/internal/permission"
)

func TestTableIsConsistent(t *testing.T) {
	names := permission.Names()
	for i, p := range permission.Table {
		if slices.Index(names, p.Name) != i {
			t.Errorf("%s: declared twice", p.Name)
		}
		if p.Allows == "" {
			t.Errorf("%s: Allows is empty", p.Name)
		}
		for _, implied := range p.Implies {
			if !slices.Contains(names, implied) {
				t.Errorf("%s implies %s, which is not declared", p.Name, implied)
			}
			included, _ := permission.Lookup(implied)
			for _, indirect := range included.Implies {
				if !slices.Contains(p.Implies, indirect) {
					t.Errorf("%s implies %s but not %s: list all of them", p.Name, implied, indirect)
				}
			}
		}
		for _, verb := range p.GrantedBy {
			if !slices.Contains([]string{"delete", "update", "get"}, verb) {
				t.Errorf("%s: verb %q grants nothing", p.Name, verb)
			}
		}
	}
}

func TestIncludes(t *testing.T) {
	for _, test := range []struct {
		held, needed permission.Name
		want         bool
	}{
		{"Admin", "ScimManage", true},
		{"SchemaRead", "SchemaRead", true},
		{"SchemaUpdate", "SchemaRead", true},
		{"SchemaRead", "SchemaUpdate", false},
		{"DeploymentsManage", "SecretsManage", true},
		{"DeploymentsManage", "AuditLogManage", false},
		{"Unknown", "SchemaRead", false},
	} {
		if got := test.held.Includes(test.needed); got != test.want {
			t.Errorf("%s includes %s: %t, want %t", test.held, test.needed, got, test.want)
		}
	}
}

func TestGranted(t *testing.T) {
	allow := func(verbs ...string) func(string) (bool, error) {
		return func(verb string) (bool, error) { return slices.Contains(verbs, verb), nil }
	}
	for name, test := range map[string]struct {
		allowed func(string) (bool, error)
		want    []permission.Name
	}{
		"delete grants Admin": {allow("delete", "update", "get"), []permission.Name{"Admin"}},
		"update":              {allow("update", "get"), []permission.Name{"DeploymentsManage", "DeploymentRead", "SchemaRead", "FolderRead", "FolderManage", "WorkbookRead", "WorkbookManage", "ReportRead", "ReportManage", "DeploymentAgentRead"}},
		"get":                 {allow("get"), []permission.Name{"DeploymentRead", "SchemaRead", "FolderRead", "WorkbookRead", "ReportRead"}},
		"other verbs":         {allow("list", "patch"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := permission.Granted(test.allowed)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	failure := errors.New("no answer")
	if _, err := permission.Granted(func(string) (bool, error) { return false, failure }); !errors.Is(err, failure) {
		t.Errorf("error %v, want %v", err, failure)
	}
}
