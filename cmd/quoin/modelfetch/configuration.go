package modelfetch

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// configurations are the names of the server's configuration file.
// Source: packages/cubejs-server/src/server/container.ts.
var configurations = []string{"cube.py", "cube.ts", "cube.js"}

// configuration is the configuration of a project without one.
//
//go:embed configuration.js
var configuration []byte

// addConfiguration writes the configuration file of a project, unless it has one.
func addConfiguration(project string) error {
	for _, name := range configurations {
		_, err := os.Lstat(filepath.Join(project, name))
		if err == nil {
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("look for the configuration file: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(project, "cube.js"), configuration, 0o644); err != nil {
		return fmt.Errorf("write the configuration file: %w", err)
	}
	return nil
}
