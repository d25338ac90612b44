package oauth

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/internal/store"
)

// userCodeLetters are those of user codes: no vowels, so that there are no words, and nothing that looks like
// something else (RFC 8628, section 6.1). userCodeLength of them are 34 bits.
const (
	userCodeLetters = "BCDFGHJKLMNPQRSTVWXZ"
	userCodeLength  = 8
)

// The statuses of the request of a device.
const (
	pendingStatus  = "pending"
	deniedStatus   = "denied"
	approvedStatus = "approved"
	redeemedStatus = "redeemed"
)

// Device is a new request of a device. Its codes cannot be read again.
type Device struct{ Code, UserCode string }

// newUserCode returns a random user code, such as WDJB-MJHT.
func newUserCode() (string, error) {
	var code strings.Builder
	for i := range userCodeLength {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(userCodeLetters))))
		if err != nil {
			return "", fmt.Errorf("choose a user code: %w", err)
		}
		if i == userCodeLength/2 {
			code.WriteByte('-')
		}
		code.WriteByte(userCodeLetters[n.Int64()])
	}
	return code.String(), nil
}

// hashUserCode returns the hash of a user code as a person enters it: case, blanks and punctuation do not
// matter.
func hashUserCode(code string) string {
	return hash(strings.Map(func(r rune) rune {
		if strings.ContainsRune(userCodeLetters, r) {
			return r
		}
		return -1
	}, strings.ToUpper(code)))
}

// StartDevice stores the request of a device.
func (s *Store) StartDevice(ctx context.Context, a store.Account, clientID, address string) (*Device, error) {
	user, err := newUserCode()
	if err != nil {
		return nil, err
	}
	out, now := &Device{Code: newSecret(devicePrefix), UserCode: user}, s.now()
	err = s.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockAccount(ctx, a); err != nil {
			return err
		}
		const insert = `INSERT INTO oauth_device (account_uid, hash, user_code_hash, client_id, address, status, grant_id, interval_seconds, polled_at, created_at, expires_at)
			VALUES ($1, $2, $3, $4, $5, $6, '', $7, 0, $8, $9)`
		_, err := tx.ExecContext(ctx, insert, a.UID, hash(out.Code), hashUserCode(user), clientID, truncated(address), pendingStatus,
			int64(DeviceInterval/time.Second), now.UnixMicro(), now.Add(DeviceLifetime).UnixMicro())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("store the request of a device: %w", err)
	}
	return out, nil
}

// DeviceRequest is what a person sees of the request of a device.
type DeviceRequest struct {
	ClientID, Address string
	CreatedAt         time.Time
}

