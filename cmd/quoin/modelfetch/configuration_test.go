package modelfetch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestAddConfiguration(t *testing.T) {
	for name, own := range map[string]string{"none": "", "cube.js": "cube.js", "cube.py": "cube.py", "cube.ts": "cube.ts"} {
		t.Run(name, func(t *testing.T) {
			project := t.TempDir()
			if own != "" {
				write(t, filepath.Join(project, own), "own")
			}
			if err := addConfiguration(project); err != nil {
				t.Fatal(err)
			}
			entries, err := os.ReadDir(project)
			if err != nil || len(entries) != 1 {
				t.Fatalf("%v, error %v, want one file", entries, err)
			}
			content, err := os.ReadFile(filepath.Join(project, entries[0].Name()))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(content); (got == "own") != (own != "") {
				t.Errorf("%s: %s", entries[0].Name(), got)
			}
		})
	}
}

// TestConfiguration runs the configuration in Node, beside an image's own one and servers of several versions.
func TestConfiguration(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("NOT TESTED: the configuration of projects without one: node is not installed")
	}
	for name, c := range map[string]struct {
		version string            // of the server
		image   map[string]string // files in /cube/conf
		print   string
		want    string // output, or part of the error
	}{
		"groups of the token":         {version: "1.6.62", print: `c.contextToGroups({securityContext: {cubeCloud: {groups: ["a", "b"]}}})`, want: `["a","b"]`},
		"a token without groups":      {version: "1.5.0", print: `c.contextToGroups({securityContext: {}})`, want: `[]`},
		"no token":                    {version: "2.0.0", print: `c.contextToGroups({})`, want: `[]`},
		"no option in older servers":  {version: "1.4.9", print: `Object.keys(c)`, want: `[]`},
		"servers of unknown versions": {print: `Object.keys(c)`, want: `[]`},
		"the image's configuration":   {version: "0.35.81", image: map[string]string{"cube.js": "module.exports = {basePath: '/x'}"}, print: `c`, want: `{"basePath":"/x"}`},
		"the image's groups":          {version: "1.6.62", image: map[string]string{"cube.js": "module.exports = {contextToGroups: () => ['image']}"}, print: `c.contextToGroups({})`, want: `["image"]`},
		"cube.py of the image":        {version: "1.6.62", image: map[string]string{"cube.py": ""}, print: `c`, want: "which is not used for models in Git: add cube.py to the project in Git"},
		"cube.ts of the image":        {version: "1.6.62", image: map[string]string{"cube.ts": ""}, print: `c`, want: "which is not used for models in Git: add cube.ts to the project in Git"},
	} {
		t.Run(name, func(t *testing.T) {
			cube := t.TempDir()
			if c.version != "" {
				write(t, filepath.Join(cube, "node_modules", "@cubejs-backend", "server-core", "package.json"), `{"version": "`+c.version+`"}`)
			}
			for name, content := range c.image {
				write(t, filepath.Join(cube, "conf", name), content)
			}
			project := filepath.Join(cube, "project")
			write(t, filepath.Join(project, "cube.js"), strings.ReplaceAll(string(configuration), "'/cube/conf'", "'"+cube+"/conf'"))
			out, _ := exec.CommandContext(t.Context(), node, "-e", "const c = require("+quote(project+"/cube.js")+"); console.log(JSON.stringify("+c.print+"))").CombinedOutput()
			if got := strings.TrimSpace(string(out)); got != c.want && !(len(c.image) > 0 && strings.Contains(got, c.want)) {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

func quote(s string) string { return "'" + s + "'" }

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
