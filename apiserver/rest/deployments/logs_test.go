package deployments

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/kube"
)

func running(name string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

func waiting(name, reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}
}

func terminated(name, reason string, code int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code}}}
}

func crashed(s corev1.ContainerStatus, code int32) corev1.ContainerStatus {
	s.LastTerminationState.Terminated, s.RestartCount = &corev1.ContainerStateTerminated{ExitCode: code}, 3
	return s
}

// The status is that of kubectl get pods, and the logs are those of containers that have been started.
func TestStatusAndLogsOfAPod(t *testing.T) {
	fetched := terminated("model-fetch", "Completed", 0)
	for name, c := range map[string]struct {
		init, main corev1.ContainerStatus
		container  string
		status     string
		logs       string
	}{
		"running":                {fetched, running("cube"), "", "Running", "cube"},
		"INIT":                   {fetched, running("cube"), "INIT", "Running", "model-fetch"},
		"MAIN":                   {fetched, running("cube"), "MAIN", "Running", "cube"},
		"cubejs-server":          {fetched, running("cube"), "cubejs-server", "Running", "cube"},
		"no such container":      {fetched, running("cube"), "vector", "Running", ""},
		"crash loop":             {fetched, crashed(waiting("cube", "CrashLoopBackOff"), 1), "", "CrashLoopBackOff", "cube-previous"},
		"restarted after crash":  {fetched, crashed(running("cube"), 137), "", "Running", "cube-previous cube"},
		"restarted after exit 0": {fetched, crashed(running("cube"), 0), "", "Running", "cube"},
		"fetches":                {running("model-fetch"), waiting("cube", "PodInitializing"), "", "Running", "model-fetch"},
		"fetch fails":            {crashed(terminated("model-fetch", "Error", 1), 1), waiting("cube", "PodInitializing"), "", "Init:Error", "model-fetch-previous model-fetch"},
		"fetch in crash loop":    {crashed(waiting("model-fetch", "CrashLoopBackOff"), 1), waiting("cube", "PodInitializing"), "", "Init:CrashLoopBackOff", "model-fetch-previous"},
		"exited":                 {fetched, terminated("cube", "", 3), "", "ExitCode:3", "cube"},
		"creating":               {fetched, waiting("cube", "ContainerCreating"), "", "ContainerCreating", ""},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
		p.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, InitContainerStatuses: []corev1.ContainerStatus{c.init}, ContainerStatuses: []corev1.ContainerStatus{c.main},
		}
		if got := podStatus(p); got != c.status {
			t.Errorf("%s: status %q, want %q", name, got, c.status)
		}
		var logs []string
		for _, s := range sourcesOf(p, c.container) {
			suffix := ""
			if s.Previous {
				suffix = "-previous"
			}
			logs = append(logs, s.Container+suffix)
		}
		if got := strings.Join(logs, " "); got != c.logs {
			t.Errorf("%s: logs of %q, want %q", name, got, c.logs)
		}
	}
	deleted := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}}
	if got := podStatus(deleted); got != "Terminating" {
		t.Errorf("deleted: %q", got)
	}
	if got := podStatus(&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}}); got != "Evicted" {
		t.Errorf("evicted: %q", got)
	}
}

func TestLogsAreThoseOfTheSelectedPods(t *testing.T) {
	d := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "sales"}}
	var pods []corev1.Pod
	for i, p := range []struct{ name, environment, component string }{
		{"old", "sales-production", engine.ComponentAPI}, {"worker", "sales-production", engine.ComponentRefresh},
		{"router", "sales-production", engine.ComponentStoreRouter}, {"dev", "sales-x-staging", engine.ComponentAPI},
	} {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.name, CreationTimestamp: metav1.NewTime(time.Unix(int64(i), 0)), Labels: map[string]string{
			v1alpha1.LabelEnvironment: p.environment, "app.kubernetes.io/component": p.component,
		}}}
		pods = append(pods, pod)
	}
	for name, c := range map[string]struct {
		source, pod, want string // empty for an error
	}{
		"all":                         {"", "", "dev worker old"},
		"production":                  {"production", "", "worker old"},
		"dev":                         {"dev", "", "dev"},
		"one":                         {"", "old", "old"},
		"one of the store":            {"", "router", "router"},
		"one of the other source":     {"dev", "old", ""},
		"of another deployment":       {"", "orders-production-api-1", ""},
		"the beginning of its name":   {"", "ol", ""},
		"one of production by source": {"production", "router", "router"},
	} {
		in := &ReadLogsInput{Source: rest.Optional[string]{Value: c.source}, Pod: rest.Optional[string]{Value: c.pod}}
		selected, err := selectPods(d, pods, in)
		var names []string
		for _, p := range selected {
			names = append(names, p.Name)
		}
		if got := strings.Join(names, " "); got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
}

