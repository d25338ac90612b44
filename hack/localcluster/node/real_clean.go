package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
	"github.com/quoin-dev/quoin/hack/localcluster/host"
	"github.com/quoin-dev/quoin/hack/localcluster/process"
	"github.com/quoin-dev/quoin/hack/localcluster/progress"
)

// DrainReal stops the node's containers. It does not depend on containerd,
// which may have crashed: it stops the processes that start new containers,
// then kills the processes in the pods' cgroups and the shims.
func DrainReal(ctx context.Context, c *cluster.Cluster) (stopped int, err error) {
	var problems []error
	for _, name := range []string{"kube-proxy", "kubelet"} {
		ran, err := c.Daemons().Stop(ctx, name, process.StopTimeout)
		problems = append(problems, err)
		if ran {
			stopped++
		}
	}
	if !ownsRealNode(c.Dir) {
		return stopped, errors.Join(problems...)
	}
	n := NewNetwork(c.Dir)
	stoppedAll := process.WaitUntil(ctx, 20*time.Second, func() bool {
		pids := slices.Concat(podProcesses(), n.shims())
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended already
		}
		return len(pids) == 0
	})
	if !stoppedAll {
		problems = append(problems, errors.New("some containers are still running"))
	}
	return stopped, errors.Join(problems...)
}

// CleanReal removes the node's resources from the machine.
func CleanReal(ctx context.Context, c *cluster.Cluster) error {
	n := NewNetwork(c.Dir)
	if !ownsRealNode(c.Dir) {
		return n.clean(ctx)
	}
	err := errors.Join(n.clean(ctx), n.cleanRules(ctx))
	removePodCgroups()
	return errors.Join(err, process.RemoveIfExists(realNodeOwner))
}

// removeDeadNodes removes the resources of nodes that were killed without
// cleanup. The owner of the machine's real node knows that all others are dead.
// A remaining bridge would have the same pod subnet and receive the pods'
// traffic.
func removeDeadNodes(ctx context.Context, claimed Network) error {
	names, err := namesOnMachine()
	if err != nil {
		return err
	}
	var problems []error
	for _, dead := range networksOf(names) {
		if dead.id == claimed.id {
			continue
		}
		progress.Infof("removing the remains of a dead real node (%s)", dead.name())
		problems = append(problems, dead.clean(ctx), dead.cleanRules(ctx))
	}
	return errors.Join(problems...)
}

// namesOnMachine returns the names of the interfaces and of the folders of
// nodes.
func namesOnMachine() ([]string, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, i := range interfaces {
		names = append(names, i.Name)
	}
	for _, prefix := range []string{stateDirectoryPrefix, runDirectoryPrefix} {
		folders, _ := filepath.Glob(prefix + "*") // Glob fails only for malformed patterns
		names = append(names, folders...)
	}
	return names, nil
}

// networkName matches the names of resources of a node.
var networkName = regexp.MustCompile("^(?:" + strings.Join([]string{
	nodeBridgePrefix, podBridgePrefix, regexp.QuoteMeta(stateDirectoryPrefix), regexp.QuoteMeta(runDirectoryPrefix),
}, "|") + ")([0-9a-f]{6})$")

// networksOf returns the networks with resources among names.
func networksOf(names []string) []Network {
	var networks []Network
	for _, name := range names {
		found := networkName.FindStringSubmatch(name)
		if found != nil && !slices.Contains(networks, Network{id: found[1]}) {
			networks = append(networks, Network{id: found[1]})
		}
	}
	return networks
}

// clean removes mounts, state and bridges.
func (n Network) clean(ctx context.Context) error {
	err := n.unmount()
	if err == nil {
		// Only after unmounting: mounted content must not be deleted.
		err = errors.Join(os.RemoveAll(n.StateDirectory()), os.RemoveAll(n.runDirectory()))
	}
	return errors.Join(err, n.remove(ctx))
}

// ownsRealNode reports whether the cluster in dir owns the machine's real node.
// Cgroups and rules have the same names for every node, so only the owner may
// remove them.
func ownsRealNode(dir string) bool {
	owner, err := os.ReadFile(realNodeOwner)
	return err == nil && string(owner) == dir
}

// podCgroups returns the cgroup folders of the kubelet's pods, parents first;
// cgroup v1 has a tree for each controller.
func podCgroups() []string {
	var folders []string
	for _, pattern := range []string{"/sys/fs/cgroup/kubepods", "/sys/fs/cgroup/*/kubepods"} {
		roots, _ := filepath.Glob(pattern) // Glob fails only for malformed patterns
		for _, root := range roots {
			_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
				if err == nil && entry.IsDir() {
					folders = append(folders, path)
				}
				return nil // cgroups may be deleted concurrently
			})
		}
	}
	return folders
}

