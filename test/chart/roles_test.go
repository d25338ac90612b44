package chart_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// role is a Role or a ClusterRole.
type role struct {
	kind, name, namespace string
	labels                map[string]string
	rules                 []rbacv1.PolicyRule
}

func (r role) String() string { return r.kind + " " + r.name }

// rolesOf returns the Roles and ClusterRoles among the objects.
func rolesOf(t *testing.T, all objects) map[string]role {
	t.Helper()
	found := map[string]role{}
	for _, object := range all {
		r := role{kind: object.GetKind(), name: object.GetName(), namespace: object.GetNamespace(), labels: object.GetLabels()}
		switch r.kind {
		case "Role":
			r.rules = convert[rbacv1.Role](t, object).Rules
		case "ClusterRole":
			r.rules = convert[rbacv1.ClusterRole](t, object).Rules
		default:
			continue
		}
		found[r.String()] = r
	}
	return found
}

// configRoles returns the roles of the kustomize tree.
func configRoles(t *testing.T) map[string]role {
	t.Helper()
	files, err := filepath.Glob(root + "/config/*/*role.yaml")
	if err != nil || !slices.ContainsFunc(files, func(f string) bool { return filepath.Base(f) == "role.yaml" }) {
		t.Fatalf("config/rbac/role.yaml is missing, run make generate: %v", err)
	}
	var all objects
	for _, file := range files {
		all = append(all, readConfig(t, filepath.Join(filepath.Base(filepath.Dir(file)), filepath.Base(file)))...)
	}
	return rolesOf(t, all)
}

// TestChartHasTheRolesOfConfig compares the rules and the aggregation labels.
func TestChartHasTheRolesOfConfig(t *testing.T) {
	config, chart := configRoles(t), rolesOf(t, render(t))
	for _, roles := range []map[string]role{config, chart} {
		for key, r := range roles {
			for label := range r.labels {
				if !strings.Contains(label, "/aggregate-to-") {
					delete(r.labels, label)
				}
			}
			if len(r.labels) == 0 {
				r.labels = nil
			}
			roles[key] = r
		}
	}
	if diff := cmp.Diff(config, chart, cmp.AllowUnexported(role{})); diff != "" {
		t.Errorf("-config +chart:\n%s", diff)
	}
}

// TestRolesFollowLeastPrivilege checks the rules of every role.
func TestRolesFollowLeastPrivilege(t *testing.T) {
	for _, source := range []map[string]role{configRoles(t), rolesOf(t, render(t))} {
		for _, r := range source {
			for _, rule := range r.rules {
				for _, breach := range breaches(r, rule) {
					t.Errorf("%s: %s: %v", r, breach, rule)
				}
			}
		}
	}
}

// breaches returns the violations of least privilege in a rule.
func breaches(r role, rule rbacv1.PolicyRule) []string {
	var found []string
	for _, values := range [][]string{rule.Verbs, rule.Resources, rule.APIGroups, rule.NonResourceURLs} {
		for _, value := range values {
			if strings.Contains(value, "*") {
				found = append(found, "a wildcard")
			}
		}
	}
	if slices.ContainsFunc(rule.Verbs, func(verb string) bool { return verb == "escalate" || verb == "bind" || verb == "impersonate" }) {
		found = append(found, "a verb that gives away every right")
	}
	if slices.ContainsFunc(rule.Resources, func(resource string) bool {
		return slices.Contains([]string{"pods/exec", "pods/attach", "nodes/proxy", "serviceaccounts/token"}, resource)
	}) {
		found = append(found, "a resource that gives away every right")
	}
	if slices.Contains(rule.Resources, "pods/log") && !isForAccounts(r.name) {
		found = append(found, "logs of all pods, in kube-system too")
	}
	if slices.Contains(rule.Resources, "configmaps") && r.kind == "ClusterRole" && !isForAccounts(r.name) &&
		slices.ContainsFunc(rule.Verbs, func(verb string) bool { return verb != "get" && verb != "list" && verb != "watch" }) {
		found = append(found, "configmaps: writes, in kube-system too")
	}
	if !slices.Contains(rule.Resources, "secrets") {
		return found
	}
	for _, verb := range rule.Verbs {
		// The controller creates Secrets in all namespaces and cannot read them. The gateway and the REST and SCIM
		// server, which unauthenticated clients reach, have no cluster-wide access. They renew their certificate in a
		// Secret that the controller creates: they may create none, because another program may trust its name. Roles that an administrator binds in a namespace read there; the REST and SCIM server also
		// writes the values of variables.
		allowed := false
		switch verb {
		case "create":
			allowed = r.name == "quoin-controller" || r.name == "quoin-account-apiserver"
		case "get":
			allowed = r.kind == "Role" || isForAccounts(r.name)
		case "update":
			allowed = r.kind == "Role" && len(rule.ResourceNames) > 0
		case "patch":
			allowed = r.name == "quoin-account-apiserver" || r.name == "quoin-account-tokens"
		case "delete": // of the keys that the controller creates, in its own namespace
			allowed = r.kind == "Role" && r.name == "quoin-controller"
		}
		if !allowed {
			found = append(found, "secrets: "+verb)
		}
	}
	return found
}

