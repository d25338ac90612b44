package chart_test

import (
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The content store is on a volume or in PostgreSQL, with matching replicas and strategy.
func TestContentStoreIsOnAVolumeOrInPostgreSQL(t *testing.T) {
	const group = 65532 // of the image's user: TestDockerfileCopiesAllPackages
	frontEnd := func(set string) (*appsv1.Deployment, objects) {
		// Without the gateway, whose certificate authority is mounted too.
		all := render(t, "--set", strings.TrimPrefix(set+",gateway.enabled=false", ",")).of("apiserver")
		return only[appsv1.Deployment](t, all, "Deployment"), all.ofKind("PersistentVolumeClaim")
	}
	for set, claim := range map[string]string{"": "quoin-apiserver", "apiserver.database.sqlite.existingClaim=own": "own"} {
		deployment, claims := frontEnd(set)
		pod := deployment.Spec.Template.Spec
		if *deployment.Spec.Replicas != 1 || deployment.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
			t.Errorf("%q: %d replicas, strategy %q: two pods would open one file", set, *deployment.Spec.Replicas, deployment.Spec.Strategy.Type)
		}
		if len(pod.Volumes) != 1 || pod.Volumes[0].PersistentVolumeClaim == nil || pod.Volumes[0].PersistentVolumeClaim.ClaimName != claim {
			t.Fatalf("%q: volumes %v", set, pod.Volumes)
		}
		mount := pod.Containers[0].VolumeMounts[0]
		// SQLite creates files next to the database, and temporary files in another folder.
		if mount.Name != pod.Volumes[0].Name || mount.ReadOnly || strings.TrimPrefix(variable(pod.Containers[0], "DATABASE_URL"), "sqlite://"+mount.MountPath+"/") != "quoin.db" ||
			variable(pod.Containers[0], "SQLITE_TMPDIR") != mount.MountPath {
			t.Errorf("%q: mount %v, environment %v", set, mount, pod.Containers[0].Env)
		}
		if pod.SecurityContext.FSGroup == nil || *pod.SecurityContext.FSGroup != group {
			t.Errorf("%q: fsGroup %v", set, pod.SecurityContext.FSGroup)
		}
		if created := len(claims) == 1 && claims[0].GetName() == claim && claims[0].GetAnnotations()["helm.sh/resource-policy"] == "keep"; created != (set == "") {
			t.Errorf("%q: claims %v", set, claims)
		}
	}
	_, claims := frontEnd("apiserver.database.sqlite.size=500Mi,apiserver.database.sqlite.storageClass=fast")
	spec := only[corev1.PersistentVolumeClaim](t, claims, "PersistentVolumeClaim").Spec
	if spec.Resources.Requests.Storage().String() != "500Mi" || *spec.StorageClassName != "fast" {
		t.Errorf("size and class: %v", spec)
	}
	for set, secret := range map[string]string{
		"apiserver.replicas=2,apiserver.database.existingSecret.name=db": "db/url", "apiserver.replicas=2,apiserver.database.enabled=false": "",
	} {
		deployment, claims := frontEnd(set)
		pod := deployment.Spec.Template.Spec
		if *deployment.Spec.Replicas != 2 || deployment.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType || len(pod.Volumes)+len(pod.Containers[0].VolumeMounts)+len(claims) > 0 {
			t.Errorf("%q: %v, claims %v", set, deployment.Spec, claims)
		}
		got := ""
		for _, env := range pod.Containers[0].Env {
			if env.Name == "DATABASE_URL" {
				got = env.ValueFrom.SecretKeyRef.Name + "/" + env.ValueFrom.SecretKeyRef.Key
			}
		}
		if got != secret {
			t.Errorf("%q: the URL is in %q, want %q", set, got, secret)
		}
	}
}

// TestDatabaseIsSwitched switches between SQLite and PostgreSQL with Helm and with kustomize. The volume is kept, also when
// the release is uninstalled.
func TestDatabaseIsSwitched(t *testing.T) {
	c := newCluster(t)
	c.namespaces(t, releaseNamespace)
	want := func(replicas int32, strategy appsv1.DeploymentStrategyType) {
		t.Helper()
		deployment := &appsv1.Deployment{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: releaseNamespace, Name: "quoin-apiserver"}, deployment); err != nil {
			t.Fatal(err)
		}
		if *deployment.Spec.Replicas != replicas || deployment.Spec.Strategy.Type != strategy {
			t.Errorf("%d replicas, strategy %v; want %d, %s", *deployment.Spec.Replicas, deployment.Spec.Strategy, replicas, strategy)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(deployment), &corev1.PersistentVolumeClaim{}); err != nil {
			t.Errorf("the volume: %v", err)
		}
	}
	c.helm(t, "install", releaseName, chartFolder)
	want(1, appsv1.RecreateDeploymentStrategyType)
	c.helm(t, "upgrade", releaseName, chartFolder, "--set", "apiserver.replicas=2,apiserver.database.existingSecret.name=quoin-database")
	want(2, appsv1.RollingUpdateDeploymentStrategyType)
	c.helm(t, "upgrade", releaseName, chartFolder, "--reset-values")
	want(1, appsv1.RecreateDeploymentStrategyType)
	c.helm(t, "uninstall", releaseName)
	c.helm(t, "install", releaseName, chartFolder)
	want(1, appsv1.RecreateDeploymentStrategyType)
	c.helm(t, "uninstall", releaseName)

	apply := func(folder string) { c.kubectl(t, "apply", "--server-side", "--force-conflicts", "-k", folder) }
	apply(filepath.Join(root, "config", "default"))
	want(1, appsv1.RecreateDeploymentStrategyType)
	apply("testdata/kustomize")
	want(2, appsv1.RollingUpdateDeploymentStrategyType)
	apply(filepath.Join(root, "config", "default"))
	want(1, appsv1.RecreateDeploymentStrategyType)
}
