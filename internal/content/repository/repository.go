// Package repository has the Git repositories of deployments: objects and branches as rows of the
// content store. Objects are immutable and stored whole; a branch is moved by compare-and-swap, in
// the transaction that stores the objects and the events of the change.
//
//	repository.go   owner, limits, sessions
//	session.go      reading and adding objects: the storer of go-git
//	read.go         statements that read objects
//	cache.go        objects read lately
//	save.go         storing objects and moving branches in one transaction
//	insert.go       statements that store objects
//	blobs.go        storing files that no commit has yet
//	branch.go       branches and the rules of their names
//	mirror.go       copies of remotes: changes are pushed before they are stored
//	collect.go      deleting objects that no branch needs
//	migrations/     the tables
//
// All objects that a stored object refers to are stored. Save checks it, and the collection keeps it
// (decision 0042), so Save needs to check only the references of new objects.
package repository

import (
	"context"
	"embed"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Owner has the tables git_object, git_branch and git_repository.
var Owner = store.Owner{Name: "git_repository", Migrations: migrations, Tables: []string{"git_repository", "git_branch", "git_object"}, Purge: purge}

// purge is Owner.Purge.
var purge = store.PurgeInOrder(
	store.PurgeTable("git_branch", "account_uid, deployment_uid, name"),
	store.PurgeTable("git_object", "account_uid, deployment_uid, hash"),
	store.PurgeTable("git_repository", "account_uid, deployment_uid"),
)

// Quota bounds the repositories of a deployment and of an account. Bytes are those of the compressed
// objects, reachable or not.
type Quota struct {
	DeploymentBytes, AccountBytes int64
	// MaxObjects is the maximum number of objects of a deployment.
	MaxObjects int64
	// MaxBranches is the maximum number of branches of a deployment.
	MaxBranches int
}

// DefaultQuota is the quota if that of Repositories is zero; also single fields of it.
var DefaultQuota = Quota{DeploymentBytes: 1 << 30, AccountBytes: 10 << 30, MaxObjects: 250_000, MaxBranches: 1000}

// withDefaults returns the quota with defaults for its zero fields.
func (q Quota) withDefaults() Quota {
	if q.DeploymentBytes == 0 {
		q.DeploymentBytes = DefaultQuota.DeploymentBytes
	}
	if q.AccountBytes == 0 {
		q.AccountBytes = DefaultQuota.AccountBytes
	}
	if q.MaxObjects == 0 {
		q.MaxObjects = DefaultQuota.MaxObjects
	}
	if q.MaxBranches == 0 {
		q.MaxBranches = DefaultQuota.MaxBranches
	}
	return q
}

// Repositories are the repositories of all deployments. It must not be copied after first use.
type Repositories struct {
	DB     content.Database
	Record content.Record
	// Quota has defaults for its zero fields.
	Quota Quota
	// Now is the clock; time.Now if nil.
	Now func() time.Time

	cache cache
}

// now returns the time with the precision of the database.
func (r *Repositories) now() time.Time {
	now := time.Now
	if r.Now != nil {
		now = r.Now
	}
	return now().UTC().Truncate(time.Microsecond)
}

// Session returns a session on the repository of a deployment, which is empty if it has never been
// written to. Its requests end with the context.
func (r *Repositories) Session(ctx context.Context, s content.Scope) *Session {
	return &Session{ctx: ctx, all: r, scope: s, added: map[plumbing.Hash]*object{}, maxBytes: maxAddedBytes, maxObjects: maxAddedObjects}
}