// podProcesses returns the processes in the pods' cgroups.
func podProcesses() []int {
	seen := map[int]bool{}
	for _, folder := range podCgroups() {
		text, err := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
		if err != nil {
			continue
		}
		for field := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
				seen[pid] = true
			}
		}
	}
	var pids []int
	for pid := range seen {
		pids = append(pids, pid)
	}
	return pids
}

// removePodCgroups removes the cgroups, children first. The kernel rejects the
// removal of cgroups in use, so this is safe.
func removePodCgroups() {
	for _, folder := range slices.Backward(podCgroups()) {
		_ = syscall.Rmdir(folder)
	}
}

// shims returns the containerd shims of this cluster: their arguments contain
// its socket.
func (n Network) shims() []int {
	var pids []int
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte("containerd-shim")) || !bytes.Contains(text, []byte(n.containerdSocket())) {
			continue
		}
		if pid, err := strconv.Atoi(strings.Split(path, "/")[2]); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// unmount unmounts every mount below the node's folders, innermost first.
func (n Network) unmount() error {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var problems []error
	for _, target := range slices.Backward(mountsBelow(string(text), n.StateDirectory(), n.runDirectory())) {
		if err := syscall.Unmount(target, 0); err == nil {
			continue
		}
		// Busy: detached now, released by the kernel after its last use.
		if err := syscall.Unmount(target, 2 /* MNT_DETACH */); err != nil {
			problems = append(problems, fmt.Errorf("unmount %s: %w", target, err))
		}
	}
	return errors.Join(problems...)
}

// mountsBelow returns the mount points below the folders, in mount order.
// mountinfo is in the format of /proc/self/mountinfo: the fifth field, with
// octal escapes.
func mountsBelow(mountinfo string, folders ...string) []string {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var targets []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		target := unescape.Replace(fields[4])
		for _, folder := range folders {
			if target == folder || strings.HasPrefix(target, folder+"/") {
				targets = append(targets, target)
			}
		}
	}
	return targets
}

// cleanRules removes the rules of kube-proxy, the kubelet and the pod network
// from every table, in one transaction each. The rules of the first two have
// the same names for every node, so only the owner of the machine's real node
// may call it.
func (n Network) cleanRules(ctx context.Context) error {
	return errors.Join(n.cleanRulesOf(ctx, "iptables"), n.cleanRulesOf(ctx, "ip6tables"))
}

func (n Network) cleanRulesOf(ctx context.Context, command string) error {
	save, restore := host.FindProgram(command+"-save"), host.FindProgram(command+"-restore")
	if save == "" || restore == "" {
		return nil
	}
	before, err := exec.CommandContext(ctx, save).Output()
	if err != nil {
		return nil // the kernel lacks this address family
	}
	after := withoutClusterRules(string(before), n.name())
	if after == string(before) {
		return nil
	}
	cmd := exec.CommandContext(ctx, restore)
	cmd.Stdin = strings.NewReader(after)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s-restore: %w: %s", command, err, process.LastLines(string(output), 5))
	}
	return nil
}

// withoutClusterRules removes the chains of Kubernetes and of the pod network
// from the output of iptables-save, with all rules in them and jumps to them.
// CNI chains belong to the network if a rule's comment names it; those of other
// container engines are kept.
func withoutClusterRules(rules, network string) string {
	ours := map[string]bool{}
	for line := range strings.Lines(rules) {
		for field := range strings.FieldsSeq(line) {
			if strings.Contains(line, network) && strings.HasPrefix(field, "CNI-") && !strings.HasPrefix(field, hostPortChains) {
				ours[field] = true
			}
		}
	}
	kept := withoutLines(rules, func(line string) bool {
		return strings.Contains(line, network) || mentionsChain(line, func(chain string) bool {
			return strings.HasPrefix(chain, "KUBE-") || ours[chain]
		})
	})
	if strings.Contains(kept, ":CNI-DN-") {
		return kept
	}
	return withoutLines(kept, func(line string) bool {
		return mentionsChain(line, func(chain string) bool { return strings.HasPrefix(chain, hostPortChains) })
	})
}

// hostPortChains is the prefix of the chains that all CNI networks share. They
// are removed with the last host port (CNI-DN-…) on the machine.
const hostPortChains = "CNI-HOSTPORT-"

func withoutLines(text string, drop func(line string) bool) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !drop(line) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// mentionsChain reports whether a line of iptables-save declares a matching
// chain (":NAME"), appends to it ("-A NAME") or jumps to it ("-j NAME").
func mentionsChain(line string, match func(chain string) bool) bool {
	return slices.ContainsFunc(strings.Fields(strings.TrimPrefix(line, ":")), match)
}
