package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
)

// TestReadinessGate: only API pods have a readiness gate; without warm-up, the revision differs but
// not the inputs, so that the option restarts no pods.
func TestReadinessGate(t *testing.T) {
	f := dedicated()
	with := engine.Render(f.inputs(t))
	for _, w := range templates(with) {
		gated, label := len(w.pod.Spec.ReadinessGates) > 0, w.pod.Labels[v1alpha1.LabelWarmUp]
		isAPI := w.name == "sales-production-api"
		if gated != isAPI || (label != "") != isAPI {
			t.Errorf("%s: gated %v, label %q", w.name, gated, label)
		}
	}
	api := find[*appsv1.Deployment](t, with, "sales-production-api")
	if got := api.Spec.Template.Labels[v1alpha1.LabelWarmUp]; got != api.Annotations[v1alpha1.AnnotationInputs] {
		t.Errorf("label %q, want the inputs %q", got, api.Annotations[v1alpha1.AnnotationInputs])
	}
	f.options.WarmUp = false
	without := find[*appsv1.Deployment](t, engine.Render(f.inputs(t)), "sales-production-api")
	if len(without.Spec.Template.Spec.ReadinessGates) > 0 || without.Spec.Template.Labels[v1alpha1.LabelWarmUp] != "" {
		t.Error("readiness gate without warm-up")
	}
	if without.Annotations[v1alpha1.AnnotationInputs] != api.Annotations[v1alpha1.AnnotationInputs] ||
		without.Annotations[v1alpha1.AnnotationRevision] == api.Annotations[v1alpha1.AnnotationRevision] {
		t.Errorf("with %v, without %v: want the same inputs and another revision", api.Annotations, without.Annotations)
	}
}

func TestInsecureGitChangesTheRevision(t *testing.T) {
	f := git()
	f.options.AllowInsecureGit = true
	api := find[*appsv1.Deployment](t, engine.Render(f.inputs(t)), "sales-production-api")
	if args := api.Spec.Template.Spec.InitContainers[0].Args; !strings.Contains(strings.Join(args, " "), "--allow-insecure-git") {
		t.Errorf("model-fetch without --allow-insecure-git: %q", args)
	}
	secure := find[*appsv1.Deployment](t, engine.Render(git().inputs(t)), "sales-production-api")
	if api.Annotations[v1alpha1.AnnotationRevision] == secure.Annotations[v1alpha1.AnnotationRevision] {
		t.Error("the same revision renders two pod templates from the same inputs")
	}
}

func TestFolderOfAgents(t *testing.T) {
	for value, want := range map[string]string{"config/agents": "--agents=config/agents", "agents": "", "../agents": "", "": ""} {
		f := git()
		f.deployment.Spec.Env = []v1alpha1.EnvVar{{Name: "CUBE_CLOUD_AGENTS_CONFIG_PATH", Value: &value}}
		api := find[*appsv1.Deployment](t, engine.Render(f.inputs(t)), "sales-production-api")
		got := ""
		for _, arg := range api.Spec.Template.Spec.InitContainers[0].Args {
			if strings.HasPrefix(arg, "--agents") {
				got = arg
			}
		}
		if got != want {
			t.Errorf("with %q, model-fetch has the argument %q, want %q", value, got, want)
		}
	}
}

