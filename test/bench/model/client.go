package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"time"

	"github.com/quoin-dev/quoin/test/bench/internal/measure"
)

// client sends requests to a `quoin apiserver`.
type client struct {
	http          *http.Client
	base          string
	authorization string
}

func (c *client) get(ctx context.Context, path string) ([]byte, time.Duration, error) {
	return c.send(ctx, http.MethodGet, path, nil)
}

// post sends a JSON body.
func (c *client) post(ctx context.Context, path string, body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	answer, _, err := c.send(ctx, http.MethodPost, path, text, "application/json")
	return answer, err
}

// send sends a request with Content-Type headers, and reads the whole response. A status other than 200 is an error.
func (c *client) send(ctx context.Context, method, path string, body []byte, mediaTypes ...string) ([]byte, time.Duration, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	request.Host = host
	request.Header.Set("Authorization", c.authorization)
	request.Header["Content-Type"] = mediaTypes
	start := time.Now()
	response, err := c.http.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	took := time.Since(start)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %.300s", method, path, response.Status, answer)
	}
	return answer, took, err
}

// protocol are the paths of one of the two upload protocols.
type protocol struct{ hashes, start, file, finish string }

func newer(id string) protocol {
	base := "/build/api/v1/deployments/" + id + "/data-model"
	return protocol{base + "/file-hashes", base + "/upload/start", base + "/upload/file", base + "/upload/finish"}
}

func legacy(id string) protocol {
	base := "/build/deploy/" + id
	return protocol{base + "/files", base + "/start-upload", base + "/upload-file", base + "/finish-upload"}
}

// fileHash is the hash of a file in requests and responses.
type fileHash struct {
	Hash string `json:"hash"`
}

// upload uploads a model as clients do, the files with a number of concurrent requests. It returns the times of the
// requests with files, and how long all of it took.
func (c *client) upload(ctx context.Context, p protocol, model map[string][]byte, callers int) (measure.Times, time.Duration, error) {
	begin := time.Now()
	fail := func(err error) (measure.Times, time.Duration, error) { return measure.Times{}, 0, err }
	hashes := make(map[string]fileHash, len(model))
	for path, data := range model {
		hashes[path] = fileHash{sha1Of(data)}
	}
	known, err := c.hashes(ctx, p)
	if err != nil {
		return fail(err)
	}
	var changed []string
	for path, hash := range hashes {
		if known[path] != hash {
			changed = append(changed, path)
		}
	}
	answer, err := c.post(ctx, p.start, struct{}{})
	if err != nil {
		return fail(err)
	}
	var started struct{ Transaction json.RawMessage }
	if err := json.Unmarshal(answer, &started); err != nil {
		return fail(err)
	}
	times, err := measure.Spread(ctx, len(changed), callers, func(ctx context.Context, i int) (time.Duration, error) {
		return c.sendFile(ctx, p, started.Transaction, changed[i], model[changed[i]])
	})
	if err != nil {
		return fail(err)
	}
	_, err = c.post(ctx, p.finish, map[string]any{"transaction": started.Transaction, "files": hashes})
	return times, time.Since(begin), err
}

// hashes returns the hashes of the files that the server has.
func (c *client) hashes(ctx context.Context, p protocol) (map[string]fileHash, error) {
	answer, _, err := c.get(ctx, p.hashes)
	if err != nil {
		return nil, err
	}
	known := map[string]fileHash{}
	return known, json.Unmarshal(answer, &known)
}

// sendFile uploads a file. It sends two Content-Type headers, as cubejs-cli does.
func (c *client) sendFile(ctx context.Context, p protocol, transaction []byte, path string, data []byte) (time.Duration, error) {
	body := &bytes.Buffer{}
	form := multipart.NewWriter(body)
	_ = form.WriteField("transaction", string(transaction)) // to a buffer
	_ = form.WriteField("fileName", path)
	part, err := form.CreateFormFile("file", path[strings.LastIndexByte(path, '/')+1:])
	if err != nil {
		return 0, err
	}
	_, _ = part.Write(data)
	_ = form.Close()
	_, took, err := c.send(ctx, http.MethodPost, p.file, body.Bytes(), form.FormDataContentType(), "application/json")
	return took, err
}
