package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var trickyVariables = []Variable{
	{"KUBECONFIG", "/home/someone/quoin/.local/kubeconfig"},
	{"QUOIN_REGISTRY", "127.0.0.1:15000"},
	{"QUOIN_DIR", "/with space/it's $HOME \"quoted\" `x`"},
	{"QUOIN_EMPTY", ""},
}

func TestEnvironmentRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(path, []byte(environmentText(trickyVariables)), 0o600); err != nil {
		t.Fatal(err)
	}
	values, err := ReadEnvironment(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range trickyVariables {
		if values[v.Name] != v.Value {
			t.Errorf("%s read back as %q, want %q", v.Name, values[v.Name], v.Value)
		}
	}
	if len(values) != len(trickyVariables) {
		t.Errorf("read %d variables, want %d", len(values), len(trickyVariables))
	}
}

// A shell must read the same values as ReadEnvironment.
func TestEnvironmentInShell(t *testing.T) {
	path := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(path, []byte(environmentText(trickyVariables)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, v := range trickyVariables {
		output, err := exec.Command("sh", "-c", `. "$0" && printf %s "$`+v.Name+`"`, path).Output()
		if err != nil {
			t.Fatal(err)
		}
		if string(output) != v.Value {
			t.Errorf("%s is %q in a shell, want %q", v.Name, output, v.Value)
		}
	}
}

func TestSetEnvironmentKeepsOtherVariables(t *testing.T) {
	c := &Cluster{Dir: t.TempDir()}
	for _, variables := range [][]Variable{
		{{"QUOIN_NODES", "real"}, {"QUOIN_IMAGE", "first"}},
		{{"QUOIN_IMAGE", "second"}},
	} {
		if err := c.SetEnvironment(variables...); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(c.Path("env"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "export QUOIN_IMAGE=second\nexport QUOIN_NODES=real\n"; string(text) != want {
		t.Errorf("got\n%swant\n%s", text, want)
	}
}
