package engine

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// defaultResources returns the default resources of a component. Limits are the sizes that the
// server's documentation recommends for production; requests are the usage of an idle pod, so that
// small clusters can run several environments. There is no CPU limit, which would slow down the
// compilation of a model on an idle node.
func defaultResources(component string) corev1.ResourceRequirements {
	switch component {
	case ComponentRefresh:
		return requirements("250m", "1Gi", "6Gi")
	case ComponentStoreRouter:
		return requirements("250m", "1Gi", "6Gi")
	case ComponentStoreWorker:
		return requirements("500m", "1Gi", "8Gi")
	default:
		return requirements("250m", "512Mi", "3Gi")
	}
}

func requirements(cpu, memory, memoryLimit string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse(cpu),
			corev1.ResourceMemory: resource.MustParse(memory),
		},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memoryLimit)},
	}
}

// resourcesOf returns a copy of the resources of a field, or an error if a request exceeds its
// limit: Kubernetes would reject such a pod.
func resourcesOf(field string, spec *v1alpha1.Resources) (v1alpha1.Resources, error) {
	if spec == nil {
		return v1alpha1.Resources{}, nil
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Requests)) {
		request := spec.Requests[name]
		if limit, ok := spec.Limits[name]; ok && request.Cmp(limit) > 0 {
			return v1alpha1.Resources{}, &FieldError{
				Field:   fmt.Sprintf("spec.resources.%s.requests[%s]", field, name),
				Message: fmt.Sprintf("%s is more than the limit %s; raise the limit", request.String(), limit.String()),
			}
		}
	}
	return *spec.DeepCopy(), nil
}

// resources returns the default resources with the overrides of the deployment. A default that
// contradicts an override is adjusted: a request of 4Gi raises the default limit of 3Gi, a limit of
// 256Mi lowers the default request of 512Mi.
func resources(component string, overrides v1alpha1.Resources) corev1.ResourceRequirements {
	out := defaultResources(component)
	for name, quantity := range overrides.Requests {
		out.Requests[name] = quantity
	}
	for name, quantity := range overrides.Limits {
		out.Limits[name] = quantity
	}
	for name, limit := range out.Limits {
		request, ok := out.Requests[name]
		if !ok || request.Cmp(limit) <= 0 {
			continue
		}
		if _, overridden := overrides.Limits[name]; overridden {
			out.Requests[name] = limit
		} else {
			out.Limits[name] = request
		}
	}
	return out
}
