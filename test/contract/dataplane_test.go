package contract_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/cmd/quoin/dbtsandbox"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
)

// dataPlane is the address of a server that answers for all API pods; nil on a machine with only loopback addresses,
// which EndpointSlices reject.
var dataPlane *net.TCPAddr

// startDataPlane starts the server of all API pods, whose data model has two cubes. It changes the scheme of k8s, so it
// is called first.
func startDataPlane(ctx context.Context) error {
	if err := discoveryv1.AddToScheme(k8s.Scheme()); err != nil {
		return err
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	for _, address := range all {
		ip, ok := address.(*net.IPNet)
		if !ok || !ip.IP.IsGlobalUnicast() || ip.IP.To4() == nil {
			continue
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(ip.IP.String(), "0"))
		if err != nil {
			return err
		}
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/cubejs-api/v1/meta" || r.Header.Get("Authorization") == "" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			_, _ = io.WriteString(w, `{"cubes":[{"name":"orders"},{"name":"users"}]}`)
		})}
		go func() { _ = server.Serve(listener) }()
		context.AfterFunc(ctx, func() { _ = server.Close() })
		address, ok := listener.Addr().(*net.TCPAddr)
		if !ok {
			return errors.New("not a TCP listener")
		}
		dataPlane = address
		return nil
	}
	return nil
}

// addEndpoint makes the data plane the endpoint of the API pods of a workload.
func addEndpoint(ctx context.Context, workload *appsv1.Deployment) error {
	if dataPlane == nil {
		return nil
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: workload.Namespace, Name: workload.Name, Labels: map[string]string{discoveryv1.LabelServiceName: workload.Name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: workload.Name, UID: workload.UID}},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{dataPlane.IP.String()}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To(engine.PortNameHTTP), Port: ptr.To(int32(dataPlane.Port))}},
	}
	if err := k8s.Create(ctx, slice); !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// dbtPod is the Job of a sync; the test does what the Job controller and the pod do.
type dbtPod struct {
	*testing.T
	job *batchv1.Job
}

// waitForDbtPod waits for the Job of a DbtSync.
func waitForDbtPod(t *testing.T, name string) *dbtPod {
	t.Helper()
	p := &dbtPod{t, &batchv1.Job{}}
	apiclient.Soon(t, func() error {
		return k8s.Get(t.Context(), client.ObjectKey{Namespace: acme.name, Name: engine.DbtJobName(name)}, p.job)
	})
	return p
}

// deliver runs the last container of the pod. It returns its error; "" if it succeeds, also after several attempts.
func (p *dbtPod) deliver(manifest map[string]any) string {
	p.Helper()
	dir := p.TempDir()
	secret := &corev1.Secret{}
	spec := p.job.Spec.Template.Spec
	for _, v := range spec.Volumes {
		if v.Name == "delivery" {
			if err := k8s.Get(p.Context(), client.ObjectKey{Namespace: acme.name, Name: v.Secret.SecretName}, secret); err != nil {
				p.Fatal(err)
			}
		}
	}
	data, err := json.Marshal(manifest)
	if err != nil {
		p.Fatal(err)
	}
	secret.Data["manifest.json"] = data
	for name, value := range secret.Data {
		if err := os.WriteFile(filepath.Join(dir, name), value, 0o600); err != nil {
			p.Fatal(err)
		}
	}
	args := append(spec.Containers[0].Args[1:], "--credentials-dir="+dir, "--manifest="+filepath.Join(dir, "manifest.json"), "--timeout=20s")
	var stderr bytes.Buffer
	if dbtsandbox.Deliver(p.Context(), args, io.Discard, &stderr) == 0 {
		return ""
	}
	return stderr.String()
}

// end ends the Job.
func (p *dbtPod) end(conditions ...batchv1.JobConditionType) {
	p.Helper()
	before := p.job.DeepCopy()
	now := metav1.Now()
	p.job.Status.StartTime = &now
	for _, c := range conditions {
		p.job.Status.Conditions = append(p.job.Status.Conditions, batchv1.JobCondition{Type: c, Status: corev1.ConditionTrue, LastProbeTime: now, LastTransitionTime: now, Message: "some message"})
	}
	if conditions[0] == batchv1.JobSuccessCriteriaMet {
		p.job.Status.CompletionTime, p.job.Status.Succeeded = &now, 1
	}
	if err := k8s.Status().Patch(p.Context(), p.job, client.MergeFrom(before)); err != nil {
		p.Fatal(err)
	}
}
