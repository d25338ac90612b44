// Package ids gives out the numbers by which deployments, environments and branches are
// known over REST: per account and kind, in order, never twice.
//
// The ledger is an annotation on the Account, raised before a number is used, so a number
// may be skipped by a crash but not given again. A number is stored as a label before it is
// shown; an object restored from a backup brings its label, and the ledger is raised to it.
package ids

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/kube"
)

// Counter is a sequence of numbers in an account.
type Counter string

// The counters.
const (
	Deployments  Counter = "deployments"
	Environments Counter = "environments"
	Branches     Counter = "branches"
)

// kinds are those that carry the numbers of a counter, as label or as annotation.
var kinds = map[Counter][]string{
	Deployments:  {"Deployment"},
	Environments: {"Environment", "Deployment", "Branch"},
	Branches:     {"Branch"},
}

// maxID is the greatest number: the last one that every reader of JSON holds exactly (RFC 8259,
// section 6).
const maxID = 1<<53 - 1

// tries is how often a lost race for the ledger is run again before the caller's queue is
// left to do so.
const tries = 5

// Allocator gives out numbers.
type Allocator struct {
	client *kube.Client
	// mu makes the workers of this process take turns: they would lose races to each other.
	mu sync.Mutex
}

// New returns an allocator that keeps its ledgers through the client.
func New(c *kube.Client) *Allocator { return &Allocator{client: c} }

// Next returns the next number of a counter of an account.
func (a *Allocator) Next(ctx context.Context, account string, counter Counter) (int64, error) {
	return a.raise(ctx, account, counter, func(issued int64) int64 { return issued + 1 })
}

// Keep returns the number that an object carries, making sure that it is not given out
// again, or the next one when it carries none.
func (a *Allocator) Keep(ctx context.Context, account string, counter Counter, carried string) (string, error) {
	if id, ok := Parse(carried); ok {
		return carried, a.Seen(ctx, account, counter, id)
	}
	id, err := a.Next(ctx, account, counter)
	return strconv.FormatInt(id, 10), err
}

// Seen makes sure that a number found on an object is not given out again.
func (a *Allocator) Seen(ctx context.Context, account string, counter Counter, id int64) error {
	_, err := a.raise(ctx, account, counter, func(issued int64) int64 { return max(issued, id) })
	return err
}

func (a *Allocator) raise(ctx context.Context, account string, counter Counter, to func(int64) int64) (int64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var err error
	for range tries {
		var id int64
		if id, err = a.tryRaise(ctx, account, counter, to); !apierrors.IsConflict(err) {
			return id, err
		}
	}
	return 0, err
}

func (a *Allocator) tryRaise(ctx context.Context, account string, counter Counter, to func(int64) int64) (int64, error) {
	acct := &v1alpha1.Account{}
	if err := a.client.Live().Get(ctx, client.ObjectKey{Name: account}, acct); err != nil {
		return 0, fmt.Errorf("read ledger of account %q: %w", account, err)
	}
	ledger, err := parseLedger(acct.Annotations[v1alpha1.AnnotationIssuedIDs])
	if err != nil {
		return 0, fmt.Errorf("account %q: %w", account, err)
	}
	issued, known := ledger[counter]
	if !known {
		if issued, err = a.highest(ctx, acct.Spec.Namespace, counter); err != nil {
			return 0, err
		}
	}
	id := to(issued)
	if known && id == issued {
		return id, nil
	}
	if id > maxID {
		return 0, fmt.Errorf("account %q: no number is left for %s: an object carries %d, which annotation %s has taken over",
			account, counter, issued, v1alpha1.AnnotationIssuedIDs)
	}
	ledger[counter] = id
	before := acct.DeepCopy()
	metav1.SetMetaDataAnnotation(&acct.ObjectMeta, v1alpha1.AnnotationIssuedIDs, printLedger(ledger))
	if err := kube.PatchMetadata(ctx, a.client, before, acct); err != nil {
		return 0, fmt.Errorf("write ledger of account %q: %w", account, err)
	}
	return id, nil
}

// highest is the greatest number that any object carries: what a lost ledger is rebuilt from.
func (a *Allocator) highest(ctx context.Context, namespace string, counter Counter) (int64, error) {
	var top int64
	for _, kind := range kinds[counter] {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: v1alpha1.Group, Version: v1alpha1.GroupVersion.Version, Kind: kind + "List"})
		if err := a.client.Live().List(ctx, list, client.InNamespace(namespace)); err != nil {
			return 0, fmt.Errorf("look for numbers in use: %w", err)
		}
		for i := range list.Items {
			top = max(top, numberOn(&list.Items[i], kind, counter))
		}
	}
	return top, nil
}

// numberOn is the number that an object carries for a counter, 0 for none.
func numberOn(obj metav1.Object, kind string, counter Counter) int64 {
	text := obj.GetLabels()[v1alpha1.LabelID]
	if counter == Environments && kind != "Environment" {
		text = obj.GetAnnotations()[v1alpha1.AnnotationEnvironmentID]
	}
	id, _ := Parse(text)
	return id
}

// Parse reads a number as it is written in labels and paths: decimal digits without
// leading zeros, greater than zero.
func Parse(text string) (int64, bool) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 || id > maxID || text[0] < '1' { // neither +1 nor 01
		return 0, false
	}
	return id, true
}

// Or is the number that an object carries, or the other one where it carries none.
func Or(carried, other string) string {
	if _, ok := Parse(carried); ok {
		return carried
	}
	return other
}

func parseLedger(text string) (map[Counter]int64, error) {
	ledger := map[Counter]int64{}
	if text == "" {
		return ledger, nil
	}
	for entry := range strings.SplitSeq(text, ",") {
		name, number, ok := strings.Cut(entry, "=")
		id, err := strconv.ParseInt(number, 10, 64)
		_, twice := ledger[Counter(name)]
		if !ok || err != nil || id < 0 || twice {
			return nil, fmt.Errorf("annotation %s: %q must be like deployments=12,environments=30; remove it to have it counted again", v1alpha1.AnnotationIssuedIDs, text)
		}
		ledger[Counter(name)] = id
	}
	return ledger, nil
}

func printLedger(ledger map[Counter]int64) string {
	entries := make([]string, 0, len(ledger))
	for _, counter := range slices.Sorted(maps.Keys(ledger)) {
		entries = append(entries, fmt.Sprintf("%s=%d", counter, ledger[counter]))
	}
	return strings.Join(entries, ",")
}
