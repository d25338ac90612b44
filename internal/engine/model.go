package engine

import (
	"errors"
	"fmt"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	agents "github.com/quoin-dev/quoin/internal/agent/project"
)

// Location of the data model. Source: CUBEJS_SCHEMA_PATH, relative to the working directory, which has
// the server's configuration file.
const (
	schemaPath = "model"
	// imageFolder is the working directory of the image.
	imageFolder = "/cube/conf"
	// projectFolder is the working directory with a project from Git. It is below /cube, where the server's
	// packages are.
	projectFolder = "/cube/project"
)

// configurations are the keys of a ConfigMap that are the server's configuration file, not part of the
// model.
var configurations = []string{"cube.js", "cube.py"}

// maxModelFiles is the maximum number of files of a model in a ConfigMap: each of them is a
// separate mount.
const maxModelFiles = 200

// modelExtensions are the extensions of the files that the server reads; it ignores others.
// Source: packages/cubejs-backend-shared/src/FileRepository.ts.
var modelExtensions = []string{".js", ".yml", ".yaml", ".jinja", ".py"}

// ModelFiles are the files of a data model in a ConfigMap.
type ModelFiles struct {
	// ConfigMap is its name.
	ConfigMap string
	// Keys are the names of the files.
	Keys []string
	// ContentHash is a hash of all files: a change restarts the pods.
	ContentHash string
}

// model is the source of the data model; one of its fields is set.
type model struct {
	ConfigMap *configMapModel `json:"configMap,omitempty"`
	Git       *gitModel       `json:"git,omitempty"`
}

type configMapModel struct {
	Name        string   `json:"name"`
	Keys        []string `json:"keys"`
	ContentHash string   `json:"contentHash"`
}

type gitModel struct {
	URL    string `json:"url"`
	Commit string `json:"commit"`
	Ref    string `json:"ref,omitempty"`
	Path   string `json:"path,omitempty"`
	Secret string `json:"secret,omitempty"`
	// Agents is the folder of the files of agents, unless it is the default one.
	Agents string `json:"agents,omitempty"`
}

func modelOf(d *v1alpha1.Deployment, e *v1alpha1.Environment, files *ModelFiles, opts Options) (model, error) {
	if ref := d.Spec.Model.ConfigMapRef; ref != nil {
		m, err := configMapOf(ref.Name, files)
		return model{ConfigMap: m}, err
	}
	if remote := RemoteOf(d, opts.RepositoryURL); remote != nil {
		m, err := gitOf(remote, e)
		if err != nil {
			return model{}, err
		}
		// Files in a folder that the variable cannot set are not read.
		if folder, err := AgentsFolder(d); err == nil && folder != agents.DefaultFolder {
			m.Agents = folder
		}
		return model{Git: m}, nil
	}
	return model{}, &FieldError{Field: "spec.model", Message: "names no source; set git, repository or configMapRef"}
}

func configMapOf(name string, files *ModelFiles) (*configMapModel, error) {
	invalid := func(format string, args ...any) (*configMapModel, error) {
		return nil, &FieldError{
			Field:   "spec.model.configMapRef",
			Message: fmt.Sprintf("config map %q ", name) + fmt.Sprintf(format, args...),
		}
	}
	if files == nil || files.ConfigMap != name {
		return nil, fmt.Errorf("the files of config map %q are not known", name)
	}
	keys := slices.Sorted(slices.Values(files.Keys))
	switch {
	case len(keys) == 0:
		return invalid("has no files under data; add at least one")
	case len(keys) > maxModelFiles:
		return invalid("has %d files, more than %d; keep the model in Git", len(keys), maxModelFiles)
	}
	for _, key := range keys {
		if !slices.Contains(modelExtensions, path.Ext(key)) {
			return invalid("has the file %q; names must end in .js, .yml, .yaml, .jinja or .py", key)
		}
	}
	return &configMapModel{Name: name, Keys: keys, ContentHash: files.ContentHash}, nil
}

// ErrNoCommit is returned for an environment whose model is in Git and that has no commit yet.
var ErrNoCommit = errors.New("no commit of the data model is known yet")

func gitOf(remote *Remote, e *v1alpha1.Environment) (*gitModel, error) {
	if !remote.Readable() {
		return nil, &FieldError{Field: remote.Field, Message: "cannot be read: quoin controller has no --repository-url"}
	}
	if e.Spec.ModelCommit == "" {
		return nil, fmt.Errorf("environment %q: %w", e.Name, ErrNoCommit)
	}
	m := &gitModel{URL: remote.URL, Commit: e.Spec.ModelCommit, Path: remote.Path, Secret: remote.Secret}
	if e.Spec.Type == v1alpha1.EnvironmentProduction {
		m.Ref = remote.Branch
	}
	return m, nil
}

