package e2e_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// The ServiceAccount of the controller, created by config/rbac.
const (
	quoinNamespace = "quoin-system"
	quoinAccount   = "quoin-controller"
)

// cluster is a local cluster with only Quoin's CRDs and roles.
type cluster struct {
	nodes string
	// dir has all files of the run: those of the cluster in dir/cluster, and the logs of the controllers.
	dir string
	// env has the variables of dir/cluster/env: the addresses and files of the cluster.
	env map[string]string
	// quoin is a copy of the binary under test, so that a rebuild during the tests has no effect.
	quoin string
	// kubeconfig has the token of the controller's ServiceAccount.
	kubeconfig string
	config     *rest.Config
	// api is a client with administrator permissions.
	api client.WithWatch
}

// startCluster starts a cluster on free ports and installs what a controller needs.
func startCluster(ctx context.Context, nodes string) (*cluster, error) {
	dir, err := os.MkdirTemp("", "quoin-e2e-")
	if err != nil {
		return nil, err
	}
	c := &cluster{nodes: nodes, dir: dir, quoin: filepath.Join(dir, "quoin"), kubeconfig: filepath.Join(dir, "controller.kubeconfig")}
	GinkgoWriter.Println("the run's files are in", dir)
	args := []string{"up", "--bare", "--auto-ports", "--nodes", nodes}
	if nodes == real {
		args = append(args, "--install-packages", "--warehouse")
	}
	err = errors.Join(build("bin/quoin", "build"), build("bin/localcluster", repository("bin", "localcluster")))
	if err == nil {
		_, err = c.localcluster(ctx, args...)
	}
	if err == nil {
		err = c.install(ctx)
	}
	if err == nil && nodes == real {
		err = c.pushQuoin(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.stop(context.WithoutCancel(ctx), true))
	}
	return c, nil
}

// build runs make if a binary is missing. An existing binary is tested as it is.
func build(binary, target string) error {
	if _, err := os.Stat(repository(binary)); err == nil {
		return nil
	}
	out, err := exec.Command("make", "-C", repository(), target).CombinedOutput()
	if err != nil {
		return fmt.Errorf("make %s: %w: %s", target, err, out)
	}
	return nil
}

// repository returns a path in the repository.
func repository(elements ...string) string {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		panic(err)
	}
	return filepath.Join(append([]string{root}, elements...)...)
}

// localcluster runs a subcommand of bin/localcluster on this cluster and returns its output.
func (c *cluster) localcluster(ctx context.Context, args ...string) (string, error) {
	args = append(args, "--dir", filepath.Join(c.dir, "cluster"))
	return output(exec.CommandContext(ctx, repository("bin", "localcluster"), args...))
}

// output runs a command and returns its stdout. Its stderr goes to the log of the test.
func output(cmd *exec.Cmd) (string, error) {
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, io.MultiWriter(GinkgoWriter, &stderr)
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// install applies the CRDs and roles, and writes a kubeconfig with the controller's ServiceAccount, so that permissions
// that are missing in config/rbac are detected.
func (c *cluster) install(ctx context.Context) error {
	if err := c.readEnv(); err != nil {
		return err
	}
	if err := copyFile(repository("bin", "quoin"), c.quoin); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"apply", "--server-side", "-k", repository("config", "crd")},
		{"wait", "--for=condition=Established", "customresourcedefinitions", "--all", "--timeout=60s"},
		{"apply", "--server-side", "-k", repository("config", "rbac")},
	} {
		if _, err := c.kubectl(ctx, "", args...); err != nil {
			return err
		}
	}
	// kubectl caches the list of kinds for ten minutes.
	if err := os.RemoveAll(c.env["KUBECACHEDIR"]); err != nil {
		return err
	}
	token, err := c.kubectl(ctx, "", "create", "token", quoinAccount, "--namespace", quoinNamespace, "--duration=2h")
	if err != nil {
		return err
	}
	return c.connect(strings.TrimSpace(token))
}

// address returns the address of this machine, which real pods can also reach.
func (c *cluster) address() string {
	return cmp.Or(c.env["QUOIN_NODE_ADDRESS"], "127.0.0.1")
}

// pushQuoin pushes the image of bin/quoin to the registry. Init containers of pods fetch the model with it.
func (c *cluster) pushQuoin(ctx context.Context) error {
	push := exec.CommandContext(ctx, "go", "run", "./hack/image", "--binary", c.quoin, "--push", c.env["QUOIN_REGISTRY"]+"/quoin:e2e")
	push.Dir = repository()
	_, err := output(push)
	return err
}

// readEnv reads the env file of the cluster.
func (c *cluster) readEnv() error {
	text, err := os.ReadFile(filepath.Join(c.dir, "cluster", "env"))
	if err != nil {
		return err
	}
	c.env = map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		c.env[name] = strings.Trim(value, "'")
	}
	return nil
}

// connect creates the administrator's client and writes the controller's kubeconfig.
func (c *cluster) connect(token string) error {
	var err error
	if c.config, err = clientcmd.BuildConfigFromFlags("", c.env["KUBECONFIG"]); err != nil {
		return err
	}
	c.config.QPS = -1
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	if c.api, err = client.NewWithWatch(c.config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	return c.writeKubeconfig(c.kubeconfig, token)
}

// writeKubeconfig writes a kubeconfig with a token.
func (c *cluster) writeKubeconfig(file, token string) error {
	config, err := clientcmd.LoadFromFile(c.env["KUBECONFIG"])
	if err != nil {
		return err
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	}
	return clientcmd.WriteToFile(*config, file)
}

// stop stops the cluster, and removes its files unless they are kept.
func (c *cluster) stop(ctx context.Context, keepFiles bool) error {
	if keepFiles {
		_, err := c.localcluster(ctx, "down")
		fmt.Fprintln(os.Stderr, "the logs of this run are in", c.dir, "and", filepath.Join(c.dir, "cluster", "logs"))
		return err
	}
	if _, err := c.localcluster(ctx, "down", "--purge"); err != nil {
		return err
	}
	return os.RemoveAll(c.dir)
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}
