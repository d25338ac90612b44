package servers

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/test/e2e/internal/cluster"
)

// pod is a pod of Quoin with one container, on the real node.
type pod struct {
	cluster *cluster.Cluster
	name    string
	address string // for HTTPS
	// restarts is the number of restarts of the container before it was killed.
	restarts int32
}

func newPod(c *cluster.Cluster, p *corev1.Pod) *pod {
	GinkgoHelper()
	Expect(p.Spec.Containers).To(HaveLen(1))
	for _, port := range p.Spec.Containers[0].Ports {
		if port.Name == "https" {
			return &pod{cluster: c, name: p.Name, address: net.JoinHostPort(p.Status.PodIP, strconv.Itoa(int(port.ContainerPort)))}
		}
	}
	Fail("pod " + p.Name + " has no port with the name https")
	return nil
}

// Kill implements Replica.
func (p *pod) Kill() {
	GinkgoHelper()
	ctx := context.Background()
	p.restarts = p.status(ctx).RestartCount
	process := p.process()
	Expect(syscall.Kill(process, syscall.SIGKILL)).To(Succeed())
	Eventually(func() error { return syscall.Kill(process, 0) }).Should(MatchError(syscall.ESRCH))
}

// Output implements Replica. It returns the log of the current container.
func (p *pod) Output() string {
	GinkgoHelper()
	return p.cluster.MustKubectl(context.Background(), "logs", p.name, "--namespace="+cluster.Namespace)
}

// awaitRestart waits until the container runs again after it was killed.
func (p *pod) awaitRestart(ctx context.Context) {
	GinkgoHelper()
	Eventually(p.status).WithContext(ctx).Should(And(HaveField("Ready", true), HaveField("RestartCount", BeNumerically(">", p.restarts))))
}

// status returns the status of the container.
func (p *pod) status(ctx context.Context) corev1.ContainerStatus {
	GinkgoHelper()
	found := &corev1.Pod{}
	Expect(p.cluster.API.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: p.name}, found)).To(Succeed())
	Expect(found.Status.ContainerStatuses).To(HaveLen(1))
	return found.Status.ContainerStatuses[0]
}

// process returns the id of the container's process: this machine is the node.
func (p *pod) process() int {
	GinkgoHelper()
	names, err := filepath.Glob("/proc/[0-9]*/root/etc/hostname")
	Expect(err).NotTo(HaveOccurred())
	for _, name := range names {
		host, err := os.ReadFile(name)
		folder := filepath.Dir(filepath.Dir(filepath.Dir(name)))
		program, _ := os.ReadFile(filepath.Join(folder, "cmdline")) // empty if it has ended
		if err != nil || strings.TrimSpace(string(host)) != p.name || !strings.Contains(string(program), "\x00apiserver\x00") {
			continue
		}
		id, err := strconv.Atoi(filepath.Base(folder))
		Expect(err).NotTo(HaveOccurred())
		return id
	}
	Fail(fmt.Sprintf("no process of pod %s", p.name))
	return 0
}
