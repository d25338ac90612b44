package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// Options are settings of Quoin itself.
type Options struct {
	// QuoinImage is the image of Quoin, for the init container that fetches a data model
	// from Git.
	QuoinImage string
	// GatewayNamespace is the namespace of Quoin's gateway, the only namespace from which the
	// environment's pods can be reached.
	GatewayNamespace string
	// WarmUp adds a readiness gate, so that API pods compile their data model before they are
	// ready. Without it, a model that does not compile replaces one that does.
	WarmUp bool
	// AllowInsecureGit permits http:// URLs in the init container.
	AllowInsecureGit bool
	// RepositoryURL is the URL of quoin apiserver for the repositories that Quoin keeps; empty if there
	// are none.
	RepositoryURL string
}

// FieldError reports an invalid field of the Deployment's spec.
type FieldError struct {
	// Field is its path, such as spec.env[PORT].
	Field string
	// Message is the problem and its solution.
	Message string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Message }

// Inputs are everything that an environment's objects depend on. Equal Inputs render equal objects
// with the same revision of the renderer.
type Inputs struct {
	// Namespace, Deployment and Environment are the names of the owners.
	Namespace, Deployment, Environment string
	// Replicas is the number of API pods.
	Replicas int32
	// ProgressDeadlineSeconds is how long a rollout of the API pods may take.
	ProgressDeadlineSeconds int32
	// Options are settings of Quoin, not of the deployment.
	Options Options

	// The following fields determine the pod templates.
	server  server
	api     v1alpha1.Resources
	refresh v1alpha1.Resources
	store   *store
}

// server is the common configuration of the API pods and the refresh worker.
//
// The JSON of server and store is hashed for annotations: a new field needs omitempty or omitzero,
// so that the hashes of existing objects do not change.
type server struct {
	Image            string            `json:"image"`
	Model            model             `json:"model"`
	Env              []v1alpha1.EnvVar `json:"env,omitempty"`
	EnvFrom          []string          `json:"envFrom,omitempty"`
	ImagePullSecrets []string          `json:"imagePullSecrets,omitempty"`
	Tokens           []TokenFile       `json:"tokens,omitempty"`
}

// store is the pre-aggregation store of a Dedicated deployment.
type store struct {
	Image            string             `json:"image"`
	Workers          int32              `json:"workers,omitempty"`
	RemoteClaim      string             `json:"remoteClaim,omitempty"`
	Env              []v1alpha1.EnvVar  `json:"env,omitempty"`
	ImagePullSecrets []string           `json:"imagePullSecrets,omitempty"`
	Router           v1alpha1.Resources `json:"-"`
	Worker           v1alpha1.Resources `json:"-"`
}

// InputsFor returns the inputs of an environment of a deployment. files are the files of a data
// model in a ConfigMap, nil for a model from Git.
//
// Staging and development environments always have size Shared and one pod. Resources, variables
// and the source of the model are those of the deployment in every environment.
//
// The error is a *FieldError if a field of the Deployment's spec is invalid.
func InputsFor(account *v1alpha1.Account, d *v1alpha1.Deployment, e *v1alpha1.Environment, files *ModelFiles, opts Options) (Inputs, error) {
	if account.Spec.Namespace != d.Namespace || d.Namespace != e.Namespace {
		return Inputs{}, fmt.Errorf("deployment %q and environment %q are not in namespace %q of account %q",
			d.Namespace+"/"+d.Name, e.Namespace+"/"+e.Name, account.Spec.Namespace, account.Name)
	}
	size, replicas := sizeOf(d, e)
	in := Inputs{
		Namespace:               e.Namespace,
		Deployment:              d.Name,
		Environment:             e.Name,
		Replicas:                replicas,
		ProgressDeadlineSeconds: progressDeadline(d),
		Options:                 opts,
	}
	var err error
	if in.server, err = serverOf(d, e, files, opts); err != nil {
		return Inputs{}, err
	}
	overrides := v1alpha1.ComponentResources{}
	if d.Spec.Resources != nil {
		overrides = *d.Spec.Resources
	}
	if in.api, err = resourcesOf("api", overrides.API); err != nil {
		return Inputs{}, err
	}
	if size != v1alpha1.SizeDedicated {
		return in, nil
	}
	if in.refresh, err = resourcesOf("refreshWorker", overrides.RefreshWorker); err != nil {
		return Inputs{}, err
	}
	in.store, err = storeOf(d, e, overrides)
	return in, err
}

// Dedicated reports whether the environment has a refresh worker and a store.
func (in Inputs) Dedicated() bool { return in.store != nil }

// Replicas returns the number of API pods of an environment that is awake.
func Replicas(d *v1alpha1.Deployment, e *v1alpha1.Environment) int32 {
	_, replicas := sizeOf(d, e)
	return replicas
}

