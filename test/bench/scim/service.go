package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	userURN       = "urn:ietf:params:scim:schemas:core:2.0:User"
	enterpriseURN = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
	groupURN      = "urn:ietf:params:scim:schemas:core:2.0:Group"
	patchURN      = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
)

// service is an HTTP server: Quoin, kube-apiserver or the peer.
type service struct {
	client *http.Client
	// base is the URL prefix of all paths.
	base string
	// host replaces the host of base in the Host header; it and the token may be empty.
	host, token string
}

// call sends a request and reads the whole response. A status other than want is an error.
func (s *service) call(ctx context.Context, method, path string, body []byte, want int) ([]byte, time.Duration, error) {
	request, err := http.NewRequestWithContext(ctx, method, s.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	if s.host != "" {
		request.Host = s.host
	}
	if s.token != "" {
		request.Header.Set("Authorization", "Bearer "+s.token)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/scim+json")
	}
	start := time.Now()
	response, err := s.client.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	var content bytes.Buffer
	content.Grow(max(int(response.ContentLength), 0) + bytes.MinRead)
	_, err = content.ReadFrom(response.Body)
	took := time.Since(start)
	if err == nil && response.StatusCode != want {
		err = fmt.Errorf("%s %s: %s: %.300s", method, path, response.Status, content.Bytes())
	}
	return content.Bytes(), took, err
}

// create creates a resource and returns its id.
func (s *service) create(ctx context.Context, path string, body []byte) (string, time.Duration, error) {
	content, took, err := s.call(ctx, http.MethodPost, path, body, http.StatusCreated)
	if err != nil {
		return "", 0, err
	}
	created := struct{ ID string }{}
	if err := json.Unmarshal(content, &created); err != nil || created.ID == "" {
		return "", 0, fmt.Errorf("POST %s: no id in %.300s", path, content)
	}
	return created.ID, took, nil
}

// listResponse has the attributes of a ListResponse that the bench reads.
type listResponse struct {
	TotalResults int
	Resources    []struct{ ID string }
	NextCursor   string
}

// list reads a list and checks the number of resources on the page, unless it is -1.
func (s *service) list(ctx context.Context, path string, want int) (listResponse, time.Duration, error) {
	l := listResponse{}
	content, took, err := s.call(ctx, http.MethodGet, path, nil, http.StatusOK)
	if err != nil {
		return l, 0, err
	}
	if err := json.NewDecoder(bytes.NewReader(content)).Decode(&l); err != nil && err != io.EOF {
		return l, 0, fmt.Errorf("GET %s: %w", path, err)
	}
	if want >= 0 && len(l.Resources) != want {
		return l, 0, fmt.Errorf("GET %s: %d resources of %d, want %d on the page: %.300s", path, len(l.Resources), l.TotalResults, want, content)
	}
	return l, took, nil
}

// patch sends a PATCH with one operation.
func (s *service) patch(ctx context.Context, path string, want int, operation map[string]any) (time.Duration, error) {
	body, err := json.Marshal(map[string]any{"schemas": []string{patchURN}, "Operations": []any{operation}})
	if err != nil {
		return 0, err
	}
	_, took, err := s.call(ctx, http.MethodPatch, path, body, want)
	return took, err
}
