package contenttest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/store"
)

// Stopped is what a Stepping writes to standard output when it stops.
const Stopped = "stopped"

// Stepping is a database whose process stops at a point until a test kills it: each transaction has one
// before its commit, and one after it. It is not safe for concurrent use.
type Stepping struct {
	content.Database
	// Stop is the number of the point at which it stops, from 1; 0 for none.
	Stop int
	// Points is the number of points that it has passed.
	Points int
}

// Tx implements content.Database.
func (d *Stepping) Tx(ctx context.Context, work func(tx *store.Tx) error) error {
	return d.step(ctx, d.Database.Tx, work)
}

// TxAsync implements content.Database.
func (d *Stepping) TxAsync(ctx context.Context, work func(tx *store.Tx) error) error {
	return d.step(ctx, d.Database.TxAsync, work)
}

func (d *Stepping) step(ctx context.Context, transact func(context.Context, func(tx *store.Tx) error) error, work func(tx *store.Tx) error) error {
	err := transact(ctx, func(tx *store.Tx) error {
		if err := work(tx); err != nil {
			return err
		}
		d.Point()
		return nil
	})
	d.Point()
	return err
}

// Point is a point of another kind.
func (d *Stepping) Point() {
	if d.Points++; d.Points == d.Stop {
		fmt.Println(Stopped)
		time.Sleep(time.Hour) // until it is killed
	}
}

// Arguments returns the argument of a child process that stops at a point: see storetest.Main.
func Arguments(stop int, values ...string) string {
	return fmt.Sprint(stop, " ", strings.Join(values, " "))
}

// ParseArguments returns what Arguments was called with.
func ParseArguments(text string) (stop int, values []string, err error) {
	number, rest, _ := strings.Cut(text, " ")
	_, err = fmt.Sscan(number, &stop)
	return stop, strings.Fields(rest), err
}

// OpenChild opens the database of a child process by its argument, of which the URL is the first value. Stepping stops at the
// point of the argument.
func OpenChild(argument string, owners ...store.Owner) (db *Stepping, values []string, err error) {
	stop, values, err := ParseArguments(argument)
	if err != nil {
		return nil, nil, err
	}
	s, err := store.Open(context.Background(), values[0], nil, Owners(owners)...)
	if err != nil {
		return nil, nil, err
	}
	return &Stepping{Database: s, Stop: stop}, values, nil
}
