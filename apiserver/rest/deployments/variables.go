package deployments

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/edit"
	"github.com/quoin-dev/quoin/apiserver/recording"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/fieldowner"
	"github.com/quoin-dev/quoin/internal/masking"
)

func (a *api) variablesFamily() rest.Family {
	return rest.Family{Tag: "Env Variables", Description: "Environment variables of a deployment's data plane.", Routes: []rest.Route{
		rest.Handle(http.MethodGet, deploymentPath+"/env-vars", "getEnvVariables", v1alpha1.PermissionDeploymentRead, "List the variables; values of secrets are masked", a.listVariables),
		rest.Handle(http.MethodPut, deploymentPath+"/env-vars", "setEnvVariables", v1alpha1.PermissionSecretsManage, "Set variables; others keep their values", a.setVariables),
	}}
}

// encrypted is shown instead of a secret, and rejected as a value.
const encrypted = "[ENCRYPTED]"

// Variable is an environment variable.
type Variable struct {
	Name  string `json:"name" minLength:"1" maxLength:"256" pattern:"^[A-Za-z_][A-Za-z0-9_]*$" patternDescription:"letters, digits and _, not beginning with a digit"`
	Value string `json:"value" maxLength:"32768" secret:"true"`
}

// ListVariablesInput has the parameters of the list.
type ListVariablesInput struct {
	rest.InDeployment
	rest.CursorPage
}

func (a *api) listVariables(ctx context.Context, in *ListVariablesInput) (*rest.List[Variable], error) {
	d := rest.ScopeFrom(ctx).Deployment
	recording.Note(ctx, audit.Event{Name: audit.ReadEnvironmentVariables, Deployment: recording.DeploymentOf(d), Object: recording.ObjectOf(d)})
	return variablesOf(ctx, d, in.CursorPage)
}

func variablesOf(ctx context.Context, d *v1alpha1.Deployment, p rest.CursorPage) (*rest.List[Variable], error) {
	all := make([]Variable, 0, len(d.Spec.Env))
	for _, v := range d.Spec.Env {
		shown := Variable{Name: v.Name, Value: encrypted}
		if v.Value != nil && !isSecret(v.Name, *v.Value) {
			shown.Value = *v.Value
		}
		all = append(all, shown)
	}
	slices.SortFunc(all, func(x, y Variable) int { return cmp.Compare(x.Name, y.Name) })
	return rest.PaginateByCursor(ctx, p, all, func(v Variable) string { return v.Name })
}

// isSecret reports whether a variable holds a secret: by its name, or because there are credentials in
// its value, such as the password in a URL. The rules are those of the audit log.
func isSecret(name, value string) bool {
	return masking.IsSecret(name) || masking.Text(value) != value
}

