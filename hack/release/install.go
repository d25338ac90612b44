package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// writeInstall writes install.yaml: config/default with the image of the release.
func writeInstall(r *release) error {
	text, err := r.build("config/default")
	if err != nil {
		return err
	}
	header := fmt.Sprintf("# Quoin %s: kubectl apply --server-side -f install.yaml\n", r.version)
	return os.WriteFile(filepath.Join(r.out, "install.yaml"), []byte(header+text), 0o644)
}

// build returns the objects of a folder of the kustomize tree, with the image of the release.
func (r *release) build(folder string) (string, error) {
	var stderr bytes.Buffer
	command := exec.Command(r.kubectl, "kustomize", filepath.Join(r.root, folder))
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("kubectl kustomize %s: %w: %s", folder, err, strings.TrimSpace(stderr.String()))
	}
	image, err := r.configuredImage()
	if err != nil {
		return "", err
	}
	text := string(out)
	if !strings.Contains(text, ": "+image+"\n") {
		return "", fmt.Errorf("%s has no image %s", folder, image)
	}
	return strings.ReplaceAll(text, ": "+image+"\n", ": "+r.image()+"\n"), nil
}

// configuredImage returns the image that config/manager/kustomization.yaml names.
func (r *release) configuredImage() (string, error) {
	content, err := os.ReadFile(filepath.Join(r.root, "config/manager/kustomization.yaml"))
	if err != nil {
		return "", err
	}
	var manager struct {
		Images []struct{ NewName, NewTag string }
	}
	if err := yaml.Unmarshal(content, &manager); err != nil {
		return "", err
	}
	if len(manager.Images) != 1 {
		return "", errors.New("config/manager/kustomization.yaml must name one image")
	}
	return manager.Images[0].NewName + ":" + manager.Images[0].NewTag, nil
}

// split returns the objects of a text with several YAML documents.
func split(text string) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, document := range strings.Split(text, "\n---\n") {
		json, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			return nil, err
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(json); err != nil {
			return nil, err
		}
		all = append(all, u)
	}
	return all, nil
}
