// Package managed has which folders and workbooks belong to objects in Kubernetes. Only a context with that object can
// change them: packages with such content call Check in every transaction that does.
package managed

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Owner has the table of managed content.
var Owner = store.Owner{
	Name: "managed", Migrations: migrations, Tables: []string{"managed_content"},
	Purge: store.PurgeTable("managed_content", "account_uid, kind, content_id"),
}

// The kinds of content.
const (
	Folder   = "Folder"
	Workbook = "Workbook"
)

// ErrOutdated is returned for an object of which a later generation has been applied.
var ErrOutdated = errors.New("a later generation of the object has been applied")

// Object is an object in Kubernetes.
type Object struct {
	// Kind is Folder or Workbook.
	Kind, Namespace, Name string
	UID                   string
	Generation            int64
}

// String returns the kind, the namespace and the name.
func (o Object) String() string { return o.Kind + " " + o.Namespace + "/" + o.Name }

// is reports whether both are the object of the same name.
func (o Object) is(other Object) bool {
	return o.Kind == other.Kind && o.Namespace == other.Namespace && o.Name == other.Name
}

// Options are how an object gets its content.
type Options struct {
	Object Object
	// Adopt takes over content of users.
	Adopt bool
	// Replace reports whether content is taken over from another object, which has no right to it; nil for never.
	Replace func(from Object) bool
}

// Record is the row of managed content.
type Record struct {
	Object
	ContentID int64
	// Definition is the hash of what the object defined.
	Definition string
}

type key struct{}

// As returns the context of changes by an object.
func As(ctx context.Context, o Object) context.Context { return context.WithValue(ctx, key{}, o) }

// Check returns a conflict that names the object to which content belongs, if the context is not that of the object.
func Check(ctx context.Context, q store.Querier, s content.Scope, kind string, id int64) error {
	found, err := Of(ctx, q, s, kind, id)
	if err != nil || found == nil {
		return err
	}
	if by, ok := ctx.Value(key{}).(Object); ok && by.is(found.Object) {
		return nil
	}
	return content.Errorf(content.Conflict, "%s %d is managed by %s: change it there", strings.ToLower(kind), id, found.Object)
}

const columns = "kind, namespace, name, object, generation, content_id, definition"

func scan(row *sql.Row) (*Record, error) {
	r := &Record{}
	err := row.Scan(&r.Kind, &r.Namespace, &r.Name, &r.UID, &r.Generation, &r.ContentID, &r.Definition)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read managed content: %w", err)
	}
	return r, nil
}

// Of returns the row of a folder or a workbook; nil if it belongs to no object.
func Of(ctx context.Context, q store.Querier, s content.Scope, kind string, id int64) (*Record, error) {
	const query = "SELECT " + columns + " FROM managed_content WHERE account_uid = $1 AND deployment_uid = $2 AND kind = $3 AND content_id = $4"
	return scan(q.QueryRowContext(ctx, query, s.Account.UID, s.Deployment.UID, kind, id))
}

// Find returns the row of the content of an object; nil if it has none. It returns ErrOutdated if a later generation of the
// object was applied.
func Find(ctx context.Context, q store.Querier, s content.Scope, o Object) (*Record, error) {
	const query = "SELECT " + columns + " FROM managed_content WHERE account_uid = $1 AND deployment_uid = $2 AND kind = $3 AND namespace = $4 AND name = $5"
	r, err := scan(q.QueryRowContext(ctx, query, s.Account.UID, s.Deployment.UID, o.Kind, o.Namespace, o.Name))
	if r != nil && r.UID == o.UID && r.Generation > o.Generation {
		return nil, ErrOutdated
	}
	return r, err
}

// Claim returns an error if an object may not have content that exists: it belongs to another object, or to a user. what is how
// the error begins.
func Claim(ctx context.Context, q store.Querier, s content.Scope, o Options, id int64, what string) error {
	found, err := Of(ctx, q, s, o.Object.Kind, id)
	switch {
	case err != nil:
		return err
	case found == nil && !o.Adopt:
		return content.Errorf(content.Conflict, "%s, which no object manages; set spec.adopt to take it over, or delete it", what)
	case found != nil && !found.is(o.Object) && (o.Replace == nil || !o.Replace(found.Object)):
		return content.Errorf(content.Conflict, "%s, which is managed by %s", what, found.Object)
	}
	return nil
}

