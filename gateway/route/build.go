package route

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// Objects are all that decide routes, in any order. They are not changed.
type Objects struct {
	Accounts     []v1alpha1.Account
	Deployments  []v1alpha1.Deployment
	Environments []v1alpha1.Environment
	Branches     []v1alpha1.Branch
}

// NewTable builds a table.
//
// A host that two deployments want belongs to the older one. The hosts below an account's data
// domain come before custom domains, and a custom domain below the data domain of another
// account counts for nothing: otherwise somebody could take the name of a deployment that its
// owner has yet to make, and be sent its tokens.
func NewTable(o Objects) *Table {
	b := builder{table: &Table{http: map[string]*deployment{}, sql: map[string]*deployment{}}}
	b.findAccounts(o.Accounts)
	deployments := b.deployments(o.Deployments)
	entries := map[types.NamespacedName]*deployment{}
	for _, d := range deployments {
		entry := &deployment{basePath: engine.BasePathOf(d), branches: map[string]Environment{}}
		entries[types.NamespacedName{Namespace: d.Namespace, Name: d.Name}] = entry
		account := b.owners[d.Namespace]
		claim(b.table.http, engine.Host(account, d), entry)
		claim(b.table.sql, engine.SQLHost(account, d), entry)
	}
	for _, d := range deployments {
		host := engine.CustomHost(d)
		if host == "" || b.isForeign(host, b.owners[d.Namespace]) {
			continue
		}
		entry := entries[types.NamespacedName{Namespace: d.Namespace, Name: d.Name}]
		claim(b.table.http, host, entry)
		claim(b.table.sql, host, entry)
	}
	b.addEnvironments(o, entries)
	b.table.deployments = entries
	return b.table
}

type builder struct {
	table *Table
	// owners are the accounts by the namespace that each has to itself.
	owners map[string]*v1alpha1.Account
}

// claim gives a host to who asks first.
func claim(hosts map[string]*deployment, host string, d *deployment) {
	if _, taken := hosts[host]; !taken {
		hosts[host] = d
	}
}

// findAccounts leaves out accounts that are going away and those whose namespace is an older
// one's.
func (b *builder) findAccounts(accounts []v1alpha1.Account) {
	b.owners = map[string]*v1alpha1.Account{}
	for i := range accounts {
		a := &accounts[i]
		if held := b.owners[a.Spec.Namespace]; held == nil || tenant.Older(a, held) {
			b.owners[a.Spec.Namespace] = a
		}
	}
	for namespace, a := range b.owners {
		if !a.DeletionTimestamp.IsZero() {
			delete(b.owners, namespace)
		}
	}
}

// deployments are those of an account, the oldest first.
func (b *builder) deployments(all []v1alpha1.Deployment) []*v1alpha1.Deployment {
	var out []*v1alpha1.Deployment
	for i := range all {
		if b.owners[all[i].Namespace] != nil && all[i].DeletionTimestamp.IsZero() {
			out = append(out, &all[i])
		}
	}
	slices.SortFunc(out, func(x, y *v1alpha1.Deployment) int {
		return cmp.Or(
			x.CreationTimestamp.Compare(y.CreationTimestamp.Time),
			strings.Compare(x.Namespace, y.Namespace),
			strings.Compare(x.Name, y.Name),
		)
	})
	return out
}

// isForeign tells whether a host is below the data domain of other accounts only. Where domains
// are one below the other, the longest counts.
func (b *builder) isForeign(host string, own *v1alpha1.Account) bool {
	longest, foreign := "", false
	for _, a := range b.owners {
		domain := engine.DataDomain(a)
		if host != domain && !strings.HasSuffix(host, "."+domain) || len(domain) < len(longest) {
			continue
		}
		if domain != longest {
			longest, foreign = domain, true
		}
		foreign = foreign && a != own
	}
	return foreign
}

// addEnvironments puts environments behind the deployments. A branch that several
// environments serve has its staging before its development one, then the oldest.
func (b *builder) addEnvironments(o Objects, entries map[types.NamespacedName]*deployment) {
	branches := map[types.NamespacedName]*v1alpha1.Branch{}
	for i := range o.Branches {
		branches[types.NamespacedName{Namespace: o.Branches[i].Namespace, Name: o.Branches[i].Name}] = &o.Branches[i]
	}
	for _, e := range inOrder(o.Environments) {
		entry := entries[types.NamespacedName{Namespace: e.Namespace, Name: e.Spec.DeploymentRef.Name}]
		if entry == nil {
			continue
		}
		environment := Environment{
			Account: b.owners[e.Namespace].Name, Namespace: e.Namespace, Name: e.Name,
			Deployment: e.Spec.DeploymentRef.Name, Type: e.Spec.Type,
		}
		if e.Spec.Type == v1alpha1.EnvironmentProduction {
			if e.Name == v1alpha1.ProductionName(environment.Deployment) {
				entry.production = &environment
			}
			continue
		}
		if e.Spec.BranchRef == nil {
			continue
		}
		branch := branches[types.NamespacedName{Namespace: e.Namespace, Name: e.Spec.BranchRef.Name}]
		if branch == nil || branch.Spec.DeploymentRef.Name != environment.Deployment {
			continue
		}
		if _, taken := entry.branches[branch.Spec.Name]; !taken {
			entry.branches[branch.Spec.Name] = environment
		}
	}
}

func inOrder(all []v1alpha1.Environment) []*v1alpha1.Environment {
	var out []*v1alpha1.Environment
	for i := range all {
		if all[i].DeletionTimestamp.IsZero() {
			out = append(out, &all[i])
		}
	}
	slices.SortFunc(out, func(x, y *v1alpha1.Environment) int {
		return cmp.Or(
			-strings.Compare(string(x.Spec.Type), string(y.Spec.Type)), // staging, production, development
			x.CreationTimestamp.Compare(y.CreationTimestamp.Time),
			strings.Compare(x.Name, y.Name),
		)
	})
	return out
}
