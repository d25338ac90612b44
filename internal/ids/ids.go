// Package ids issues the numbers that the REST API uses as ids: one sequence per account and kind,
// ascending, never reused.
//
// The ledger of issued numbers is an annotation of the Account. It is raised before a number is
// used, so a crash may skip a number but never issues it twice. A number is stored as a label
// before it is shown. An object restored from a backup keeps its label, and the ledger is raised to
// that number.
package ids

import (
	"context"
	"errors"
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
	"github.com/quoin-dev/quoin/internal/keyedmutex"
	"github.com/quoin-dev/quoin/internal/kube"
)

// Counter is a sequence of numbers in an account. That of a numbered kind is named by the kind's
// plural.
type Counter string

// The counters that other packages use.
const (
	Deployments       Counter = "deployments"
	Environments      Counter = "environments"
	Branches          Counter = "branches"
	UserAttributes    Counter = "userattributes"
	OidcTokenConfigs  Counter = "oidctokenconfigs" //nolint:gosec // a name
	AccountRoles      Counter = "accountroles"
	OAuthIntegrations Counter = "oauthintegrations"
	Agents            Counter = "agents"
)

// carriers returns the names of the kinds whose objects carry numbers of a counter: the numbered
// kind in a label, and for Environments also the kinds that have an Environment, in an annotation.
func carriers(counter Counter) []string {
	if counter == Environments {
		return []string{"Deployment", "Branch", "Environment"}
	}
	for _, k := range v1alpha1.Kinds {
		if k.Numbered && k.Plural == string(counter) {
			return []string{k.Name()}
		}
	}
	return nil
}

// maxID is the greatest integer that every JSON parser represents exactly (RFC 8259, section 6).
const maxID = 1<<53 - 1

// maxTries bounds the tries to write the ledger after conflicts. The caller retries after that.
const maxTries = 5

// errPanicked is the error of the callers for which another one wrote when it panicked.
var errPanicked = errors.New("the worker that wrote the ledger panicked")

// Allocator issues numbers. A worker writes the ledger for all that wait for numbers of its account: the workers of this process
// would otherwise conflict with each other, or each wait for the writes of all others.
type Allocator struct {
	client *kube.Client
	// writing is held while the ledger of an account is written.
	writing keyedmutex.Mutex[string]
	// mu guards waiting.
	mu sync.Mutex
	// waiting has the raises of each account that no worker has begun to write.
	waiting map[string][]*raise
}

// raise raises a counter to what to returns for the number that was issued last, and has the result.
type raise struct {
	counter Counter
	to      func(issued int64) int64
	id      int64
	err     error
	done    bool
}

// New returns an allocator that reads and writes ledgers with the client.
func New(c *kube.Client) *Allocator { return &Allocator{client: c, waiting: map[string][]*raise{}} }

// Next returns the next number of a counter of an account.
func (a *Allocator) Next(ctx context.Context, account string, counter Counter) (int64, error) {
	r := next(counter)
	err := a.raise(ctx, account, r)
	return r.id, err
}

// Number is the number of a counter that an object carries, empty for none.
type Number struct {
	Counter Counter
	Carried string
}

// Keep returns the number that an object carries and reserves it, or the next number if the object
// carries none.
func (a *Allocator) Keep(ctx context.Context, account string, counter Counter, carried string) (string, error) {
	kept, err := a.KeepAll(ctx, account, Number{counter, carried})
	if err != nil {
		return "", err
	}
	return kept[0], nil
}

// KeepAll is Keep for several numbers, with one write.
func (a *Allocator) KeepAll(ctx context.Context, account string, numbers ...Number) (kept []string, err error) {
	var raises []*raise
	for _, n := range numbers {
		if id, ok := Parse(n.Carried); ok {
			raises = append(raises, reserve(n.Counter, id))
		} else {
			raises = append(raises, next(n.Counter))
		}
	}
	if err := a.raise(ctx, account, raises...); err != nil {
		return nil, err
	}
	for i, n := range numbers {
		kept = append(kept, Or(n.Carried, strconv.FormatInt(raises[i].id, 10)))
	}
	return kept, nil
}

// Reserve raises the ledger to a number that an object carries, so that it is not issued again.
func (a *Allocator) Reserve(ctx context.Context, account string, counter Counter, id int64) error {
	return a.raise(ctx, account, reserve(counter, id))
}

func next(counter Counter) *raise {
	return &raise{counter: counter, to: func(issued int64) int64 { return issued + 1 }}
}

func reserve(counter Counter, id int64) *raise {
	return &raise{counter: counter, to: func(issued int64) int64 { return max(issued, id) }}
}

// raise carries out raises of an account, at least one, and sets their results. It returns the first error of them.
func (a *Allocator) raise(ctx context.Context, account string, raises ...*raise) error {
	a.add(account, raises)
	unlock, err := a.writing.Lock(context.WithoutCancel(ctx), account) // another worker may be writing the numbers
	if err != nil {
		return err
	}
	defer unlock()
	if !raises[0].done { // all are done together
		a.write(ctx, account, a.take(account))
	}
	for _, r := range raises {
		if r.err != nil {
			return r.err
		}
	}
	return nil
}

