// Package modelendpoint reconciles ModelEndpoints: it checks their URLs and Secrets, and reports whether their servers answer.
//
//	modelendpoint_controller.go   the steps, and what triggers them
//	modelendpoint_secrets.go      the API key and the certificates
//	modelendpoint_probe.go        one request to a server, and what its answer means
//	modelendpoint_reachable.go    when a server is probed, and the condition Reachable
package modelendpoint

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/controllers/predicates"
	"github.com/quoin-dev/quoin/controllers/requests"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/modelendpoint"
	"github.com/quoin-dev/quoin/internal/reconciler"
)

// FieldManager is the field manager of this controller's writes.
const FieldManager = "quoin-modelendpoint"

const (
	// retryInterval is the time after which a Secret that has to be created or changed is read again: Secrets are not
	// watched.
	retryInterval = time.Minute
	// checkInterval is the time after which Secrets that were found are read again.
	checkInterval = 15 * time.Minute
)

// Options configure the reconciler.
type Options struct {
	// Namespace is the namespace of the Secrets: that of the controller.
	Namespace string
	// Dial connects to servers; a net.Dialer when nil.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

type scope = reconciler.Scope[*v1alpha1.ModelEndpoint]

type endpointReconciler struct {
	Options
	// mu guards probes, the last probe of each endpoint by name.
	mu     sync.Mutex
	probes map[string]lastProbe
}

// New returns the reconciler of ModelEndpoints.
func New(c *kube.Client, recorder reconciler.Recorder, clk clock.PassiveClock, opts Options) *reconciler.Reconciler[*v1alpha1.ModelEndpoint] {
	r := &endpointReconciler{Options: opts, probes: map[string]lastProbe{}}
	return &reconciler.Reconciler[*v1alpha1.ModelEndpoint]{
		Client: c.As(FieldManager), Recorder: recorder, Clock: clk,
		New:    func() *v1alpha1.ModelEndpoint { return &v1alpha1.ModelEndpoint{} },
		Work:   r.work,
		Forget: func(_ context.Context, key client.ObjectKey) { r.forget(key.Name) },
	}
}

// +kubebuilder:rbac:groups=platform.quoin.dev,resources=modelendpoints,verbs=get
// +kubebuilder:rbac:groups=platform.quoin.dev,resources=modelendpoints/status,verbs=patch
// +kubebuilder:rbac:groups="",namespace=quoin-system,resources=secrets,verbs=get

// SetupWithManager adds the reconciler to a manager.
func SetupWithManager(mgr ctrl.Manager, r reconcile.Reconciler, opts controller.Options) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("modelendpoint").
		For(&v1alpha1.ModelEndpoint{}, predicates.Spec()).
		Watches(&v1alpha1.Account{}, handler.EnqueueRequestsFromMapFunc(ofAccount(mgr.GetClient())), predicates.Existence()).
		WithOptions(opts).
		Complete(r)
}

// ofAccount maps an account to the endpoints that name it.
func ofAccount(c client.Reader) handler.MapFunc {
	return func(ctx context.Context, account client.Object) []reconcile.Request {
		return requests.For(ctx, c, &v1alpha1.ModelEndpointList{}, func(e *v1alpha1.ModelEndpoint) bool {
			return slices.Contains(e.Spec.AllowedAccounts, account.GetName())
		})
	}
}

func (r *endpointReconciler) work(ctx context.Context, s *scope) reconciler.Outcome {
	s.Object.Status.BaseURL = modelendpoint.BaseURL(s.Object)
	if err := modelendpoint.Check(s.Object); err != nil {
		r.notProbed(s, "The endpoint is not ready")
		return reconciler.Stalled(v1alpha1.ReasonInvalidSpec, "spec."+err.Error())
	}
	secrets, o := r.secrets(ctx, s)
	if o != nil {
		r.notProbed(s, "The endpoint is not ready")
		return *o
	}
	message, err := allowed(ctx, s)
	if err != nil {
		return reconciler.Failed(err)
	}
	return reconciler.Done(message).RequeueIn(min(r.reachable(ctx, s, secrets), checkInterval))
}

// allowed returns which accounts may use the endpoint, as text.
func allowed(ctx context.Context, s *scope) (string, error) {
	spec := &s.Object.Spec
	if len(spec.AllowedAccounts) == 0 {
		return fmt.Sprintf("Agents of all accounts can use %s", spec.Model), nil
	}
	accounts := &v1alpha1.AccountList{}
	if err := s.List(ctx, accounts); err != nil {
		return "", fmt.Errorf("list accounts: %w", err)
	}
	known, unknown := []string{}, []string{}
	for _, name := range slices.Sorted(slices.Values(spec.AllowedAccounts)) {
		if slices.ContainsFunc(accounts.Items, func(a v1alpha1.Account) bool { return a.Name == name }) {
			known = append(known, name)
		} else {
			unknown = append(unknown, name)
		}
	}
	message := fmt.Sprintf("Agents of these accounts can use %s: %s", spec.Model, strings.Join(known, ", "))
	if len(known) == 0 {
		message = "No account can use " + spec.Model
	}
	if len(unknown) > 0 {
		message += "; spec.allowedAccounts names accounts that do not exist: " + strings.Join(unknown, ", ")
	}
	return message, nil
}
