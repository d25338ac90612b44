// Package etcd reads and writes keys of the etcd of a bench over its JSON API.
package etcd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

// Prefix is the prefix of the keys of kube-apiserver.
const Prefix = "/registry/"

// Batch is the number of keys that one transaction may write.
const Batch = 100

// Server is an etcd without TLS.
type Server struct {
	// URL is its address.
	URL string
}

// Pair is a key with its value.
type Pair struct {
	Key   []byte `json:"key"`
	Value []byte `json:"value"`
}

// Range returns up to limit pairs whose keys have a prefix, and the number of all such keys.
func (s Server) Range(ctx context.Context, prefix string, limit int) ([]Pair, int, error) {
	end := []byte(prefix)
	end[len(end)-1]++ // prefixes end with a letter or a slash
	var found struct {
		KVs   []Pair `json:"kvs"`
		Count int    `json:"count,string"`
	}
	err := s.post(ctx, "/v3/kv/range", map[string]any{"key": []byte(prefix), "range_end": end, "limit": limit}, &found)
	return found.KVs, found.Count, err
}

// Put writes pairs in one transaction, at most Batch.
func (s Server) Put(ctx context.Context, pairs []Pair) error {
	type operation struct {
		Put Pair `json:"requestPut"`
	}
	operations := make([]operation, len(pairs))
	for i, p := range pairs {
		operations[i].Put = p
	}
	var done struct {
		Succeeded bool `json:"succeeded"`
	}
	if err := s.post(ctx, "/v3/kv/txn", map[string]any{"success": operations}, &done); err != nil {
		return err
	}
	if !done.Succeeded {
		return fmt.Errorf("etcd has not written %d keys", len(pairs))
	}
	return nil
}

// Size returns the size of the database, and how much of it is in use, in bytes.
func (s Server) Size(ctx context.Context) (total, used float64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/metrics", nil)
	if err != nil {
		return 0, 0, err
	}
	text, err := s.send(request)
	return measure.Metric(string(text), "etcd_mvcc_db_total_size_in_bytes"), measure.Metric(string(text), "etcd_mvcc_db_total_size_in_use_in_bytes"), err
}

// Compact removes all earlier values of keys, so that their space is not in use.
func (s Server) Compact(ctx context.Context) error {
	var found struct {
		Header struct {
			Revision int64 `json:"revision,string"`
		} `json:"header"`
	}
	if err := s.post(ctx, "/v3/kv/range", map[string]any{"key": []byte("/"), "limit": 1}, &found); err != nil {
		return err
	}
	return s.post(ctx, "/v3/kv/compaction", map[string]any{"revision": found.Header.Revision, "physical": true}, &struct{}{})
}

func (s Server) post(ctx context.Context, path string, body, result any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	answer, err := s.send(request)
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, result)
}

func (s Server) send(request *http.Request) ([]byte, error) {
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("etcd: %s: %.300s", response.Status, text)
	}
	return text, err
}
