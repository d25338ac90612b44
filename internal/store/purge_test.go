package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// cluster is a Cluster for tests: the UIDs that exist.
type cluster struct {
	uids map[string]bool
	err  error
}

func (c *cluster) AccountExists(_ context.Context, a Account) (bool, error) {
	return c.uids[a.UID], c.err
}

func (c *cluster) DeploymentExists(_ context.Context, d Deployment) (bool, error) {
	return c.uids[d.UID], c.err
}

const notes = `CREATE TABLE note (
	account_uid TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
	deployment_uid TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
	id BIGINT NOT NULL,
	PRIMARY KEY (account_uid, deployment_uid, id))`

// noteOwner owns the content of the tests.
func noteOwner() Owner {
	o := ownerNamed("note", notes)
	o.Purge = PurgeTable("note", "account_uid, deployment_uid, id")
	return o
}

// openNotes opens a database with content of the accounts u1 and u2, each with the deployments
// <account>-d1 and <account>-d2.
func openNotes(t *testing.T, fresh string, o Owner, each int) *Store {
	s := mustOpen(t, fresh, o)
	for _, account := range []string{"u1", "u2"} {
		for _, deployment := range []string{"d1", "d2"} {
			addNotes(t, s, account, account+"-"+deployment, each)
		}
	}
	return s
}

func addNotes(t *testing.T, s *Store, account, deployment string, n int) {
	t.Helper()
	ctx := context.Background()
	err := s.Tx(ctx, func(tx *Tx) error {
		if err := tx.LockDeployment(ctx, Account{account, "demo"}, Deployment{deployment, "demo", deployment}); err != nil {
			return err
		}
		for range n {
			id, err := tx.NextID(ctx, account, "note")
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "INSERT INTO note VALUES ($1, $2, $3)", account, deployment, id); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func purger(s *Store, c Cluster, delay time.Duration) (*Purger, *clocktesting.FakePassiveClock) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	return &Purger{Store: s, Cluster: c, Delay: delay, Clock: clock, Log: discard}, clock
}

// left returns how many rows are left: notes of u1-d1, u1-d2, u2-d1, u2-d2; deployments; sequences; accounts.
func left(t *testing.T, s *Store) string {
	t.Helper()
	var counts []string
	for _, deployment := range []string{"u1-d1", "u1-d2", "u2-d1", "u2-d2"} {
		counts = append(counts, fmt.Sprint(number(t, s, "SELECT COUNT(*) FROM note WHERE deployment_uid = $1", deployment)))
	}
	for _, table := range []string{"deployment", "account_sequence", "account"} {
		counts = append(counts, fmt.Sprint(number(t, s, "SELECT COUNT(*) FROM "+table)))
	}
	return strings.Join(counts, " ")
}

func everything() *cluster {
	return &cluster{uids: map[string]bool{"u1": true, "u2": true, "u1-d1": true, "u1-d2": true, "u2-d1": true, "u2-d2": true}}
}

func testPurge(t *testing.T, fresh string) {
	s := openNotes(t, fresh, noteOwner(), purgeLimit+1)
	c := everything()
	p, _ := purger(s, c, 0)
	step := func(want string) {
		t.Helper()
		if err := p.Scan(t.Context()); err != nil {
			t.Error(err)
		}
		if got := left(t, s); got != want {
			t.Errorf("left %s, want %s", got, want)
		}
	}
	step("501 501 501 501 4 2 2")
	delete(c.uids, "u1-d1")
	step("0 501 501 501 3 2 2")
	delete(c.uids, "u2")
	step("0 501 0 0 1 1 1")
	// A cluster that cannot be asked deletes nothing.
	c.uids, c.err = nil, errors.New("the API server is away")
	if err := p.Scan(t.Context()); err == nil || left(t, s) != "0 501 0 0 1 1 1" {
		t.Error(err, left(t, s))
	}
}

func testPurgeDelay(t *testing.T, fresh string) {
	s := openNotes(t, fresh, noteOwner(), 1)
	c := everything()
	p, clock := purger(s, c, time.Hour)
	scan := func(want string) {
		t.Helper()
		if err := p.Scan(t.Context()); err != nil || left(t, s) != want {
			t.Errorf("%v, left %s, want %s", err, left(t, s), want)
		}
	}
	delete(c.uids, "u1")
	scan("1 1 1 1 4 2 2")
	clock.SetTime(clock.Now().Add(59 * time.Minute))
	c.uids["u1"] = true // it was the API server of another cluster, say
	scan("1 1 1 1 4 2 2")
	delete(c.uids, "u1")
	clock.SetTime(clock.Now().Add(2 * time.Minute))
	scan("1 1 1 1 4 2 2")
	clock.SetTime(clock.Now().Add(time.Hour))
	scan("0 0 1 1 2 1 1")
}

func testPurgeContinues(t *testing.T, fresh string) {
	o := noteOwner()
	purge, calls := o.Purge, 0
	o.Purge = func(ctx context.Context, tx *Tx, of Deleted, limit int) (bool, error) {
		if calls++; calls == 2 {
			return false, errors.New("killed")
		}
		return purge(ctx, tx, of, limit)
	}
	s := openNotes(t, fresh, o, purgeLimit)
	c := everything()
	delete(c.uids, "u1")
	p, _ := purger(s, c, 0)
	if err := p.Scan(t.Context()); err == nil || !strings.Contains(left(t, s), "500 500 4 2 2") {
		t.Error(err, left(t, s))
	}
	if err := p.Scan(t.Context()); err != nil || left(t, s) != "0 0 500 500 2 1 1" {
		t.Error(err, left(t, s))
	}
}

// testPurgeKeepsRecord has rows of an owner that does not purge them, such as one of a newer Quoin.
func testPurgeKeepsRecord(t *testing.T, fresh string) {
	_ = openNotes(t, fresh, noteOwner(), 1).Close()
	s := mustOpen(t, fresh)
	c := everything()
	delete(c.uids, "u1")
	p, _ := purger(s, c, 0)
	if err := p.Scan(t.Context()); err == nil || left(t, s) != "1 1 1 1 4 2 2" {
		t.Error(err, left(t, s))
	}
	_ = s.Close()
	s = mustOpen(t, fresh, noteOwner())
	p, _ = purger(s, c, 0)
	if err := p.Scan(t.Context()); err != nil || left(t, s) != "0 0 1 1 2 1 1" {
		t.Error(err, left(t, s))
	}
}
