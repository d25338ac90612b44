package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

const (
	samplesReadyDeadline   = 5 * time.Minute
	samplesReportEvery     = 5 * time.Second
	samplesAppliedDeadline = 30 * time.Second
)

// sampleImages are the images that config/samples refers to.
func (c *cluster) sampleImages() []pushOptions {
	tags := []string{"v1.2.2", "v1.2.3"}
	if c.Dataplane {
		tags = nil
		for _, version := range dataplaneVersions {
			tags = append(tags, "v"+version)
		}
	}
	// The stores first: a version is complete when the channel sees it.
	return []pushOptions{
		{repository: "cube-store", versions: tags},
		{repository: "cube", versions: tags, server: c.Dataplane},
	}
}

func (c *cluster) pushSampleImages(ctx context.Context, root string) error {
	for _, images := range c.sampleImages() {
		if _, err := c.push(ctx, images); err != nil {
			return err
		}
	}
	if c.Nodes != nodesReal {
		return nil
	}
	reference, err := c.pushQuoin(ctx, root)
	if err != nil {
		return err
	}
	return c.setEnvironment(variable{quoinImageVariable, reference})
}

// applySamples applies config/samples. A namespace may be made by the
// controller, for an Account of the samples, so objects in it are tried again.
func (c *cluster) applySamples(ctx context.Context, root string) error {
	text, err := sampleManifests(c.sampleFolders(root), c.sampleReplacements())
	if err != nil {
		return err
	}
	if err := c.writeFile([]byte(text), 0o644, "samples", "samples.yaml"); err != nil {
		return err
	}
	deadline := time.Now().Add(samplesAppliedDeadline)
	for {
		_, err := c.kubectl(ctx, "", "apply", "--server-side", "-f", c.path("samples", "samples.yaml"))
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

// awaitSamples waits until every object of the category "quoin" is Ready and
// says from time to time which is not, and why.
func (c *cluster) awaitSamples(ctx context.Context) error {
	start, reported := time.Now(), time.Now()
	for {
		output, err := c.kubectl(ctx, "", "get", "quoin", "--all-namespaces", "-o", "json")
		if err != nil {
			return err
		}
		waiting, err := notReady([]byte(output))
		if err != nil {
			return err
		}
		if len(waiting) == 0 {
			say("all samples are Ready after %s", seconds(time.Since(start)))
			return nil
		}
		if time.Since(start) > samplesReadyDeadline {
			return fmt.Errorf("not Ready after %s:\n  %s\nthe end of the controller's log:\n%s", samplesReadyDeadline,
				strings.Join(waiting, "\n  "), tail(c.processes().logPath(controllerDaemon), 20))
		}
		if !c.processes().running(controllerDaemon) {
			return fmt.Errorf("the controller ended; the end of its log:\n%s", tail(c.processes().logPath(controllerDaemon), 20))
		}
		if time.Since(reported) > samplesReportEvery {
			say("waiting for:\n  %s", strings.Join(waiting, "\n  "))
			reported = time.Now()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// notReady describes the objects of a JSON list that are not Ready.
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
		return nil, errors.New("the samples have made no object of the category quoin")
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
