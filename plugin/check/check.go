// Package check judges an installation: pure functions over the objects of the cluster.
package check

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/plugin/view"
)

// Status is the outcome of a check.
type Status string

// The outcomes.
const (
	OK Status = "OK"
	// Warning: it works, with a limit.
	Warning Status = "Warning"
	Failed  Status = "Failed"
	// Unknown: the caller may not read what is checked.
	Unknown Status = "Unknown"
)

// Result is a check and its outcome.
type Result struct {
	Check   string `json:"check"`
	Status  Status `json:"status"`
	Message string `json:"message"`
	// Next is what to do.
	Next string `json:"next,omitempty"`
}

// minKubernetes is the oldest version of Kubernetes that Quoin runs on.
const minKubernetes = "1.31.0"

// Kubernetes judges the version of the API server.
func Kubernetes(gitVersion string) Result {
	r := Result{Check: "Kubernetes", Status: OK, Message: gitVersion}
	v, err := utilversion.ParseGeneric(gitVersion)
	if err != nil {
		r.Status, r.Message = Unknown, fmt.Sprintf("the API server reports the version %q", gitVersion)
	} else if v.LessThan(utilversion.MustParseGeneric(minKubernetes)) {
		r.Status, r.Next = Failed, "upgrade to Kubernetes 1.31 or newer"
	}
	return r
}

// Unreadable returns the result of a check whose objects the caller may not read.
func Unreadable(name, resource string) Result {
	return Result{Check: name, Status: Unknown, Message: "you may not read " + resource}
}

// Processes judges the Deployments of Quoin, whose images have the version of the plugin if all is
// upgraded together.
func Processes(deployments []appsv1.Deployment, namespace, pluginVersion string) []Result {
	if len(deployments) == 0 {
		return []Result{{Check: "Processes", Status: Warning, Message: "no Deployment of Quoin in the namespace " + namespace,
			Next: "set --system-namespace, unless the processes run outside of the cluster"}}
	}
	var results []Result
	for i := range deployments {
		d := &deployments[i]
		r := Result{Check: "Process " + d.Name, Status: OK}
		wanted := int32(1)
		if d.Spec.Replicas != nil {
			wanted = *d.Spec.Replicas
		}
		version := ImageVersion(d)
		r.Message = fmt.Sprintf("%d of %d pods ready, version %s", d.Status.ReadyReplicas, wanted, version)
		switch {
		case d.Status.ReadyReplicas < wanted:
			r.Status, r.Next = Failed, fmt.Sprintf("kubectl describe pods -n %s -l %s=%s", namespace, LabelComponent, d.Labels[LabelComponent])
		case !strings.HasPrefix(pluginVersion, "dev") && strings.TrimPrefix(version, "v") != strings.TrimPrefix(pluginVersion, "v"):
			r.Status, r.Message = Warning, r.Message+", and this plugin is "+pluginVersion
		}
		results = append(results, r)
	}
	return results
}

// ImageVersion returns the tag of the image of a workload.
func ImageVersion(d *appsv1.Deployment) string {
	for _, c := range d.Spec.Template.Spec.Containers {
		image, _, _ := strings.Cut(c.Image, "@")
		if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
			return image[i+1:]
		}
	}
	return "unknown"
}

// StorageClass judges whether volumes can be created without naming a class.
func StorageClass(classes []storagev1.StorageClass) Result {
	const annotation = "storageclass.kubernetes.io/is-default-class"
	for i := range classes {
		if classes[i].Annotations[annotation] == "true" {
			return Result{Check: "Storage class", Status: OK, Message: "the default is " + classes[i].Name}
		}
	}
	return Result{Check: "Storage class", Status: Warning, Message: "the cluster has no default storage class",
		Next: "Dedicated deployments and the SQLite database need one: set apiserver.database.sqlite.storageClass of the chart, or mark a class as default"}
}

// APIService judges the registration of the aggregated API; nil if there is none.
func APIService(service *unstructured.Unstructured) Result {
	r := Result{Check: "Aggregated API", Status: Warning, Message: "not enabled", Next: "token, curl and audit need it, or --url: set apiserver.aggregation.enabled of the chart"}
	if service == nil {
		return r
	}
	r.Status, r.Message, r.Next = Failed, "no condition Available", "kubectl -n quoin-system logs deployment/quoin-apiserver"
	conditions, _, _ := unstructured.NestedSlice(service.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		if condition["type"] != "Available" {
			continue
		}
		r.Message, _ = condition["message"].(string)
		if condition["status"] == "True" {
			r.Status, r.Next = OK, ""
		}
	}
	return r
}

// RoleBindings judges whether Quoin's processes may use the Secrets in the namespace of an account.
func RoleBindings(account *v1alpha1.Account, bindings []rbacv1.RoleBinding, system string) Result {
	namespace := account.Spec.Namespace
	r := Result{Check: "Role bindings of " + account.Name, Status: OK, Message: "gateway, API server and controller may use the Secrets in " + namespace}
	var missing []string
	for _, wanted := range []struct{ component, role string }{
		{"gateway", "-account"}, {"apiserver", "-account-apiserver"}, {"controller", "-account"},
	} {
		if !isBound(bindings, wanted.component, wanted.role, system) {
			missing = append(missing, wanted.component)
		}
	}
	if len(missing) == 0 {
		return r
	}
	r.Status, r.Message = Failed, fmt.Sprintf("%s may not use the Secrets in %s", strings.Join(missing, ", "), namespace)
	r.Next = "add the namespace to accountNamespaces of the chart, or create the RoleBindings quoin-account and quoin-account-apiserver"
	if slices.Equal(missing, []string{"controller"}) {
		r.Status, r.Message = Warning, r.Message+": it needs this for private Git repositories and --warm-up"
	}
	return r
}

