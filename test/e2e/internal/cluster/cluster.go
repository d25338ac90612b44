// Package cluster runs a local cluster for the journeys, and processes of bin/quoin on it.
package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/test/e2e/internal/command"
)

// Kinds of nodes.
const (
	Simulated = "simulated"
	Real      = "real"
)

// Namespace is Quoin's namespace, created by config/rbac.
const Namespace = "quoin-system"

// controllerAccount is the ServiceAccount of the controller.
const controllerAccount = "quoin-controller"

// Cluster is a local cluster with only Quoin's CRDs and roles.
type Cluster struct {
	// Nodes are Simulated or Real.
	Nodes string
	// Dir has all files of the run: those of the cluster in dir/cluster, and the logs of the processes.
	Dir string
	// Env has the variables of dir/cluster/env: the addresses and files of the cluster.
	Env map[string]string
	// quoin is a copy of the binary under test, so that a rebuild during the tests has no effect.
	quoin string
	// Kubeconfig is a file with the token of the controller's ServiceAccount.
	Kubeconfig string
	// API is a client with administrator permissions.
	API client.WithWatch

	ports map[string]int
	// started counts the processes, for the names of their logs.
	started int
}

// Start starts a cluster on free ports and installs what a controller needs.
func Start(ctx context.Context, nodes string) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "quoin-e2e-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{Nodes: nodes, Dir: dir, quoin: filepath.Join(dir, "quoin"), Kubeconfig: filepath.Join(dir, "controller.kubeconfig")}
	GinkgoWriter.Println("the run's files are in", dir)
	args := []string{"up", "--bare", "--auto-ports", "--nodes", nodes}
	if nodes == Real {
		args = append(args, "--install-packages", "--warehouse")
	}
	policy, audit, err := apitest.AuditLog()
	if err != nil {
		return nil, err
	}
	if audit != "" {
		args = append(args, "--audit-policy", policy, "--audit-log", audit)
	}
	err = errors.Join(build("bin/quoin", "build"), build("bin/localcluster", Repository("bin", "localcluster")))
	if err == nil {
		_, err = c.Localcluster(ctx, args...)
	}
	if err == nil {
		err = c.prepare(ctx)
	}
	if err == nil && nodes == Real {
		err = c.pushQuoin(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop(context.WithoutCancel(ctx), true))
	}
	return c, nil
}

// build runs make if a binary is missing. An existing binary is tested as it is.
func build(binary, target string) error {
	if _, err := os.Stat(Repository(binary)); err == nil {
		return nil
	}
	out, err := exec.Command("make", "-C", Repository(), target).CombinedOutput()
	if err != nil {
		return fmt.Errorf("make %s: %w: %s", target, err, out)
	}
	return nil
}

// Repository returns a path in the repository.
func Repository(elements ...string) string {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		panic(err)
	}
	return filepath.Join(append([]string{root}, elements...)...)
}

// Localcluster runs a subcommand of bin/localcluster on this cluster and returns its output.
func (c *Cluster) Localcluster(ctx context.Context, args ...string) (string, error) {
	args = append(args, "--dir", filepath.Join(c.Dir, "cluster"))
	return command.Output(exec.CommandContext(ctx, Repository("bin", "localcluster"), args...))
}

// prepare reads the variables of the cluster, copies the binary under test and installs what a controller needs.
func (c *Cluster) prepare(ctx context.Context) error {
	if err := c.readEnv(); err != nil {
		return err
	}
	if err := copyFile(Repository("bin", "quoin"), c.quoin); err != nil {
		return err
	}
	return c.Install(ctx)
}

// Install applies the CRDs and roles, and writes a kubeconfig with the controller's ServiceAccount, so that permissions
// that are missing in config/rbac are detected.
func (c *Cluster) Install(ctx context.Context) error {
	for _, args := range [][]string{
		{"apply", "--server-side", "--force-conflicts", "-k", Repository("config", "crd")},
		{"wait", "--for=condition=Established", "customresourcedefinitions", "--all", "--timeout=60s"},
		{"apply", "--server-side", "--force-conflicts", "-k", Repository("config", "rbac")},
	} {
		if _, err := c.Kubectl(ctx, "", args...); err != nil {
			return err
		}
	}
	// kubectl caches the list of kinds for ten minutes.
	if err := os.RemoveAll(c.Env["KUBECACHEDIR"]); err != nil {
		return err
	}
	return c.Connect(ctx)
}

