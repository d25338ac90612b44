package ids

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/apitest"
	"github.com/quoin-dev/quoin/internal/kube"
)

// TestCountersAreThoseOfNumberedKinds compares the constants with the table of kinds.
func TestCountersAreThoseOfNumberedKinds(t *testing.T) {
	var numbered []string
	for _, k := range v1alpha1.Kinds {
		if k.Numbered {
			numbered = append(numbered, k.Plural)
		}
	}
	if diff := cmp.Diff([]string{string(Deployments), string(Branches), string(Environments), string(UserAttributes), string(OidcTokenConfigs), string(AccountRoles), string(OAuthIntegrations), string(Agents)}, numbered); diff != "" {
		t.Errorf("-counters +kinds:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Deployment"}, carriers(Deployments)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"Deployment", "Branch", "Environment"}, carriers(Environments)); diff != "" {
		t.Error(diff)
	}
}

func TestParse(t *testing.T) {
	cases := map[string]struct {
		text string
		want int64
		ok   bool
	}{
		"one":             {"1", 1, true},
		"many digits":     {"1234567890123", 1234567890123, true},
		"largest":         {"9007199254740991", 9007199254740991, true},
		"too large":       {"9007199254740992", 0, false},
		"far too large":   {"99999999999999999999", 0, false},
		"zero":            {"0", 0, false},
		"negative":        {"-1", 0, false},
		"plus":            {"+1", 0, false},
		"leading zero":    {"01", 0, false},
		"leading space":   {" 1", 0, false},
		"trailing space":  {"1 ", 0, false},
		"hexadecimal":     {"0x1", 0, false},
		"underscore":      {"1_000", 0, false},
		"fraction":        {"1.0", 0, false},
		"other digits":    {"١", 0, false},
		"nothing":         {"", 0, false},
		"word":            {"abc", 0, false},
		"number and more": {"1a", 0, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got, ok := Parse(tc.text); got != tc.want || ok != tc.ok {
				t.Errorf("Parse(%q) = %d, %v; want %d, %v", tc.text, got, ok, tc.want, tc.ok)
			}
		})
	}
}

// FuzzParse: what is read is written the same way, so a number has one form in labels,
// paths and comparisons.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"1", "007", "-5", "9223372036854775807", "9007199254740991", "x", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, ok := Parse(text)
		if ok != (id > 0) {
			t.Errorf("Parse(%q) = %d, %v", text, id, ok)
		}
		if ok && fmt.Sprint(id) != text {
			t.Errorf("Parse(%q) = %d", text, id)
		}
	})
}

func TestOr(t *testing.T) {
	for _, tc := range []struct{ carried, want string }{{"5", "5"}, {"", "7"}, {"abc", "7"}, {"0", "7"}, {"05", "7"}} {
		if got := Or(tc.carried, "7"); got != tc.want {
			t.Errorf("Or(%q, 7) = %q, want %q", tc.carried, got, tc.want)
		}
	}
}

func TestLedger(t *testing.T) {
	cases := map[string]struct {
		text string
		want map[Counter]int64
		bad  bool
	}{
		"empty":                 {"", map[Counter]int64{}, false},
		"one":                   {"deployments=12", map[Counter]int64{Deployments: 12}, false},
		"all":                   {"branches=1,deployments=12,environments=30", map[Counter]int64{Branches: 1, Deployments: 12, Environments: 30}, false},
		"counter of the future": {"deployments=1,reports=4", map[Counter]int64{Deployments: 1, "reports": 4}, false},
		"none given out":        {"deployments=0", map[Counter]int64{Deployments: 0}, false},
		"no number":             {"deployments", nil, true},
		"empty number":          {"deployments=", nil, true},
		"negative":              {"deployments=-1", nil, true},
		"word":                  {"deployments=many", nil, true},
		"comma at the end":      {"deployments=1,", nil, true},
		"cut off":               {"deployments=12,environ", nil, true},
		"twice":                 {"deployments=12,deployments=3", nil, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parseLedger(tc.text)
			if tc.bad {
				for _, part := range []string{v1alpha1.AnnotationIssuedIDs, tc.text, "remove the annotation to recount"} {
					if err == nil || !strings.Contains(err.Error(), part) {
						t.Errorf("got %v, want an error with %q", err, part)
					}
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("ledger (-want +got):\n%s", diff)
			}
			if printed := printLedger(got); printed != tc.text {
				t.Errorf("printed as %q", printed)
			}
		})
	}
}

