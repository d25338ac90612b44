package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// Components of an environment: values of the label app.kubernetes.io/component.
const (
	ComponentAPI         = "api"
	ComponentRefresh     = "refresh-worker"
	ComponentStoreRouter = "store-router"
	ComponentStoreWorker = "store-worker"
)

// Labels of the objects. Only instance and component are in selectors: selectors cannot be
// changed once an object exists, so these two never change.
const (
	labelName      = "app.kubernetes.io/name"
	labelInstance  = "app.kubernetes.io/instance"
	labelComponent = "app.kubernetes.io/component"
	labelPartOf    = "app.kubernetes.io/part-of"

	// LabelManagedBy with the value ManagedBy is on all that the controllers make of an environment.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "quoin"
)

// maxWorkloadName leaves room for the 11 characters that a StatefulSet's revision adds to
// the name in a label of its pods, which may have 63.
const maxWorkloadName = 52

// APIName is the name of the Deployment and the Service of the API pods.
func APIName(environment string) string { return workloadName(environment, "-api") }

// RefreshName is the name of the refresh worker's Deployment.
func RefreshName(environment string) string { return workloadName(environment, "-refresh") }

// StoreRouterName is the name of the StatefulSet and the Service of the store's router.
func StoreRouterName(environment string) string { return workloadName(environment, "-router") }

// StoreWorkerName is the name of the StatefulSet and the Service of the store's workers.
func StoreWorkerName(environment string) string { return workloadName(environment, "-worker") }

// CredentialsName is the name of the Secret that the pods know.
func CredentialsName(environment string) string { return environment + "-credentials" }

// GatewayCredentialsName is the name of the Secret that only the gateway knows.
func GatewayCredentialsName(environment string) string { return environment + "-gateway" }

// workloadName appends a suffix, and shortens a name that would be too long in a way that
// keeps it apart from other names.
func workloadName(environment, suffix string) string {
	if len(environment)+len(suffix) <= maxWorkloadName {
		return environment + suffix
	}
	sum := sha256.Sum256([]byte(environment))
	hash := hex.EncodeToString(sum[:4])
	kept := environment[:maxWorkloadName-len(suffix)-len(hash)-1]
	return strings.TrimRight(kept, "-.") + "-" + hash + suffix
}

// Selector is the label selector of an environment's API pods, in the string form of status
// fields.
func Selector(environment string) string {
	return labels.SelectorFromSet(selectorLabels(environment, ComponentAPI)).String()
}

func selectorLabels(environment, component string) map[string]string {
	return map[string]string{labelInstance: environment, labelComponent: component}
}

// objectLabels are the labels of an object; component is empty for what belongs to all parts.
func (in Inputs) objectLabels(component string) map[string]string {
	l := map[string]string{
		labelName:                 "quoin-environment",
		labelInstance:             in.Environment,
		labelPartOf:               "quoin",
		LabelManagedBy:            ManagedBy,
		v1alpha1.LabelDeployment:  in.Deployment,
		v1alpha1.LabelEnvironment: in.Environment,
	}
	if component != "" {
		l[labelComponent] = component
	}
	return l
}

func (in Inputs) objectMeta(name, component string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: in.Namespace, Name: name, Labels: in.objectLabels(component)}
}