// AgentsFolder returns the folder of the files of agents in the data model of a deployment.
func AgentsFolder(d *v1alpha1.Deployment) (string, error) {
	for _, v := range d.Spec.Env {
		if v.Name == agents.FolderVariable {
			return agents.Folder(ptr.Deref(v.Value, ""))
		}
	}
	return agents.DefaultFolder, nil
}

// addModel mounts the data model in the pod's first container.
func (in Inputs) addModel(pod *corev1.PodTemplateSpec) {
	if m := in.server.Model.ConfigMap; m != nil {
		m.addTo(pod)
	}
	if m := in.server.Model.Git; m != nil {
		m.addTo(pod, in.Options)
	}
}

// annotationModel is the annotation of pods with the hash of the model in a ConfigMap. It changes
// the pod template when the ConfigMap changes.
const annotationModel = v1alpha1.Group + "/model-hash"

// addTo mounts every file of the ConfigMap separately. Mounted as a directory, it would contain each
// file twice: the server follows symbolic links and would also read the files below ..data.
func (m *configMapModel) addTo(pod *corev1.PodTemplateSpec) {
	source := &corev1.ConfigMapVolumeSource{}
	source.Name = m.Name
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
		Name:         volumeModel,
		VolumeSource: corev1.VolumeSource{ConfigMap: source},
	})
	container := &pod.Spec.Containers[0]
	for _, key := range m.Keys {
		folder := path.Join(imageFolder, schemaPath)
		if slices.Contains(configurations, key) {
			folder = imageFolder
		}
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{
			Name: volumeModel, MountPath: path.Join(folder, key), SubPath: key, ReadOnly: true,
		})
	}
	pod.Annotations = map[string]string{annotationModel: m.ContentHash}
}

const (
	volumeModel = "model"
	volumeGit   = "git-credentials"
	// workspace is the mount path of the volume in the init container. The project is a directory in
	// it, because model-fetch renames it into place, which is not possible for a mount point.
	workspace = "/workspace"
	// project is that directory.
	project = "project"
	// gitFolder is the mount path of the Git credentials in the init container.
	gitFolder = "/etc/quoin/git"
)

// Limits of a fetch. The volume holds the files and the download of at most 4 times modelBytes plus
// 64 MiB.
const (
	modelBytes      = 256 << 20
	modelFiles      = 10000
	modelTimeout    = "5m"
	modelVolumeSize = "1536Mi"
)

// addTo adds the init container that fetches the commit into an empty volume.
func (m *gitModel) addTo(pod *corev1.PodTemplateSpec, o Options) {
	pod.Spec.Volumes = append(pod.Spec.Volumes, emptyDir(volumeModel, modelVolumeSize))
	fetch := corev1.Container{
		Name:            ContainerModelFetch,
		Image:           o.QuoinImage,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Args:            m.args(o.AllowInsecureGit),
		SecurityContext: restrictedContainer(),

		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse("50m"),
				corev1.ResourceMemory: resource.MustParse("64Mi"),
			},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: volumeModel, MountPath: workspace}},
	}
	if m.Secret != "" {
		// 0440: readable only by root and the fsGroup.
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name: volumeGit,
			VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
				SecretName: m.Secret, DefaultMode: ptr.To[int32](0o440),
			}},
		})
		fetch.VolumeMounts = append(fetch.VolumeMounts, corev1.VolumeMount{
			Name: volumeGit, MountPath: gitFolder, ReadOnly: true,
		})
	}
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, fetch)
	container := &pod.Spec.Containers[0]
	container.WorkingDir = projectFolder
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{
		Name: volumeModel, MountPath: projectFolder, SubPath: project, ReadOnly: true,
	})
}

// commitFlag is the argument of quoin model-fetch with the commit.
const commitFlag = "--commit="

// args returns the arguments of quoin model-fetch.
func (m *gitModel) args(allowInsecure bool) []string {
	args := []string{"model-fetch", "--url=" + m.URL, commitFlag + m.Commit}
	if m.Ref != "" {
		args = append(args, "--ref="+m.Ref)
	}
	if m.Path != "" {
		args = append(args, "--path="+m.Path)
	}
	if m.Agents != "" {
		args = append(args, "--agents="+m.Agents)
	}
	args = append(args,
		"--target="+path.Join(workspace, project),
		"--timeout="+modelTimeout,
		fmt.Sprintf("--max-bytes=%d", modelBytes),
		fmt.Sprintf("--max-files=%d", modelFiles),
	)
	if m.Secret != "" {
		args = append(args, "--credentials-dir="+gitFolder)
	}
	if allowInsecure {
		args = append(args, "--allow-insecure-git")
	}
	for i := range args {
		args[i] = Literal(args[i])
	}
	return args
}