func TestReadMeta(t *testing.T) {
	for name, tc := range map[string]struct {
		status       int
		body         string
		want, reason string
	}{
		"metadata":        {200, `{"cubes":[{"name":"orders"}]}`, "The pod has compiled its data model", engine.WarmUpCompiled},
		"truncated":       {200, `{"cubes":[{"name":"ord`, "The pod has compiled its data model", engine.WarmUpCompiled},
		"continue wait":   {200, `{"error":"Continue wait"}`, "The pod returned status 200: Continue wait", engine.WarmUpNoAnswer},
		"compile error":   {500, `{"error":"Error: Compile errors:\norders.yml Errors:\n(cubes.0.sql = 1) must be a string\n    at ErrorReporter.throwIfAny (/cube/node_modules/x.js:1:2)\n    at async foo"}`, "Compile errors: | orders.yml Errors: | (cubes.0.sql = 1) must be a string | at async foo", engine.WarmUpBroken},
		"user error":      {400, `{"type":"UserError","error":"Cube 'x' is not found"}`, "Cube 'x' is not found", engine.WarmUpBroken},
		"error as object": {500, `{"error":{"message":"bad"}}`, `{"message":"bad"}`, engine.WarmUpBroken},
		"not JSON":        {500, `<html>`, "The pod returned status 500 without an error message", engine.WarmUpNoAnswer},
		"empty error":     {500, `{"error":""}`, "The pod returned status 500 without an error message", engine.WarmUpNoAnswer},
		"wrong token":     {403, `{"error":"Invalid token"}`, "The pod returned status 403: Invalid token", engine.WarmUpNoAnswer},
		"no scope":        {403, `{"error":"API scope is missing: meta"}`, "The deployment's settings forbid access to the metadata, so it is unknown whether the model compiles: API scope is missing: meta", engine.WarmUpNotAllowed},
		"not found":       {404, ``, "The pod returned status 404 without an error message", engine.WarmUpNoAnswer},
		"draining":        {503, `{"error":"shutting down"}`, "The pod returned status 503: shutting down", engine.WarmUpNoAnswer},
		"redirect":        {302, ``, "The pod returned status 302 without an error message", engine.WarmUpNoAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			reason, message := engine.ReadMeta(tc.status, []byte(tc.body))
			if diff := cmp.Diff([]string{tc.reason, tc.want}, []string{reason, message}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestMessagesContainNoSecrets: compiler messages are shown to users and stored.
func TestMessagesContainNoSecrets(t *testing.T) {
	body := fmt.Sprintf(`{"error":"connect postgres://ada:h4nter@db/x failed, password=tiger, token: 'abc', \u001b[31mapi_key = \"k1\"\u001b[0m with s3cret %s"}`, strings.Repeat("ü", 2000))
	_, message := engine.ReadMeta(500, []byte(body), "s3cret", "")
	for _, secret := range []string{"h4nter", "tiger", "abc", "k1", "s3cret", "\x1b"} {
		if strings.Contains(message, secret) {
			t.Errorf("contains %q: %s", secret, message)
		}
	}
	if !strings.HasPrefix(message, "connect postgres://***@db/x failed, password=***") || len(message) > 1024 || !strings.HasSuffix(message, "...") {
		t.Errorf("%d bytes: %s", len(message), message)
	}
}

func FuzzReadMeta(f *testing.F) {
	f.Add(500, []byte(`{"error":"Error: x\n at y"}`))
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		reason, message := engine.ReadMeta(status, body, "secret")
		if reason == "" || message == "" && reason != engine.WarmUpBroken || strings.ContainsAny(message, "\n\x00\x1b") || len(message) > 1300 {
			t.Errorf("%q: %q", reason, message)
		}
	})
}

func TestWarmUpOf(t *testing.T) {
	pod := func(label, reason, message string, status corev1.ConditionStatus) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelWarmUp: label}}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
		if reason != "" {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: v1alpha1.PodModelCompiled, Status: status, Reason: reason, Message: message})
		}
		return p
	}
	no, yes := corev1.ConditionFalse, corev1.ConditionTrue
	deleted := pod("new", engine.WarmUpBroken, "a", no)
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	for name, tc := range map[string]struct {
		pods            []corev1.Pod
		reason, message string
	}{
		"no pods":         {nil, "", ""},
		"no condition":    {[]corev1.Pod{pod("new", "", "", no)}, "", ""},
		"compiled":        {[]corev1.Pod{pod("new", engine.WarmUpCompiled, "x", yes)}, "", ""},
		"other template":  {[]corev1.Pod{pod("old", engine.WarmUpBroken, "x", no)}, "", ""},
		"being deleted":   {[]corev1.Pod{deleted}, "", ""},
		"unknown reason":  {[]corev1.Pod{pod("new", "Else", "x", no)}, "", ""},
		"permanent first": {[]corev1.Pod{pod("new", engine.WarmUpCompiling, "a", no), pod("new", engine.WarmUpBroken, "b", no), pod("new", engine.WarmUpNoAnswer, "c", no)}, engine.WarmUpBroken, "b"},
		"secret missing":  {[]corev1.Pod{pod("new", engine.WarmUpNoAnswer, "a", no), pod("new", engine.WarmUpMissing, "b", no)}, engine.WarmUpMissing, "b"},
		"order of pods":   {[]corev1.Pod{pod("new", engine.WarmUpBroken, "b", no), pod("new", engine.WarmUpBroken, "a", no)}, engine.WarmUpBroken, "a"},
		"one of two":      {[]corev1.Pod{pod("new", engine.WarmUpCompiled, "x", yes), pod("new", engine.WarmUpCompiling, "y", no)}, engine.WarmUpCompiling, "y"},
	} {
		t.Run(name, func(t *testing.T) {
			reason, message := engine.WarmUpOf(tc.pods, "new")
			if reason != tc.reason || message != tc.message {
				t.Errorf("%q: %q, want %q: %q", reason, message, tc.reason, tc.message)
			}
		})
	}
}

func TestWarmUpToken(t *testing.T) {
	now := time.Now()
	text, err := engine.WarmUpToken("secret", now)
	if err != nil {
		t.Fatal(err)
	}
	claims := jwt.MapClaims{}
	if _, err := jwt.ParseWithClaims(text, claims, func(*jwt.Token) (any, error) { return []byte("secret"), nil }, jwt.WithValidMethods([]string{"HS256"}), jwt.WithExpirationRequired()); err != nil {
		t.Fatal(err)
	}
	expires, err := claims.GetExpirationTime()
	if err != nil || expires.Sub(now) > time.Minute || len(claims) != 2 {
		t.Errorf("claims %v: %v", claims, err)
	}
}
