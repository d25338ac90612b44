// Package contentcode_test tests Workbook and Folder objects: quoin apiserver runs in the test process with the permissions of its
// role, with a real kube-apiserver and a database in SQLite, and the content is read over REST.
package contentcode_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/clustertest"
	"github.com/quoin-dev/quoin/test/internal/inprocess"
)

const (
	namespace     = "acme"
	deployment    = "/api/v1/deployments/1"
	workbooksPath = deployment + "/workbooks"
	reportsPath   = deployment + "/reports"
	foldersPath   = deployment + "/folders"
)

var (
	// anyone is an HTTP client that trusts the server, admin the token of an administrator.
	anyone *http.Client
	admin  string
	k8s    client.Client
	// cluster is that of the tests, and apiURL the address of the account.
	cluster *clustertest.Cluster
	apiURL  string
)

func TestMain(m *testing.M) { clustertest.Main(m, run) }

func run(ctx context.Context, c *clustertest.Cluster, m *testing.M) (int, error) {
	server, err := inprocess.Serve(ctx, c, apiserver.Config{})
	if err != nil {
		return 0, err
	}
	keys, tokens, err := clustertest.Keys(namespace, map[string]v1alpha1.ApiKeySpec{"admin": {}})
	if err != nil {
		return 0, err
	}
	_, port, err := net.SplitHostPort(server.Address.String())
	if err != nil {
		return 0, err
	}
	cluster, k8s, admin, apiURL = c, c.Client, tokens["admin"], "https://localhost:"+port
	spec := v1alpha1.AccountSpec{Host: v1alpha1.Host("localhost:" + port), Plan: v1alpha1.PlanEnterprise, AuditLog: &v1alpha1.AuditLog{Enabled: ptr.To(true)}}
	if err := c.Account(ctx, namespace, spec, append(keys, newDeployment("analytics", 1))...); err != nil {
		return 0, err
	}
	roots, err := c.Roots(ctx)
	if err != nil {
		return 0, err
	}
	anyone = &http.Client{Transport: apiclient.Transport(roots, server.Address.String), Timeout: apiclient.Timeout}
	return server.Run(m)
}

func newDeployment(name string, number int) *v1alpha1.Deployment {
	return &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{v1alpha1.LabelID: fmt.Sprint(number)}},
		Spec:       v1alpha1.DeploymentSpec{ReleaseChannel: "latest", Model: v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}}},
	}
}

// call sends a request of an administrator.
func call(t *testing.T, method, path string, body any) *apiclient.Answer {
	t.Helper()
	return apiclient.Call(t, anyone, admin, method, apiURL+path, body)
}

// workbook creates a Workbook with a spec in YAML, for the deployment analytics. It is deleted after the test.
func workbook(t *testing.T, name, spec string) *v1alpha1.Workbook {
	t.Helper()
	w := &v1alpha1.Workbook{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	w.Spec.DeploymentRef.Name = "analytics"
	return create(t, w, &w.Spec, spec)
}

// folder creates a Folder.
func folder(t *testing.T, name, spec string) *v1alpha1.Folder {
	t.Helper()
	f := &v1alpha1.Folder{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	f.Spec.DeploymentRef.Name = "analytics"
	return create(t, f, &f.Spec, spec)
}

func create[T v1alpha1.Object](t *testing.T, obj T, spec any, text string) T {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), spec); err != nil {
		t.Fatal(err)
	}
	if err := k8s.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { remove(t, obj) })
	return obj
}

// remove deletes an object and waits until it is gone.
func remove(t *testing.T, obj client.Object) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	if err := client.IgnoreNotFound(k8s.Delete(ctx, obj)); err != nil {
		t.Error(err)
	}
	gone(t, obj)
}

func gone(t *testing.T, obj client.Object) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	apiclient.Soon(t, func() error {
		copied, _ := obj.DeepCopyObject().(client.Object)
		if err := k8s.Get(ctx, client.ObjectKeyFromObject(obj), copied); err == nil {
			return fmt.Errorf("%s exists, with the finalizers %q", obj.GetName(), copied.GetFinalizers())
		}
		return nil
	})
}

// change changes an object.
func change[T client.Object](t *testing.T, obj T, edit func()) {
	t.Helper()
	apiclient.Soon(t, func() error {
		if err := k8s.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		edit()
		return k8s.Update(t.Context(), obj)
	})
}

// ready waits until an object is Ready for its current generation.
func ready[T v1alpha1.Object](t *testing.T, obj T) T {
	t.Helper()
	return awaitReason(t, obj, v1alpha1.ReasonSucceeded)
}

// awaitReason waits until Ready has a reason for the current generation.
func awaitReason[T v1alpha1.Object](t *testing.T, obj T, reason string) T {
	t.Helper()
	apiclient.Soon(t, func() error {
		if err := k8s.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		c := meta.FindStatusCondition(obj.Common().Conditions, v1alpha1.ConditionReady)
		if c == nil || c.Reason != reason || c.ObservedGeneration != obj.GetGeneration() {
			return fmt.Errorf("%s: Ready is %+v, want the reason %s", obj.GetName(), c, reason)
		}
		return nil
	})
	return obj
}

// message returns the message of Ready.
func message(obj v1alpha1.Object) string {
	return meta.FindStatusCondition(obj.Common().Conditions, v1alpha1.ConditionReady).Message
}

// awaitCommit waits until a Workbook is what a commit defines.
func awaitCommit(t *testing.T, w *v1alpha1.Workbook, commit string) {
	t.Helper()
	apiclient.Soon(t, func() error {
		if ready(t, w); w.Status.Commit != commit {
			return fmt.Errorf("the commit is %q, want %q", w.Status.Commit, commit)
		}
		return nil
	})
}

// awaitMessage waits until Ready has a text in its message.
func awaitMessage(t *testing.T, w *v1alpha1.Workbook, part string) {
	t.Helper()
	apiclient.Soon(t, func() error {
		if err := k8s.Get(t.Context(), client.ObjectKeyFromObject(w), w); err != nil {
			return err
		}
		if !strings.Contains(message(w), part) {
			return fmt.Errorf("the message is %q, want %q in it", message(w), part)
		}
		return nil
	})
}