// Connect creates the administrator's client, and writes the controller's kubeconfig with a new token.
func (c *Cluster) Connect(ctx context.Context) error {
	token, err := c.Kubectl(ctx, "", "create", "token", controllerAccount, "--namespace", Namespace, "--duration=2h")
	if err != nil {
		return err
	}
	return c.connect(strings.TrimSpace(token))
}

// Uninstall deletes what Install and journeys with the aggregated API have applied, and all objects of the CRDs. No process
// of Quoin may run, and no Account may exist, whose finalizer a process removes.
func (c *Cluster) Uninstall(ctx context.Context) error {
	for _, folder := range []string{"aggregation", "crd", "rbac"} {
		if _, err := c.Kubectl(ctx, "", "delete", "-k", Repository("config", folder), "--ignore-not-found", "--timeout=180s"); err != nil {
			return err
		}
	}
	return nil
}

// Address returns the address of this machine, which real pods can also reach.
func (c *Cluster) Address() string {
	return cmp.Or(c.Env["QUOIN_NODE_ADDRESS"], "127.0.0.1")
}

// pushQuoin pushes the image of bin/quoin to the registry. Init containers of pods fetch the model with it.
func (c *Cluster) pushQuoin(ctx context.Context) error {
	push := exec.CommandContext(ctx, "go", "run", "./hack/image", "--binary", c.quoin, "--push", c.Env["QUOIN_REGISTRY"]+"/quoin:e2e")
	push.Dir = Repository()
	_, err := command.Output(push)
	return err
}

// PushDbt pushes the image with dbt to the registry under a name. It is built once for all runs on the machine.
func (c *Cluster) PushDbt(ctx context.Context, name string) error {
	_, err := command.Output(exec.CommandContext(ctx, Repository("bin", "localcluster"), "dbt-image", "--install-packages", "--push", name))
	return err
}

// RESTAddress returns the address of the REST and SCIM server, which real pods can also reach.
func (c *Cluster) RESTAddress() string {
	return net.JoinHostPort(c.Address(), strconv.Itoa(c.RESTPort()))
}

// RESTPort returns the port that is reserved for the REST and SCIM server.
func (c *Cluster) RESTPort() int { return c.ports["quoin-apiserver"] }

// GatewayPort returns the port that is reserved for the gateway.
func (c *Cluster) GatewayPort() int { return c.ports["quoin-gateway"] }

// readEnv reads the env file and the ports of the cluster.
func (c *Cluster) readEnv() error {
	state, err := os.ReadFile(filepath.Join(c.Dir, "cluster", "cluster.json"))
	if err != nil {
		return err
	}
	var stored struct{ Ports map[string]int }
	if err := json.Unmarshal(state, &stored); err != nil {
		return err
	}
	c.ports = stored.Ports
	text, err := os.ReadFile(filepath.Join(c.Dir, "cluster", "env"))
	if err != nil {
		return err
	}
	c.Env = map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		c.Env[name] = strings.Trim(value, "'")
	}
	return nil
}

// connect creates the administrator's client and writes the controller's kubeconfig.
func (c *Cluster) connect(token string) error {
	config, err := clientcmd.BuildConfigFromFlags("", c.Env["KUBECONFIG"])
	if err != nil {
		return err
	}
	config.QPS = -1
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	if c.API, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	return c.WriteKubeconfig(c.Kubeconfig, token)
}

// WriteKubeconfig writes a kubeconfig with a token.
func (c *Cluster) WriteKubeconfig(file, token string) error {
	config, err := clientcmd.LoadFromFile(c.Env["KUBECONFIG"])
	if err != nil {
		return err
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	}
	return clientcmd.WriteToFile(*config, file)
}

// Stop stops the cluster, and removes its files unless they are kept.
func (c *Cluster) Stop(ctx context.Context, keepFiles bool) error {
	if keepFiles {
		_, err := c.Localcluster(ctx, "down")
		fmt.Fprintln(os.Stderr, "the logs of this run are in", c.Dir, "and", filepath.Join(c.Dir, "cluster", "logs"))
		return err
	}
	if _, err := c.Localcluster(ctx, "down", "--purge"); err != nil {
		return err
	}
	return os.RemoveAll(c.Dir)
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}
