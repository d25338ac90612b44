package engine

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// Workload names a Deployment or StatefulSet of group apps.
type Workload struct {
	Kind string
	Name string
}

// Workloads are those that must be complete before the environment is: all pods updated,
// ready, and none of an older template left.
func Workloads(in Inputs) []Workload {
	of := map[string]Workload{
		ComponentStoreRouter: {"StatefulSet", StoreRouterName(in.Environment)},
		ComponentStoreWorker: {"StatefulSet", StoreWorkerName(in.Environment)},
		ComponentRefresh:     {"Deployment", RefreshName(in.Environment)},
		ComponentAPI:         {"Deployment", APIName(in.Environment)},
	}
	var out []Workload
	for _, component := range components {
		if in.has(component) {
			out = append(out, of[component])
		}
	}
	return out
}

// Render returns the environment's objects, complete for server-side apply, in the order in
// which they are to be applied: the store before those who connect to it. What an
// environment no longer has is not in the list, and is to be removed.
//
// The objects have no owner references, which are the caller's to add. Secrets are not among
// them: see NewCredentials.
//
// Workloads have two annotations: of the inputs that decide their pod template, and of the
// renderer's revision. With the same inputs and another revision the pod template that
// exists is to be kept, so that a new release of Quoin restarts nothing. With the same
// inputs and the same revision the pod template is the same.
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

// serviceAccount is that of all pods. They do not talk to Kubernetes; it is there for cloud
// identities, which an administrator adds as annotations.
func (in Inputs) serviceAccount() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		TypeMeta:                     metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta:                   in.objectMeta(in.Environment, ""),
		AutomountServiceAccountToken: ptr.To(false),
	}
}

// annotate records what a workload was rendered from. The image of the init container is
// Quoin's own and changes with every release: it belongs to the renderer, not to the inputs,
// and so do the other options of Quoin.
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