// SetVariablesInput is the documented body.
type SetVariablesInput struct {
	rest.InDeployment
	Body struct {
		Variables []Variable `json:"env_variables" maxItems:"256"`
	}
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (a *api) setVariables(ctx context.Context, in *SetVariablesInput) (*rest.List[Variable], error) {
	changed, err := a.changeVariables(ctx, in.Body.Variables, false)
	if err != nil {
		return nil, err
	}
	return variablesOf(ctx, changed, rest.CursorPage{})
}

// changeVariables sets variables of the deployment of a request; with removeOthers, it removes all others.
// It stores the values of secrets in a Secret. Each new value gets a new key there, so that one change of the
// Deployment switches to all new values at once and rolls out the pods.
func (a *api) changeVariables(ctx context.Context, variables []Variable, removeOthers bool) (*v1alpha1.Deployment, error) {
	if err := checkVariables(variables); err != nil {
		return nil, err
	}
	d := rest.ScopeFrom(ctx).Deployment
	holder := d.Name + "-variables"
	same, err := a.sameSecrets(ctx, d, holder, variables)
	if err != nil {
		return nil, err
	}
	entries, secrets, err := a.entriesOf(variables, holder, same)
	if err != nil {
		return nil, err
	}
	if err := a.storeSecrets(ctx, d, holder, secrets); err != nil {
		return nil, err
	}
	var replaced []string // keys of values that this change replaces
	changed, err := edit.Change(ctx, a.Kube, d, func(d *v1alpha1.Deployment) error {
		before := slices.Clone(d.Spec.Env)
		if err := checkSame(before, same); err != nil {
			return err
		}
		if removeOthers {
			d.Spec.Env = slices.DeleteFunc(d.Spec.Env, func(e v1alpha1.EnvVar) bool {
				return !slices.ContainsFunc(entries, func(entry v1alpha1.EnvVar) bool { return entry.Name == e.Name })
			})
		}
		for _, entry := range entries {
			i := slices.IndexFunc(d.Spec.Env, func(e v1alpha1.EnvVar) bool { return e.Name == entry.Name })
			if i < 0 {
				d.Spec.Env = append(d.Spec.Env, entry)
				continue
			}
			d.Spec.Env[i] = entry
		}
		replaced = removedKeys(before, d.Spec.Env, holder)
		return nil
	})
	if err != nil {
		if isRejection(err) {
			a.removeSecrets(ctx, d, holder, slices.Collect(maps.Keys(secrets)))
		}
		return nil, err
	}
	a.removeSecrets(ctx, changed, holder, replaced)
	return changed, nil
}

// sameSecrets returns the entries of the secret variables that have the requested value already, by name. They
// are kept: the same request again rolls out no pods.
func (a *api) sameSecrets(ctx context.Context, d *v1alpha1.Deployment, holder string, variables []Variable) (map[string]v1alpha1.EnvVar, error) {
	candidates, same := map[string]v1alpha1.EnvVar{}, map[string]v1alpha1.EnvVar{}
	for _, v := range variables {
		i := slices.IndexFunc(d.Spec.Env, func(e v1alpha1.EnvVar) bool { return e.Name == v.Name })
		if i >= 0 && isSecret(v.Name, v.Value) && d.Spec.Env[i].ValueFrom != nil && d.Spec.Env[i].ValueFrom.SecretKeyRef.Name == holder {
			candidates[v.Name] = d.Spec.Env[i]
		}
	}
	if len(candidates) == 0 {
		return same, nil
	}
	held, err := a.heldSecret(ctx, d, holder)
	if err != nil {
		return same, client.IgnoreNotFound(err)
	}
	for _, v := range variables {
		entry, isCandidate := candidates[v.Name]
		if !isCandidate {
			continue
		}
		if value, exists := held.Data[entry.ValueFrom.SecretKeyRef.Key]; exists && string(value) == v.Value {
			same[v.Name] = entry
		}
	}
	return same, nil
}

// checkSame returns a conflict unless the entries of secrets that are kept are still those of the spec: the
// keys of others may be removed already.
func checkSame(current []v1alpha1.EnvVar, same map[string]v1alpha1.EnvVar) error {
	for name, kept := range same {
		isKept := func(e v1alpha1.EnvVar) bool {
			return e.Name == name && e.ValueFrom != nil && e.ValueFrom.SecretKeyRef == kept.ValueFrom.SecretKeyRef
		}
		if !slices.ContainsFunc(current, isKept) {
			return rest.Conflict("env_variables: %q is being changed by others; try again", rest.Clip(name))
		}
	}
	return nil
}

// removedKeys returns the keys of a Secret that entries refer to and the entries after a change do not.
func removedKeys(before, after []v1alpha1.EnvVar, secret string) []string {
	var keys []string
	for _, e := range before {
		refers := func(other v1alpha1.EnvVar) bool {
			return other.ValueFrom != nil && other.ValueFrom.SecretKeyRef == e.ValueFrom.SecretKeyRef
		}
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef.Name == secret && !slices.ContainsFunc(after, refers) {
			keys = append(keys, e.ValueFrom.SecretKeyRef.Key)
		}
	}
	return keys
}

const (
	// maxVariables, maxVariableName and maxVariableValue are the limits of the schema.
	maxVariables     = 256
	maxVariableName  = 256
	maxVariableValue = 32768
	// maxNameInKey leaves room for the random part in the key of a Secret, which may have 253 bytes.
	maxNameInKey = 240
)

// SetVariables returns a function that sets variables of the deployment of a request, for the upload of a
// project with its variables. If replace is true, others are removed; if not, variables that exist keep
// their values. Variables that the platform sets are left out.
func SetVariables(o Options) func(ctx context.Context, values map[string]string, replace bool) error {
	a := newAPI(o)
	return func(ctx context.Context, values map[string]string, replace bool) error {
		known := rest.ScopeFrom(ctx).Deployment.Spec.Env
		var variables []Variable
		for _, name := range slices.Sorted(maps.Keys(values)) {
			exists := slices.ContainsFunc(known, func(e v1alpha1.EnvVar) bool { return e.Name == name })
			if engine.ReservedVariable(name) || !replace && exists {
				continue
			}
			if len(name) > maxVariableName || len(values[name]) > maxVariableValue {
				return rest.BadRequest("%s: the name has %d bytes and the value %d; allowed: %d and %d", rest.Clip(name), len(name), len(values[name]), maxVariableName, maxVariableValue)
			}
			variables = append(variables, Variable{name, values[name]})
		}
		if len(variables) > maxVariables {
			return rest.BadRequest("there are %d variables; allowed: %d", len(variables), maxVariables)
		}
		if len(variables) == 0 && !replace {
			return nil
		}
		_, err := a.changeVariables(ctx, variables, replace)
		return err
	}
}

// checkVariables returns an error for the first variable that cannot be set.
func checkVariables(variables []Variable) error {
	names := map[string]bool{}
	for i, v := range variables {
		field := fmt.Sprintf("env_variables[%d]", i)
		switch {
		case !variableName.MatchString(v.Name): // the schema checks only those of requests that set variables
			return rest.BadRequest("%s.name: %q: allowed are letters, digits and _, not beginning with a digit", field, rest.Clip(v.Name))
		case names[v.Name]:
			return rest.BadRequest("%s.name: %q is there twice", field, v.Name)
		case v.Value == encrypted:
			return rest.BadRequest("%s.value: %s stands for a value that is not shown: send the value itself, or leave the variable out to keep it", field, encrypted)
		case strings.ContainsRune(v.Value, 0):
			return rest.BadRequest("%s.value: has a NUL character", field)
		case engine.ReservedVariable(v.Name):
			return rest.BadRequest("%s.name: %s is set by the platform", field, v.Name)
		}
		names[v.Name] = true
	}
	return nil
}

// entriesOf returns the entries of the spec for variables, and the values of secrets by their keys in
// the Secret. Those of secrets that have their value already are given.
func (a *api) entriesOf(variables []Variable, secret string, same map[string]v1alpha1.EnvVar) ([]v1alpha1.EnvVar, map[string][]byte, error) {
	entries, secrets := make([]v1alpha1.EnvVar, len(variables)), map[string][]byte{}
	for i, v := range variables {
		if entry, isSame := same[v.Name]; isSame {
			entries[i] = entry
			continue
		}
		entries[i] = v1alpha1.EnvVar{Name: v.Name, Value: &v.Value}
		if !isSecret(v.Name, v.Value) {
			continue
		}
		random := make([]byte, 6)
		if _, err := io.ReadFull(a.Random, random); err != nil {
			return nil, nil, err
		}
		key := v.Name[:min(len(v.Name), maxNameInKey)] + "." + hex.EncodeToString(random)
		secrets[key] = []byte(v.Value)
		entries[i] = v1alpha1.EnvVar{Name: v.Name, ValueFrom: &v1alpha1.EnvVarSource{
			SecretKeyRef: v1alpha1.SecretKeyReference{Name: secret, Key: key},
		}}
	}
	return entries, secrets, nil
}

// isRejection reports whether nothing has been written after an error. After others, such as a lost
// response, the outcome is unknown.
func isRejection(err error) bool {
	var p *rest.Problem
	var owned *fieldowner.OwnedError
	return errors.As(err, &p) || errors.As(err, &owned) || errors.Is(err, edit.ErrDeleted) || recording.Refused(err)
}

// storeSecrets adds keys to the Secret with the secret values of a deployment.
func (a *api) storeSecrets(ctx context.Context, d *v1alpha1.Deployment, name string, values map[string][]byte) error {
	if len(values) == 0 {
		return nil
	}
	held := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: d.Namespace, Name: name, Labels: map[string]string{v1alpha1.LabelDeployment: d.Name, engine.LabelManagedBy: engine.ManagedBy},
	}, Data: values}
	if err := controllerutil.SetControllerReference(d, held, a.Kube.Scheme()); err != nil {
		return err
	}
	if err := a.Kube.Create(ctx, held); !apierrors.IsAlreadyExists(err) {
		return err
	}
	stored, err := a.heldSecret(ctx, d, name)
	if err != nil {
		return err
	}
	data := make(map[string]any, len(values))
	for key, value := range values {
		data[key] = value
	}
	return a.patchSecret(ctx, stored, map[string]any{"uid": stored.UID}, data)
}

