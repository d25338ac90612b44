package node

import (
	"context"
	_ "embed"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
	"github.com/quoin-dev/quoin/hack/localcluster/process"
	"github.com/quoin-dev/quoin/hack/localcluster/progress"
)

// simulatedStages are KWOK's stages of nodes and pods, including those for pods
// that fail on purpose.
//
//go:embed simulated.yaml
var simulatedStages []byte

// simulatedPods is the capacity of a simulated node.
const simulatedPods = 10000

// simulatedNode is the manifest of a node; KWOK completes it.
const simulatedNode = `apiVersion: v1
kind: Node
metadata:
  name: %[1]s
  labels:
    kubernetes.io/arch: %[2]s
    kubernetes.io/hostname: %[1]s
    kubernetes.io/os: linux
    topology.kubernetes.io/zone: zone-%[3]d
    type: kwok
spec:
  podCIDR: %[6]s
  podCIDRs: [%[6]s]
status:
  addresses: [{type: InternalIP, address: %[5]s}, {type: Hostname, address: %[1]s}]
  allocatable: {cpu: 1k, memory: 4Ti, ephemeral-storage: 4Ti, pods: "%[4]d"}
  capacity: {cpu: 1k, memory: 4Ti, ephemeral-storage: 4Ti, pods: "%[4]d"}
---
`

// simulatedNodeManifest returns the manifests of count nodes in three zones.
func simulatedNodeManifest(count int) string {
	var text strings.Builder
	for i := range count {
		fmt.Fprintf(&text, simulatedNode, fmt.Sprintf("node-%d", i), runtime.GOARCH, i%3, simulatedPods,
			fmt.Sprintf("172.31.%d.%d", i/250, i%250+1), simulatedNodeCIDR(i))
	}
	return text.String()
}

// simulatedNodeCIDR returns a node's part of cluster.SimulatedPodCIDR:
// 10.128.0.0/18, 10.128.64.0/18 and so on. It is set here because the
// controller manager fails to assign ranges to nodes that are created while it
// starts.
func simulatedNodeCIDR(index int) string {
	offset := index << (32 - cluster.SimulatedMask)
	return fmt.Sprintf("10.%d.%d.0/%d", 128+offset>>16, offset>>8&0xff, cluster.SimulatedMask)
}

// StartSimulated creates the nodes, starts KWOK and waits until every node is
// Ready.
func StartSimulated(ctx context.Context, c *cluster.Cluster) error {
	if err := c.WriteFile(simulatedStages, 0o644, "manifests", "kwok.yaml"); err != nil {
		return err
	}
	ended, err := c.Daemons().Start(process.Daemon{Name: "kwok", Path: c.Binary("kwok"), Args: []string{
		"--kubeconfig=" + c.UserKubeconfig("kwok"),
		"--config=" + c.Path("manifests", "kwok.yaml"),
		"--manage-all-nodes",
	}})
	if err != nil {
		return err
	}
	return progress.Step(fmt.Sprintf("%d simulated nodes", c.SimulatedNodes), func() error {
		if _, err := c.Kubectl(ctx, simulatedNodeManifest(c.SimulatedNodes), "create", "-f", "-"); err != nil {
			return err
		}
		return process.WaitReady(ctx, "kwok", c.Daemons().LogPath("kwok"), ended, time.Minute, nodesReady(c, c.SimulatedNodes))
	})
}

// nodesReady returns a probe that succeeds if count nodes are Ready and the
// default service account exists, without which pods are rejected.
func nodesReady(c *cluster.Cluster, count int) process.Probe {
	return func(ctx context.Context) error {
		output, err := c.Kubectl(ctx, "", "get", "nodes", "-o",
			`jsonpath={range .items[*]}{.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}`)
		if err != nil {
			return err
		}
		if ready := strings.Count(output, "True"); ready < count {
			return fmt.Errorf("%d of %d nodes are Ready", ready, count)
		}
		_, err = c.Kubectl(ctx, "", "get", "serviceaccount", "default", "--namespace", "default")
		return err
	}
}
