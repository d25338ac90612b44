package bundle

import (
	"bytes"
	"encoding/base64"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/plugin/bundle/bundletest"
)

// The planted secrets. None may be in an archive, in any form.
const (
	planted = "Pl4nted-s3cret"
	apiKey  = "sk-quoin-a3QvvQoOWQEt9FuYOIWIy3pG7qwGZzYcLUrp3S42tK6y1e6cZG"
	jwt     = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
)

// read returns the files of an archive.
func read(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	files, err := bundletest.Files(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func write(t *testing.T, b *Bundle) []byte {
	t.Helper()
	var archive bytes.Buffer
	if err := b.Write(&archive, "root", time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

// TestPlantedSecretsAreHidden plants secrets wherever objects, events and logs may have them: the
// recipient of an archive must not be able to read one.
func TestPlantedSecretsAreHidden(t *testing.T) {
	b := &Bundle{}
	d := &v1alpha1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Name: "sales",
		Annotations: map[string]string{
			lastApplied: `{"spec":{"env":[{"name":"A","value":"` + planted + `-in-annotation"}]}}`,
			"note":      "password=" + planted + "-in-note",
		},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}},
	}}
	d.Spec.Env = []v1alpha1.EnvVar{{Name: "HARMLESS", Value: ptr.To(planted + "-in-env")}}
	d.Spec.Model.Git = &v1alpha1.GitSource{URL: "https://user:" + planted + "-in-url@git.example.com/x.git"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Env: []corev1.EnvVar{{Name: "X", Value: planted + "-in-pod"}}, Args: []string{"--token=" + planted + "-in-args"}}}
	event := &corev1.Event{Message: "failed to connect to postgres://cube:" + planted + "-in-event@db/sales with " + apiKey}
	for name, object := range map[string]any{"d.yaml": d, "pods.yaml": []*corev1.Pod{pod}, "events.yaml": []*corev1.Event{event}} {
		if err := b.Object(name, object); err != nil {
			t.Fatal(err)
		}
	}
	const known, short = `p"w of/the db`, "x9$"
	b.Hide("note", known)
	b.Hide("db-password", short)
	b.Text("pod.log", []byte(strings.Join([]string{
		"Authorization: Bearer " + jwt, "key " + apiKey, "CUBEJS_DB_PASS=" + planted + "-in-log",
		"as it is " + known, "in a URL " + url.QueryEscape(known), "in base64 " + base64.StdEncoding.EncodeToString([]byte(known)), "short " + short,
		"-----BEGIN RSA PRIVATE KEY-----", "MIIEplanted", "-----END RSA PRIVATE KEY-----", "invalid \xff bytes", "the end",
	}, "\n")))
	b.Problem("users", errors.New("forbidden for "+apiKey))
	archive := write(t, b)
	files := read(t, archive)
	for name, text := range files {
		for _, secret := range []string{planted, apiKey, jwt, known, url.QueryEscape(known), base64.StdEncoding.EncodeToString([]byte(known))[:12], short, "MIIEplanted", "managedFields"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s contains %q:\n%s", name, secret, text)
			}
		}
	}
	for name, wanted := range map[string]string{
		"root/d.yaml": "name: HARMLESS", "root/pods.yaml": "name: c", "root/events.yaml": "failed to connect to postgres://", "root/pod.log": "the end", "root/problems.txt": "users: forbidden",
	} {
		if !strings.Contains(files[name], wanted) {
			t.Errorf("%s does not contain %q:\n%s", name, wanted, files[name])
		}
	}
	if b.Problems() != 1 || !bytes.Equal(archive, write(t, b)) {
		t.Errorf("%d problems, or two archives of the same files differ", b.Problems())
	}
}

// TestKnownValuesAreHiddenInYAML: YAML breaks a long line at a space, also in a value, and doubles a quote.
func TestKnownValuesAreHiddenInYAML(t *testing.T) {
	const phrase, quoted = "correct horse battery staple", "it's-9-planted"
	b := &Bundle{}
	if err := b.Object("events.yaml", []*corev1.Event{
		{Message: strings.Repeat(phrase+" ", 10)},
		{Message: "connect: " + quoted},
	}); err != nil {
		t.Fatal(err)
	}
	b.Hide("note", phrase) // after the object, as of Secrets that are read later
	b.Hide("other", quoted)
	text := read(t, write(t, b))["root/events.yaml"]
	for _, part := range []string{"horse", "battery", "-9-planted"} {
		if strings.Contains(text, part) {
			t.Errorf("the archive contains %q:\n%s", part, text)
		}
	}
	if !strings.Contains(text, "connect: [HIDDEN]") {
		t.Errorf("the message is missing:\n%s", text)
	}
}
