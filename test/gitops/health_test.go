package gitops_test

import (
	"os"
	"path/filepath"
	"testing"

	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// checksFolder has a folder for each kind, as Argo CD's resource_customizations/<group>.
const checksFolder = "../../config/argocd/" + v1alpha1.Group

// health is the health of an object, as Argo CD shows it.
type health struct{ Status, Message string }

// TestHealth runs every health check on its examples.
func TestHealth(t *testing.T) {
	for _, kind := range kindsWithConditions(t) {
		folder := filepath.Join(checksFolder, kind)
		script := readFile(t, filepath.Join(folder, "health.lua"))
		var tests struct {
			Tests []struct {
				HealthStatus health
				InputPath    string
			}
		}
		if err := yaml.UnmarshalStrict([]byte(readFile(t, filepath.Join(folder, "health_test.yaml"))), &tests); err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, tt := range tests.Tests {
			t.Run(kind+"/"+tt.InputPath, func(t *testing.T) {
				obj := parse(t, readFile(t, filepath.Join(folder, tt.InputPath)))
				if obj["kind"] != kind {
					t.Errorf("the example is of kind %q", obj["kind"])
				}
				if got := run(t, script, obj); got != tt.HealthStatus {
					t.Errorf("got %+v, want %+v", got, tt.HealthStatus)
				}
			})
			seen[tt.HealthStatus.Status] = true
		}
		for _, status := range []string{"Healthy", "Progressing", "Degraded"} {
			if !seen[status] {
				t.Errorf("%s has no example that is %s", kind, status)
			}
		}
	}
}

// TestHealthOfIncompleteObjects: the checks fail for no object that the API server may return.
func TestHealthOfIncompleteObjects(t *testing.T) {
	script := readFile(t, filepath.Join(checksFolder, "Deployment", "health.lua"))
	ready := `{type: Ready, status: "True", reason: Succeeded, message: done, observedGeneration: 1}`
	cases := map[string]struct{ text, want string }{
		"no status":               {`{metadata: {generation: 1}}`, "Progressing"},
		"null":                    {`{metadata: {generation: 1}, status: null}`, "Progressing"},
		"no conditions":           {`{metadata: {generation: 1}, status: {conditions: []}}`, "Progressing"},
		"other conditions only":   {`{metadata: {generation: 1}, status: {conditions: [{type: Available, status: "True"}]}}`, "Progressing"},
		"Stalled without Ready":   {`{metadata: {generation: 1}, status: {conditions: [{type: Stalled, status: "True"}]}}`, "Progressing"},
		"no generation in Ready":  {`{metadata: {generation: 1}, status: {conditions: [{type: Ready, status: "True", reason: x, message: y}]}}`, "Progressing"},
		"spec not fully handled":  {`{metadata: {generation: 1}, status: {observedGeneration: -1, conditions: [` + ready + `]}}`, "Progressing"},
		"observed":                {`{metadata: {generation: 1}, status: {observedGeneration: 1, conditions: [` + ready + `]}}`, "Healthy"},
		"Stalled that is not set": {`{metadata: {generation: 1}, status: {observedGeneration: 1, conditions: [` + ready + `, {type: Stalled, status: "False"}]}}`, "Healthy"},
		"old":                     {`{metadata: {generation: 2}, status: {observedGeneration: 1, conditions: [` + ready + `]}}`, "Progressing"},
	}
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			if got := run(t, script, parse(t, tt.text)); got.Status != tt.want || got.Message == "" {
				t.Errorf("got %+v, want %s with a message", got, tt.want)
			}
		})
	}
}

// TestConfigMapHasTheSameChecks: the entries for argocd-cm are those files.
func TestConfigMapHasTheSameChecks(t *testing.T) {
	var configMap corev1.ConfigMap
	if err := yaml.UnmarshalStrict([]byte(readFile(t, "../../config/argocd/argocd-cm.yaml")), &configMap); err != nil {
		t.Fatal(err)
	}
	if configMap.Name != "argocd-cm" {
		t.Errorf("the name is %q", configMap.Name)
	}
	kinds := kindsWithConditions(t)
	for _, kind := range kinds {
		if got, want := configMap.Data["resource.customizations.health."+v1alpha1.Group+"_"+kind], readFile(t, filepath.Join(checksFolder, kind, "health.lua")); got != want {
			t.Errorf("the check of %s differs from its file:\n%s", kind, got)
		}
	}
	if len(configMap.Data) != len(kinds) {
		t.Errorf("%d entries for %d kinds", len(configMap.Data), len(kinds))
	}
}

// kindsWithConditions returns the names of the kinds that have a health check.
func kindsWithConditions(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, kind := range v1alpha1.Kinds {
		_, err := os.Stat(filepath.Join(checksFolder, kind.Name()))
		if exists := err == nil; exists != kind.HasConditions() {
			t.Errorf("%s has conditions: %t, has a health check: %t", kind.Name(), kind.HasConditions(), exists)
		}
		if kind.HasConditions() {
			names = append(names, kind.Name())
		}
	}
	return names
}

// run runs a health check with the libraries that Argo CD gives to checks in argocd-cm.
func run(t *testing.T, script string, obj map[string]any) health {
	t.Helper()
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for name, open := range map[string]lua.LGFunction{lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		l.Push(l.NewFunction(open))
		l.Push(lua.LString(name))
		l.Call(1, 0)
	}
	l.SetGlobal("obj", toLua(l, obj))
	if err := l.DoString(script); err != nil {
		t.Fatal(err)
	}
	result, isTable := l.Get(-1).(*lua.LTable)
	if !isTable {
		t.Fatalf("the check returns %s", l.Get(-1).Type())
	}
	return health{lua.LVAsString(result.RawGetString("status")), lua.LVAsString(result.RawGetString("message"))}
}

// toLua converts a value of JSON.
func toLua(l *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case bool:
		return lua.LBool(value)
	case float64:
		return lua.LNumber(value)
	case int64:
		return lua.LNumber(value)
	case string:
		return lua.LString(value)
	case []any:
		table := l.NewTable()
		for _, item := range value {
			table.Append(toLua(l, item))
		}
		return table
	case map[string]any:
		table := l.NewTable()
		for key, item := range value {
			table.RawSetString(key, toLua(l, item))
		}
		return table
	}
	return lua.LNil
}

// parse returns an object with integers as int64, as clients of the API server read it.
func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var obj map[string]any
	if err := utiljson.Unmarshal(data, &obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
