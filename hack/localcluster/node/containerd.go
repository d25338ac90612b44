package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/quoin-dev/quoin/hack/localcluster/binaries"
	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
	"github.com/quoin-dev/quoin/hack/localcluster/host"
	"github.com/quoin-dev/quoin/hack/localcluster/image"
	"github.com/quoin-dev/quoin/hack/localcluster/process"
)

// pauseImage is the sandbox image; it is built here and never pulled.
const pauseImage = "localcluster.quoin.dev/pause:1"

// containerdConfiguration keeps all files of containerd in separate folders.
// Without CAP_SYS_RESOURCE, for example in a container, sandboxes start only
// with restrict_oom_score_adj. netns_mounts_under_state_dir identifies the
// mounts of this cluster after a crash.
const containerdConfiguration = `version = 2
root = %[1]q
state = %[2]q
[grpc]
  address = %[3]q
[plugins."io.containerd.internal.v1.opt"]
  path = %[4]q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %[5]q
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %[6]q
    conf_dir = %[7]q
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = %[8]q
`

// registryHosts configures containerd to pull from the cluster's registry over
// HTTP.
const registryHosts = `server = "http://%[1]s"
[host."http://%[1]s"]
  capabilities = ["pull", "resolve"]
`

// containerd returns the component of the real node's container runtime.
func containerd(c *cluster.Cluster, n Network) (cluster.Component, error) {
	state := n.StateDirectory()
	configuration := fmt.Sprintf(containerdConfiguration, filepath.Join(state, "containerd"),
		filepath.Join(n.runDirectory(), "containerd"), n.containerdSocket(), filepath.Join(state, "opt"),
		pauseImage, host.CNIPlugins, c.Path("cni"), c.Path("containerd", "certs.d"))
	err := errors.Join(
		os.MkdirAll(n.runDirectory(), 0o711),
		os.MkdirAll(state, 0o711), // some processes below it do not run as root
		c.WriteFile([]byte(configuration), 0o644, "containerd", "config.toml"),
		c.WriteFile(fmt.Appendf(nil, registryHosts, c.RegistryAddress()), 0o644, "containerd", "certs.d", c.RegistryAddress(), "hosts.toml"),
		c.WriteFile([]byte(n.cniConfiguration()), 0o644, "cni", "10-localcluster.conflist"),
	)
	if err != nil {
		return cluster.Component{}, err
	}
	return cluster.Component{
		Daemon: process.Daemon{
			Name:        "containerd",
			Path:        host.FindProgram("containerd"),
			Args:        []string{"--config", c.Path("containerd", "config.toml")},
			Environment: []string{systemPath()},
		},
		Timeout: 30 * time.Second,
		Ready: func(ctx context.Context) error {
			return host.Run(ctx, "ctr", "--address", n.containerdSocket(), "version")
		},
	}, nil
}

// importPause builds the sandbox image and imports it into containerd.
func importPause(ctx context.Context, c *cluster.Cluster, n Network) error {
	source, err := binaries.SourceDirectory()
	if err != nil {
		return err
	}
	binary := c.Path("bin", "pause")
	err = binaries.GoBuild(ctx, binaries.GoBuildOptions{
		Folder: source, GoPackage: "./pause", Output: binary, Goos: "linux",
		Flags: []string{"-trimpath", "-ldflags", "-s -w -buildid="},
	})
	if err != nil {
		return err
	}
	options, err := image.Binary(binary, "65535:65535")
	if err != nil {
		return err
	}
	image, err := image.Build(options)
	if err != nil {
		return err
	}
	reference, err := name.NewTag(pauseImage)
	if err != nil {
		return err
	}
	archive := c.Path("bin", "pause.tar")
	if err := tarball.WriteToFile(archive, reference, image); err != nil {
		return fmt.Errorf("write the sandbox image: %w", err)
	}
	return host.Run(ctx, "ctr", "--address", n.containerdSocket(), "--namespace", "k8s.io", "images", "import", archive)
}
