package gitops_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestFluxComputesTheSameStates: Flux's kstatus takes the examples of the health checks for what Argo CD shows.
// What is suspended is in effect.
func TestFluxComputesTheSameStates(t *testing.T) {
	want := map[string]status.Status{
		"healthy": status.CurrentStatus, "suspended": status.CurrentStatus,
		"progressing": status.InProgressStatus, "degraded": status.FailedStatus,
	}
	for _, kind := range kindsWithConditions(t) {
		files, err := filepath.Glob(filepath.Join(checksFolder, kind, "testdata", "*.yaml"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no examples: %v", kind, err)
		}
		for _, file := range files {
			state, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".yaml"), "_")
			t.Run(kind+"/"+filepath.Base(file), func(t *testing.T) {
				result, err := status.Compute(&unstructured.Unstructured{Object: parse(t, readFile(t, file))})
				if err != nil {
					t.Fatal(err)
				}
				if result.Status != want[state] {
					t.Errorf("got %s (%s), want %s", result.Status, result.Message, want[state])
				}
			})
		}
	}
}
