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
	// GatewayNamespace is the namespace of Quoin's gateway, the only one outside of the
	// environment that may reach its pods.
	GatewayNamespace string
	// WarmUp has API pods compile their data model before they are ready. Without it a model
	// that does not compile takes the place of one that does.
	WarmUp bool
	// AllowInsecureGit lets the init container read http://.
	AllowInsecureGit bool
}

// FieldError is a field of the Deployment's spec that cannot be rendered.
type FieldError struct {
	// Field is its path, such as spec.env[PORT].
	Field string
	// Message says what is wrong and what to do about it.
	Message string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Message }

// Inputs are all that decides an environment's objects. Two equal Inputs render equal
// objects with the same revision of the renderer.
type Inputs struct {
	// Namespace, Deployment and Environment say whose objects they are.
	Namespace, Deployment, Environment string
	// Replicas is the number of API pods.
	Replicas int32
	// ProgressDeadlineSeconds is how long a rollout of the API pods may take.
	ProgressDeadlineSeconds int32
	// Options are settings of Quoin, not of the deployment.
	Options Options

	// What follows decides pod templates.
	server  server
	api     v1alpha1.Resources
	refresh v1alpha1.Resources
	store   *store
}

// server is what the API pods and the refresh worker have in common.
//
// Its JSON, like that of store, is the input of hashes that are kept in annotations: a field
// that is added needs omitempty or omitzero, so that old hashes stay what they are.
type server struct {
	Image            string            `json:"image"`
	Model            model             `json:"model"`
	Env              []v1alpha1.EnvVar `json:"env,omitempty"`
	EnvFrom          []string          `json:"envFrom,omitempty"`
	ImagePullSecrets []string          `json:"imagePullSecrets,omitempty"`
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

// InputsFor reads the inputs of an environment from its deployment. files are those of a
// model that is in a ConfigMap, nil for one from Git.
//
// Staging and development environments are always of size Shared with one pod. Resources,
// variables and the model's source are the deployment's in every environment.
//
// The error is a *FieldError when a field of the Deployment's spec is to be changed.
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
	if in.server, err = serverOf(d, e, files); err != nil {
		return Inputs{}, err
	}
	wanted := v1alpha1.ComponentResources{}
	if d.Spec.Resources != nil {
		wanted = *d.Spec.Resources
	}
	if in.api, err = resourcesOf("api", wanted.API); err != nil {
		return Inputs{}, err
	}
	if size != v1alpha1.SizeDedicated {
		return in, nil
	}
	if in.refresh, err = resourcesOf("refreshWorker", wanted.RefreshWorker); err != nil {
		return Inputs{}, err
	}
	in.store, err = storeOf(d, e, wanted)
	return in, err
}

// Dedicated tells whether the environment has a refresh worker and a store.
func (in Inputs) Dedicated() bool { return in.store != nil }

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

func serverOf(d *v1alpha1.Deployment, e *v1alpha1.Environment, files *ModelFiles) (server, error) {
	m, err := modelOf(d, e, files)
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
		EnvFrom:          names(d.Spec.EnvFrom), // in the order given: a later one wins
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

// variables returns a sorted copy of a list of variables, or the one that is refused.
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

// Hash names the inputs that decide the environment's pod templates: 16 hex digits that stay
// the same across releases of Quoin. The number of replicas, the rollout deadline and Quoin's
// own image have no part in it.
//
// A workload's annotation v1alpha1.AnnotationInputs has the hash of its own component only:
// a change of the data model says nothing about the store.
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

// components in the order in which they are brought up.
var components = []string{ComponentStoreRouter, ComponentStoreWorker, ComponentRefresh, ComponentAPI}

// has tells whether the environment has a component.
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

// canonical is the JSON of what decides the pod template of a component.
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

// mustMarshal encodes plain structs of strings, numbers and quantities, which cannot fail.
func mustMarshal(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return data
}

// hash is the first 16 hex digits of a SHA-256.
func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}
