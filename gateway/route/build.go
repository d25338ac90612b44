package route

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/engine"
	"github.com/quoin-dev/quoin/internal/tenant"
)

// Objects are the objects that routes are built from, in any order. They are not modified.
type Objects struct {
	Accounts     []v1alpha1.Account
	Deployments  []v1alpha1.Deployment
	Environments []v1alpha1.Environment
	Branches     []v1alpha1.Branch
}

// NewTable builds a routing table.
//
// A custom domain is served for the deployment that holds it, which the claims of the controller
// decide; age never does. Hosts below an account's data domain take precedence over custom domains,
// and a custom domain below the data domain of another account is ignored: otherwise a tenant could
// claim the host of a future deployment of another tenant, and receive its tokens. If accounts share
// a data domain and two deployments in them a name, the older deployment gets the host.
func NewTable(o Objects) *Table {
	b := builder{table: &Table{http: map[string]*deployment{}, sql: map[string]*deployment{}, environments: map[types.NamespacedName]struct{}{}}}
	b.owners = tenant.Owners(o.Accounts)
	deployments := b.deployments(o.Deployments)
	entries := map[types.NamespacedName]*deployment{}
	for _, d := range deployments {
		entry := &deployment{basePath: engine.BasePathOf(d), branches: map[string]Environment{}}
		entries[types.NamespacedName{Namespace: d.Namespace, Name: d.Name}] = entry
		account := b.owners[d.Namespace]
		claim(b.table.http, engine.Host(account, d), entry)
		claim(b.table.sql, engine.SQLHost(account, d), entry)
	}
	for host, d := range b.customDomains(deployments) {
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
	// owners are the accounts by the namespace that each of them owns.
	owners map[string]*v1alpha1.Account
}

// claim assigns a host to the first deployment that claims it.
func claim(hosts map[string]*deployment, host string, d *deployment) {
	if _, taken := hosts[host]; !taken {
		hosts[host] = d
	}
}

// customDomains returns the deployments by the custom domain that they hold. If more than one shows
// a domain, for example after statuses were restored from a backup, none gets it.
func (b *builder) customDomains(deployments []*v1alpha1.Deployment) map[string]*v1alpha1.Deployment {
	holders, ambiguous := map[string]*v1alpha1.Deployment{}, map[string]bool{}
	for _, d := range deployments {
		host := tenant.HeldDomain(d)
		if host == "" || tenant.IsForeign(host, b.owners, b.owners[d.Namespace]) {
			continue
		}
		ambiguous[host] = ambiguous[host] || holders[host] != nil
		holders[host] = d
	}
	maps.DeleteFunc(holders, func(host string, _ *v1alpha1.Deployment) bool { return ambiguous[host] })
	return holders
}

// deployments returns the deployments in namespaces of accounts, oldest first.
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

// addEnvironments adds the environments to their deployments. If several environments serve a
// branch, staging takes precedence over development, then the older one.
func (b *builder) addEnvironments(o Objects, entries map[types.NamespacedName]*deployment) {
	branches := map[types.NamespacedName]*v1alpha1.Branch{}
	for i := range o.Branches {
		branches[types.NamespacedName{Namespace: o.Branches[i].Namespace, Name: o.Branches[i].Name}] = &o.Branches[i]
	}
	for _, e := range sortedEnvironments(o.Environments) {
		entry := entries[types.NamespacedName{Namespace: e.Namespace, Name: e.Spec.DeploymentRef.Name}]
		if entry == nil {
			continue
		}
		b.table.environments[types.NamespacedName{Namespace: e.Namespace, Name: e.Name}] = struct{}{}
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

// sortedEnvironments returns the environments in order of precedence, without those that are being
// deleted.
func sortedEnvironments(all []v1alpha1.Environment) []*v1alpha1.Environment {
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
