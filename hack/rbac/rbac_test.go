package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	controller = "system:serviceaccount:quoin-system:quoin-controller"
	gateway    = "system:serviceaccount:quoin-system:quoin-gateway"
)

// line returns an event of an audit log.
func line(user, verb, object, decision, role string, code int) string {
	reason := ""
	if role != "" {
		kind, name, _ := strings.Cut(role, " ")
		reason = fmt.Sprintf(`RBAC: allowed by %sBinding \"x\" of %s \"%s\" to ServiceAccount \"y\"`, kind, kind, name)
	}
	return fmt.Sprintf(`{"user":{"username":%q},"verb":%q,"objectRef":{%s},"responseStatus":{"code":%d},"annotations":{"authorization.k8s.io/decision":%q,"authorization.k8s.io/reason":"%s"}}`+"\n",
		user, verb, object, code, decision, reason)
}

func TestEventsOfAnAuditLog(t *testing.T) {
	const pods = `"apiGroup":"","resource":"pods","namespace":"acme","name":"p"`
	want := request{user: controller, verb: "patch", resource: "pods", namespace: "acme", name: "p", role: "ClusterRole a"}
	with := func(change func(*request)) request {
		r := want
		change(&r)
		return r
	}
	for name, test := range map[string]struct {
		log  string
		want []request
	}{
		"allowed":        {line(controller, "patch", pods, "allow", "ClusterRole a", 200), []request{want}},
		"by a role":      {line(controller, "patch", pods, "allow", "Role a", 200), []request{with(func(r *request) { r.role = "Role a" })}},
		"forbidden":      {line(controller, "patch", pods, "forbid", "", 403), []request{with(func(r *request) { r.role = "" })}},
		"subresource":    {line(controller, "patch", pods+`,"subresource":"status"`, "allow", "ClusterRole a", 200), []request{with(func(r *request) { r.resource = "pods/status" })}},
		"patch creates":  {line(controller, "patch", pods, "allow", "ClusterRole a", 201), []request{want, with(func(r *request) { r.verb = "create" })}},
		"not by RBAC":    {line(controller, "patch", pods, "allow", "", 200), nil},
		"no resource":    {`{"user":{"username":"u"},"verb":"get","requestURI":"/readyz"}` + "\n", nil},
		"incomplete end": {line(controller, "patch", pods, "allow", "ClusterRole a", 200) + `{"user":{"us`, []request{want}},
	} {
		t.Run(name, func(t *testing.T) {
			got, all := map[request]int{}, map[request]int{}
			if err := readEvents(strings.NewReader(test.log), got); err != nil {
				t.Fatal(err)
			}
			for _, r := range test.want {
				all[r]++
			}
			if diff := cmp.Diff(all, got, cmp.AllowUnexported(request{})); diff != "" {
				t.Error(diff)
			}
		})
	}
	if err := readEvents(strings.NewReader("{\n{}\n"), map[request]int{}); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a malformed line: %v", err)
	}
}