// annotationReplaced is the annotation of the Secret with the keys that the spec no longer refers to and pods still did when
// they were replaced, separated by spaces.
const annotationReplaced = v1alpha1.Group + "/replaced-keys"

// removeSecrets removes keys to which the spec of a deployment does not refer, best-effort: a key that stays is harmless.
// Keys that a concurrent request has stored and not referenced yet are not among them.
func (a *api) removeSecrets(ctx context.Context, d *v1alpha1.Deployment, name string, unused []string) {
	if len(unused) == 0 {
		return
	}
	if err := edit.Retry(ctx, func() error { return a.removeKeys(ctx, d, name, unused) }); err != nil {
		log.FromContext(ctx).Error(err, "Cannot remove unused values from a Secret", "namespace", d.Namespace, "secret", name)
	}
}

// removeKeys removes keys, and those of earlier changes, to which no pod refers. The others stay until a later change: the
// pods from before this change run until its rollout has ended, or for as long as it does not succeed, and one of them that
// restarts needs its values.
func (a *api) removeKeys(ctx context.Context, d *v1alpha1.Deployment, name string, unused []string) error {
	held, err := a.heldSecret(ctx, d, name)
	if err != nil {
		return err
	}
	used, err := a.usedKeys(ctx, d, name)
	if err != nil {
		return err
	}
	data, metadata := map[string]any{}, map[string]any{"uid": held.UID, "resourceVersion": held.ResourceVersion}
	var kept []string
	for _, key := range append(strings.Fields(held.Annotations[annotationReplaced]), unused...) {
		switch {
		case !used[key]:
			data[key] = nil
		case !slices.Contains(kept, key):
			kept = append(kept, key)
		}
	}
	metadata["annotations"] = map[string]any{annotationReplaced: nil}
	if len(kept) > 0 {
		metadata["annotations"] = map[string]any{annotationReplaced: strings.Join(kept, " ")}
	}
	return a.patchSecret(ctx, held, metadata, data)
}

