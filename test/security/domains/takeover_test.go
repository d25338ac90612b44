package domains_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// The attacker may edit a deployment of their own account that is older than the victim's, and sets
// its custom domain to the one that the victim's deployment is served on. HTTP, WebSocket and SQL
// of the domain stay with the victim, and the attacker's deployment is Stalled without naming the
// victim.
func TestOlderDeploymentCannotTakeACustomDomain(t *testing.T) {
	w := newWorld(t)
	w.account("attacker")
	w.deployment("attacker", "old", "")
	w.nextSecond()
	w.account("victim")
	domain := w.domain("metrics")
	w.deployment("victim", "sales", domain)
	w.expectServed(domain, "victim", "sales")
	w.setDomain("attacker", "old", domain)
	w.expectStalled("attacker", "old", v1alpha1.ReasonHostTaken, "victim", "sales")
	w.expectServed(domain, "victim", "sales")
	if url := w.get("attacker", "old").Status.URL; url != "https://old.data."+w.prefix+"attacker.example.com" {
		t.Errorf("the attacker's users are sent to %s", url)
	}
}

// The attacker requests the victim's domain and waits: for the moment in which the victim removes it
// and adds it again, which GitOps tools do. Only the victim may be served on it unless the
// victim has released it, and never two deployments.
func TestDomainThatIsRemovedAndAddedAgain(t *testing.T) {
	w := newWorld(t)
	w.account("attacker")
	w.account("victim")
	domain := w.contested("victim/sales", "attacker/waits")
	for range 10 {
		w.setDomain("victim", "sales", "")
		w.setDomain("victim", "sales", domain)
	}
	w.eventually(func() string {
		holders := w.holders(domain)
		if len(holders) != 1 {
			return fmt.Sprintf("%s is held by %q", domain, holders)
		}
		return ""
	})
	// Whichever has it, the other one gets it only after it is released.
	holder, loser := "victim/sales", "attacker/waits"
	if w.holders(domain)[0] != holder {
		holder, loser = loser, holder
	}
	account, name := split(holder)
	w.expectServed(domain, account, name)
	w.setDomain(account, name, "")
	account, name = split(loser)
	w.expectServed(domain, account, name)
}

// Deployments of several accounts request the same free domain at the same moment. Exactly one gets
// it; the others get nothing, not even for a moment.
func TestConcurrentClaims(t *testing.T) {
	w := newWorld(t)
	const rivals = 6
	domain := w.domain("metrics")
	for i := range rivals {
		w.account(fmt.Sprint("a", i))
	}
	watching := w.watchHolders(domain)
	var group sync.WaitGroup
	for i := range rivals {
		group.Go(func() { w.deployment(fmt.Sprint("a", i), "sales", domain) })
	}
	group.Wait()
	w.eventually(func() string {
		stalled := 0
		for i := range rivals {
			if w.stalledFor(fmt.Sprint("a", i), "sales") == v1alpha1.ReasonHostTaken {
				stalled++
			}
		}
		if holders := w.holders(domain); len(holders) != 1 || stalled != rivals-1 {
			return fmt.Sprintf("%s is held by %q, %d are Stalled", domain, holders, stalled)
		}
		return ""
	})
	if most := watching(); most != 1 {
		t.Errorf("%d deployments held the domain at once", most)
	}
}

// The holder is deleted while another deployment waits: the domain goes to it, and the deleted
// deployment's claim does not block the domain.
func TestDomainOfADeletedDeployment(t *testing.T) {
	w := newWorld(t)
	w.account("first")
	w.account("second")
	domain := w.contested("first/sales", "second/sales")
	if err := cluster.Client.Delete(t.Context(), w.get("first", "sales")); err != nil {
		t.Fatal(err)
	}
	w.expectServed(domain, "second", "sales")
}

