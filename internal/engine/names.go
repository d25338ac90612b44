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

// Names of the containers of the server's pods.
const (
	ContainerServer     = "cube"
	ContainerModelFetch = "model-fetch"
)

// ComponentOf returns the component of a pod with labels.
func ComponentOf(labels map[string]string) string { return labels[labelComponent] }

// Labels of the objects. Selectors contain only instance and component, which never change, because
// selectors are immutable.
const (
	labelName      = "app.kubernetes.io/name"
	labelInstance  = "app.kubernetes.io/instance"
	labelComponent = "app.kubernetes.io/component"
	labelPartOf    = "app.kubernetes.io/part-of"

	// LabelManagedBy with the value ManagedBy is on all objects that the controllers create for an
	// environment.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "quoin"
)

// maxWorkloadName is the maximum length of a name: a StatefulSet's revision adds 11 characters to
// it in a label of its pods, which may have 63.
const maxWorkloadName = 52

// APIName returns the name of the Deployment and the Service of the API pods.
func APIName(environment string) string { return workloadName(environment, "-api") }

// RefreshName returns the name of the refresh worker's Deployment.
func RefreshName(environment string) string { return workloadName(environment, "-refresh") }

// StoreRouterName returns the name of the StatefulSet and the Service of the store's router.
func StoreRouterName(environment string) string { return workloadName(environment, "-router") }

// StoreWorkerName returns the name of the StatefulSet and the Service of the store's workers.
func StoreWorkerName(environment string) string { return workloadName(environment, "-worker") }

// CredentialsName returns the name of the Secret that the pods use.
func CredentialsName(environment string) string { return environment + "-credentials" }

// GatewayCredentialsName returns the name of the Secret that only the gateway uses.
func GatewayCredentialsName(environment string) string { return environment + "-gateway" }

// workloadName appends a suffix, and shortens names that would be too long.
func workloadName(environment, suffix string) string {
	return Shorten(environment, maxWorkloadName-len(suffix)) + suffix
}

// Shorten returns the name of an object with at most a number of characters: a longer one is cut, with a hash to
// keep it unique.
func Shorten(name string, most int) string {
	if len(name) <= most {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	hash := hex.EncodeToString(sum[:4])
	return strings.TrimRight(name[:most-len(hash)-1], "-.") + "-" + hash
}

// Selector returns the label selector of an environment's API pods, in the string form of status
// fields.
func Selector(environment string) string {
	return labels.SelectorFromSet(selectorLabels(environment, ComponentAPI)).String()
}

func selectorLabels(environment, component string) map[string]string {
	return map[string]string{labelInstance: environment, labelComponent: component}
}

// objectLabels returns the labels of an object; component is empty for objects of all components.
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

// DbtJobName returns the name of the Job of a DbtSync.
func DbtJobName(sync string) string { return workloadName(sync, "-dbt") }

// DbtDeliveryName returns the name of the Secret with which the pod of a DbtSync delivers its manifest:
// username, password and ca.crt. quoin apiserver creates it.
func DbtDeliveryName(sync string) string { return workloadName(sync, "-delivery") }

// DbtDeliveryPath returns the path on quoin apiserver's own address to which the pod of a DbtSync delivers
// its manifest.
func DbtDeliveryPath(namespace, sync string) string {
	return "/dbt-syncs/" + namespace + "/" + sync + "/manifest"
}
