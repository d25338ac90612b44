package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"
	corev1 "k8s.io/api/core/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// The server compiles its data model at the first request, and none of its probes shows whether the
// model compiles: see docs/decisions/0024-warm-up.md. So an API pod has a readiness gate, which
// opens when it has answered a request for its metadata.

// CompileLimit is how long a pod may take to compile its data model: the documented limit of the
// hosted product's warm-up.
const CompileLimit = 15 * time.Minute

// Reasons of the pod condition v1alpha1.PodModelCompiled.
const (
	// WarmUpCompiled: the pod has responded with its metadata.
	WarmUpCompiled = "Compiled"
	// WarmUpNotAllowed: the deployment's settings forbid access to the metadata, so warm-up is
	// not possible. The gate is open.
	WarmUpNotAllowed = "MetadataNotAllowed"
	// WarmUpOff: warm-up is disabled in the controller. The gate is open.
	WarmUpOff = "WarmUpIsOff"
	// WarmUpCompiling: the pod has not responded yet.
	WarmUpCompiling = "Compiling"
	// WarmUpBroken: the model does not compile; the message is the compiler's.
	WarmUpBroken = "ModelBroken"
	// WarmUpTooSlow: the model was not compiled within CompileLimit.
	WarmUpTooSlow = "CompileTimedOut"
	// WarmUpUnreadable: the Secret for the warm-up token cannot be read.
	WarmUpUnreadable = "CredentialsUnreadable"
	// WarmUpMissing: the Secret for the warm-up token does not exist. The Environment controller creates it again.
	WarmUpMissing = "CredentialsMissing"
	// WarmUpNoAnswer: the pod does not respond, or with a response that does not concern the model.
	WarmUpNoAnswer = "NoAnswer"
)

// addGate adds the readiness gate. The label selects these pods for a cache, and distinguishes the
// pods of this template from those of others.
func (in Inputs) addGate(pod *corev1.PodTemplateSpec) {
	if !in.Options.WarmUp {
		return
	}
	pod.Labels[v1alpha1.LabelWarmUp] = in.componentHash(ComponentAPI)
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: v1alpha1.PodModelCompiled}}
}

// Compiled returns the condition v1alpha1.PodModelCompiled of a pod, or nil if it is not set.
func Compiled(pod *corev1.Pod) *corev1.PodCondition {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == v1alpha1.PodModelCompiled })
	if i < 0 {
		return nil
	}
	return &pod.Status.Conditions[i]
}

// severity orders the reasons of pods: permanent failures before temporary ones.
var severity = []string{WarmUpBroken, WarmUpTooSlow, WarmUpUnreadable, WarmUpMissing, WarmUpNoAnswer, WarmUpCompiling}

// WarmUpOf returns why the pods of a template do not serve their data model: the most severe reason
// and its message, independent of the order of the pods. inputs is the label
// v1alpha1.LabelWarmUp of the template. The reason is empty if no pod has one.
func WarmUpOf(pods []corev1.Pod, inputs string) (reason, message string) {
	worst := len(severity)
	for i := range pods {
		pod := &pods[i]
		c := Compiled(pod)
		if c == nil || c.Status == corev1.ConditionTrue || !pod.DeletionTimestamp.IsZero() || pod.Labels[v1alpha1.LabelWarmUp] != inputs {
			continue
		}
		rank := slices.Index(severity, c.Reason)
		if rank < 0 || rank > worst || (rank == worst && cmp.Compare(c.Message, message) >= 0) {
			continue
		}
		worst, reason, message = rank, c.Reason, c.Message
	}
	return reason, message
}

// WarmUpToken returns a data API token for the warm-up request, without a security context and
// valid for a minute. secret is the API secret of the environment.
func WarmUpToken(secret string, now time.Time) (string, error) {
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
	}).SignedString([]byte(secret))
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	return token, nil
}
