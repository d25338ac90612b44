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
	Name  string `json:"name" minLength:"1" maxLength:"256"`
	Value string `json:"value" maxLength:"32768"`
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
		Variables []Variable `json:"env_variables" maxItems:"256" secret:"true"`
	}
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// setVariables stores the values of secrets in a Secret. Each value gets a new key there, so that one
// change of the Deployment switches to all new values at once and rolls out the pods.
func (a *api) setVariables(ctx context.Context, in *SetVariablesInput) (*rest.List[Variable], error) {
	if err := checkVariables(in.Body.Variables); err != nil {
		return nil, err
	}
	d := rest.ScopeFrom(ctx).Deployment
	holder := d.Name + "-variables"
	entries, secrets, err := a.entriesOf(in.Body.Variables, holder)
	if err != nil {
		return nil, err
	}
	if err := a.storeSecrets(ctx, d, holder, secrets); err != nil {
		return nil, err
	}
	var replaced []string // keys of values that this change replaces
	changed, err := edit.Change(ctx, a.Kube, d, func(d *v1alpha1.Deployment) error {
		replaced = nil
		for _, entry := range entries {
			i := slices.IndexFunc(d.Spec.Env, func(e v1alpha1.EnvVar) bool { return e.Name == entry.Name })
			if i < 0 {
				d.Spec.Env = append(d.Spec.Env, entry)
				continue
			}
			if from := d.Spec.Env[i].ValueFrom; from != nil && from.SecretKeyRef.Name == holder {
				replaced = append(replaced, from.SecretKeyRef.Key)
			}
			d.Spec.Env[i] = entry
		}
		return nil
	})
	if err != nil {
		if isRejection(err) {
			a.removeSecrets(ctx, d, holder, slices.Collect(maps.Keys(secrets)))
		}
		return nil, err
	}
	a.removeSecrets(ctx, d, holder, replaced)
	return variablesOf(ctx, changed, rest.CursorPage{})
}

// checkVariables returns an error for the first variable that cannot be set.
func checkVariables(variables []Variable) error {
	names := map[string]bool{}
	for i, v := range variables {
		field := fmt.Sprintf("env_variables[%d]", i)
		switch {
		case !variableName.MatchString(v.Name):
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
// the Secret.
func (a *api) entriesOf(variables []Variable, secret string) ([]v1alpha1.EnvVar, map[string][]byte, error) {
	entries, secrets := make([]v1alpha1.EnvVar, len(variables)), map[string][]byte{}
	for i, v := range variables {
		entries[i] = v1alpha1.EnvVar{Name: v.Name, Value: &v.Value}
		if !isSecret(v.Name, v.Value) {
			continue
		}
		random := make([]byte, 6)
		if _, err := io.ReadFull(a.Random, random); err != nil {
			return nil, nil, err
		}
		key := v.Name + "." + hex.EncodeToString(random)
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
	return errors.As(err, &p) || recording.Refused(err)
}

// storeSecrets adds keys to the Secret with the secret values of a deployment.
func (a *api) storeSecrets(ctx context.Context, d *v1alpha1.Deployment, name string, values map[string][]byte) error {
	if len(values) == 0 {
		return nil
	}
	held := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: d.Namespace, Name: name, Labels: map[string]string{v1alpha1.LabelDeployment: d.Name},
	}, Data: values}
	if err := controllerutil.SetControllerReference(d, held, a.Kube.Scheme()); err != nil {
		return err
	}
	if err := a.Kube.Create(ctx, held); !apierrors.IsAlreadyExists(err) {
		return err
	}
	data := make(map[string]any, len(values))
	for key, value := range values {
		data[key] = value
	}
	return a.patchSecret(ctx, d, name, data)
}

// removeSecrets removes keys that are no longer referenced, best-effort: a key that stays is harmless.
// Keys that a concurrent request has stored and not referenced yet are not among them.
func (a *api) removeSecrets(ctx context.Context, d *v1alpha1.Deployment, name string, unused []string) {
	if len(unused) == 0 {
		return
	}
	data := make(map[string]any, len(unused))
	for _, key := range unused {
		data[key] = nil
	}
	if err := a.patchSecret(ctx, d, name, data); err != nil {
		log.FromContext(ctx).Error(err, "Cannot remove unused values from a Secret", "namespace", d.Namespace, "secret", name)
	}
}

// patchSecret sets keys of a Secret and removes those that are nil. Concurrent changes of other keys are
// kept.
func (a *api) patchSecret(ctx context.Context, d *v1alpha1.Deployment, name string, data map[string]any) error {
	held := &corev1.Secret{}
	if err := a.Kube.Live().Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: name}, held); err != nil {
		return err
	}
	if !metav1.IsControlledBy(held, d) {
		return rest.Conflict("the Secret %q exists and is not this deployment's", name)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": held.UID}, "data": data})
	if err != nil {
		return err
	}
	return a.Kube.Patch(ctx, held, client.RawPatch(types.MergePatchType, patch))
}
