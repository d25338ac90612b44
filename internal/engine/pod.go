package engine

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// userID is the user and group of all pods. The default of the images is root; 1000 is the user
// "node" of the server's image.
const userID = 1000

// podTemplate returns a pod template with one container that conforms to the Pod Security Standard
// "restricted".
// Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
func (in Inputs) podTemplate(component string, container corev1.Container) corev1.PodTemplateSpec {
	container.ImagePullPolicy = corev1.PullIfNotPresent
	container.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	container.SecurityContext = restrictedContainer()
	container.VolumeMounts = append([]corev1.VolumeMount{{Name: volumeTmp, MountPath: "/tmp"}}, container.VolumeMounts...)
	pod := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: in.objectLabels(component)},
		Spec: corev1.PodSpec{
			ServiceAccountName:           in.Environment,
			AutomountServiceAccountToken: ptr.To(false),
			EnableServiceLinks:           ptr.To(false),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot:        ptr.To(true),
				RunAsUser:           ptr.To[int64](userID),
				RunAsGroup:          ptr.To[int64](userID),
				FSGroup:             ptr.To[int64](userID),
				FSGroupChangePolicy: ptr.To(corev1.FSGroupChangeOnRootMismatch),
				SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{container},
			Volumes:    []corev1.Volume{emptyDir(volumeTmp, "2Gi")},
		},
	}
	return pod
}

const volumeTmp = "tmp"

func restrictedContainer() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false),
		ReadOnlyRootFilesystem:   ptr.To(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// emptyDir returns an emptyDir volume. limit is empty for a volume whose size depends on the user's
// data.
func emptyDir(name, limit string) corev1.Volume {
	source := &corev1.EmptyDirVolumeSource{}
	if limit != "" {
		source.SizeLimit = ptr.To(resource.MustParse(limit))
	}
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: source}}
}

func pullSecretReferences(names []string) []corev1.LocalObjectReference {
	out := make([]corev1.LocalObjectReference, 0, len(names))
	for _, name := range names {
		out = append(out, corev1.LocalObjectReference{Name: name})
	}
	return out
}

// tcpProbe returns a probe that succeeds if a port accepts connections.
func tcpProbe(port string, period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:     corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString(port)}},
		PeriodSeconds:    period,
		FailureThreshold: failures,
		TimeoutSeconds:   3,
	}
}

// startupProbe allows a container 5 minutes to open its port; no other probe runs meanwhile.
func startupProbe(port string) *corev1.Probe { return tcpProbe(port, 2, 150) }

// livenessProbe restarts a container whose port has not accepted a connection for 2 minutes.
func livenessProbe(port string) *corev1.Probe { return tcpProbe(port, 20, 6) }
