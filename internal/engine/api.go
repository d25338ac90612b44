package engine

import (
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// Termination of an API pod: it is removed from the endpoints at once, and serves requests for
// preStopSeconds until all clients have observed that. Then it receives SIGTERM, rejects new
// requests and finishes the running ones within shutdownSeconds; the server exits one second later.
// Source: packages/cubejs-server/src/server.ts, shutdown.
const (
	preStopSeconds     = 10
	shutdownSeconds    = 30
	terminationSeconds = preStopSeconds + shutdownSeconds + 5
)

// minReadySeconds is how long a new pod must be ready before an old one is removed. It must be less
// than the minimum progress deadline, 5 seconds.
const minReadySeconds = 3

// apiDeployment returns the Deployment of the API pods, which answer queries.
func (in Inputs) apiDeployment() *appsv1.Deployment {
	pod := in.serverPod(ComponentAPI, in.Dedicated())
	container := &pod.Spec.Containers[0]
	container.ReadinessProbe = tcpProbe(PortNameHTTP, 5, 2)
	container.Lifecycle = &corev1.Lifecycle{
		PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: preStopSeconds}},
	}
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](terminationSeconds)
	in.addGate(&pod)
	// For one replica too, so that scaling does not change the pod template.
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
			MaxSurge:       ptr.To(intstr.FromString("25%")), // rounded up: 1 for up to 4 pods
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

// apiService returns the Service of the API pods, for the gateway.
func (in Inputs) apiService() *corev1.Service {
	s := in.service(APIName(in.Environment), ComponentAPI)
	s.Spec.Ports = []corev1.ServicePort{
		servicePort(PortNameHTTP, PortHTTP),
		servicePort(PortNameSQL, PortSQL),
	}
	return s
}

// deployment returns a Deployment with a pod template.
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

// serverPod returns the pod template of the server: of an API pod or of the refresh worker.
func (in Inputs) serverPod(component string, dedicated bool) corev1.PodTemplateSpec {
	overrides := in.api
	if component == ComponentRefresh {
		overrides = in.refresh
	}
	pod := in.podTemplate(component, corev1.Container{
		Name:    ContainerServer,
		Image:   in.server.Image,
		Env:     merge(append(in.serverEnv(component, dedicated), in.tokenEnv()...), in.server.Env),
		EnvFrom: envFrom(in.server.EnvFrom),
		Ports: []corev1.ContainerPort{
			{Name: PortNameHTTP, ContainerPort: PortHTTP},
			{Name: PortNameSQL, ContainerPort: PortSQL},
		},
		Resources:     resources(component, overrides),
		StartupProbe:  startupProbe(PortNameHTTP),
		LivenessProbe: livenessProbe(PortNameHTTP),
	})
	pod.Spec.ImagePullSecrets = pullSecretReferences(in.server.ImagePullSecrets)
	in.addModel(&pod)
	in.addTokens(&pod, component)
	return pod
}

// defaultDataSource is the type of the data source before the user configures one. The server does not
// start without a type, but needs no data source to compile a model.
// Source: packages/cubejs-server-core/src/core/OptsHandler.ts, assertOptions.
const defaultDataSource = "postgres"

// serverEnv returns the variables that the platform sets.
//
// Both CUBEJS_API_SECRET and CUBEJS_API_SECRETS are set: the server does not start without the
// former, and the latter, a list, takes precedence if it is set. Its key in the Secret exists only
// during a rotation, so a rotation changes no pod template: add the list with the old and the new
// secret, restart, sign with the new one, remove the list.
//
// The Shared size has no refresh worker, so the API pods build pre-aggregations themselves.
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
	if len(in.server.EnvFrom) == 0 { // its Secrets may have the variable, which this one would override
		env = append(env, value("CUBEJS_DB_TYPE", defaultDataSource))
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

// Runs reports whether an API pod has the image and the commit of an environment.
func Runs(pod *corev1.PodSpec, e *v1alpha1.Environment) bool {
	hasImage := slices.ContainsFunc(pod.Containers, func(c corev1.Container) bool {
		return c.Name == ContainerServer && c.Image == e.Spec.Image
	})
	return hasImage && (e.Spec.ModelCommit == "" || slices.ContainsFunc(pod.InitContainers, func(c corev1.Container) bool {
		return c.Name == ContainerModelFetch && slices.Contains(c.Args, commitFlag+e.Spec.ModelCommit)
	}))
}
