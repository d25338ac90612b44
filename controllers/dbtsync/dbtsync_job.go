package dbtsync

import (
	"cmp"
	"fmt"
	"path"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/dbt"
	"github.com/quoin-dev/quoin/internal/engine"
)

// Names of the containers, which are those of the phases.
const (
	phaseClone   = "repo-clone"
	phaseDeps    = "dbt-deps"
	phaseCompile = "dbt-compile"
	phaseCatalog = "dbt-catalog"
	phaseSelect  = "dbt-select"
	phaseDeliver = "manifest-upload"
)

const (
	// deadlineSeconds bounds the time of a Job, with the time in which its pod waits for a node.
	deadlineSeconds = 30 * 60
	// keptSeconds is how long a Job that has ended is kept, for its logs.
	keptSeconds = 60 * 60
	// userID is the user and group of all containers.
	userID = 1000
)

// Labels of the Job and its pod.
const (
	labelComponent = "app.kubernetes.io/component"
	component      = "dbt-sync"
	labelInstance  = "app.kubernetes.io/instance"
)

// Paths in the containers.
const (
	workspace       = "/workspace"
	projectFolder   = workspace + "/project"
	targetFolder    = workspace + "/target"
	manifestFile    = targetFolder + "/manifest.json"
	selectedFile    = targetFolder + "/selected.jsonl"
	catalogFile     = targetFolder + "/catalog.json"
	gitFolder       = "/etc/quoin/git"
	deliveryFolder  = "/etc/quoin/delivery"
	volumeWorkspace = "workspace"
	volumeTmp       = "tmp"
	volumeGit       = "git-credentials"
	volumeDelivery  = "delivery"
)

// job returns the Job of a sync.
func (r *syncs) job(sync *v1alpha1.DbtSync, d *v1alpha1.Deployment) *batchv1.Job {
	name := engine.DbtJobName(sync.Name)
	labels := map[string]string{
		"app.kubernetes.io/name": "quoin-dbt-sync", labelInstance: name, labelComponent: component, "app.kubernetes.io/part-of": "quoin",
		engine.LabelManagedBy: engine.ManagedBy, v1alpha1.LabelDeployment: d.Name,
	}
	owner := *metav1.NewControllerRef(sync, v1alpha1.GroupVersion.WithKind("DbtSync"))
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: sync.Namespace, Name: name, Labels: labels, OwnerReferences: []metav1.OwnerReference{owner}},
		Spec: batchv1.JobSpec{
			BackoffLimit: ptr.To[int32](0), ActiveDeadlineSeconds: ptr.To[int64](deadlineSeconds), TTLSecondsAfterFinished: ptr.To[int32](keptSeconds),
			PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
				// The pod did not end by itself: it was evicted or preempted, or its node was drained.
				Action:          batchv1.PodFailurePolicyActionIgnore,
				OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
			}}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: r.pod(sync, d)},
		},
	}
}

// selectScript runs dbt ls in a shell, because dbt writes the list to its standard output, and errors too. The
// selector is an argument of the script and not part of it.
const selectScript = `dbt --quiet ls "$@" > ` + selectedFile + ` || { code=$?; cat ` + selectedFile + `; exit $code; }`

// pod returns the pod of a sync. It conforms to the Pod Security Standard "restricted". Only the container
// that fetches the project has the Git credentials, only the one that reads the catalog those of the data source, and
// only the last one those of the delivery.
func (r *syncs) pod(sync *v1alpha1.DbtSync, d *v1alpha1.Deployment) corev1.PodSpec {
	source := sync.Spec.Source.Git
	spec := corev1.PodSpec{
		RestartPolicy:                corev1.RestartPolicyNever,
		AutomountServiceAccountToken: ptr.To(false),
		EnableServiceLinks:           ptr.To(false),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](userID), RunAsGroup: ptr.To[int64](userID), FSGroup: ptr.To[int64](userID),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Volumes: []corev1.Volume{
			emptyDir(volumeWorkspace, "1536Mi"), emptyDir(volumeTmp, "512Mi"),
			secretVolume(volumeDelivery, engine.DbtDeliveryName(sync.Name)),
		},
	}
	for _, s := range d.Spec.ImagePullSecrets {
		spec.ImagePullSecrets = append(spec.ImagePullSecrets, corev1.LocalObjectReference{Name: s.Name})
	}
	clone := r.quoin(phaseClone, r.cloneArgs(sync, d))
	if source.SecretRef != nil {
		spec.Volumes = append(spec.Volumes, secretVolume(volumeGit, source.SecretRef.Name))
		clone.VolumeMounts = append(clone.VolumeMounts, corev1.VolumeMount{Name: volumeGit, MountPath: gitFolder, ReadOnly: true})
	}
	target := "--target=" + targetOf(source)
	deliverArgs := []string{
		"dbt-deliver", "--manifest=" + manifestFile, "--url=" + r.URL + engine.DbtDeliveryPath(sync.Namespace, sync.Name), "--credentials-dir=" + deliveryFolder,
	}
	spec.InitContainers = []corev1.Container{
		clone,
		r.dbt(phaseDeps, "dbt", "deps", target),
		r.dbt(phaseCompile, "dbt", "parse", "--no-partial-parse", target),
	}
	if typesFromCatalog(sync) {
		catalog := r.dbt(phaseCatalog, "dbt", "docs", "generate", "--no-compile", target)
		env, from := engine.DataSourceVariables(d, dbt.SecretPrefix)
		catalog.Env, catalog.EnvFrom = append(catalog.Env, env...), from
		spec.InitContainers = append(spec.InitContainers, catalog)
		deliverArgs = append(deliverArgs, "--catalog="+catalogFile)
	}
	if source.Selector != "" {
		spec.InitContainers = append(spec.InitContainers, r.dbt(phaseSelect, "sh", "-c", selectScript, "dbt-ls",
			target, "--resource-type=model", "--output=json", "--output-keys=unique_id", "--select", engine.Literal(source.Selector)))
		deliverArgs = append(deliverArgs, "--selected="+selectedFile)
	}
	deliver := r.quoin(phaseDeliver, deliverArgs)
	deliver.VolumeMounts[0].ReadOnly = true
	deliver.VolumeMounts = append(deliver.VolumeMounts, corev1.VolumeMount{Name: volumeDelivery, MountPath: deliveryFolder, ReadOnly: true})
	spec.Containers = []corev1.Container{deliver}
	return spec
}

