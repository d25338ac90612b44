package engine

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// How an API pod ends: it leaves the endpoints and the gateway's list at once, and goes on
// answering for preStopSeconds, while others still learn of it. Then it is told to stop,
// refuses new requests and finishes those under way within shutdownSeconds; the server ends
// itself one second later. Source: packages/cubejs-server/src/server.ts, shutdown.
const (
	preStopSeconds     = 10
	shutdownSeconds    = 30
	terminationSeconds = preStopSeconds + shutdownSeconds + 5
)

// minReadySeconds is how long a new pod must stay ready before an old one goes. It must be
// less than the shortest rollout deadline, which is 5 seconds.
const minReadySeconds = 3

// apiDeployment is the pods that answer queries.
func (in Inputs) apiDeployment() *appsv1.Deployment {
	pod := in.serverPod(ComponentAPI, in.Dedicated())
	container := &pod.Spec.Containers[0]
	container.ReadinessProbe = tcpProbe(PortNameHTTP, 5, 2)
	container.Lifecycle = &corev1.Lifecycle{
		PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: preStopSeconds}},
	}
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](terminationSeconds)
	in.addGate(&pod)
	// Always there, so that a change of the number of replicas restarts nothing.
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew:           1,
		TopologyKey:       corev1.LabelHostname,
		WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector:     &metav1.LabelSelector{MatchLabels: selectorLabels(in.Environment, ComponentAPI)},
	}}
	d := in.deployment(APIName(in.Environment), ComponentAPI, pod)
	d.Spec.Replicas = ptr.To(in.Replicas)
	d.Spec.MinReadySeconds = minReadySeconds
	d.Spec.ProgressDeadlineSeconds = ptr.To(in.ProgressDeadlineSeconds)
	d.Spec.Strategy = appsv1.DeploymentStrategy{
		Type: appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{
			MaxSurge:       ptr.To(intstr.FromString("25%")), // rounded up: 1 of up to 4 pods
			MaxUnavailable: ptr.To(intstr.FromInt32(0)),
		},
	}
	return d
}

// Names of ports in the API Service and in its EndpointSlices.
const (
	PortNameHTTP = "http"
	PortNameSQL  = "sql"
)

// apiService is how the gateway reaches the API pods.
func (in Inputs) apiService() *corev1.Service {
	s := in.service(APIName(in.Environment), ComponentAPI)
	s.Spec.Ports = []corev1.ServicePort{
		servicePort(PortNameHTTP, PortHTTP),
		servicePort(PortNameSQL, PortSQL),
	}
	return s
}

// deployment is a Deployment around a pod template.
func (in Inputs) deployment(name, component string, pod corev1.PodTemplateSpec) *appsv1.Deployment {
	d := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: in.objectMeta(name, component),
		Spec: appsv1.DeploymentSpec{
			RevisionHistoryLimit: ptr.To[int32](3),
			Selector:             &metav1.LabelSelector{MatchLabels: selectorLabels(in.Environment, component)},
			Template:             pod,
		},
	}
	in.annotate(d, component, &d.Spec.Template)
	return d
}

// serverPod is a pod of the server: one that answers queries, or the refresh worker.
func (in Inputs) serverPod(component string, dedicated bool) corev1.PodTemplateSpec {
	wanted := in.api
	if component == ComponentRefresh {
		wanted = in.refresh
	}
	pod := in.podTemplate(component, corev1.Container{
		Name:    "cube",
		Image:   in.server.Image,
		Env:     merge(in.serverEnv(component, dedicated), in.server.Env),
		EnvFrom: envFrom(in.server.EnvFrom),
		Ports: []corev1.ContainerPort{
			{Name: PortNameHTTP, ContainerPort: PortHTTP},
			{Name: PortNameSQL, ContainerPort: PortSQL},
		},
		Resources:     resources(component, wanted),
		StartupProbe:  startupProbe(PortNameHTTP),
		LivenessProbe: livenessProbe(PortNameHTTP),
	})
	pod.Spec.ImagePullSecrets = pullSecretReferences(in.server.ImagePullSecrets)
	in.addModel(&pod)
	return pod
}

// serverEnv are the variables that the platform sets.
//
// Both CUBEJS_API_SECRET and CUBEJS_API_SECRETS are there: the server does not start without
// the former, and the latter, a list, wins when it is set. The key behind it is absent
// except while a secret is being replaced, so replacing one changes no pod template: write
// the list with the old and the new secret, restart, sign with the new one, drop the list.
//
// In the Shared size there is no refresh worker, so the API pods build what they need.
func (in Inputs) serverEnv(component string, dedicated bool) []corev1.EnvVar {
	credentials := CredentialsName(in.Environment)
	env := []corev1.EnvVar{
		value("NODE_ENV", "production"),
		value("HOME", "/tmp"),
		value("PORT", strconv.Itoa(PortHTTP)),
		value("CUBEJS_DEV_MODE", "false"),
		value("CUBEJS_TELEMETRY", "false"),
		value("CUBEJS_SCHEMA_PATH", schemaPath),
		value("CUBEJS_GRACEFUL_SHUTDOWN", strconv.Itoa(shutdownSeconds)),
		fromSecret("CUBEJS_API_SECRET", credentials, KeyAPISecret, false),
		fromSecret("CUBEJS_API_SECRETS", credentials, KeyAPISecrets, true),
		value("CUBEJS_PG_SQL_PORT", strconv.Itoa(PortSQL)),
		value("CUBEJS_SQL_USER", SQLUser),
		fromSecret("CUBEJS_SQL_PASSWORD", credentials, KeySQLPassword, false),
		value("CUBEJS_REFRESH_WORKER", strconv.FormatBool(component == ComponentRefresh)),
		value("CUBEJS_PRE_AGGREGATIONS_BUILDER", strconv.FormatBool(component == ComponentRefresh || !dedicated)),
	}
	if !dedicated {
		return append(env, value("CUBEJS_CACHE_AND_QUEUE_DRIVER", "memory"))
	}
	return append(env,
		value("CUBEJS_CACHE_AND_QUEUE_DRIVER", "cubestore"),
		value("CUBEJS_CUBESTORE_HOST", StoreRouterName(in.Environment)),
		value("CUBEJS_CUBESTORE_PORT", strconv.Itoa(portStoreHTTP)),
	)
}
