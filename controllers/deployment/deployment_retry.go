package deployment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
)

// attempt is everything that decides whether a version becomes ready with a data model, as far as
// this controller knows it: the contents of Secrets are not included. Its JSON is hashed for the
// status: a new field needs omitempty or omitzero, so that the hashes of existing failures do not
// change.
type attempt struct {
	Repository       string                       `json:"repository,omitempty"`
	Path             string                       `json:"path,omitempty"`
	Secret           string                       `json:"secret,omitempty"`
	Commit           string                       `json:"commit,omitempty"`
	ConfigMap        string                       `json:"configMap,omitempty"`
	ModelHash        string                       `json:"modelHash,omitempty"`
	Env              []v1alpha1.EnvVar            `json:"env,omitempty"`
	EnvFrom          []v1alpha1.LocalReference    `json:"envFrom,omitempty"`
	ImagePullSecrets []v1alpha1.LocalReference    `json:"imagePullSecrets,omitempty"`
	Size             v1alpha1.Size                `json:"size,omitempty"`
	StoreImage       string                       `json:"storeImage,omitempty"`
	Store            *v1alpha1.Store              `json:"store,omitempty"`
	Resources        *v1alpha1.ComponentResources `json:"resources,omitempty"`
	DeadlineSeconds  float64                      `json:"deadlineSeconds,omitempty"`
	// Request is the last request of a user to retry.
	Request string `json:"request,omitempty"`
}

// attemptHash returns the hash of what decides the outcome of the rollout of the target, besides
// its image. A failure is not retried while it is the same.
func (o *observation) attemptHash() string {
	spec := &o.deployment.Spec
	a := attempt{
		Env:              slices.Clone(spec.Env),
		EnvFrom:          spec.EnvFrom,
		ImagePullSecrets: spec.ImagePullSecrets,
		Size:             spec.Size,
		StoreImage:       o.target.StoreImage,
		Store:            spec.Store,
		Resources:        spec.Resources,
		DeadlineSeconds:  progressDeadline(o.deployment).Seconds(),
		Request:          o.deployment.Annotations[v1alpha1.AnnotationRetry],
	}
	slices.SortFunc(a.Env, func(a, b v1alpha1.EnvVar) int { return strings.Compare(a.Name, b.Name) })
	if remote := engine.RemoteOf(o.deployment, ""); remote != nil {
		a.Repository, a.Path, a.Secret, a.Commit = remote.URL, remote.Path, remote.Secret, o.commit
	}
	if ref := spec.Model.ConfigMapRef; ref != nil {
		a.ConfigMap = ref.Name
		if o.production != nil {
			a.ModelHash = o.production.Status.ModelHash
		}
	}
	data, err := json.Marshal(a) //nolint:gosec // names of Secrets, no content
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", a, err)) // strings, numbers and quantities
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// unchanged reports whether a failure that was recorded with a hash would be repeated. Failures
// that an earlier release of Quoin recorded have no hash, only the generation of the spec.
func (o *observation) unchanged(hash string, generation int64) bool {
	if hash == "" {
		return generation == o.deployment.Generation
	}
	return hash == o.attemptHash()
}

// forgetFailures removes the recorded failures of versions and commits that are to be tried again.
func (o *planner) forgetFailures() {
	if f := o.status.Failed; f != nil && (!sameImage(f.Version, o.target) || o.newPin || !o.unchanged(f.AttemptHash, f.Generation)) {
		o.status.Failed = nil
	}
	if f := o.status.FailedModel; f != nil && (f.Commit != o.commit || !o.unchanged(f.AttemptHash, f.Generation)) {
		o.status.FailedModel = nil
	}
}
