package githttp

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// get requests the refs of a service.
func (w *world) get(path, service, password string) (int, http.Header, string) {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), http.MethodGet, w.web.URL+path+"/info/refs?service="+service, nil)
	if err != nil {
		w.Fatal(err)
	}
	if password != "" {
		r.SetBasicAuth("git", password)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		w.Fatal(err)
	}
	return response.StatusCode, response.Header, string(body)
}

func TestAccess(t *testing.T) {
	w := onSQLite(t)
	const own, kept = "/repositories/acme/sales-1.git", "/git/1.git"
	cases := map[string]struct {
		path, service, password string
		status                  int
	}{
		"no credential":                    {kept, uploadPack, "", 401},
		"read":                             {kept, uploadPack, reader, 200},
		"write without the permission":     {kept, receivePack, reader, 403},
		"write":                            {kept, receivePack, writer, 200},
		"another service":                  {kept, "git-upload-archive", writer, 403},
		"no service":                       {kept, "", writer, 403},
		"unknown deployment":               {"/git/99.git", uploadPack, writer, 404},
		"deployment of others":             {kept, uploadPack, stranger, 404},
		"unknown deployment, limited":      {"/git/99.git", uploadPack, stranger, 404},
		"model on a Git host":              {"/git/2.git", uploadPack, writer, 404},
		"not a number":                     {"/git/x.git", uploadPack, writer, 404},
		"internal":                         {own, uploadPack, internal, 200},
		"internal, write":                  {own, receivePack, internal, 403},
		"internal, wrong password":         {own, uploadPack, writer, 401},
		"internal, no password":            {own, uploadPack, "", 401},
		"internal, unknown deployment":     {"/repositories/acme/sales-9.git", uploadPack, internal, 401},
		"internal, model on a Git host":    {"/repositories/acme/sales-2.git", uploadPack, internal, 401},
		"internal, malformed":              {"/repositories/acme", uploadPack, internal, 404},
		"internal password, tenant's path": {kept, uploadPack, internal, 401},
	}
	for name, tc := range cases {
		status, header, body := w.get(tc.path, tc.service, tc.password)
		if status != tc.status {
			w.Errorf("%s: status %d, want %d: %s", name, status, tc.status, body)
		}
		if status == 401 && !strings.HasPrefix(header.Get("WWW-Authenticate"), "Basic ") {
			w.Errorf("%s: WWW-Authenticate %q", name, header.Get("WWW-Authenticate"))
		}
	}
}

// Guesses of the password of a repository are limited; valid requests are not.
func TestGuessesAreLimited(t *testing.T) {
	w := onSQLite(t)
	const own = "/repositories/acme/sales-1.git"
	rejected := 0
	for range 2 * failureBurst {
		if status, _, _ := w.get(own, uploadPack, "guess"); status == http.StatusTooManyRequests {
			rejected++
		}
	}
	if rejected < failureBurst/2 {
		w.Errorf("%d of %d guesses were rejected by the limit", rejected, 2*failureBurst)
	}
	if status, _, _ := w.get(own, uploadPack, internal); status != http.StatusOK {
		w.Errorf("status %d of a valid request", status)
	}
}
