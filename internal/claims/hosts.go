package claims

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/kube"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// AttributeHost is the attribute of claims on hosts.
const AttributeHost = "host"

// HostRetryInterval is how often a taken host is tried again if no event shows its release.
const HostRetryInterval = time.Minute

// ErrHostTaken means that another account or deployment holds a host.
var ErrHostTaken = errors.New("the host is held by another account or deployment")

// Hosts makes the hosts of accounts and the custom domains of deployments unique in the cluster.
// Hosts are without ports.
//
// Claims on hosts are in one namespace, that of Quoin, which no tenant can write. A holder shows its
// hosts in its status, and is served on them only while its status shows them and its spec has them.
// Two objects never do so for the same host:
//
//   - A claim can be taken over only if its holder is deleted, or neither its spec has the host nor
//     its status shows it.
//   - A holder writes its status, with the resource version of the spec that it has read, after it
//     has written its claim for the generation of that spec. A takeover that was decided before fails,
//     because the claim has changed; one that is decided later sees the spec.
//   - A claim is released after the status no longer shows the host.
type Hosts struct {
	// Namespace of the claims.
	Namespace string
}

// Name returns the name of the claim on a host.
func (Hosts) Name(host string) string {
	sum := sha256.Sum256([]byte(host))
	return AttributeHost + "-" + hex.EncodeToString(sum[:16])
}

// Acquire makes obj, an Account or a Deployment, the holder of a host that its spec has. It returns
// ErrHostTaken if another object holds the host, and a conflict if another client has changed the
// claim meanwhile. Without a change, it reads the claim from the cache.
func (h Hosts) Acquire(ctx context.Context, c *kube.Client, obj v1alpha1.Object, host string) error {
	key := client.ObjectKey{Namespace: h.Namespace, Name: h.Name(host)}
	claim := &v1alpha1.Claim{}
	shown := slices.Contains(shownHosts(obj), host)
	if shown {
		err := c.Get(ctx, key, claim)
		if err == nil && claim.Spec.Holder.UID == string(obj.GetUID()) {
			return nil
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read the claim on host %q: %w", host, err)
		}
	}
	if err := h.acquire(ctx, c, obj, host, shown); err != nil {
		return fmt.Errorf("claim host %q: %w", host, err)
	}
	return nil
}

// acquire reads the claim from the Kubernetes API server and writes it.
func (h Hosts) acquire(ctx context.Context, c *kube.Client, obj v1alpha1.Object, host string, shown bool) error {
	claim, wanted := &v1alpha1.Claim{}, h.claim(obj, host)
	err := c.Live().Get(ctx, client.ObjectKeyFromObject(wanted), claim)
	if apierrors.IsNotFound(err) {
		// The claim of the present holder may have been deleted with kubectl.
		if shown, err := h.isShown(ctx, c, obj, host); shown || err != nil {
			return errors.Join(err, ErrHostTaken)
		}
		return c.Create(ctx, wanted)
	}
	if err != nil {
		return err
	}
	if claim.Spec.Holder.UID == string(obj.GetUID()) {
		if shown || ptr.Deref(claim.Spec.Holder.Generation, 0) == obj.GetGeneration() {
			return nil
		}
	} else {
		held, err := h.holds(ctx, c.Live(), claim)
		if held || err != nil {
			return errors.Join(err, ErrHostTaken)
		}
	}
	wanted.ResourceVersion = claim.ResourceVersion
	return c.Update(ctx, wanted)
}

// claim returns the claim of an object on a host. It has no owner reference: an object cannot own
// one in another namespace.
func (h Hosts) claim(obj v1alpha1.Object, host string) *v1alpha1.Claim {
	claim := &v1alpha1.Claim{Spec: v1alpha1.ClaimSpec{
		Attribute: AttributeHost, Value: host,
		Holder: v1alpha1.ClaimHolder{
			Kind: kindOf(obj), Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: string(obj.GetUID()), Generation: ptr.To(obj.GetGeneration()),
		},
	}}
	claim.Namespace, claim.Name = h.Namespace, h.Name(host)
	return claim
}

