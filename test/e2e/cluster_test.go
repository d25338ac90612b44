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

// The account that the controller has in a cluster: config/rbac makes it.
const (
	quoinNamespace = "quoin-system"
	quoinAccount   = "quoin-controller"
)

// cluster is a local cluster with Quoin's CRDs and roles, and nothing else in it.
type cluster struct {
	nodes string
	// dir holds all files of the run: the cluster's in dir/cluster, the controllers' logs.
	dir string
	// env is what dir/cluster/env says: where everything is.
	env map[string]string
	// quoin is the binary under test, a copy that nobody replaces while the tests run.
	quoin string
	// kubeconfig of the controller, with the rights of its ServiceAccount.
	kubeconfig string
	config     *rest.Config
	// api is the cluster as an administrator sees it.
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

// build runs make when a binary is not there. One that is there is what gets tested.
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

// repository is a path in the repository.
func repository(elements ...string) string {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		panic(err)
	}
	return filepath.Join(append([]string{root}, elements...)...)
}

// localcluster runs a command of bin/localcluster on this cluster and returns its answer.
func (c *cluster) localcluster(ctx context.Context, args ...string) (string, error) {
	args = append(args, "--dir", filepath.Join(c.dir, "cluster"))
	return output(exec.CommandContext(ctx, repository("bin", "localcluster"), args...))
}

// output runs a command and returns what it prints; its progress goes to the test's log.
func output(cmd *exec.Cmd) (string, error) {
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, io.MultiWriter(GinkgoWriter, &stderr)
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// install applies the CRDs and roles as an administrator does, and makes the kubeconfig of
// the controller from its ServiceAccount: with the administrator's own, a right that is
// missing in config/rbac would only be noticed by users.
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
	// kubectl keeps the list of kinds for ten minutes; it has new ones now.
	if err := os.RemoveAll(c.env["KUBECACHEDIR"]); err != nil {
		return err
	}
	token, err := c.kubectl(ctx, "", "create", "token", quoinAccount, "--namespace", quoinNamespace, "--duration=2h")
	if err != nil {
		return err
	}
	return c.connect(strings.TrimSpace(token))
}

// address of this machine, for pods too where there are real ones.
func (c *cluster) address() string {
	return cmp.Or(c.env["QUOIN_NODE_ADDRESS"], "127.0.0.1")
}

// pushQuoin puts the image of bin/quoin into the registry: pods fetch their model with it.
func (c *cluster) pushQuoin(ctx context.Context) error {
	push := exec.CommandContext(ctx, "go", "run", "./hack/image", "--binary", c.quoin, "--push", c.env["QUOIN_REGISTRY"]+"/quoin:e2e")
	push.Dir = repository()
	_, err := output(push)
	return err
}

// readEnv reads the file that a shell would source.
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

// connect makes the administrator's client and writes the controller's kubeconfig.
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

// writeKubeconfig writes a kubeconfig of whoever a token is.
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

// stop ends everything. The files stay when somebody may want to read the logs.
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