func TestCompare(t *testing.T) {
	const role = "ClusterRole a"
	may := func(verb, resource string) permission {
		return permission{user: controller, role: role, resource: resource, verb: verb}
	}
	did := func(verb, resource string) request {
		return request{user: controller, role: role, resource: resource, verb: verb, name: "n"}
	}
	optional := permission{user: controller, role: "ClusterRole b", resource: "secrets", verb: "get", optional: true}
	named := permission{user: controller, role: role, resource: "leases", verb: "get", names: "n,m"}
	inSystem := permission{user: controller, role: role, resource: "leases", verb: "get", namespace: "quoin-system"}
	exception := func(verb, resource string) []exception {
		return []exception{{User: "quoin-controller", Resources: []string{resource}, Verbs: []string{verb}, Reason: "r"}}
	}
	for name, test := range map[string]struct {
		all    []permission
		log    []request
		except exceptions
		want   []string
	}{
		"used":                               {all: []permission{may("get", "pods")}, log: []request{did("get", "pods")}},
		"used by name":                       {all: []permission{named}, log: []request{did("get", "leases")}},
		"not used":                           {all: []permission{may("get", "pods"), may("list", "pods")}, log: []request{did("get", "pods")}, want: []string{"not used: quoin-controller of ClusterRole a: list pods"}},
		"other subresource":                  {all: []permission{may("get", "pods"), may("get", "pods/log")}, log: []request{did("get", "pods")}, want: []string{"not used: quoin-controller of ClusterRole a: get pods/log"}},
		"allowed by another role":            {all: []permission{may("get", "secrets"), optional}, log: []request{did("get", "secrets")}, want: []string{"not used: quoin-controller of ClusterRole b: get secrets"}},
		"allowed by Kubernetes":              {all: []permission{may("get", "pods")}, log: []request{{user: controller, role: "ClusterRole system:x", resource: "pods", verb: "get"}}},
		"list before watch":                  {all: []permission{may("list", "pods"), may("watch", "pods")}, log: []request{did("watch", "pods")}},
		"excused":                            {all: []permission{may("get", "pods"), may("patch", "pods")}, log: []request{did("get", "pods")}, except: exceptions{Unused: exception("patch", "pods")}},
		"exception is not needed":            {all: []permission{may("get", "pods")}, log: []request{did("get", "pods")}, except: exceptions{Unused: exception("get", "pods")}},
		"exception of nothing":               {all: []permission{may("get", "pods")}, log: []request{did("get", "pods")}, except: exceptions{Unused: exception("patch", "pods")}, want: []string{"exceptions.yaml: quoin-controller has no permission patch on pods"}},
		"forbidden":                          {all: []permission{may("get", "pods")}, log: []request{did("get", "pods"), {user: controller, verb: "delete", resource: "pods"}}, want: []string{"forbidden, 1 times: quoin-controller: delete pods"}},
		"forbidden with exception":           {all: []permission{may("get", "pods")}, log: []request{did("get", "pods"), {user: controller, verb: "delete", resource: "pods"}}, except: exceptions{Forbidden: exception("delete", "pods")}},
		"forbidden without binding":          {all: []permission{optional}, log: []request{{user: controller, verb: "get", resource: "secrets", role: "ClusterRole b"}, {user: controller, verb: "get", resource: "secrets"}}},
		"forbidden before the role is bound": {all: []permission{may("get", "pods")}, log: []request{did("get", "pods"), {user: controller, verb: "get", resource: "pods"}}},
		"forbidden in another namespace":     {all: []permission{inSystem}, log: []request{did("get", "leases"), {user: controller, verb: "get", resource: "leases", namespace: "other"}}, want: []string{"forbidden, 1 times: quoin-controller: get leases"}},
		"process did not run":                {all: []permission{{user: gateway, role: role, verb: "get", resource: "pods"}}, want: []string{"no requests of quoin-gateway: the tests that run it are missing"}},
	} {
		t.Run(name, func(t *testing.T) {
			all, log := map[permission]bool{}, map[request]int{}
			for _, p := range test.all {
				all[p] = true
			}
			for _, r := range test.log {
				log[r]++
			}
			if diff := cmp.Diff(test.want, compare(all, log, &test.except).problems); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRun compares the real roles with a log of one request.
func TestRun(t *testing.T) {
	config, folder := filepath.Join("..", "..", "config"), t.TempDir()
	if err := run(&bytes.Buffer{}, config, folder); err == nil || !strings.Contains(err.Error(), "QUOIN_AUDIT_LOGS="+folder) {
		t.Errorf("without logs: %v", err)
	}
	log := line(controller, "watch", `"apiGroup":"platform.quoin.dev","resource":"accounts"`, "allow", "ClusterRole quoin-controller", 200)
	if err := os.WriteFile(filepath.Join(folder, "one.log"), []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	out := &bytes.Buffer{}
	if err := run(out, config, folder); err == nil {
		t.Error("a log of one request is accepted")
	}
	for _, want := range []string{
		"1 requests of Quoin's processes", "no requests of quoin-gateway",
		"not used: quoin-controller of ClusterRole quoin-controller: patch accounts.platform.quoin.dev/status",
		"not used: quoin-controller of ClusterRole quoin-account-controller: create jobs.batch",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for _, not := range []string{"watch accounts.platform.quoin.dev\n", "exceptions.yaml: "} {
		if strings.Contains(out.String(), not) {
			t.Errorf("%q in\n%s", not, out)
		}
	}
}

// TestMayReadWhatItWrites: internal/kube reads an object from the API server while the cache is behind a write of the process,
// so a role that may patch objects or their status may also get them. Few test runs send that request. quoin gateway writes without internal/kube.
func TestMayReadWhatItWrites(t *testing.T) {
	all, err := readPermissions(filepath.Join("..", "..", "config"))
	if err != nil {
		t.Fatal(err)
	}
	writes := 0
	for p := range all {
		if p.group != "platform.quoin.dev" || p.verb != "patch" || p.user == gateway {
			continue
		}
		writes++
		get := p
		get.verb = "get"
		get.resource = strings.TrimSuffix(p.resource, "/status")
		if !all[get] {
			t.Errorf("%s, but not get %s", p, get.resource)
		}
	}
	if writes == 0 {
		t.Error("no role may patch an object of Quoin")
	}
}

func TestExceptionsNeedAReason(t *testing.T) {
	for text, want := range map[string]string{
		"unused: [{user: quoin-gateway, resources: [pods], verbs: [get]}]": "reason are required",
		"forbidden: [{user: quoin-gateway, verb: get}]":                    "unknown field",
		"unused: 1": "exceptions.yaml",
	} {
		if _, err := readExceptions([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := readExceptions(exceptionsFile); err != nil {
		t.Error(err)
	}
}
