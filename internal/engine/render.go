package engine

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// Workload is the kind and name of a Deployment or StatefulSet of group apps.
type Workload struct {
	Kind string
	Name string
}

// Workloads returns the workloads of an environment. The environment is complete when all of them
// are: all pods updated and ready, and no pods of an older template.
func Workloads(in Inputs) []Workload {
	byComponent := map[string]Workload{
		ComponentStoreRouter: {"StatefulSet", StoreRouterName(in.Environment)},
		ComponentStoreWorker: {"StatefulSet", StoreWorkerName(in.Environment)},
		ComponentRefresh:     {"Deployment", RefreshName(in.Environment)},
		ComponentAPI:         {"Deployment", APIName(in.Environment)},
	}
	var out []Workload
	for _, component := range components {
		if in.has(component) {
			out = append(out, byComponent[component])
		}
	}
	return out
}

// Render returns the environment's objects for server-side apply, in the order in which they must
// be applied: the store before its clients. The caller must delete existing objects that are not in
// the list, and add owner references. Secrets are not included: see NewCredentials.
//
// Workloads have two annotations: the hash of the inputs that determine their pod template, and the
// renderer's revision. For the same inputs and another revision, the caller must keep the existing
// pod template, so that a new release of Quoin restarts no pods. For the same inputs and revision,
// the pod template is the same.
func Render(in Inputs) []client.Object {
	objects := []client.Object{in.serviceAccount(), in.apiPolicy()}
	if in.has(ComponentStoreRouter) {
		objects = append(objects, in.routerPolicy(), in.routerService(), in.routerSet())
	}
	if in.has(ComponentStoreWorker) {
		objects = append(objects, in.workerPolicy(), in.workerService(), in.workerSet())
	}
	if in.has(ComponentRefresh) {
		objects = append(objects, in.refreshPolicy(), in.refreshDeployment())
	}
	objects = append(objects, in.apiService(), in.apiDeployment())
	if in.Replicas > 1 {
		objects = append(objects, in.disruptionBudget())
	}
	return objects
}

// serviceAccount returns the ServiceAccount of all pods. They do not use the Kubernetes API; an
// administrator can add cloud identities to it as annotations.
func (in Inputs) serviceAccount() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		TypeMeta:                     metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta:                   in.objectMeta(in.Environment, ""),
		AutomountServiceAccountToken: ptr.To(false),
	}
}

// annotate sets the annotations of a workload. The image of the init container is Quoin's own and
// changes with every release, so it belongs to the revision and not to the inputs, like the other
// options of Quoin.
func (in Inputs) annotate(obj client.Object, component string, pod *corev1.PodTemplateSpec) {
	revision := Revision
	if len(pod.Spec.InitContainers) > 0 {
		revision += "-" + hash([]byte(in.Options.QuoinImage))
		if in.Options.AllowInsecureGit {
			revision += "-insecure"
		}
	}
	if component == ComponentAPI && !in.Options.WarmUp {
		revision += "-cold"
	}
	obj.SetAnnotations(map[string]string{
		v1alpha1.AnnotationInputs:   in.componentHash(component),
		v1alpha1.AnnotationRevision: revision,
	})
}