// secretEnv is an environment variable from a Secret.
func secretEnv(variable, secret, key string, optional bool) corev1.EnvVar {
	ref := &corev1.SecretKeySelector{Key: key, Optional: ptr.To(optional)}
	ref.Name = secret
	return corev1.EnvVar{Name: variable, ValueFrom: &corev1.EnvVarSource{SecretKeyRef: ref}}
}

func TestSecretsOfPodsAreKnown(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	stored := func(name string, data map[string][]byte) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: name}, Data: data}
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		stored("credentials", map[string][]byte{"apiSecret": []byte("0123456789abcdef"), "unused": []byte("not of this pod")}),
		stored("warehouse", map[string][]byte{"DB_PASS": []byte("pw1"), "DB_HOST": []byte("db.internal")}),
		stored("git", map[string][]byte{"password": []byte("git-password")}),
	).Build()
	a := &api{Options: Options{Kube: kube.NewClient(reader, reader, "test")}}
	from := corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{}}
	from.SecretRef.Name = "warehouse"
	whole := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "whole"}, Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "model-fetch"}},
		Containers: []corev1.Container{{Name: "cube", EnvFrom: []corev1.EnvFromSource{from}, Env: []corev1.EnvVar{
			secretEnv("CUBEJS_API_SECRET", "credentials", "apiSecret", false), secretEnv("CUBEJS_API_SECRETS", "credentials", "apiSecrets", true),
			{Name: "LITERAL_TOKEN", Value: "pa$$word"}, {Name: "CUBEJS_DB_TYPE", Value: "postgres"},
		}}},
		Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "git"}}}},
	}}
	known, unknown, err := a.secretsOf(t.Context(), "acme", []*corev1.Pod{whole})
	if err != nil || len(unknown) > 0 {
		t.Fatalf("%v, unknown %v", err, unknown)
	}
	const given = "0123456789abcdef pw1 db.internal git-password pa$word postgres not of this pod"
	if got := known.Replacer().Replace(given); got != "[HIDDEN] [HIDDEN] [HIDDEN] [HIDDEN] [HIDDEN] postgres not of this pod" {
		t.Errorf("got %q", got)
	}
	replaced := whole.DeepCopy()
	replaced.Name, replaced.Spec.Containers[0].Env[0].ValueFrom.SecretKeyRef.Key = "replaced", "gone"
	deleted := whole.DeepCopy()
	deleted.Name, deleted.Spec.Volumes[0].Secret.SecretName = "deleted", "gone"
	_, unknown, err = a.secretsOf(t.Context(), "acme", []*corev1.Pod{whole, replaced, deleted})
	if err != nil || len(unknown) != 2 || !strings.Contains(unknown["replaced"], `"credentials"`) || !strings.Contains(unknown["deleted"], `"gone"`) {
		t.Errorf("unknown %v: %v", unknown, err)
	}
}

func TestConcurrentRequestsForLogsAreLimited(t *testing.T) {
	a := newAPI(Options{})
	var held []func()
	for account := range 6 {
		for range 3 {
			if release, err := a.acquireLogs(string(rune('a' + account))); err == nil {
				held = append(held, release)
			}
		}
	}
	if len(held) != maxLogRequests {
		t.Errorf("%d places, want %d", len(held), maxLogRequests)
	}
	for _, release := range held {
		release()
	}
	if release, err := a.acquireLogs("f"); err != nil {
		t.Error(err)
	} else {
		release()
	}
}
