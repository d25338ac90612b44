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

// The server compiles its data model at the first request, and no probe of its own says
// whether it can: see docs/decisions/0022-warm-up.md. So an API pod has a readiness gate,
// and becomes ready once somebody has asked it for its metadata and got them.

// CompileLimit is how long a pod may take to compile its data model. It is the documented
// limit of the hosted product's warm-up.
const CompileLimit = 15 * time.Minute

// Reasons of the pod condition v1alpha1.PodModelCompiled.
const (
	// WarmUpCompiled: the pod has answered with its metadata.
	WarmUpCompiled = "Compiled"
	// WarmUpNotAllowed: the deployment's settings keep everybody from its metadata, so nobody
	// can ask. The gate is open.
	WarmUpNotAllowed = "MetadataNotAllowed"
	// WarmUpOff: the controller was told not to ask. The gate is open.
	WarmUpOff = "WarmUpIsOff"
	// WarmUpCompiling: the pod is at it.
	WarmUpCompiling = "Compiling"
	// WarmUpBroken: the model does not compile; the message is the compiler's.
	WarmUpBroken = "ModelBroken"
	// WarmUpTooSlow: the model was not compiled within CompileLimit.
	WarmUpTooSlow = "CompileTimedOut"
	// WarmUpUnreadable: the Secret that signs the question cannot be read.
	WarmUpUnreadable = "CredentialsUnreadable"
	// WarmUpNoAnswer: the pod does not answer, or with something that says nothing of the model.
	WarmUpNoAnswer = "NoAnswer"
)

// addGate makes the pod wait for its model. The label lets a cache hold just such pods, and
// tells those of this template from those of another one.
func (in Inputs) addGate(pod *corev1.PodTemplateSpec) {
	if !in.Options.WarmUp {
		return
	}
	pod.Labels[v1alpha1.LabelWarmUp] = in.componentHash(ComponentAPI)
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: v1alpha1.PodModelCompiled}}
}

// Compiled is a pod's condition; nil while nobody has asked it.
func Compiled(pod *corev1.Pod) *corev1.PodCondition {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == v1alpha1.PodModelCompiled })
	if i < 0 {
		return nil
	}
	return &pod.Status.Conditions[i]
}

// severity of what pods say: what is certain comes before what may pass.
var severity = []string{WarmUpBroken, WarmUpTooSlow, WarmUpUnreadable, WarmUpNoAnswer, WarmUpCompiling}

// WarmUpOf says what keeps the pods of a template from serving their data model: the worst
// that any of them says, in words that do not depend on the order of the pods. inputs is the
// label v1alpha1.LabelWarmUp of the template.
// The reason is empty when none says anything.
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

// WarmUpToken is a data API token for one question: without a security context, and good for
// a minute. secret is the API secret of the environment.
func WarmUpToken(secret string, now time.Time) (string, error) {
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
	}).SignedString([]byte(secret))
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	return token, nil
}