// documentedAccess is a command that asks for the access of a component, with its answer.
var documentedAccess = regexp.MustCompile(`(?m)^kubectl auth can-i (\w+) (\w+)/?(\S*) --as=system:serviceaccount:quoin-system:(\S+) (?:-n )?(\S+) +# (yes|no)$`)

// TestDocumentedAccess: the access in the page on security is that of the roles of the components.
func TestDocumentedAccess(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "operations", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	commands := documentedAccess.FindAllStringSubmatch(string(page), -1)
	if len(commands) < 10 {
		t.Errorf("only %d commands were found", len(commands))
	}
	roles := configRoles(t)
	for _, c := range commands {
		verb, resource, name, component, namespace := c[1], c[2], c[3], c[4], c[5]
		allows := func(rule rbacv1.PolicyRule) bool {
			return slices.Contains(rule.APIGroups, "") && slices.Contains(rule.Resources, resource) && slices.Contains(rule.Verbs, verb) &&
				(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, name))
		}
		allowed := slices.ContainsFunc(roles["ClusterRole "+component].rules, allows) ||
			namespace == "quoin-system" && slices.ContainsFunc(roles["Role "+component].rules, allows)
		if allowed != (c[6] == "yes") {
			t.Errorf("%s: the roles allow it: %t", c[0], allowed)
		}
	}
}

// isForAccounts reports whether administrators bind a role in the namespaces of accounts.
func isForAccounts(name string) bool {
	_, suffix, found := strings.Cut(name, "-account")
	return found && slices.Contains([]string{"", "-apiserver", "-controller", "-tokens"}, suffix)
}