// FuzzLedger: a ledger that can be read says the same when it is written and read again.
func FuzzLedger(f *testing.F) {
	for _, seed := range []string{"", "deployments=1", "b=2,a=1", "=5", "a=+5", "a==1", "a=1,a=2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ledger, err := parseLedger(text)
		if err != nil {
			t.Skip()
		}
		again, err := parseLedger(printLedger(ledger))
		if err != nil || !maps.Equal(ledger, again) {
			t.Errorf("%q is read as %v, and printed and read as %v, %v", text, ledger, again, err)
		}
	})
}

// account makes an account with a namespace of its own.
func account(t *testing.T, c client.Client, namespace string, ledger string) *v1alpha1.Account {
	t.Helper()
	a := &v1alpha1.Account{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec:       v1alpha1.AccountSpec{Host: v1alpha1.Host(namespace + ".example.com"), Namespace: namespace},
	}
	if ledger != "" {
		a.Annotations = map[string]string{v1alpha1.AnnotationIssuedIDs: ledger}
	}
	if err := c.Create(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	return a
}

func allocator(c client.Client) *Allocator { return New(kube.NewClient(c, c, "quoin-test")) }

// TestNextOfTwoProcesses: two processes with many workers give out 64 numbers, none twice.
// A conflict is what the caller's queue tries again.
func TestNextOfTwoProcesses(t *testing.T) {
	c, name := apitest.Direct(t)
	account(t, c, name, "environments=3")
	processes := []*Allocator{allocator(c), allocator(c)}
	var mu sync.Mutex
	seen := map[int64]bool{}
	var group sync.WaitGroup
	for worker := range 64 {
		group.Go(func() {
			for range 20 {
				id, err := processes[worker%2].Next(t.Context(), name, Deployments)
				if apierrors.IsConflict(err) {
					continue
				}
				mu.Lock()
				defer mu.Unlock()
				if err != nil || id <= 0 || seen[id] {
					t.Errorf("got %d, %v; given out before: %v", id, err, seen[id])
				}
				seen[id] = true
				return
			}
			t.Error("lost every race")
		})
	}
	group.Wait()
	var most int64
	for id := range seen {
		most = max(most, id)
	}
	if want := fmt.Sprintf("deployments=%d,environments=3", most); len(seen) != 64 || apitest.IssuedIDs(t, c, name) != want {
		t.Errorf("%d numbers, the ledger says %q, want %q", len(seen), apitest.IssuedIDs(t, c, name), want)
	}
}

// TestNextIsInOrder: numbers rise, and counters and accounts do not know of each other.
func TestNextIsInOrder(t *testing.T) {
	c, name := apitest.Direct(t)
	account(t, c, name, "")
	_, other := apitest.Direct(t)
	account(t, c, other, "")
	a := allocator(c)
	var got []int64
	for _, next := range []struct {
		account string
		counter Counter
	}{{name, Deployments}, {name, Deployments}, {name, Branches}, {other, Deployments}, {name, Deployments}, {name, Environments}} {
		id, err := a.Next(t.Context(), next.account, next.counter)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, id)
	}
	if diff := cmp.Diff([]int64{1, 2, 1, 1, 3, 1}, got); diff != "" {
		t.Errorf("numbers (-want +got):\n%s", diff)
	}
}

// TestLostLedger: what objects carry is not given out again, though the account has forgotten.
func TestLostLedger(t *testing.T) {
	c, name := apitest.Direct(t)
	account(t, c, name, "")
	meta := func(object, id, environment string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Namespace: name, Name: object, Labels: map[string]string{}, Annotations: map[string]string{}}
		if id != "" {
			m.Labels[v1alpha1.LabelID] = id
		}
		if environment != "" {
			m.Annotations[v1alpha1.AnnotationEnvironmentID] = environment
		}
		return m
	}
	ref := v1alpha1.LocalReference{Name: "sales"}
	for _, obj := range []client.Object{
		&v1alpha1.Deployment{ObjectMeta: meta("sales", "12", "40"), Spec: v1alpha1.DeploymentSpec{
			ReleaseChannel: "stable", Model: v1alpha1.ModelSource{ConfigMapRef: &ref},
		}},
		&v1alpha1.Branch{ObjectMeta: meta("main", "7", "41"), Spec: v1alpha1.BranchSpec{DeploymentRef: ref, Name: "main", Role: v1alpha1.BranchShared}},
		&v1alpha1.Branch{ObjectMeta: meta("copied", "many", "x y"), Spec: v1alpha1.BranchSpec{DeploymentRef: ref, Name: "x", Role: v1alpha1.BranchShared}},
		&v1alpha1.Environment{ObjectMeta: meta("sales-production", "39", ""), Spec: v1alpha1.EnvironmentSpec{
			DeploymentRef: ref, Type: v1alpha1.EnvironmentProduction, Version: "1.2.3", Image: "cube:v1.2.3",
		}},
	} {
		if err := c.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	a := allocator(c)
	for counter, want := range map[Counter]int64{Deployments: 13, Branches: 8, Environments: 42} {
		if id, err := a.Next(t.Context(), name, counter); err != nil || id != want {
			t.Errorf("%s: got %d, %v; want %d", counter, id, err, want)
		}
	}
	if got := apitest.IssuedIDs(t, c, name); got != "branches=8,deployments=13,environments=42" {
		t.Errorf("the ledger says %q", got)
	}
}

