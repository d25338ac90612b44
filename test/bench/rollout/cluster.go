package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	repository       = "cube"
	quoinNamespace   = "quoin-system"
	serviceAccount   = "quoin-controller"
	controllerHealth = "quoin-controller"
	controllerServes = "quoin-controller-metrics"
)

// cluster is a local cluster with simulated nodes, and Quoin's CRDs and roles.
type cluster struct {
	root, dir string
	keep      bool
	registry  string
	kubectl   string
	ports     map[string]int
	config    *rest.Config // of the administrator
}

// startCluster starts a cluster. The caller stops it even if there is an error.
func startCluster(ctx context.Context, root string, o options) (*cluster, error) {
	dir, err := os.MkdirTemp("", "quoin-rollout-")
	if err != nil {
		return nil, err
	}
	c := &cluster{root: root, dir: dir, keep: o.keep}
	progress("starting a cluster in %s", dir)
	if _, err := c.localcluster(ctx, "up", "--bare", "--auto-ports", "--nodes", "simulated"); err != nil {
		return c, err
	}
	if err := c.load(); err != nil {
		return c, err
	}
	for _, args := range [][]string{
		{"apply", "--server-side", "-k", filepath.Join(root, "config", "crd")},
		{"wait", "--for=condition=Established", "customresourcedefinitions", "--all", "--timeout=60s"},
		{"apply", "--server-side", "-k", filepath.Join(root, "config", "rbac")},
		// The bench reads the controller's metrics.
		{"create", "clusterrolebinding", "bench-metrics", "--clusterrole=quoin-metrics-reader", "--serviceaccount=default:default"},
	} {
		if _, err := c.admin(ctx, args...); err != nil {
			return c, err
		}
	}
	return c, nil
}

// load reads the addresses and credentials of the cluster.
func (c *cluster) load() error {
	text, err := os.ReadFile(filepath.Join(c.dir, "env"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		switch name {
		case "QUOIN_REGISTRY":
			c.registry = value
		case "QUOIN_BIN":
			c.kubectl = filepath.Join(value, "kubectl")
		}
	}
	text, err = os.ReadFile(filepath.Join(c.dir, "cluster.json"))
	if err != nil {
		return err
	}
	described := struct{ Ports map[string]int }{}
	if err := json.Unmarshal(text, &described); err != nil {
		return err
	}
	c.ports = described.Ports
	c.config, err = clientcmd.BuildConfigFromFlags("", filepath.Join(c.dir, "kubeconfig"))
	if err != nil {
		return err
	}
	c.config.QPS = -1 // no limit
	return nil
}

// stop stops the cluster and removes its files, unless it is kept.
func (c *cluster) stop(ctx context.Context) {
	if c.keep {
		progress("the cluster runs on: . %s/env; %s/bin/localcluster down --purge --dir %s", c.dir, c.root, c.dir)
		return
	}
	if _, err := c.localcluster(ctx, "down", "--purge"); err != nil {
		progress("%v", err)
		return
	}
	if err := os.RemoveAll(c.dir); err != nil {
		progress("%v", err)
	}
}

// push pushes an image to the cluster's registry.
func (c *cluster) push(ctx context.Context, version string) error {
	_, err := c.localcluster(ctx, "push", repository, "v"+version)
	return err
}

// image returns the reference of an image in the cluster's registry.
func (c *cluster) image(version string) string { return c.registry + "/" + repository + ":v" + version }

// controllerKubeconfig writes a kubeconfig with the controller's own permissions.
func (c *cluster) controllerKubeconfig(ctx context.Context) (string, error) {
	token, err := c.token(ctx, quoinNamespace, serviceAccount)
	if err != nil {
		return "", err
	}
	path := filepath.Join(c.dir, "controller.kubeconfig")
	text, err := os.ReadFile(filepath.Join(c.dir, "kubeconfig"))
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return "", err
	}
	loaded, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return "", err
	}
	for _, user := range loaded.AuthInfos {
		user.ClientCertificateData, user.ClientKeyData, user.Token = nil, nil, token
	}
	return path, clientcmd.WriteToFile(*loaded, path)
}

func (c *cluster) token(ctx context.Context, namespace, account string) (string, error) {
	token, err := c.admin(ctx, "create", "token", account, "--namespace", namespace, "--duration=24h")
	return strings.TrimSpace(token), err
}

// admin runs kubectl as the administrator.
func (c *cluster) admin(ctx context.Context, args ...string) (string, error) {
	return execute(ctx, []string{
		"KUBECONFIG=" + filepath.Join(c.dir, "kubeconfig"), "KUBECACHEDIR=" + filepath.Join(c.dir, "kubectl-cache"),
	}, c.kubectl, args...)
}

func (c *cluster) localcluster(ctx context.Context, command string, args ...string) (string, error) {
	binary := filepath.Join(c.root, "bin", "localcluster")
	if _, err := os.Stat(binary); err != nil {
		return "", fmt.Errorf("%w: run make bench-rollout, which builds it", err)
	}
	return execute(ctx, nil, binary, append([]string{command, "--dir", c.dir}, args...)...)
}

// execute runs a program and returns its stdout. When the context ends, the program gets SIGTERM and a minute.
func execute(ctx context.Context, environment []string, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), environment...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	output, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return "", fmt.Errorf("%s %s: %w", filepath.Base(program), strings.Join(args, " "), err)
	}
	return string(output), nil
}
