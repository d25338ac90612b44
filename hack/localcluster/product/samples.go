package product

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/hack/localcluster/cluster"
	"github.com/quoin-dev/quoin/hack/localcluster/dataplane"
	"github.com/quoin-dev/quoin/hack/localcluster/process"
	"github.com/quoin-dev/quoin/hack/localcluster/progress"
)

const (
	samplesReadyTimeout   = 5 * time.Minute
	samplesReportInterval = 5 * time.Second
	samplesAppliedTimeout = 30 * time.Second
)

// sampleImages returns the images that config/samples refers to.
func sampleImages(c *cluster.Cluster) []PushOptions {
	tags := []string{"v1.2.2", "v1.2.3"}
	if c.Dataplane {
		tags = nil
		for _, version := range dataplane.Versions {
			tags = append(tags, "v"+version)
			if version == dataplane.SampleVersion {
				break // the channel offers the newest of all tags
			}
		}
	}
	// The stores first: the channel requires both images of a version.
	return []PushOptions{
		{Repository: "cube-store", Versions: tags},
		{Repository: "cube", Versions: tags, Server: c.Dataplane},
	}
}

func pushSampleImages(ctx context.Context, c *cluster.Cluster, root string) error {
	for _, images := range sampleImages(c) {
		if _, err := Push(ctx, c, images); err != nil {
			return err
		}
	}
	reference, err := pushQuoin(ctx, c, root)
	if err != nil {
		return err
	}
	return c.SetEnvironment(cluster.Variable{Name: quoinImageVariable, Value: reference})
}

// applySamples applies config/samples. It retries while a namespace does not
// exist yet.
func applySamples(ctx context.Context, c *cluster.Cluster, root string) error {
	text, err := sampleManifests(filepath.Join(root, "config", "samples"), sampleReplacements(c))
	if err != nil {
		return err
	}
	if err := c.WriteFile([]byte(text), 0o644, "samples", "samples.yaml"); err != nil {
		return err
	}
	deadline := time.Now().Add(samplesAppliedTimeout)
	for {
		_, err := c.Kubectl(ctx, "", "apply", "--server-side", "-f", c.Path("samples", "samples.yaml"))
		if err == nil || time.Now().After(deadline) || !strings.Contains(err.Error(), "not found") {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// waitForSamples waits until every object of the category "quoin" is Ready, and
// periodically prints the objects that are not.
func waitForSamples(ctx context.Context, c *cluster.Cluster) error {
	start, reported := time.Now(), time.Now()
	for {
		output, err := c.Kubectl(ctx, "", "get", "quoin", "--all-namespaces", "-o", "json")
		if err != nil {
			return err
		}
		waiting, err := notReady([]byte(output))
		if err != nil {
			return err
		}
		if len(waiting) == 0 {
			progress.Infof("all samples are Ready after %s", progress.Seconds(time.Since(start)))
			return nil
		}
		if time.Since(start) > samplesReadyTimeout {
			return fmt.Errorf("not Ready after %s:\n  %s\nthe end of the controller's log:\n%s", samplesReadyTimeout,
				strings.Join(waiting, "\n  "), process.Tail(c.Daemons().LogPath(controllerDaemon), 20))
		}
		if !c.Daemons().Running(controllerDaemon) {
			return fmt.Errorf("the controller exited; the end of its log:\n%s", process.Tail(c.Daemons().LogPath(controllerDaemon), 20))
		}
		if time.Since(reported) > samplesReportInterval {
			progress.Infof("waiting for:\n  %s", strings.Join(waiting, "\n  "))
			reported = time.Now()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// notReady returns descriptions of the objects in a JSON list that are not
// Ready.
func notReady(list []byte) ([]string, error) {
	var objects struct {
		Items []struct {
			Kind     string
			Metadata struct {
				Namespace, Name string
				Generation      int64
			}
			Status struct {
				Conditions []struct {
					Type, Status, Reason, Message string
					ObservedGeneration            int64
				}
			}
		}
	}
	if err := json.Unmarshal(list, &objects); err != nil {
		return nil, fmt.Errorf("read the list of objects: %w", err)
	}
	if len(objects.Items) == 0 {
		return nil, errors.New("the samples created no object of the category quoin")
	}
	var waiting []string
	for _, object := range objects.Items {
		state, ready := "no status yet", false
		for _, condition := range object.Status.Conditions {
			if condition.Type != "Ready" {
				continue
			}
			state, ready = condition.Reason+": "+condition.Message, condition.Status == "True"
			if condition.ObservedGeneration != object.Metadata.Generation {
				state, ready = "the condition is that of an earlier spec", false
			}
		}
		if !ready {
			waiting = append(waiting, fmt.Sprintf("%s %s: %s", object.Kind, filepath.Join(object.Metadata.Namespace, object.Metadata.Name), state))
		}
	}
	return waiting, nil
}