// usedKeys returns the keys of a Secret to which the spec of a deployment or one of its pods refers.
func (a *api) usedKeys(ctx context.Context, d *v1alpha1.Deployment, secret string) (map[string]bool, error) {
	used := map[string]bool{}
	for _, e := range d.Spec.Env {
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef.Name == secret {
			used[e.ValueFrom.SecretKeyRef.Key] = true
		}
	}
	pods, err := a.podsOf(ctx, d)
	if err != nil && !apierrors.IsForbidden(err) { // without the permission, values would accumulate
		return nil, err
	}
	for i := range pods {
		for _, use := range usesOf(&pods[i]) {
			if use.secret == secret {
				used[use.key] = true
			}
		}
	}
	return used, nil
}

// heldSecret returns the Secret with the secret values of a deployment, or an error if it is not the deployment's.
func (a *api) heldSecret(ctx context.Context, d *v1alpha1.Deployment, name string) (*corev1.Secret, error) {
	held := &corev1.Secret{}
	if err := a.Kube.Live().Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: name}, held); err != nil {
		return nil, err
	}
	if !metav1.IsControlledBy(held, d) {
		return nil, rest.Conflict("the Secret %q exists and is not this deployment's", name)
	}
	return held, nil
}

// patchSecret sets keys of a Secret and removes those that are nil. Concurrent changes of other keys are
// kept, unless the metadata have a resource version: then there is a conflict.
func (a *api) patchSecret(ctx context.Context, held *corev1.Secret, metadata, data map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": metadata, "data": data})
	if err != nil {
		return err
	}
	return a.Kube.Patch(ctx, held, client.RawPatch(types.MergePatchType, patch))
}
