package deployment

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// attempted returns the observation of a deployment with a model in a ConfigMap.
func attempted() observation {
	d := &v1alpha1.Deployment{}
	d.Spec.Model.ConfigMapRef = &v1alpha1.LocalReference{Name: "model"}
	d.Spec.Env = []v1alpha1.EnvVar{{Name: "A", Value: ptr.To("1")}, {Name: "B", ValueFrom: &v1alpha1.EnvVarSource{
		SecretKeyRef: v1alpha1.SecretKeyReference{Name: "db", Key: "password"}}}}
	env := &v1alpha1.Environment{}
	env.Status.ModelHash = "1"
	return observation{deployment: d, choice: choice{target: run("1.2.4")}, production: env}
}

// TestAttemptHash: a failed version is retried when something changes that may decide whether it
// becomes ready, and by no other change.
func TestAttemptHash(t *testing.T) {
	cases := map[string]struct {
		change  func(o *observation, spec *v1alpha1.DeploymentSpec)
		retried bool
	}{
		"nothing":              {func(*observation, *v1alpha1.DeploymentSpec) {}, false},
		"replicas":             {func(_ *observation, s *v1alpha1.DeploymentSpec) { s.Replicas = ptr.To(int32(3)) }, false},
		"displayName":          {func(_ *observation, s *v1alpha1.DeploymentSpec) { s.DisplayName = "Sales" }, false},
		"customDomain":         {func(_ *observation, s *v1alpha1.DeploymentSpec) { s.DataAPI = &v1alpha1.DataAPI{CustomDomain: "a.b"} }, false},
		"hold":                 {func(_ *observation, s *v1alpha1.DeploymentSpec) { s.Hold = ptr.To(false) }, false},
		"upgradePolicy":        {func(_ *observation, s *v1alpha1.DeploymentSpec) { s.UpgradePolicy = v1alpha1.UpgradeMinor }, false},
		"order of variables":   {func(_ *observation, s *v1alpha1.DeploymentSpec) { s.Env[0], s.Env[1] = s.Env[1], s.Env[0] }, false},
		"default deadline":     {func(_ *observation, s *v1alpha1.DeploymentSpec) { s.Rollout = &v1alpha1.RolloutPolicy{} }, false},
		"other annotation":     {func(o *observation, _ *v1alpha1.DeploymentSpec) { annotate(o, v1alpha1.AnnotationReconcile) }, false},
		"requested retry":      {func(o *observation, _ *v1alpha1.DeploymentSpec) { annotate(o, v1alpha1.AnnotationRetry) }, true},
		"value of a variable":  {func(_ *observation, s *v1alpha1.DeploymentSpec) { s.Env[0].Value = ptr.To("2") }, true},
		"reference":            {func(_ *observation, s *v1alpha1.DeploymentSpec) { s.Env[1].ValueFrom.SecretKeyRef.Key = "other" }, true},
		"variables of secrets": {func(_ *observation, s *v1alpha1.DeploymentSpec) { s.EnvFrom = []v1alpha1.LocalReference{{Name: "db"}} }, true},
		"pull secrets": {func(_ *observation, s *v1alpha1.DeploymentSpec) {
			s.ImagePullSecrets = []v1alpha1.LocalReference{{Name: "registry"}}
		}, true},
		"size": {func(_ *observation, s *v1alpha1.DeploymentSpec) { s.Size = v1alpha1.SizeDedicated }, true},
		"resources": {func(_ *observation, s *v1alpha1.DeploymentSpec) {
			s.Resources = &v1alpha1.ComponentResources{API: &v1alpha1.Resources{Limits: v1alpha1.ResourceList{"memory": resource.MustParse("1Gi")}}}
		}, true},
		"deadline": {func(_ *observation, s *v1alpha1.DeploymentSpec) {
			s.Rollout = &v1alpha1.RolloutPolicy{ProgressDeadlineSeconds: ptr.To(int32(900))}
		}, true},
		"other config map":      {func(_ *observation, s *v1alpha1.DeploymentSpec) { s.Model.ConfigMapRef.Name = "other" }, true},
		"content of config map": {func(o *observation, _ *v1alpha1.DeploymentSpec) { o.production.Status.ModelHash = "2" }, true},
		"store image":           {func(o *observation, _ *v1alpha1.DeploymentSpec) { o.target.StoreImage = "store" }, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := attempted()
			before := o.attemptHash()
			tc.change(&o, &o.deployment.Spec)
			if got := o.attemptHash() != before; got != tc.retried {
				t.Errorf("retried: %v, want %v", got, tc.retried)
			}
		})
	}
}

// TestAttemptHashOfGit: the commit, not the branch, decides, and neither does the interval.
func TestAttemptHashOfGit(t *testing.T) {
	o := attempted()
	o.deployment.Spec.Model = v1alpha1.ModelSource{Git: &v1alpha1.GitSource{URL: "https://git.example.com/a.git", Branch: "main"}}
	o.commit = "c1"
	before := o.attemptHash()
	o.deployment.Spec.Model.Git.Branch, o.deployment.Spec.Model.Git.Interval = "next", &metav1.Duration{Duration: 1}
	if o.attemptHash() != before {
		t.Error("the same commit of another branch is another attempt")
	}
	o.commit = "c2"
	if o.attemptHash() == before {
		t.Error("another commit is the same attempt")
	}
}

// TestFailuresOfEarlierReleases have no hash: as before, they are retried with the next generation.
func TestFailuresOfEarlierReleases(t *testing.T) {
	o := attempted()
	o.deployment.Generation = 2
	if !o.unchanged("", 2) || o.unchanged("", 1) || !o.unchanged(o.attemptHash(), 1) {
		t.Error("the generation does not decide without a hash, or decides with one")
	}
}

func annotate(o *observation, name string) {
	metav1.SetMetaDataAnnotation(&o.deployment.ObjectMeta, name, "2026-01-01")
}
