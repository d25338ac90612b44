package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/dataplane"
	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

const (
	// requestTimeout is the timeout of a request of the victim. A request that fails counts with it.
	requestTimeout = 10 * time.Second
	// victimAddress is the client address of the victim.
	victimAddress = "127.0.0.7"
)

// victim is the work of the other tenant: requests at a moderate rate.
type victim struct {
	name string
	// rate is the number of requests a second, of which workers are in progress at most.
	rate, workers int
	request       func(context.Context) error
	// sequential is set if the other tenant waits for each request before it makes the next one. Then the time counts from
	// when a request is sent, not from when it was due.
	sequential bool
}

// result is what the victim has measured.
type result struct {
	measure.Times
	// failed is the number of requests that failed, for example because of a limit, and err one of their errors.
	failed int64
	err    error
}

// measure sends requests at the rate. The time of a request that is delayed by the previous one counts from when it was
// due, so requests that cannot be sent count too, unless the work is sequential.
func (v *victim) measure(ctx context.Context, length time.Duration) result {
	var failed atomic.Int64
	var cause atomic.Value
	interval := time.Duration(v.workers) * time.Second / time.Duration(v.rate)
	times, _ := measure.Together(v.workers, func(worker int, start time.Time) (each []time.Duration, _ error) {
		due := start.Add(interval * time.Duration(worker) / time.Duration(v.workers))
		for ; due.Sub(start) < length && ctx.Err() == nil; due = due.Add(interval) {
			sent := due
			if wait := time.Until(due); wait > 0 {
				time.Sleep(wait)
				sent = time.Now() // do not count the lateness of the timer
			}
			if v.sequential {
				sent, due = time.Now(), time.Now()
			}
			took := requestTimeout
			if time.Since(due) < requestTimeout {
				if err := v.once(ctx); err == nil {
					took = time.Since(sent)
				} else {
					failed.Add(1)
					cause.CompareAndSwap(nil, err.Error())
				}
			}
			each = append(each, took)
		}
		return each, nil
	})
	r := result{Times: times, failed: failed.Load()}
	if text, ok := cause.Load().(string); ok {
		r.err = errors.New(text)
	}
	return r
}

func (v *victim) once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return v.request(ctx)
}

// victims are the kinds of work, by name.
func (w *world) victims() map[string]*victim {
	all := map[string]*victim{}
	for _, v := range []*victim{
		w.query(false), w.query(true), w.logIn(),
		w.get("list over REST", "/api/v1/deployments?limit=20", w.victim.Key),
		w.get("list by a ServiceAccount", "/api/v1/deployments?limit=20", w.serviceAccount),
		w.get("SCIM lookup", "/api/scim/v2/Users?filter="+url.QueryEscape(`userName eq "user-7@victim.example.com"`), w.victim.Key),
		w.change(), w.changeRemote(),
	} {
		all[v.name] = v
	}
	return all
}

// Names of kinds of work.
const (
	workQuery    = "query"
	workConnect  = "query over a new connection"
	workSQL      = "SQL login"
	workList     = "list over REST"
	workRobot    = "list by a ServiceAccount"
	workDirector = "SCIM lookup"
	workChange   = "change of a deployment"
	workRemote   = "change of a Git URL"
)

// newClient returns a client with the address of the victim.
func newClient(trust *tls.Config, keepAlive bool) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(victimAddress)}}
	return &http.Client{Transport: &http.Transport{
		DialContext: dialer.DialContext, TLSClientConfig: trust, MaxIdleConnsPerHost: 16, DisableKeepAlives: !keepAlive,
	}}
}

// query is a query of the data API, over a connection that is kept or over new ones.
func (w *world) query(connect bool) *victim {
	c := newClient(w.trust, !connect)
	v := &victim{name: workQuery, rate: 80, workers: 4}
	if connect {
		v.name, v.rate = workConnect, 40
	}
	v.request = func(ctx context.Context) error {
		return w.callWith(ctx, c, http.MethodPost, "https://"+w.gateway+dataplane.PathSmall, w.victim.DataHost, w.victim.Token, dataplane.Query)
	}
	return v
}

// get is a GET request to the REST or SCIM API.
func (w *world) get(name, path, token string) *victim {
	trust := w.quoin.HTTP.Transport.(*http.Transport).TLSClientConfig
	c := newClient(trust, true)
	return &victim{name: name, rate: 80, workers: 4, request: func(ctx context.Context) error {
		return w.call(ctx, c, http.MethodGet, w.quoin.URL+path, w.victim.Host, "Bearer "+token)
	}}
}

// call sends a request, which must succeed, and reads the response.
func (w *world) call(ctx context.Context, c *http.Client, method, address, host, authorization string) error {
	return w.callWith(ctx, c, method, address, host, authorization, "")
}

func (w *world) callWith(ctx context.Context, c *http.Client, method, address, host, authorization, body string) error {
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewBufferString(body))
	if err != nil {
		return err
	}
	r.Host = host
	r.Header.Set("Authorization", authorization)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := c.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.200s", response.Status, text)
	}
	return err
}

// logIn opens a connection to the SQL interface, logs in and sends a message.
func (w *world) logIn() *victim {
	return &victim{name: workSQL, rate: 40, workers: 4, request: func(ctx context.Context) error {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(victimAddress)}}
		plain, err := dialer.DialContext(ctx, "tcp", w.sql)
		if err != nil {
			return err
		}
		defer func() { _ = plain.Close() }()
		_ = plain.SetDeadline(time.Now().Add(requestTimeout))
		trust := w.trust.Clone()
		trust.ServerName, trust.NextProtos = sqlHost(w.victim), []string{"postgresql"}
		conn := tls.Client(plain, trust)
		const message = "SELECT"
		for _, step := range [][2]string{{sqlStartup, sqlAsk}, {sqlPassword, sqlOK}, {message, message}} {
			if _, err := io.WriteString(conn, step[0]); err != nil {
				return err
			}
			got := make([]byte, len(step[1]))
			if _, err := io.ReadFull(conn, got); err != nil || string(got) != step[1] {
				return fmt.Errorf("SQL: %q, %w, want %q", got, err, step[1])
			}
		}
		return nil
	}}
}

// sqlHost returns the host of the SQL interface of a tenant's deployment.
func sqlHost(t *tenant) string { return deployment + ".sql.data." + t.Host }
