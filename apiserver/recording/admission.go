package recording

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// Admission records what is changed past the front end, with kubectl or from Git, as the
// Kubernetes API server tells a validating webhook. It never refuses anything.
type Admission struct {
	// Log takes the events.
	Log Log
	// Reader has the accounts, with tenant.IndexNamespace.
	Reader client.Reader
	// Namespace is Quoin's own: what its ServiceAccounts do is recorded where it is asked for, or
	// follows from it.
	Namespace string
}

// collectors are the ServiceAccounts of Kubernetes that remove what has lost its owner: nobody
// has asked for that.
var collectors = []string{
	"system:serviceaccount:kube-system:generic-garbage-collector",
	"system:serviceaccount:kube-system:namespace-controller",
}

// verbs are the operations that are recorded.
var verbs = map[admissionv1.Operation]verb{admissionv1.Create: create, admissionv1.Update: update, admissionv1.Delete: remove}

// Review records what a request changes, and allows it.
func (a *Admission) Review(ctx context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	ctx, cancel := context.WithTimeout(ctx, longestRecording)
	defer cancel()
	allowed := &admissionv1.AdmissionResponse{UID: request.UID, Allowed: true}
	if err := a.record(ctx, request); err != nil {
		log.FromContext(ctx).Error(err, "A change past the front end is not in the audit log", "user", request.UserInfo.Username,
			"operation", request.Operation, "kind", request.Kind.Kind, "namespace", request.Namespace, "name", request.Name)
		allowed.Warnings = []string{"quoin: this change is not in the audit log, which does not answer"}
	}
	return allowed
}

func (a *Admission) record(ctx context.Context, request *admissionv1.AdmissionRequest) error {
	k := recordedKindOf(request.Kind.Kind)
	v, known := verbs[request.Operation]
	if k == nil || !known || request.SubResource != "" || request.DryRun != nil && *request.DryRun || a.isOwn(request.UserInfo.Username) {
		return nil
	}
	account, err := a.accountOf(ctx, request)
	if err != nil || account == nil {
		return err
	}
	if a.Log == nil {
		return errNoLog
	}
	documents, err := parse(request.OldObject.Raw, request.Object.Raw)
	if err != nil {
		return err
	}
	changes, err := k.difference(documents)
	if err != nil {
		return err
	}
	if v == update && len(changes) == 0 {
		return nil // labels, annotations, managed fields: no part of what is documented
	}
	e := k.event(ctx, a.Reader, v, audit.SourceKubernetes, documents)
	e.Account, e.Outcome, e.RequestID = account.Name, audit.Succeeded, string(request.UID)
	e.Actor = audit.Actor{Kind: audit.ActorKubernetes, ID: request.UserInfo.Username}
	if e.Changes, err = encode(changes); err != nil {
		return err
	}
	e.ID = identity(request, documents[0], e.Changes)
	return a.Log.Record(ctx, e)
}

// isOwn tells whether a change is recorded elsewhere, or follows from one that is.
func (a *Admission) isOwn(user string) bool {
	return strings.HasPrefix(user, "system:serviceaccount:"+a.Namespace+":") || slices.Contains(collectors, user)
}

// accountOf is the account that an object belongs to, if it has its log on; else nil. Of an account
// that is changed one of the two counts: switching the log off is an event too.
func (a *Admission) accountOf(ctx context.Context, request *admissionv1.AdmissionRequest) (*v1alpha1.Account, error) {
	if request.Kind.Kind != "Account" {
		account, err := tenant.Of(ctx, a.Reader, request.Namespace)
		if err != nil || !IsOn(account) {
			return nil, ignoreNoAccount(err)
		}
		return account, nil
	}
	for _, raw := range [][]byte{request.Object.Raw, request.OldObject.Raw} {
		account := &v1alpha1.Account{}
		if len(raw) == 0 {
			continue
		}
		if err := json.Unmarshal(raw, account); err != nil {
			return nil, err
		}
		if IsOn(account) {
			return account, nil
		}
	}
	return nil, nil
}

func ignoreNoAccount(err error) error {
	if errors.Is(err, tenant.ErrNoAccount) {
		return nil
	}
	return err
}

// identity is the same for the same change, which the Kubernetes API server may ask for several
// times: each try of one whose object somebody else has changed meanwhile.
func identity(request *admissionv1.AdmissionRequest, before *document, changes []byte) uuid.UUID {
	version := ""
	if before != nil {
		version = before.ResourceVersion
	}
	sum := sha256.Sum256(changes)
	return uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "%s %s %s/%s %s %s %x", request.Operation, request.Kind.Kind,
		request.Namespace, request.Name, version, request.UserInfo.Username, sum))
}