// cloneArgs returns the arguments of quoin dbt-clone.
func (r *syncs) cloneArgs(sync *v1alpha1.DbtSync, d *v1alpha1.Deployment) []string {
	source := sync.Spec.Source.Git
	args := []string{"dbt-clone", "--url=" + source.URL, "--target=" + projectFolder}
	for _, flag := range []struct{ name, value string }{
		{"ref", source.Ref}, {"path", source.Path}, {"schema", source.Schema},
	} {
		if flag.value != "" {
			args = append(args, "--"+flag.name+"="+flag.value)
		}
	}
	if source.Schema != "" {
		args = append(args, "--profile-target="+targetOf(source), "--adapter="+dbt.AdapterOf(engine.LiteralVariable(d, engine.VariableType)),
			"--database="+cmp.Or(source.Database, engine.LiteralVariable(d, engine.VariableDatabase)))
		if typesFromCatalog(sync) {
			args = append(args, "--connects")
		}
	}
	if source.SecretRef != nil {
		args = append(args, "--credentials-dir="+gitFolder)
	}
	if r.AllowInsecureGit {
		args = append(args, "--allow-insecure-git")
	}
	for i := range args {
		args[i] = engine.Literal(args[i])
	}
	return args
}

// typesFromCatalog reports whether dbt reads the types of columns from the data source.
func typesFromCatalog(sync *v1alpha1.DbtSync) bool {
	return sync.Spec.Options != nil && ptr.Deref(sync.Spec.Options.TypesFromCatalog, false)
}

// targetOf returns the target of the profile.
func targetOf(source *v1alpha1.DbtGitSource) string { return cmp.Or(source.Target, "dev") }

// quoin returns a container with a command of Quoin.
func (r *syncs) quoin(name string, args []string) corev1.Container {
	c := container(name, r.QuoinImage, "50m", "64Mi", "512Mi")
	c.Args = args
	return c
}

// dbt returns a container with a command of dbt. The end of its output is the text of a failure.
func (r *syncs) dbt(name string, command ...string) corev1.Container {
	c := container(name, r.DbtImage, "250m", "256Mi", "1Gi")
	c.Command, c.WorkingDir = command, projectFolder
	c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	for _, v := range [][2]string{
		{"HOME", "/tmp"}, {"DBT_PROFILES_DIR", projectFolder}, {"DBT_PROJECT_DIR", projectFolder}, {"DBT_TARGET_PATH", targetFolder},
		{"DBT_LOG_PATH", path.Join("/tmp", "logs")}, {"DBT_SEND_ANONYMOUS_USAGE_STATS", "false"}, {"DBT_USE_COLORS", "false"},
		{"DBT_VERSION_CHECK", "false"}, {"PYTHONDONTWRITEBYTECODE", "1"},
	} {
		c.Env = append(c.Env, corev1.EnvVar{Name: v[0], Value: v[1]})
	}
	return c
}

// container returns a container. There is no CPU limit, as for all pods of Quoin.
func container(name, image, cpu, memory, memoryLimit string) corev1.Container {
	return corev1.Container{
		Name: name, Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memoryLimit)},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: volumeWorkspace, MountPath: workspace}, {Name: volumeTmp, MountPath: "/tmp"}},
	}
}

func emptyDir(name, limit string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse(limit))}}}
}

// secretVolume returns a volume that is readable only by root and the fsGroup.
func secretVolume(name, secret string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: ptr.To[int32](0o440)}}}
}

// policy returns the NetworkPolicy of the pod of a Job, which denies all connections to it. Those from it
// are not restricted, because repositories and package registries can be anywhere. It exists before the Job, so it belongs to the
// DbtSync, and its name is that of no other one: the policy of one that was deleted may still exist, and is about to be deleted.
func policy(job *batchv1.Job) *networkingv1.NetworkPolicy {
	sync := job.OwnerReferences[0]
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: job.Namespace, Name: fmt.Sprintf("%s-%.8s", job.Name, sync.UID), Labels: job.Labels, OwnerReferences: []metav1.OwnerReference{sync},
		},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{labelInstance: job.Name, labelComponent: component}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		},
	}
}
