package edit

import (
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/version"
)

// TestPatchKeepsUnknownFields: fields of a newer version of the kind, which this program does not know, are kept wherever they are.
func TestPatchKeepsUnknownFields(t *testing.T) {
	const stored = `{"metadata":{"name":"stable","resourceVersion":"7"},
		"spec":{"imageRepository":"registry.example.com/cube","new":1,"versions":[{"version":"1.2.3","new":2},{"version":"1.2.5","new":3}]},
		"status":{"new":4}}`
	const want = `{"metadata":{"name":"stable","resourceVersion":"7"},
		"spec":{"imageRepository":"registry.example.com/cube","new":1,"versions":[{"version":"1.2.3","new":2},{"version":"1.2.5","new":3},{"version":"1.2.4"}]},
		"status":{"new":4}}`
	live := &v1alpha1.ReleaseChannel{}
	must(t, json.Unmarshal([]byte(stored), live))
	v, err := version.Parse("1.2.4")
	must(t, err)
	edited := live.DeepCopy()
	_, err = Promote(edited, v, nil)
	must(t, err)
	edited.Status = live.Status
	patch, err := Patch(live, edited)
	must(t, err)
	data, err := patch.Data(edited)
	must(t, err)
	operations, err := jsonpatch.DecodePatch(data)
	must(t, err)
	got, err := operations.Apply([]byte(stored))
	must(t, err)
	var gotAny, wantAny any
	must(t, json.Unmarshal(got, &gotAny))
	must(t, json.Unmarshal([]byte(want), &wantAny))
	if diff := cmp.Diff(wantAny, gotAny); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