func TestKeep(t *testing.T) {
	cases := map[string]struct {
		carried, want, ledger string
	}{
		"none":                       {"", "6", "deployments=6"},
		"given out before":           {"3", "3", "deployments=5"},
		"the last one":               {"5", "5", "deployments=5"},
		"of a restored object":       {"9", "9", "deployments=9"},
		"no number":                  {"abc", "6", "deployments=6"},
		"greater than can be shown":  {"9007199254740993", "6", "deployments=6"},
		"the greatest that there is": {"9007199254740991", "9007199254740991", "deployments=9007199254740991"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c, namespace := apitest.Direct(t)
			before := account(t, c, namespace, "deployments=5")
			got, err := allocator(c).Keep(t.Context(), namespace, Deployments, tc.carried)
			if err != nil || got != tc.want || apitest.IssuedIDs(t, c, namespace) != tc.ledger {
				t.Errorf("got %q, %v, and the ledger %q; want %q and %q", got, err, apitest.IssuedIDs(t, c, namespace), tc.want, tc.ledger)
			}
			after := &v1alpha1.Account{}
			if err := c.Get(t.Context(), client.ObjectKey{Name: namespace}, after); err != nil {
				t.Fatal(err)
			}
			if same := tc.ledger == "deployments=5"; same != (before.ResourceVersion == after.ResourceVersion) {
				t.Errorf("the account went from version %s to %s", before.ResourceVersion, after.ResourceVersion)
			}
		})
	}
}

// TestSeenFillsTheLedger: the first number seen does not hide a greater one that is in use.
func TestReserveFillsTheLedger(t *testing.T) {
	c, name := apitest.Direct(t)
	account(t, c, name, "")
	b := &v1alpha1.Branch{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "main", Labels: map[string]string{v1alpha1.LabelID: "8"}},
		Spec:       v1alpha1.BranchSpec{DeploymentRef: v1alpha1.LocalReference{Name: "sales"}, Name: "main", Role: v1alpha1.BranchShared},
	}
	if err := c.Create(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	a := allocator(c)
	if err := a.Reserve(t.Context(), name, Branches, 2); err != nil {
		t.Fatal(err)
	}
	if got := apitest.IssuedIDs(t, c, name); got != "branches=8" {
		t.Errorf("the ledger says %q", got)
	}
}

func TestErrors(t *testing.T) {
	c, name := apitest.Direct(t)
	account(t, c, name, "deployments=twelve")
	_, full := apitest.Direct(t)
	account(t, c, full, "deployments=9007199254740991")
	cases := map[string]struct{ account, says string }{
		"malformed ledger":       {name, `account "` + name + `": annotation platform.quoin.dev/issued-ids: "deployments=twelve" must have the form`},
		"no account":             {"nobody", `read ledger of account "nobody"`},
		"no numbers left":        {full, `account "` + full + `": no deployments number is left`},
		"no numbers left either": {full, "platform.quoin.dev/issued-ids"},
	}
	for what, tc := range cases {
		t.Run(what, func(t *testing.T) {
			id, err := allocator(c).Next(t.Context(), tc.account, Deployments)
			if err == nil || id != 0 || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %d, %v; want an error with %q", id, err, tc.says)
			}
		})
	}
	if got := apitest.IssuedIDs(t, c, name); got != "deployments=twelve" {
		t.Errorf("the malformed ledger became %q", got)
	}
	if _, err := allocator(c).Next(t.Context(), "nobody", Deployments); !apierrors.IsNotFound(errors.Unwrap(err)) {
		t.Errorf("got %v, want not found", err)
	}
}
