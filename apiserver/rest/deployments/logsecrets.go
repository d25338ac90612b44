package deployments

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/internal/masking"
)

// secretUse is the use of a Secret by a pod.
type secretUse struct {
	secret string
	// key that is used, all if empty; variable is the environment variable with its value.
	key, variable string
	optional      bool
}

// secretsOf returns the secrets that pods have: the values of their environment variables from Secrets,
// of Secrets in volumes, and of variables that are secret by their name or form. unknown names, for each
// pod with a secret that no longer exists, that secret.
func (a *api) secretsOf(ctx context.Context, namespace string, pods []*corev1.Pod) (known *masking.Known, unknown map[string]string, err error) {
	known, unknown = &masking.Known{}, map[string]string{}
	users := map[string]map[secretUse][]string{} // pods by use, by Secret
	for _, p := range pods {
		for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
			addLiterals(known, c.Env)
		}
		for _, use := range usesOf(p) {
			if users[use.secret] == nil {
				users[use.secret] = map[secretUse][]string{}
			}
			users[use.secret][use] = append(users[use.secret][use], p.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(users)) {
		stored := &corev1.Secret{}
		err := a.Kube.Live().Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, stored)
		if client.IgnoreNotFound(err) != nil {
			return nil, nil, fmt.Errorf("read the secrets to hide: %w", err)
		}
		for use, pods := range users[name] {
			_, found := stored.Data[use.key]
			if use.key == "" {
				found = !apierrors.IsNotFound(err)
			}
			for _, pod := range pods {
				if !found && !use.optional {
					unknown[pod] = fmt.Sprintf("the Secret %q", name)
				}
			}
			for key, value := range stored.Data {
				switch use.key {
				case key:
					known.Add(use.variable+" "+key, string(value))
				case "":
					known.Add(key, string(value))
				}
			}
		}
	}
	return known, unknown, nil
}

// addLiterals adds the values of variables in the spec of a pod that are secrets.
func addLiterals(known *masking.Known, env []corev1.EnvVar) {
	for _, v := range env {
		if value := strings.ReplaceAll(v.Value, "$$", "$"); value != "" && isSecret(v.Name, value) {
			known.Add(v.Name, value)
		}
	}
}

// usesOf returns the uses of Secrets by the containers of a pod.
func usesOf(p *corev1.Pod) []secretUse {
	var uses []secretUse
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		for _, from := range c.EnvFrom {
			if ref := from.SecretRef; ref != nil {
				uses = append(uses, secretUse{secret: ref.Name, optional: ptr.Deref(ref.Optional, false)})
			}
		}
		for _, v := range c.Env {
			if v.ValueFrom == nil || v.ValueFrom.SecretKeyRef == nil {
				continue
			}
			ref := v.ValueFrom.SecretKeyRef
			uses = append(uses, secretUse{secret: ref.Name, key: ref.Key, variable: v.Name, optional: ptr.Deref(ref.Optional, false)})
		}
	}
	for _, v := range p.Spec.Volumes {
		if v.Secret != nil {
			uses = append(uses, secretUse{secret: v.Secret.SecretName, optional: ptr.Deref(v.Secret.Optional, false)})
		}
	}
	return uses
}
