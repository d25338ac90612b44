package edit

import (
	"encoding/json"
	"fmt"

	"gomodules.xyz/jsonpatch/v2"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Patch returns the changes of an object as a JSON patch (RFC 6902). If the object was written since, it is rejected with a conflict, or
// as invalid if a path of it does not exist any more. A merge patch would replace the whole of a list in which an item has changed: items would lose the fields that a newer
// Kubernetes API server has and this program does not know.
func Patch(live, edited client.Object) (client.Patch, error) {
	before, err := json.Marshal(live)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", live, err)
	}
	after, err := json.Marshal(edited)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", edited, err)
	}
	changes, err := jsonpatch.CreatePatch(before, after)
	if err != nil {
		return nil, fmt.Errorf("compare %T: %w", edited, err)
	}
	isUnchanged := jsonpatch.NewOperation("replace", "/metadata/resourceVersion", live.GetResourceVersion())
	data, err := json.Marshal(append([]jsonpatch.Operation{isUnchanged}, changes...))
	if err != nil {
		return nil, fmt.Errorf("encode the changes of %T: %w", edited, err)
	}
	return client.RawPatch(types.JSONPatchType, data), nil
}
