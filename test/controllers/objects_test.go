package controllers_test

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/git"
)

// The objects of a world, as a user applies them.

func (w *world) account() *v1alpha1.Account {
	return &v1alpha1.Account{
		ObjectMeta: metav1.ObjectMeta{Name: w.name},
		Spec:       v1alpha1.AccountSpec{Host: v1alpha1.Host(w.name + ".example.com"), Namespace: w.name},
	}
}

func (w *world) channel() *v1alpha1.ReleaseChannel {
	return &v1alpha1.ReleaseChannel{
		ObjectMeta: metav1.ObjectMeta{Name: w.name},
		Spec: v1alpha1.ReleaseChannelSpec{
			ImageRepository: "registry.example.com/cube", StoreImageRepository: "registry.example.com/cube-store",
			Policy:   &v1alpha1.VersionPolicy{PreReleases: yes()},
			Interval: &metav1.Duration{Duration: time.Second},
		},
	}
}

func (w *world) model() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "model"},
		Data:       map[string]string{"orders.yml": "cubes: []\n"},
	}
}

func (w *world) deployment(name string) *v1alpha1.Deployment {
	deadline := int32(60)
	return &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name},
		Spec: v1alpha1.DeploymentSpec{
			ReleaseChannel: w.name,
			Model:          v1alpha1.ModelSource{ConfigMapRef: &v1alpha1.LocalReference{Name: "model"}},
			Rollout:        &v1alpha1.RolloutPolicy{ProgressDeadlineSeconds: &deadline},
		},
	}
}

func (w *world) gitDeployment(name string) *v1alpha1.Deployment {
	d := w.deployment(name)
	d.Spec.Model = v1alpha1.ModelSource{Git: &v1alpha1.GitSource{
		URL: "https://git.example.com/model.git", Interval: &metav1.Duration{Duration: time.Second},
	}}
	return d
}

func (w *world) user(name, userName string) *v1alpha1.ScimUser {
	return &v1alpha1.ScimUser{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name},
		Spec: v1alpha1.ScimUserSpec{
			UserName: userName, Enterprise: &v1alpha1.ScimEnterprise{Manager: &v1alpha1.ScimManager{Value: "ada"}},
		},
	}
}

func (w *world) group(name string, users ...string) *v1alpha1.ScimGroup {
	return &v1alpha1.ScimGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name},
		Spec:       v1alpha1.ScimGroupSpec{DisplayName: name, Members: members(users)},
	}
}

func (w *world) chunk(name string, users ...string) *v1alpha1.ScimMemberChunk {
	return &v1alpha1.ScimMemberChunk{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name},
		Spec:       v1alpha1.ScimMemberChunkSpec{Members: members(users)},
	}
}

func members(users []string) []v1alpha1.ScimMember {
	var all []v1alpha1.ScimMember
	for _, user := range users {
		all = append(all, v1alpha1.ScimMember{Value: user})
	}
	return all
}

// populate creates an account, a channel at 1.2.3 and a model.
func (w *world) populate() *world {
	w.t.Helper()
	w.images.push("v1.2.3")
	w.create(w.account())
	w.create(w.channel())
	w.create(w.model())
	return w
}

func ref(name, digit string) git.Ref {
	commit := ""
	for len(commit) < 40 {
		commit += digit
	}
	return git.Ref{Name: name, Commit: commit}
}

func yes() *bool { b := true; return &b }

// condition returns a condition of an object as "status reason", and its message.
func (w *world) condition(obj v1alpha1.Object, kind string) (state, message string) {
	w.t.Helper()
	w.get(obj)
	c := meta.FindStatusCondition(obj.Common().Conditions, kind)
	if c == nil {
		return "none", ""
	}
	return string(c.Status) + " " + c.Reason, c.Message
}