// add adds raises to those of an account that wait.
func (a *Allocator) add(account string, raises []*raise) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting[account] = append(a.waiting[account], raises...)
}

// take removes and returns the raises of an account that wait.
func (a *Allocator) take(account string) []*raise {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer delete(a.waiting, account)
	return a.waiting[account]
}

// write carries out raises in order, with one write, and sets their results. Without the write, all have its error.
func (a *Allocator) write(ctx context.Context, account string, raises []*raise) {
	err := errPanicked
	defer func() {
		for _, r := range raises {
			if r.done = true; err != nil {
				r.id, r.err = 0, err
			}
		}
	}()
	for range maxTries {
		if err = a.tryWrite(ctx, account, raises); !apierrors.IsConflict(err) {
			return
		}
	}
}

func (a *Allocator) tryWrite(ctx context.Context, account string, raises []*raise) error {
	acct := &v1alpha1.Account{}
	if err := a.client.Live().Get(ctx, client.ObjectKey{Name: account}, acct); err != nil {
		return fmt.Errorf("read ledger of account %q: %w", account, err)
	}
	issued, err := parseLedger(acct.Annotations[v1alpha1.AnnotationIssuedIDs])
	if err != nil {
		return fmt.Errorf("account %q: %w", account, err)
	}
	changed := false
	for _, r := range raises {
		last, known := issued[r.counter]
		if !known {
			if last, err = a.highest(ctx, acct.Spec.Namespace, r.counter); err != nil {
				return err
			}
		}
		if r.id, r.err = r.to(last), nil; r.id > maxID {
			r.id, r.err = 0, fmt.Errorf("account %q: no %s number is left: annotation %s is at %d, the number of an object",
				account, r.counter, v1alpha1.AnnotationIssuedIDs, last)
			continue
		}
		changed = changed || !known || r.id != last
		issued[r.counter] = r.id
	}
	if !changed {
		return nil
	}
	before := acct.DeepCopy()
	metav1.SetMetaDataAnnotation(&acct.ObjectMeta, v1alpha1.AnnotationIssuedIDs, printLedger(issued))
	if err := kube.PatchMetadata(ctx, a.client, before, acct); err != nil {
		return fmt.Errorf("write ledger of account %q: %w", account, err)
	}
	return nil
}

// highest returns the greatest number that an object carries, 0 for none. It restores a lost ledger.
func (a *Allocator) highest(ctx context.Context, namespace string, counter Counter) (int64, error) {
	var top int64
	for _, kind := range carriers(counter) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: v1alpha1.Group, Version: v1alpha1.GroupVersion.Version, Kind: kind + "List"})
		if err := a.client.Live().List(ctx, list, client.InNamespace(namespace)); err != nil {
			return 0, fmt.Errorf("list issued numbers: %w", err)
		}
		for i := range list.Items {
			top = max(top, numberOn(&list.Items[i], kind, counter))
		}
	}
	return top, nil
}

// numberOn returns the number that an object carries for a counter, 0 for none.
func numberOn(obj metav1.Object, kind string, counter Counter) int64 {
	text := obj.GetLabels()[v1alpha1.LabelID]
	if counter == Environments && kind != "Environment" {
		text = obj.GetAnnotations()[v1alpha1.AnnotationEnvironmentID]
	}
	id, _ := Parse(text)
	return id
}

// Parse parses a number as labels and paths have it: decimal digits without leading zeros, greater
// than zero. It returns false for anything else.
func Parse(text string) (int64, bool) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 || id > maxID || text[0] < '1' { // neither +1 nor 01
		return 0, false
	}
	return id, true
}

// Or returns the number that an object carries, or other if it carries none.
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
		_, duplicate := ledger[Counter(name)]
		if !ok || err != nil || id < 0 || duplicate {
			return nil, fmt.Errorf("annotation %s: %q must have the form deployments=12,environments=30; remove the annotation to recount", v1alpha1.AnnotationIssuedIDs, text)
		}
		ledger[Counter(name)] = id
	}
	return ledger, nil
}

// Merge returns the ledger with the higher id of two ledgers for each counter.
func Merge(a, b string) (string, error) {
	merged, err := parseLedger(a)
	if err != nil {
		return "", err
	}
	other, err := parseLedger(b)
	if err != nil {
		return "", err
	}
	for counter, id := range other {
		merged[counter] = max(merged[counter], id)
	}
	return printLedger(merged), nil
}

func printLedger(ledger map[Counter]int64) string {
	entries := make([]string, 0, len(ledger))
	for _, counter := range slices.Sorted(maps.Keys(ledger)) {
		entries = append(entries, fmt.Sprintf("%s=%d", counter, ledger[counter]))
	}
	return strings.Join(entries, ",")
}