func TestViolationsAreDetected(t *testing.T) {
	rule := func(verb, resource string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{verb}, Resources: []string{resource}, ResourceNames: names, APIGroups: []string{""}}
	}
	for name, test := range map[string]struct {
		role string
		rule rbacv1.PolicyRule
		want int
	}{
		"all verbs":                  {"ClusterRole quoin-controller", rule("*", "pods"), 1},
		"all resources":              {"ClusterRole quoin-controller", rule("get", "*"), 1},
		"all statuses":               {"ClusterRole quoin-controller", rule("get", "*/status"), 1},
		"binds roles":                {"ClusterRole quoin-controller", rule("bind", "clusterroles"), 1},
		"runs in pods":               {"ClusterRole quoin-controller", rule("create", "pods/exec"), 1},
		"reads secrets":              {"ClusterRole quoin-controller", rule("get", "secrets"), 1},
		"lists secrets":              {"Role quoin-controller", rule("list", "secrets"), 1},
		"watches secrets":            {"ClusterRole quoin-account", rule("watch", "secrets"), 1},
		"reads secrets of its own":   {"Role quoin-controller", rule("get", "secrets"), 0},
		"reads secrets of account":   {"ClusterRole quoin-account", rule("get", "secrets"), 0},
		"front end lists secrets":    {"ClusterRole quoin-account-apiserver", rule("list", "secrets"), 1},
		"front end reads anywhere":   {"ClusterRole quoin-apiserver", rule("get", "secrets"), 1},
		"server creates anywhere":    {"ClusterRole quoin-apiserver", rule("create", "secrets"), 1},
		"server writes anywhere":     {"ClusterRole quoin-apiserver", rule("patch", "secrets"), 1},
		"server in an account":       {"ClusterRole quoin-account-apiserver", rule("patch", "secrets"), 0},
		"others write in an account": {"ClusterRole quoin-account", rule("patch", "secrets"), 1},
		"renews tokens":              {"ClusterRole quoin-account-tokens", rule("patch", "secrets"), 0},
		"deletes keys":               {"Role quoin-controller", rule("delete", "secrets"), 0},
		"deletes secrets anywhere":   {"ClusterRole quoin-controller", rule("delete", "secrets"), 1},
		"deletes tokens":             {"ClusterRole quoin-account-tokens", rule("delete", "secrets"), 1},
		"writes configmaps":          {"ClusterRole quoin-apiserver", rule("patch", "configmaps"), 1},
		"configmaps of account":      {"ClusterRole quoin-account-apiserver", rule("patch", "configmaps"), 0},
		"reads logs":                 {"ClusterRole quoin-apiserver", rule("get", "pods/log"), 1},
		"logs of account":            {"ClusterRole quoin-account-apiserver", rule("get", "pods/log"), 0},
		"makes secrets":              {"ClusterRole quoin-controller", rule("create", "secrets"), 0},
		"makes secrets anywhere":     {"ClusterRole quoin-gateway", rule("create", "secrets"), 1},
		"reads secrets anywhere":     {"ClusterRole quoin-gateway", rule("get", "secrets"), 1},
		"changes secrets":            {"Role quoin-gateway", rule("update", "secrets"), 1},
		"renews its certificate":     {"Role quoin-gateway", rule("update", "secrets", "quoin-gateway-tls"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			kind, roleName, _ := strings.Cut(test.role, " ")
			if got := breaches(role{kind: kind, name: roleName}, test.rule); len(got) != test.want {
				t.Errorf("%v, want %d", got, test.want)
			}
		})
	}
}

// TestUserRolesFollowTheTableOfKinds compares the user-facing ClusterRoles with the table of kinds.
func TestUserRolesFollowTheTableOfKinds(t *testing.T) {
	verbs := map[v1alpha1.Access]string{
		v1alpha1.NoAccess: "",
		v1alpha1.Read:     "get list watch",
		v1alpha1.Write:    "create delete deletecollection get list patch update watch",
	}
	roles := configRoles(t)
	for _, k := range v1alpha1.Kinds {
		for name, access := range map[string]v1alpha1.Access{
			"quoin-viewer": k.Roles.Viewer, "quoin-editor": k.Roles.Editor, "quoin-admin": k.Roles.Admin, "quoin-platform-admin": k.Roles.PlatformAdmin,
		} {
			if got := verbsOn(roles["ClusterRole "+name], k.Plural); got != verbs[access] {
				t.Errorf("%s on %s: %q, want %q", name, k.Plural, got, verbs[access])
			}
		}
	}
	// The REST and SCIM server records the last use of a key, the state of what has rows in its database, and errors in the files of
	// agents.
	ofServer := []string{"agents/status", "apikeys/status", "dbtsyncs/status", "folders/status", "workbooks/status"}
	for name, r := range roles {
		for _, rule := range r.rules {
			for _, resource := range rule.Resources {
				allowed := name == "ClusterRole quoin-controller" || name == "ClusterRole quoin-apiserver" && slices.Contains(ofServer, resource)
				if !allowed && strings.HasSuffix(resource, "/status") && !cmp.Equal(rule.Verbs, []string{"get"}) {
					t.Errorf("%s: %v on %s: only controllers write status", name, rule.Verbs, resource)
				}
			}
		}
	}
}

