package engine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// Directories of the store: the scratch space of each pod, and the shared storage.
const (
	storeDataDir   = "/cube/.cubestore/data"
	storeRemoteDir = "/cube/data"
)

// bucketVariables name a bucket as the shared storage. Any of them takes precedence over
// CUBESTORE_REMOTE_DIR.
var bucketVariables = []string{"CUBESTORE_GCS_BUCKET", "CUBESTORE_MINIO_BUCKET", "CUBESTORE_S3_BUCKET"}

func storeOf(d *v1alpha1.Deployment, e *v1alpha1.Environment, overrides v1alpha1.ComponentResources) (*store, error) {
	if e.Spec.StoreImage == "" {
		return nil, &FieldError{Field: "spec.size", Message: "Dedicated needs a store image, which the environment does not have; the conditions of the deployment name what is missing"}
	}
	spec := v1alpha1.Store{}
	if d.Spec.Store != nil {
		spec = *d.Spec.Store
	}
	env, err := variables("spec.store.env", spec.Env, reservedByStore)
	if err != nil {
		return nil, err
	}
	s := &store{Image: e.Spec.StoreImage, Env: env, ImagePullSecrets: pullSecrets(d), Workers: ptr.Deref(spec.Workers, 0)}
	if spec.RemoteClaimRef != nil {
		s.RemoteClaim = spec.RemoteClaimRef.Name
	}
	if err := s.checkSharedStorage(); err != nil {
		return nil, err
	}
	if s.Router, err = resourcesOf("storeRouter", overrides.StoreRouter); err != nil {
		return nil, err
	}
	s.Worker, err = resourcesOf("storeWorker", overrides.StoreWorker)
	return s, err
}

// checkSharedStorage returns an error unless the store has exactly one shared storage, if it needs
// one.
func (s *store) checkSharedStorage() error {
	bucket := s.bucket()
	switch {
	case bucket != "" && s.RemoteClaim != "":
		return &FieldError{Field: "spec.store.remoteClaimRef", Message: "has no effect beside " + bucket + " in spec.store.env; remove one of them"}
	case bucket == "" && s.RemoteClaim == "" && s.Workers > 0:
		return &FieldError{Field: "spec.store.workers", Message: "need a place they share; set remoteClaimRef, or one of " +
			strings.Join(bucketVariables, ", ") + " in spec.store.env"}
	}
	return nil
}

// bucket returns the name of the variable that sets a bucket, or empty.
func (s *store) bucket() string {
	for _, v := range s.Env {
		if slices.Contains(bucketVariables, v.Name) {
			return v.Name
		}
	}
	return ""
}

// routerSet returns the StatefulSet of the store's router, its single entry point: the open-source
// store has no replication.
func (in Inputs) routerSet() *appsv1.StatefulSet {
	name := StoreRouterName(in.Environment)
	env := []corev1.EnvVar{
		value("CUBESTORE_SERVER_NAME", fmt.Sprintf("%s:%d", name, portStoreMeta)),
		value("CUBESTORE_META_PORT", strconv.Itoa(portStoreMeta)),
	}
	pod := in.storePod(ComponentStoreRouter, env, corev1.Container{
		Name: "router",
		Ports: []corev1.ContainerPort{
			{Name: PortNameHTTP, ContainerPort: portStoreHTTP},
			{Name: "status", ContainerPort: portStoreStatus},
			{Name: "meta", ContainerPort: portStoreMeta},
		},
		Resources:     resources(ComponentStoreRouter, in.store.Router),
		StartupProbe:  startupProbe(PortNameHTTP),
		LivenessProbe: livenessProbe(PortNameHTTP),
		// /readyz checks the router's own metadata only, not the workers, which wait for the router.
		ReadinessProbe: &corev1.Probe{
			ProbeHandler:     corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromString("status")}},
			PeriodSeconds:    5,
			FailureThreshold: 3,
			TimeoutSeconds:   3,
		},
	})
	return in.statefulSet(name, ComponentStoreRouter, 1, pod)
}

