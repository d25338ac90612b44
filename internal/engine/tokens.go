package engine

import (
	"path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// TokenDirectory is the directory of the files with OpenID Connect tokens, in the pods of the server.
const TokenDirectory = "/var/run/secrets/quoin/oidc" //nolint:gosec // no credential

// TokenComponents are the components whose pods have tokens.
var TokenComponents = []string{ComponentAPI, ComponentRefresh}

// TokenFile is a file with a token, in the pods of the server.
type TokenFile struct {
	// Config is the name of the OidcTokenConfig.
	Config string `json:"config"`
	// Name is the name of the file in TokenDirectory.
	Name string `json:"name"`
	// Variable is the environment variable with the path of the file; none if empty.
	Variable string `json:"variable,omitempty"`
}

// TokensName returns the name of the Secret with the tokens of a deployment.
func TokensName(deployment string) string { return deployment + "-oidc-tokens" }

// TokenKey returns the key of a token in that Secret.
func TokenKey(config, component string) string { return config + "." + component }

// WithTokens returns the inputs with files of tokens.
func (in Inputs) WithTokens(files []TokenFile) Inputs {
	in.server.Tokens = files
	return in
}

const volumeTokens = "oidc-tokens"

// addTokens mounts the tokens of a component. The kubelet updates the files when the Secret changes; the pod template does
// not depend on the tokens. A pod does not start before its tokens exist.
func (in Inputs) addTokens(pod *corev1.PodTemplateSpec, component string) {
	files := in.server.Tokens
	if len(files) == 0 {
		return
	}
	items := make([]corev1.KeyToPath, 0, len(files))
	for _, f := range files {
		items = append(items, corev1.KeyToPath{Key: TokenKey(f.Config, component), Path: f.Name})
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: volumeTokens, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: TokensName(in.Deployment), Items: items, DefaultMode: ptr.To[int32](0o440)},
	}})
	container := &pod.Spec.Containers[0]
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: volumeTokens, MountPath: TokenDirectory, ReadOnly: true})
}

// tokenEnv returns the variables with the paths of the tokens.
func (in Inputs) tokenEnv() []corev1.EnvVar {
	var env []corev1.EnvVar
	for _, f := range in.server.Tokens {
		if f.Variable != "" {
			env = append(env, value(f.Variable, path.Join(TokenDirectory, f.Name)))
		}
	}
	return env
}

// TokenLabels returns the labels of that Secret.
func TokenLabels(deployment string) map[string]string {
	return map[string]string{labelPartOf: "quoin", LabelManagedBy: ManagedBy, v1alpha1.LabelDeployment: deployment}
}