func isBound(bindings []rbacv1.RoleBinding, component, role, system string) bool {
	for i := range bindings {
		if b := &bindings[i]; strings.HasSuffix(b.RoleRef.Name, role) {
			for _, subject := range b.Subjects {
				if subject.Kind == rbacv1.ServiceAccountKind && subject.Namespace == system && strings.HasSuffix(subject.Name, "-"+component) {
					return true
				}
			}
		}
	}
	return false
}

// Objects judges the condition Ready of accounts and channels.
func Objects(kind string, objects []v1alpha1.Object) Result {
	r := Result{Check: kind, Status: OK, Message: fmt.Sprintf("%d ready", len(objects))}
	var problems []string
	for _, o := range objects {
		if ready := view.Ready(o); ready.Status != "True" {
			problems = append(problems, fmt.Sprintf("%s: %s: %s", o.GetName(), ready.Reason, ready.Message))
		}
	}
	if n := len(problems); n > maxNamed {
		problems = append(problems[:maxNamed], fmt.Sprintf("and %d more", n-maxNamed))
	}
	if len(problems) > 0 {
		r.Status, r.Message = Failed, strings.Join(problems, "; ")
	}
	if len(objects) == 0 {
		r.Status, r.Message, r.Next = Warning, "there is none", "create one: docs/operations/install.md"
	}
	return r
}

// expirySoon is the time before the end of a certificate at which it is reported. Generated ones are
// renewed earlier.
const expirySoon = 14 * 24 * time.Hour

// LabelComponent is the label of Quoin's Deployments and pods with their component.
const LabelComponent = "app.kubernetes.io/component"

// certificateFlag is the argument of a process with the file of its certificate.
const certificateFlag = "--tls-cert-file="

// CertificateSecret returns the name of the Secret with the serving certificate of a process: the one that is mounted for
// --tls-cert-file, otherwise generated. It is empty if the process is not among the Deployments of Quoin, or its file is of
// no Secret. Without any Deployments, the processes run elsewhere, and it is generated.
func CertificateSecret(deployments []appsv1.Deployment, component, generated string) string {
	if len(deployments) == 0 {
		return generated
	}
	i := slices.IndexFunc(deployments, func(d appsv1.Deployment) bool { return d.Labels[LabelComponent] == component })
	if i < 0 {
		return ""
	}
	pod := &deployments[i].Spec.Template.Spec
	for _, container := range pod.Containers {
		for _, argument := range slices.Concat(container.Command, container.Args) {
			if file, isFlag := strings.CutPrefix(argument, certificateFlag); isFlag {
				return secretOf(pod, container.VolumeMounts, file)
			}
		}
	}
	return generated
}

// secretOf returns the name of the Secret that is mounted at the folder of a file, or nothing.
func secretOf(pod *corev1.PodSpec, mounts []corev1.VolumeMount, file string) string {
	for _, mount := range mounts {
		if path.Clean(mount.MountPath) != path.Dir(file) {
			continue
		}
		for _, volume := range pod.Volumes {
			if volume.Name == mount.Name && volume.Secret != nil {
				return volume.Secret.SecretName
			}
		}
	}
	return ""
}

// Certificate judges a serving certificate in PEM.
func Certificate(name string, data []byte, now time.Time) Result {
	r := Result{Check: "Certificate " + name, Status: Failed, Message: "no certificate yet", Next: "check that the process runs, or set the Secret with your own certificate"}
	block, _ := pem.Decode(data)
	if block == nil {
		return r
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		r.Message = "cannot be parsed: " + err.Error()
		return r
	}
	r.Message = "valid until " + certificate.NotAfter.UTC().Format(time.DateOnly)
	switch {
	case now.After(certificate.NotAfter):
		r.Message = "expired on " + certificate.NotAfter.UTC().Format(time.DateOnly)
	case now.Add(expirySoon).After(certificate.NotAfter):
		r.Status = Warning
	default:
		r.Status, r.Next = OK, ""
	}
	return r
}

// Resolver returns the addresses of a host.
type Resolver func(host string) ([]string, error)

// DNS judges whether the hosts of an account resolve where the plugin runs: its own, and one below the
// data domain, which stands for all deployments.
func DNS(account *v1alpha1.Account, resolve Resolver) Result {
	r := Result{Check: "DNS of " + account.Name, Status: OK}
	var found, missing []string
	hosts := slices.Clone(account.Status.Hosts)
	if account.Status.DataDomain != "" {
		hosts = append(hosts, "check."+account.Status.DataDomain, "check.sql."+account.Status.DataDomain)
	}
	for _, host := range hosts {
		host, _, _ = strings.Cut(host, ":")
		if _, err := resolve(host); err != nil {
			missing = append(missing, host)
		} else {
			found = append(found, host)
		}
	}
	r.Message = strings.Join(found, ", ") + " resolve"
	switch {
	case len(hosts) == 0:
		r.Status, r.Message = Unknown, "the account has no hosts yet"
	case len(missing) > 0:
		r.Status, r.Message = Warning, strings.Join(missing, ", ")+" do not resolve on this machine"
		r.Next = "create the DNS records: docs/operations/install.md"
	}
	return r
}

// Failures reports whether a check failed.
func Failures(results []Result) bool {
	return slices.ContainsFunc(results, func(r Result) bool { return r.Status == Failed })
}