// TestEveryKindIsInARole finds kinds that no administrator can read.
func TestEveryKindIsInARole(t *testing.T) {
	for _, k := range v1alpha1.Kinds {
		if k.Roles.Admin == v1alpha1.NoAccess && k.Roles.PlatformAdmin == v1alpha1.NoAccess {
			t.Errorf("no role allows reading %s", k.Plural)
		}
	}
}

// TestRolesAreAggregated checks which roles are aggregated to those of Kubernetes.
func TestRolesAreAggregated(t *testing.T) {
	want := map[string]string{"quoin-viewer": "view", "quoin-editor": "edit", "quoin-admin": "admin", "quoin-proxy-admin": "admin"}
	for _, r := range configRoles(t) {
		got := ""
		for label, value := range r.labels {
			if target, aggregates := strings.CutPrefix(label, "rbac.authorization.k8s.io/aggregate-to-"); aggregates && value == "true" {
				got += target
			}
		}
		if got != want[r.name] {
			t.Errorf("%s is aggregated to %q, want %q", r, got, want[r.name])
		}
	}
	for _, r := range rolesOf(t, render(t, "--set", "rbac.userRoles.aggregate=false")) {
		for label := range r.labels {
			if strings.Contains(label, "aggregate-to-") {
				t.Errorf("%s: %s although rbac.userRoles.aggregate is false", r, label)
			}
		}
	}
}

// TestBindingsReferToTheirRoleAndServiceAccount finds dangling references.
func TestBindingsReferToTheirRoleAndServiceAccount(t *testing.T) {
	eachValues(t, func(t *testing.T, args []string) {
		all := render(t, args...)
		roles := rolesOf(t, all)
		for _, object := range append(all.ofKind("ClusterRoleBinding"), all.ofKind("RoleBinding")...) {
			// Both kinds have the same fields.
			binding := convert[rbacv1.RoleBinding](t, object)
			// Two roles are part of Kubernetes, for aggregated API servers.
			kubernetes := binding.RoleRef.Name == "system:auth-delegator" || binding.RoleRef.Name == "extension-apiserver-authentication-reader"
			if _, present := roles[binding.RoleRef.Kind+" "+binding.RoleRef.Name]; !present && !kubernetes {
				t.Errorf("%s %s: no %s %s", object.GetKind(), object.GetName(), binding.RoleRef.Kind, binding.RoleRef.Name)
			}
			if isForAccounts(binding.RoleRef.Name) && object.GetKind() != "RoleBinding" {
				t.Errorf("%s is bound cluster-wide", binding.RoleRef.Name)
			}
			if strings.HasSuffix(binding.Name, "-metrics-reader") {
				continue
			}
			subjects := []string{object.GetLabels()["app.kubernetes.io/component"]}
			if strings.HasSuffix(binding.RoleRef.Name, "-account") {
				subjects = []string{"controller", "gateway"}
			}
			var want []rbacv1.Subject
			for _, component := range subjects {
				account := all.of(component).ofKind("ServiceAccount")[0]
				want = append(want, rbacv1.Subject{Kind: "ServiceAccount", Name: account.GetName(), Namespace: account.GetNamespace()})
			}
			if diff := cmp.Diff(want, binding.Subjects); diff != "" {
				t.Errorf("%s %s:\n%s", object.GetKind(), object.GetName(), diff)
			}
		}
	})
	bound := map[string]bool{}
	for _, object := range render(t, "--set", "accountNamespaces={a,b},apiserver.aggregation.enabled=true").ofKind("RoleBinding") {
		bound[object.GetNamespace()] = true
	}
	if diff := cmp.Diff(map[string]bool{releaseNamespace: true, "kube-system": true, "a": true, "b": true}, bound); diff != "" {
		t.Errorf("namespaces with a RoleBinding:\n%s", diff)
	}
}

// verbsOn returns the verbs, sorted, that a role allows on a resource of Quoin.
func verbsOn(r role, resource string) string {
	var verbs []string
	for _, rule := range r.rules {
		if slices.Contains(rule.APIGroups, "platform.quoin.dev") && slices.Contains(rule.Resources, resource) {
			verbs = append(verbs, rule.Verbs...)
		}
	}
	slices.Sort(verbs)
	return strings.Join(slices.Compact(verbs), " ")
}