// The attacker requests hosts that belong to other tenants in another way: the API host and a custom
// domain of an account, its data domain, hosts below it, and the host of a deployment that does not
// exist yet. All are refused.
func TestHostsOfAnotherAccount(t *testing.T) {
	w := newWorld(t)
	w.account("attacker")
	bi := w.domain("bi")
	w.account("victim", func(s *v1alpha1.AccountSpec) { s.CustomDomains = []v1alpha1.Host{v1alpha1.Host(bi)} })
	w.deployment("victim", "sales", "")
	own := w.prefix + "victim.example.com"
	w.eventually(func() string {
		a := &v1alpha1.Account{}
		if err := cluster.Client.Get(t.Context(), client.ObjectKey{Name: w.prefix + "victim"}, a); err != nil || len(a.Status.Hosts) != 2 {
			return fmt.Sprintf("the account holds %q: %v", a.Status.Hosts, err)
		}
		return ""
	})
	for i, host := range []string{own, bi, "data." + own, "sales.data." + own, "new.data." + own, "sales.sql.data." + own, "a.b.data." + own} {
		name := fmt.Sprint("d", i)
		w.deployment("attacker", name, host)
		w.expectStalled("attacker", name, v1alpha1.ReasonHostTaken, `"`+w.prefix+`victim"`)
		if got := w.served(host); slices.Contains(got, "attacker/"+name) {
			t.Errorf("%s is served by %q", host, got)
		}
	}
}

// The attacker registers hosts below a domain before the account that it belongs to exists. When the
// account is created, they lose the hosts below its data domain.
func TestDataDomainOfALaterAccount(t *testing.T) {
	w := newWorld(t)
	w.account("attacker")
	host := "sales.data." + w.prefix + "victim.example.com"
	w.deployment("attacker", "early", host)
	w.expectServed(host, "attacker", "early")
	w.account("victim")
	w.expectStalled("attacker", "early", v1alpha1.ReasonHostTaken)
	w.deployment("victim", "sales", "")
	w.eventually(func() string {
		if got := w.served(host); got[0] != "victim/sales" || got[1] != "victim/sales" || got[2] == "attacker/early" {
			return fmt.Sprintf("%s is served by %q", host, got)
		}
		return ""
	})
}

// A deployment requests the host of another deployment of its account, and shows it as its address if it gets it. Other hosts below the
// data domain of its account are free.
func TestHostOfAnotherDeployment(t *testing.T) {
	w := newWorld(t)
	w.account("company")
	w.deployment("company", "sales", "")
	domain := ".data." + w.prefix + "company.example.com"
	for i, host := range []string{"sales" + domain, "sales.sql.data." + w.prefix + "company.example.com"} {
		name := fmt.Sprint("copy-", i)
		w.deployment("company", name, host)
		w.expectStalled("company", name, v1alpha1.ReasonHostTaken)
	}
	w.deployment("company", "report", "bi"+domain)
	w.expectServed("bi"+domain, "company", "report")
	// In the other order too.
	w.deployment("company", "bi", "")
	w.expectStalled("company", "report", v1alpha1.ReasonHostTaken)
}

// The administrator limits an account to its own domains. The attacker requests a domain whose name
// only ends like an allowed one, and keeps one that was allowed before.
func TestDomainSuffixes(t *testing.T) {
	w := newWorld(t)
	allowed := w.domain("corp")
	w.account("attacker", func(s *v1alpha1.AccountSpec) { s.DomainSuffixes = []v1alpha1.DomainName{v1alpha1.DomainName(allowed)} })
	w.deployment("attacker", "own", "bi."+allowed)
	w.expectServed("bi."+allowed, "attacker", "own")
	w.deployment("attacker", "similar", "evil"+allowed)
	w.expectStalled("attacker", "similar", v1alpha1.ReasonDomainNotAllowed)
	if got := w.served("evil" + allowed); slices.Contains(got, "attacker/similar") {
		t.Errorf("served by %q", got)
	}
	account := &v1alpha1.Account{}
	account.Name = w.prefix + "attacker"
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"domainSuffixes":["other.example.org"]}}`))
	if err := cluster.Client.Patch(t.Context(), account, patch); err != nil {
		t.Fatal(err)
	}
	w.expectStalled("attacker", "own", v1alpha1.ReasonDomainNotAllowed)
	if got := w.served("bi." + allowed); slices.Contains(got, "attacker/own") {
		t.Errorf("served by %q", got)
	}
}
