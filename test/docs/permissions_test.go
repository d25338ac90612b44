package docs_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// securityPage is the page that documents the permissions of the processes.
const securityPage = "docs/operations/security.md"

// permissionRow is a row of a table of permissions: resources and verbs.
var permissionRow = regexp.MustCompile(`(?m)^\| ([a-z/]+(?:, [a-z/]+)*) \| ([a-z]+(?:, [a-z]+)*) \|`)

// TestTablesOfPermissions checks that the tables have the resources and the verbs of the ClusterRoles, and no others.
func TestTablesOfPermissions(t *testing.T) {
	page := readFile(t, securityPage)
	for heading, file := range map[string]string{
		"Permissions of the REST and SCIM server": "config/rbac/apiserver_role.yaml",
		"Permissions of the gateway":              "config/rbac/gateway_role.yaml",
	} {
		_, section, _ := strings.Cut(page, "\n## "+heading+"\n")
		section, _, _ = strings.Cut(section, "\nRole `")
		documented := map[string]string{}
		for _, row := range permissionRow.FindAllStringSubmatch(section, -1) {
			for resource := range strings.SplitSeq(row[1], ", ") {
				documented[resource] = sortedVerbs(strings.Split(row[2], ", "))
			}
		}
		declared := clusterRole(t, file)
		for _, resource := range slices.Sorted(maps.Keys(declared)) {
			if documented[resource] != declared[resource] {
				t.Errorf("%s has %q on %s, %s has %q", file, declared[resource], resource, securityPage, documented[resource])
			}
		}
		for resource := range documented {
			if declared[resource] == "" {
				t.Errorf("%s has %s below %q, %s has not", securityPage, resource, heading, file)
			}
		}
	}
}

// clusterRole returns the verbs of each resource of a ClusterRole, which is the first object of a file.
func clusterRole(t *testing.T, file string) map[string]string {
	t.Helper()
	first, _, _ := strings.Cut(strings.TrimPrefix(readFile(t, file), "---\n"), "\n---\n")
	var role rbacv1.ClusterRole
	if err := yaml.Unmarshal([]byte(first), &role); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	verbs := map[string]string{}
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			verbs[resource] = sortedVerbs(rule.Verbs)
		}
	}
	if len(verbs) == 0 {
		t.Fatalf("%s has no rules", file)
	}
	return verbs
}

func sortedVerbs(verbs []string) string {
	return strings.Join(slices.Sorted(slices.Values(verbs)), ", ")
}