func sizeOf(d *v1alpha1.Deployment, e *v1alpha1.Environment) (v1alpha1.Size, int32) {
	if e.Spec.Type != v1alpha1.EnvironmentProduction {
		return v1alpha1.SizeShared, 1
	}
	size, replicas := d.Spec.Size, int32(1)
	if size == v1alpha1.SizeDedicated {
		replicas = 2
	}
	if d.Spec.Replicas != nil {
		replicas = *d.Spec.Replicas
	}
	return size, replicas
}

func progressDeadline(d *v1alpha1.Deployment) int32 {
	if d.Spec.Rollout != nil && d.Spec.Rollout.ProgressDeadlineSeconds != nil {
		return *d.Spec.Rollout.ProgressDeadlineSeconds
	}
	return 600
}

func serverOf(d *v1alpha1.Deployment, e *v1alpha1.Environment, files *ModelFiles, opts Options) (server, error) {
	m, err := modelOf(d, e, files, opts)
	if err != nil {
		return server{}, err
	}
	env, err := variables("spec.env", d.Spec.Env, reservedByServer)
	if err != nil {
		return server{}, err
	}
	return server{
		Image:            e.Spec.Image,
		Model:            m,
		Env:              env,
		EnvFrom:          names(d.Spec.EnvFrom), // in spec order: later ones take precedence
		ImagePullSecrets: pullSecrets(d),
	}, nil
}

func names(refs []v1alpha1.LocalReference) []string {
	out := make([]string, 0, len(refs))
	for _, ref := range refs {
		out = append(out, ref.Name)
	}
	return out
}

func pullSecrets(d *v1alpha1.Deployment) []string {
	secrets := names(d.Spec.ImagePullSecrets)
	slices.Sort(secrets)
	return secrets
}

// variables returns a sorted copy of a list of variables, or an error for a reserved one.
func variables(field string, list []v1alpha1.EnvVar, reserved []string) ([]v1alpha1.EnvVar, error) {
	sorted := slices.Clone(list)
	slices.SortFunc(sorted, func(a, b v1alpha1.EnvVar) int { return strings.Compare(a.Name, b.Name) })
	for _, v := range sorted {
		if slices.Contains(reserved, v.Name) {
			return nil, &FieldError{Field: field + "[" + v.Name + "]", Message: "is set by the platform; remove it"}
		}
	}
	return sorted, nil
}

// Hash returns a hash of the inputs that determine the environment's pod templates: 16 hex digits
// that do not change between releases of Quoin. The number of replicas, the progress deadline and
// Quoin's own image are not included.
//
// The annotation v1alpha1.AnnotationInputs of a workload has the hash of its own component only,
// so that, for example, a change of the data model does not affect the store.
func (in Inputs) Hash() string {
	all := make([]json.RawMessage, 0, len(components))
	for _, component := range components {
		if in.has(component) {
			all = append(all, in.canonical(component))
		}
	}
	return hash(mustMarshal(all))
}

func (in Inputs) componentHash(component string) string { return hash(in.canonical(component)) }

// components in the order in which they are applied.
var components = []string{ComponentStoreRouter, ComponentStoreWorker, ComponentRefresh, ComponentAPI}

// has reports whether the environment has a component.
func (in Inputs) has(component string) bool {
	switch component {
	case ComponentStoreWorker:
		return in.Dedicated() && in.store.Workers > 0
	case ComponentStoreRouter, ComponentRefresh:
		return in.Dedicated()
	default:
		return true
	}
}

// canonical returns the JSON of the inputs that determine the pod template of a component.
func (in Inputs) canonical(component string) []byte {
	type serverInputs struct {
		Component string `json:"component"`
		Dedicated bool   `json:"dedicated,omitempty"`
		server
		Resources v1alpha1.Resources `json:"resources,omitzero"`
	}
	type storeInputs struct {
		Component string `json:"component"`
		store
		Resources v1alpha1.Resources `json:"resources,omitzero"`
	}
	switch component {
	case ComponentStoreRouter:
		return mustMarshal(storeInputs{component, *in.store, in.store.Router})
	case ComponentStoreWorker:
		return mustMarshal(storeInputs{component, *in.store, in.store.Worker})
	case ComponentRefresh:
		return mustMarshal(serverInputs{component, true, in.server, in.refresh})
	default:
		return mustMarshal(serverInputs{component, in.Dedicated(), in.server, in.api})
	}
}

// mustMarshal encodes structs of strings, numbers and quantities, which cannot fail.
func mustMarshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return data
}

// hash returns the first 16 hex digits of a SHA-256.
func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}