// workerSet returns the StatefulSet of the store's workers. They have no status port, so their
// probes only connect.
func (in Inputs) workerSet() *appsv1.StatefulSet {
	name := StoreWorkerName(in.Environment)
	podName := corev1.EnvVar{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"},
	}}
	env := []corev1.EnvVar{
		podName,
		{Name: "CUBESTORE_SERVER_NAME", Value: fmt.Sprintf("$(POD_NAME).%s:%d", name, portStoreWorker)},
		value("CUBESTORE_WORKER_PORT", strconv.Itoa(portStoreWorker)),
		value("CUBESTORE_META_ADDR", fmt.Sprintf("%s:%d", StoreRouterName(in.Environment), portStoreMeta)),
	}
	pod := in.storePod(ComponentStoreWorker, env, corev1.Container{
		Name:           "worker",
		Ports:          []corev1.ContainerPort{{Name: "worker", ContainerPort: portStoreWorker}},
		Resources:      resources(ComponentStoreWorker, in.store.Worker),
		StartupProbe:   startupProbe("worker"),
		LivenessProbe:  livenessProbe("worker"),
		ReadinessProbe: tcpProbe("worker", 5, 3),
	})
	return in.statefulSet(name, ComponentStoreWorker, in.store.Workers, pod)
}

// storePod returns the pod template of a component of the store. componentEnv are the variables of
// this component.
func (in Inputs) storePod(component string, componentEnv []corev1.EnvVar, container corev1.Container) corev1.PodTemplateSpec {
	env := append(componentEnv,
		value("CUBESTORE_DATA_DIR", storeDataDir),
		value("CUBESTORE_TELEMETRY", "false"), // the store exits for other values than true and false
	)
	if in.store.Workers > 0 {
		env = append(env, value("CUBESTORE_WORKERS", in.workerAddresses()))
	}
	if in.store.bucket() == "" {
		env = append(env, value("CUBESTORE_REMOTE_DIR", storeRemoteDir))
	}
	container.Image = in.store.Image
	container.Env = merge(env, in.store.Env)
	container.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: storeDataDir}}
	if in.store.bucket() == "" {
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "remote", MountPath: storeRemoteDir})
	}
	pod := in.podTemplate(component, container)
	pod.Spec.ImagePullSecrets = pullSecretReferences(in.store.ImagePullSecrets)
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](60)
	pod.Spec.Volumes = append(pod.Spec.Volumes, in.store.volumes()...)
	return pod
}

func (s *store) volumes() []corev1.Volume {
	volumes := []corev1.Volume{emptyDir("data", "")}
	switch {
	case s.RemoteClaim != "":
		claim := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: s.RemoteClaim}
		volumes = append(volumes, corev1.Volume{Name: "remote", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: claim}})
	case s.bucket() == "":
		volumes = append(volumes, emptyDir("remote", ""))
	}
	return volumes
}

// workerAddresses returns the same list in the same order for every component of the store:
// partitions are assigned to workers by hash and position.
func (in Inputs) workerAddresses() string {
	name := StoreWorkerName(in.Environment)
	addresses := make([]string, in.store.Workers)
	for i := range addresses {
		addresses[i] = fmt.Sprintf("%s-%d.%s:%d", name, i, name, portStoreWorker)
	}
	return strings.Join(addresses, ",")
}

func (in Inputs) statefulSet(name, component string, replicas int32, pod corev1.PodTemplateSpec) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: in.objectMeta(name, component),
		Spec: appsv1.StatefulSetSpec{
			Replicas:             &replicas,
			ServiceName:          name,
			PodManagementPolicy:  appsv1.ParallelPodManagement, // pods that never became ready can be replaced
			UpdateStrategy:       appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType},
			RevisionHistoryLimit: ptr.To[int32](3),
			Selector:             &metav1.LabelSelector{MatchLabels: selectorLabels(in.Environment, component)},
			Template:             pod,
		},
	}
	in.annotate(s, component, &s.Spec.Template)
	return s
}

func (in Inputs) routerService() *corev1.Service {
	s := in.service(StoreRouterName(in.Environment), ComponentStoreRouter)
	s.Spec.Ports = []corev1.ServicePort{
		servicePort(PortNameHTTP, portStoreHTTP),
		servicePort("status", portStoreStatus),
		servicePort("meta", portStoreMeta),
	}
	return s
}

// workerService returns the headless Service of the workers. It has DNS names for workers that are
// not ready, because the router connects to workers while they start.
func (in Inputs) workerService() *corev1.Service {
	s := in.service(StoreWorkerName(in.Environment), ComponentStoreWorker)
	s.Spec.ClusterIP = corev1.ClusterIPNone
	s.Spec.PublishNotReadyAddresses = true
	s.Spec.Ports = []corev1.ServicePort{servicePort("worker", portStoreWorker)}
	return s
}
