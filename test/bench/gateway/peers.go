package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/quoin-dev/quoin/test/bench/internal/dataplane"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
	"github.com/quoin-dev/quoin/test/bench/internal/process"
	"github.com/quoin-dev/quoin/test/internal/freeport"
)

//go:embed peers/Caddyfile peers/nginx.conf
var configurations embed.FS

const (
	// caddyModule is a separate module, to keep Caddy's dependencies out of Quoin's.
	caddyModule  = "test/bench/gateway/caddy"
	caddyPackage = "github.com/caddyserver/caddy/v2"
	// none skips a peer.
	none = "none"
)

// errNoPeer is the error if a peer is not available on this machine.
var errNoPeer = errors.New("is not available")

// peer is a proxy that does what the gateway does, except checking the token.
type peer struct {
	name, binary, configuration string
	// find returns the binary if none is configured; version returns its version.
	find, version func(ctx context.Context, path string) (string, error)
	// arguments run it in the foreground; the configuration file follows them.
	arguments []string
}

// startPeers starts the available peers, and returns which are skipped.
func (w *world) startPeers(ctx context.Context, o options) (skipped []string, err error) {
	for _, p := range []peer{
		{nameCaddy, o.caddy, "Caddyfile", buildCaddy, caddyVersion, []string{"run", "--adapter", "caddyfile", "--config"}},
		{nameNginx, o.nginx, "nginx.conf", findNginx, nginxVersion, []string{"-e", "stderr", "-c"}},
	} {
		if p.binary == none {
			skipped = append(skipped, fmt.Sprintf("%s: skipped (-%s=none)", p.name, strings.ToLower(p.name)))
			continue
		}
		err := w.startPeer(ctx, o, p)
		if errors.Is(err, errNoPeer) && ctx.Err() == nil {
			measure.Progress("SKIPPED LOUDLY: %s %v", p.name, err)
			skipped = append(skipped, fmt.Sprintf("%s: **skipped**: %v", p.name, err))
			continue
		}
		if err != nil {
			return skipped, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return skipped, nil
}

func (w *world) startPeer(ctx context.Context, o options, p peer) error {
	measure.Progress("getting %s", p.name)
	version, err := p.get(ctx, w.server.Dir)
	if err != nil {
		return err
	}
	address, err := freeport.Address()
	if err != nil {
		return err
	}
	name := strings.ToLower(p.name)
	t := &target{name: p.name, version: version, address: address, trust: w.trust, accessLog: filepath.Join(w.server.Dir, name+"-access.log")}
	file := filepath.Join(w.server.Dir, p.configuration)
	if err := w.configure(o, p.configuration, file, t); err != nil {
		return err
	}
	t.launch = func() (*process.Process, error) {
		return w.server.Start(ctx, name, p.binary, append(p.arguments, file)...)
	}
	w.peers = append(w.peers, t)
	return t.startAndWait(ctx, w.request(dataplane.PathSmall))
}

// get returns the version of the binary, and finds the binary if none is configured. Only then may it be missing.
func (p *peer) get(ctx context.Context, dir string) (string, error) {
	if p.binary != "" {
		return p.version(ctx, p.binary)
	}
	var err error
	if p.binary, err = p.find(ctx, dir); err != nil {
		return "", fmt.Errorf("%w: %w", errNoPeer, err)
	}
	version, err := p.version(ctx, p.binary)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoPeer, err)
	}
	return version, nil
}

// configure writes a peer's configuration file.
func (w *world) configure(o options, name, file string, t *target) error {
	parsed, err := template.ParseFS(configurations, "peers/"+name)
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(t.address)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := parsed.Execute(&text, map[string]any{
		"Directory": w.server.Dir, "Host": host, "Port": port, "Certificate": w.certificateFile(), "Key": w.keyFile(),
		"AccessLog": t.accessLog, "Backend": w.backendAddress, "Root": os.Getuid() == 0, "Files": o.idle + spareFiles,
	}); err != nil {
		return err
	}
	return os.WriteFile(file, text.Bytes(), 0o600)
}

// buildCaddy builds the published Caddy.
func buildCaddy(ctx context.Context, dir string) (string, error) {
	binary := filepath.Join(dir, "caddy")
	build := exec.CommandContext(ctx, "go", "build", "-C", caddyModule, "-ldflags", "-s -w", "-o", binary, caddyPackage+"/cmd/caddy")
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w: %.500s", err, oneLine(output))
	}
	return binary, nil
}

// caddyVersion reads the build information: a Caddy built with go build does not know its version.
func caddyVersion(_ context.Context, binary string) (string, error) {
	built, err := buildinfo.ReadFile(binary)
	if err != nil {
		return "", err
	}
	for _, module := range append(built.Deps, &built.Main) {
		if module.Path == caddyPackage {
			return module.Version, nil
		}
	}
	return "", fmt.Errorf("%s is not Caddy", binary)
}

// findNginx returns the installed nginx, or else unpacks Debian's package into a temporary folder.
func findNginx(ctx context.Context, dir string) (string, error) {
	if binary, err := exec.LookPath("nginx"); err == nil {
		return binary, nil
	}
	// A new machine has no package lists yet.
	const get = `apt-get -q download nginx || { [ "$(id -u)" = 0 ] && apt-get -q update && apt-get -q download nginx; } && dpkg-deb -x nginx_*.deb nginx`
	fetch := exec.CommandContext(ctx, "sh", "-ec", get)
	fetch.Dir = dir
	if output, err := fetch.CombinedOutput(); err != nil {
		return "", fmt.Errorf("it is not installed, and apt-get download nginx: %w: %.500s", err, oneLine(output))
	}
	return filepath.Join(dir, "nginx", "usr", "sbin", "nginx"), nil
}

func oneLine(text []byte) string { return strings.Join(strings.Fields(string(text)), " ") }

func nginxVersion(ctx context.Context, binary string) (string, error) {
	output, err := exec.CommandContext(ctx, binary, "-v").CombinedOutput()
	if err != nil { // for example a missing library
		return "", fmt.Errorf("%s -v: %w: %.500s", binary, err, oneLine(output))
	}
	_, version, _ := strings.Cut(oneLine(output), "/")
	return version, nil
}
