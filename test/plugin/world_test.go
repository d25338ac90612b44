// Package plugin_test runs `kubectl quoin` as a program against a real kube-apiserver, with real
// controllers and a real `quoin apiserver`, and compares what it prints with golden files. There is no
// kubelet: the workloads of healthy deployments become ready at once, and the pods of others are
// created by the test.
package plugin_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/serving/certificates"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
	"github.com/quoin-dev/quoin/test/internal/freeport"
)

const (
	namespace = "demo"
	// planted is a secret that no output may contain.
	planted = "Pl4nted-s3cret-0815"
)

// The world of the tests.
var (
	cluster *clustertest.Cluster
	k8s     client.Client
	// program is the plugin; apiURL, apiKey and caFile the REST API of the account.
	program, apiURL, apiKey, caFile string
)

func TestMain(m *testing.M) {
	clustertest.Main(m, func(ctx context.Context, c *clustertest.Cluster, m *testing.M) (int, error) {
		cluster, k8s = c, c.Client
		if err := start(ctx); err != nil {
			return 0, err
		}
		return m.Run(), nil
	})
}

// start starts the processes and creates the objects.
func start(ctx context.Context) error {
	if err := cluster.Build(); err != nil {
		return err
	}
	program = filepath.Join(cluster.Folder, "kubectl-quoin")
	if err := os.Symlink(cluster.Binary(), program); err != nil {
		return err
	}
	address, err := freeport.Address()
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	host := "localhost:" + port
	apiURL = "https://" + host
	controller := cluster.Quoin(filepath.Join(cluster.Folder, "controller.log"), "controller", "--leader-elect=false", "--quoin-image=quoin:test")
	server := cluster.APIServer(filepath.Join(cluster.Folder, "apiserver.log"), address)
	server.Args = append(server.Args, "--database-url=sqlite://"+filepath.Join(cluster.Folder, "audit.db"))
	for _, p := range []*clustertest.Process{controller, server} {
		if err := p.Start(); err != nil {
			return err
		}
		context.AfterFunc(ctx, p.Kill)
	}
	go clustertest.KeepWorkloadsReady(ctx, k8s, crash)
	if err := createObjects(ctx, host); err != nil {
		return err
	}
	return apiclient.Eventually(func() error { return writeCA(ctx) })
}

// writeCA writes the certificate authority of `quoin apiserver` to a file.
func writeCA(ctx context.Context) error {
	secret := &corev1.Secret{}
	if err := k8s.Get(ctx, client.ObjectKey{Namespace: clustertest.Namespace, Name: certificates.SecretName}, secret); err != nil {
		return err
	}
	if len(secret.Data["ca.crt"]) == 0 {
		return fmt.Errorf("%s has no ca.crt", secret.Name)
	}
	caFile = filepath.Join(cluster.Folder, "ca.crt")
	return os.WriteFile(caFile, secret.Data["ca.crt"], 0o600)
}

// crash reports the pods of the deployment crashing as not ready.
func crash(_ context.Context, d *appsv1.Deployment) error {
	if d.Labels[v1alpha1.LabelDeployment] == "crashing" {
		d.Status.ReadyReplicas, d.Status.AvailableReplicas, d.Status.UnavailableReplicas = 0, 0, d.Status.Replicas
	}
	return nil
}