// FindDevice returns the pending request with a user code. The error is ErrUnknown unless there is one.
func (s *Store) FindDevice(ctx context.Context, accountUID, userCode string) (*DeviceRequest, error) {
	var out DeviceRequest
	var created int64
	err := s.DB.Read(ctx, func(q store.Querier) error {
		const query = "SELECT client_id, address, created_at FROM oauth_device WHERE account_uid = $1 AND user_code_hash = $2 AND status = $3 AND expires_at > $4"
		return q.QueryRowContext(ctx, query, accountUID, hashUserCode(userCode), pendingStatus, s.now().UnixMicro()).Scan(&out.ClientID, &out.Address, &created)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrUnknown
	}
	if err != nil {
		return nil, fmt.Errorf("find the request of a device: %w", err)
	}
	out.CreatedAt = time.UnixMicro(created).UTC()
	return &out, nil
}

// DecideDevice approves or denies the pending request with a user code. The error is ErrUnknown unless there is
// one.
func (s *Store) DecideDevice(ctx context.Context, a store.Account, userCode string, approve bool, p Person) error {
	claims, err := p.encode()
	if err != nil {
		return err
	}
	known := false
	err = s.DB.Tx(ctx, func(tx *store.Tx) error {
		if err := tx.LockAccount(ctx, a); err != nil {
			return err
		}
		now := s.now()
		g := Grant{ID: rand.Text(), Person: p}
		var expires int64
		status := deniedStatus
		if approve {
			status = approvedStatus
		}
		const update = `UPDATE oauth_device SET status = $5, grant_id = $6 WHERE account_uid = $1 AND user_code_hash = $2 AND status = $3 AND expires_at > $4
			RETURNING client_id, address, expires_at`
		err := tx.QueryRowContext(ctx, update, a.UID, hashUserCode(userCode), pendingStatus, now.UnixMicro(), status, g.ID).Scan(&g.ClientID, &g.Address, &expires)
		if known = !errors.Is(err, sql.ErrNoRows); !known || err != nil || !approve {
			if !known {
				return nil
			}
			return err
		}
		// Until the device fetches its tokens, the grant ends with the request.
		g.ExpiresAt = time.UnixMicro(expires)
		return s.insertGrant(ctx, tx, a.UID, g, claims, now)
	})
	if err != nil {
		return fmt.Errorf("decide on the request of a device: %w", err)
	}
	if !known {
		return ErrUnknown
	}
	return nil
}

// deviceRow is a row of oauth_device.
type deviceRow struct {
	clientID, status, grant string
	interval, polled        int64
	expires                 int64
}

// PollDevice returns the tokens of a request that was approved, once. The error is ErrPending, ErrSlowDown,
// ErrDenied, ErrUnknown, ErrReused or ErrMismatch if there are none.
func (s *Store) PollDevice(ctx context.Context, a store.Account, clientID, deviceCode string) (*Tokens, error) {
	var out *Tokens
	var rejected error
	err := s.DB.Tx(ctx, func(tx *store.Tx) (err error) {
		if err := tx.LockAccount(ctx, a); err != nil {
			return err
		}
		out, rejected, err = s.poll(ctx, tx, a.UID, clientID, hash(deviceCode))
		return err
	})
	if errors.Is(rejected, ErrReused) {
		s.found.forget()
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("poll for the tokens of a device: %w", err)
	case rejected != nil:
		return nil, rejected
	}
	return out, nil
}

func (s *Store) poll(ctx context.Context, tx *store.Tx, accountUID, clientID, hash string) (out *Tokens, rejected, err error) {
	now, d := s.now(), deviceRow{}
	const query = "SELECT client_id, status, grant_id, interval_seconds, polled_at, expires_at FROM oauth_device WHERE account_uid = $1 AND hash = $2"
	err = tx.QueryRowContext(ctx, query, accountUID, hash).Scan(&d.clientID, &d.status, &d.grant, &d.interval, &d.polled, &d.expires)
	switch {
	case errors.Is(err, sql.ErrNoRows), err == nil && now.UnixMicro() >= d.expires:
		return nil, ErrUnknown, nil
	case err != nil:
		return nil, nil, err
	case d.clientID != clientID:
		return nil, ErrMismatch, nil
	case d.status == deniedStatus:
		return nil, ErrDenied, nil
	}
	set := func(column string, value any) error {
		_, err := tx.ExecContext(ctx, "UPDATE oauth_device SET polled_at = $3, "+column+" = $4 WHERE account_uid = $1 AND hash = $2", accountUID, hash, now.UnixMicro(), value)
		return err
	}
	switch early := d.polled > 0 && now.Sub(time.UnixMicro(d.polled)) < time.Duration(d.interval)*time.Second; {
	case d.status == pendingStatus && early:
		return nil, ErrSlowDown, set("interval_seconds", d.interval+int64(slowDown/time.Second))
	case d.status == pendingStatus:
		return nil, ErrPending, set("interval_seconds", d.interval)
	}
	g, err := readGrant(ctx, tx, accountUID, d.grant, now)
	switch {
	case err != nil:
		return nil, nil, err
	case g == nil:
		return nil, ErrUnknown, nil
	case d.status == redeemedStatus:
		return nil, ErrReused, s.revoke(ctx, tx, accountUID, *g, "a device code was used again")
	}
	g.ExpiresAt = now.Add(GrantLifetime)
	if out, err = issue(ctx, tx, accountUID, *g, now); err != nil {
		return nil, nil, err
	}
	return out, nil, set("status", redeemedStatus)
}

// readGrant returns a valid grant; nil if there is none.
func readGrant(ctx context.Context, q store.Querier, accountUID, id string, now time.Time) (*Grant, error) {
	g, claims := &Grant{ID: id}, ""
	const query = "SELECT client_id, scope, issuer, subject, claims, user_uid, address FROM oauth_grant WHERE account_uid = $1 AND id = $2 AND expires_at > $3"
	err := q.QueryRowContext(ctx, query, accountUID, id, now.UnixMicro()).Scan(&g.ClientID, &g.Scope, &g.Issuer, &g.Subject, &claims, &g.UserUID, &g.Address)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find a grant: %w", err)
	}
	return g, g.decode(claims)
}