// isShown reports whether the status of another object shows a host.
func (h Hosts) isShown(ctx context.Context, c client.Reader, except client.Object, host string) (bool, error) {
	accounts, deployments := &v1alpha1.AccountList{}, &v1alpha1.DeploymentList{}
	for _, list := range []client.ObjectList{accounts, deployments} {
		if err := c.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return false, fmt.Errorf("list the holders of hosts: %w", err)
		}
	}
	shows := func(o v1alpha1.Object) bool {
		return o.GetUID() != except.GetUID() && o.GetDeletionTimestamp().IsZero() && slices.Contains(shownHosts(o), host)
	}
	return slices.ContainsFunc(accounts.Items, func(a v1alpha1.Account) bool { return shows(&a) }) ||
		slices.ContainsFunc(deployments.Items, func(d v1alpha1.Deployment) bool { return shows(&d) }), nil
}

// Release deletes the claims of an object on hosts other than keep. The stored status of the object
// must not show those hosts any more, unless the object is being deleted.
func (h Hosts) Release(ctx context.Context, c *kube.Client, obj v1alpha1.Object, keep ...string) error {
	return h.release(ctx, c, obj.GetName(), func(claim *v1alpha1.Claim) bool {
		return claim.Spec.Holder.UID == string(obj.GetUID()) && !slices.Contains(keep, claim.Spec.Value)
	})
}

// ReleaseDeleted deletes the claims of a deployment that no longer exists.
func (h Hosts) ReleaseDeleted(ctx context.Context, c *kube.Client, deployment client.ObjectKey) error {
	return h.release(ctx, c, deployment.Name, func(claim *v1alpha1.Claim) bool {
		return claim.Spec.Holder.Kind == kindDeployment && claim.Spec.Holder.Namespace == deployment.Namespace
	})
}

// release deletes the claims on hosts that match, of holders with a name.
func (h Hosts) release(ctx context.Context, c *kube.Client, name string, match func(*v1alpha1.Claim) bool) error {
	list := &v1alpha1.ClaimList{}
	if err := c.List(ctx, list, client.InNamespace(h.Namespace), client.MatchingFields{IndexHolder: name}); err != nil {
		return fmt.Errorf("list claims on hosts: %w", err)
	}
	for i := range list.Items {
		claim := &list.Items[i]
		if claim.Spec.Attribute != AttributeHost || !match(claim) {
			continue
		}
		if err := remove(ctx, c, claim); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("release the claim on host %q: %w", claim.Spec.Value, err)
		}
	}
	return nil
}

// id implements Kind.
func (Hosts) id() string { return AttributeHost }

// holds implements Kind: it reports whether the holder of a claim exists and its spec has the host
// or its status shows it. An object that is being deleted is no longer served.
func (Hosts) holds(ctx context.Context, c client.Reader, claim *v1alpha1.Claim) (bool, error) {
	holder := claim.Spec.Holder
	var obj v1alpha1.Object = &v1alpha1.Deployment{}
	if holder.Kind == kindAccount {
		obj = &v1alpha1.Account{}
	}
	err := c.Get(ctx, client.ObjectKey{Namespace: holder.Namespace, Name: holder.Name}, obj, client.UnsafeDisableDeepCopy)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	has := slices.Contains(shownHosts(obj), claim.Spec.Value) || slices.Contains(requestedHosts(obj), claim.Spec.Value)
	return has && string(obj.GetUID()) == holder.UID && obj.GetDeletionTimestamp().IsZero(), nil
}

// mayBeOrphaned implements Kind: claims on hosts have no owner references.
func (Hosts) mayBeOrphaned(*v1alpha1.Claim) bool { return true }

const (
	kindAccount    = "Account"
	kindDeployment = "Deployment"
)

func kindOf(obj v1alpha1.Object) string {
	if _, ok := obj.(*v1alpha1.Account); ok {
		return kindAccount
	}
	return kindDeployment
}

// shownHosts returns the hosts that the status of an object shows.
func shownHosts(obj v1alpha1.Object) []string {
	switch o := obj.(type) {
	case *v1alpha1.Account:
		return o.Status.Hosts
	case *v1alpha1.Deployment:
		return []string{o.Status.CustomDomain}
	}
	return nil
}

// requestedHosts returns the hosts of an object's spec.
func requestedHosts(obj v1alpha1.Object) []string {
	switch o := obj.(type) {
	case *v1alpha1.Account:
		return tenant.Hosts(o)
	case *v1alpha1.Deployment:
		return []string{tenant.RequestedDomain(o)}
	}
	return nil
}