func createObjects(ctx context.Context, host string) error {
	key, token, err := clustertest.Key(namespace, "admin", v1alpha1.ApiKeySpec{})
	if err != nil {
		return err
	}
	apiKey = token
	channel := &v1alpha1.ReleaseChannel{ObjectMeta: metav1.ObjectMeta{Name: "stable"}}
	registry, err := clustertest.StartRegistry(ctx)
	if err != nil {
		return err
	}
	channel.Spec.ImageRepository = registry + "/cube"
	if err := clustertest.PushImages(ctx, channel.Spec.ImageRepository, "1.2.3", "1.2.4", "1.2.5"); err != nil {
		return err
	}
	channel.Spec.Versions = []v1alpha1.ListedVersion{{Version: "1.2.3"}, {Version: "1.2.4"}}
	if err := k8s.Create(ctx, channel, client.FieldOwner("kubectl-create")); err != nil {
		return err
	}
	user := &v1alpha1.ScimUser{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ada"}, Spec: v1alpha1.ScimUserSpec{UserName: "ada@example.com", DisplayName: "Ada"}}
	if err := cluster.Account(ctx, namespace, v1alpha1.AccountSpec{
		Host: v1alpha1.Host(host), Plan: "Enterprise", AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)},
	}, key, user,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "model"}, Data: map[string]string{"orders.yml": "cubes: []"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "warehouse"}, StringData: map[string]string{"password": planted}},
		deployment("sales", nil),
		deployment("homeless", func(d *v1alpha1.Deployment) { d.Spec.Model.ConfigMapRef.Name = "missing" }),
		deployment("crashing", func(d *v1alpha1.Deployment) {
			d.Spec.Rollout = &v1alpha1.RolloutPolicy{ProgressDeadlineSeconds: ptr.To(int32(5))}
			d.Spec.Env = []v1alpha1.EnvVar{{Name: "CUBEJS_DB_HOST", Value: ptr.To(planted)}}
		}),
	); err != nil {
		return err
	}
	if err := createCrash(ctx); err != nil {
		return err
	}
	if err := grantViewer(ctx); err != nil {
		return err
	}
	return waitFor(ctx, map[string]string{"sales": v1alpha1.ReasonSucceeded, "homeless": v1alpha1.ReasonModelNotFound, "crashing": v1alpha1.ReasonDeadlineExceeded})
}

func deployment(name string, change func(*v1alpha1.Deployment)) *v1alpha1.Deployment {
	d := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	d.Spec.ReleaseChannel = "stable"
	d.Spec.Model.ConfigMapRef = &v1alpha1.LocalReference{Name: "model"}
	if change != nil {
		change(d)
	}
	return d
}

// createCrash creates the pod of the deployment crashing, whose image cannot be pulled, and the event
// of the kubelet.
func createCrash(ctx context.Context) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "crashing-production-api-1", Labels: map[string]string{
		v1alpha1.LabelDeployment: "crashing", v1alpha1.LabelEnvironment: "crashing-production",
		"app.kubernetes.io/instance": "crashing-production", "app.kubernetes.io/component": "api", "app.kubernetes.io/managed-by": "quoin",
	}}}
	pod.Spec.Containers = []corev1.Container{{Name: "cube", Image: "registry.example.com/cube:v1.2.4"}}
	if err := k8s.Create(ctx, pod); err != nil {
		return err
	}
	before := pod.DeepCopy()
	pod.Status.Phase = corev1.PodPending
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "cube", Image: pod.Spec.Containers[0].Image, State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: `Back-off pulling image "registry.example.com/cube:v1.2.4"`},
	}}}
	if err := k8s.Status().Patch(ctx, pod, client.MergeFrom(before)); err != nil {
		return err
	}
	return k8s.Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: "crash"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: namespace, Name: pod.Name},
		Type:           corev1.EventTypeWarning, Reason: "Failed", LastTimestamp: metav1.Now(),
		Message: "Failed to pull image: unauthorized, password=" + planted,
	})
}

// grantViewer binds a ClusterRole with the rules of quoin-viewer to the user jane, in the namespace of the account.
func grantViewer(ctx context.Context) error {
	data, err := os.ReadFile("../../config/rbac/viewer_role.yaml")
	if err != nil {
		return err
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.Unmarshal(data, role); err != nil {
		return err
	}
	role.Name = "jane"
	role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods", "events"}, Verbs: []string{"get", "list", "watch"}}) // as Kubernetes' view
	c, err := client.New(cluster.Config, client.Options{})
	if err != nil {
		return err
	}
	if err := c.Create(ctx, role); err != nil {
		return err
	}
	return c.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "jane"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "jane"}},
	})
}

// waitFor waits until deployments have a reason of Ready, and their environments have reported a state.
func waitFor(ctx context.Context, reasons map[string]string) error {
	for name, reason := range reasons {
		err := apiclient.Eventually(func() error {
			d := &v1alpha1.Deployment{}
			if err := k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, d); err != nil {
				return err
			}
			if c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionReady); c == nil || c.Reason != reason || c.ObservedGeneration != d.Generation {
				return fmt.Errorf("%s: %+v, want %s", name, c, reason)
			} else if strings.Contains(c.Message, "has not reported") {
				return fmt.Errorf("%s: %s", name, c.Message)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
