package engine

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// defaultResources are what a component gets when the deployment does not say. Limits are
// the sizes that the server's documentation recommends for production; requests are what an
// idle one takes, so that a small team can run several environments. There is no limit on
// cpu: it would slow the compilation of a model on an idle machine.
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

// resourcesOf copies the resources that a deployment gives to a part, and refuses a request
// above its limit, with which no pod could be made.
func resourcesOf(part string, wanted *v1alpha1.Resources) (v1alpha1.Resources, error) {
	if wanted == nil {
		return v1alpha1.Resources{}, nil
	}
	for _, name := range slices.Sorted(maps.Keys(wanted.Requests)) {
		request := wanted.Requests[name]
		if limit, ok := wanted.Limits[name]; ok && request.Cmp(limit) > 0 {
			return v1alpha1.Resources{}, &FieldError{
				Field:   fmt.Sprintf("spec.resources.%s.requests[%s]", part, name),
				Message: fmt.Sprintf("%s is more than the limit %s; raise the limit", request.String(), limit.String()),
			}
		}
	}
	return *wanted.DeepCopy(), nil
}

// resources puts what the deployment gives over the defaults, one by one. A default that
// contradicts what was given makes way: a request of 4Gi lifts the default limit of 3Gi,
// a limit of 256Mi lowers the default request of 512Mi.
func resources(component string, wanted v1alpha1.Resources) corev1.ResourceRequirements {
	out := defaultResources(component)
	for name, quantity := range wanted.Requests {
		out.Requests[name] = quantity
	}
	for name, quantity := range wanted.Limits {
		out.Limits[name] = quantity
	}
	for name, limit := range out.Limits {
		request, ok := out.Requests[name]
		if !ok || request.Cmp(limit) <= 0 {
			continue
		}
		if _, given := wanted.Limits[name]; given {
			out.Requests[name] = limit
		} else {
			out.Limits[name] = request
		}
	}
	return out
}