// Set stores that content belongs to an object.
func Set(ctx context.Context, tx *store.Tx, s content.Scope, r Record) error {
	const statement = "INSERT INTO managed_content (account_uid, deployment_uid, " + columns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
		ON CONFLICT (account_uid, kind, content_id) DO UPDATE SET namespace = excluded.namespace, name = excluded.name, object = excluded.object,
			generation = excluded.generation, definition = excluded.definition`
	if err := release(ctx, tx, s, r.Object, r.ContentID); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, statement, s.Account.UID, s.Deployment.UID, r.Kind, r.Namespace, r.Name, r.UID, r.Generation, r.ContentID, r.Definition)
	if err != nil {
		return fmt.Errorf("store that %s has its content: %w", r.Object, err)
	}
	return nil
}

// Release stores that an object has no content.
func Release(ctx context.Context, tx *store.Tx, s content.Scope, o Object) error {
	return release(ctx, tx, s, o, 0)
}

// release stores that an object has no content but one.
func release(ctx context.Context, tx *store.Tx, s content.Scope, o Object, except int64) error {
	const statement = `DELETE FROM managed_content WHERE account_uid = $1 AND deployment_uid = $2 AND kind = $3 AND namespace = $4 AND name = $5
		AND content_id <> $6`
	if _, err := tx.ExecContext(ctx, statement, s.Account.UID, s.Deployment.UID, o.Kind, o.Namespace, o.Name, except); err != nil {
		return fmt.Errorf("release the content of %s: %w", o, err)
	}
	return nil
}

// Deleted stores that content does not exist.
func Deleted(ctx context.Context, tx *store.Tx, s content.Scope, kind string, id int64) error {
	const statement = "DELETE FROM managed_content WHERE account_uid = $1 AND deployment_uid = $2 AND kind = $3 AND content_id = $4"
	if _, err := tx.ExecContext(ctx, statement, s.Account.UID, s.Deployment.UID, kind, id); err != nil {
		return fmt.Errorf("release %s %d: %w", kind, id, err)
	}
	return nil
}

// Hash returns the hash of a definition, which must be a value that encoding/json accepts.
func Hash(definition any) (string, error) {
	text, err := json.Marshal(definition)
	if err != nil {
		return "", fmt.Errorf("hash of a definition: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// Row is a row with its account and deployment.
type Row struct {
	Record
	AccountUID, DeploymentUID string
}

// List returns rows of all accounts after one, in the order of their keys.
func List(ctx context.Context, q store.Querier, after Row, limit int) (out []Row, err error) {
	const query = "SELECT account_uid, deployment_uid, " + columns + ` FROM managed_content WHERE (account_uid, kind, content_id) > ($1, $2, $3)
		ORDER BY account_uid, kind, content_id LIMIT $4`
	rows, err := q.QueryContext(ctx, query, after.AccountUID, after.Kind, after.ContentID, limit)
	if err != nil {
		return nil, fmt.Errorf("list managed content: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var r Row
		if err := rows.Scan(&r.AccountUID, &r.DeploymentUID, &r.Kind, &r.Namespace, &r.Name, &r.UID, &r.Generation, &r.ContentID, &r.Definition); err != nil {
			return nil, fmt.Errorf("list managed content: %w", err)
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// Forget deletes a row, unless it has changed since it was read.
func Forget(ctx context.Context, tx *store.Tx, r *Row) error {
	const statement = "DELETE FROM managed_content WHERE account_uid = $1 AND kind = $2 AND content_id = $3 AND object = $4 AND generation = $5"
	if _, err := tx.ExecContext(ctx, statement, r.AccountUID, r.Kind, r.ContentID, r.UID, r.Generation); err != nil {
		return fmt.Errorf("release the content of %s: %w", r.Object, err)
	}
	return nil
}
