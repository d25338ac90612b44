package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/auth"
)

// formInput is a form.
type formInput struct{ Form }

type formOutput struct{ Body map[string]string }

// maxTestFile is the maximum size of the file of the route.
const maxTestFile = 1000

// formAPI serves a route that returns the form.
func formAPI(t *testing.T) *API {
	t.Helper()
	read := func(_ context.Context, in *formInput) (*formOutput, error) {
		form, err := in.Read(maxTestFile)
		if err != nil {
			return nil, err
		}
		out := &formOutput{Body: form.Fields}
		out.Body["file"] = fmt.Sprint(form.HasFile, " ", string(form.File))
		return out, nil
	}
	a, err := New(Options{}, Family{Tag: "Forms", Routes: []Route{
		Handle(http.MethodPost, "/api/v1/form", "form", NoPermission, "Return a form", read).WithForm(map[string]string{"transaction": "An id."}),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// encodedForm returns a form, as pairs of names and values, and its media type.
func encodedForm(pairs ...string) (body, mediaType string) {
	text := &bytes.Buffer{}
	w := multipart.NewWriter(text)
	for i := 0; i < len(pairs); i += 2 {
		create := w.CreateFormField
		if pairs[i] == "file" {
			create = func(name string) (io.Writer, error) { return w.CreateFormFile(name, "a.yml") }
		}
		part, _ := create(pairs[i]) // a buffer
		_, _ = io.WriteString(part, pairs[i+1])
	}
	_ = w.Close()
	return text.String(), w.FormDataContentType()
}

func sendForm(t *testing.T, a *API, body io.Reader, mediaTypes ...string) *httptest.ResponseRecorder {
	t.Helper()
	r, w := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/form", body), httptest.NewRecorder()
	r.Header["Content-Type"] = mediaTypes
	a.ServeHTTP(w, r, &v1alpha1.Account{}, &auth.Principal{})
	return w
}

func TestForms(t *testing.T) {
	a := formAPI(t)
	valid, mediaType := encodedForm("transaction", "t1", "file", "cubes: []")
	_, boundary, _ := strings.Cut(mediaType, "=")
	many := []string{}
	for i := range maxFormFields + 1 {
		many = append(many, fmt.Sprint("f", i), "x")
	}
	for name, c := range map[string]struct {
		body       string
		mediaTypes []string
		status     int
		text       string
	}{
		"a form":                       {valid, []string{mediaType}, 200, `{"file":"true cubes: []","transaction":"t1"}`},
		"two media types":              {valid, []string{mediaType, "application/json"}, 200, `"transaction":"t1"`},
		"two media types, the other":   {valid, []string{"application/json", mediaType}, 200, `"transaction":"t1"`},
		"no media type":                {valid, nil, 415, "multipart/form-data"},
		"JSON":                         {"{}", []string{"application/json"}, 415, "multipart/form-data"},
		"no boundary":                  {valid, []string{"multipart/form-data"}, 415, "boundary"},
		"another boundary":             {valid, []string{"multipart/form-data; boundary=x"}, 400, "malformed or cut off"},
		"cut off in a part":            {valid[:len(valid)-len(boundary)-10], []string{mediaType}, 400, "malformed or cut off"},
		"empty":                        {"", []string{mediaType}, 400, "malformed or cut off"},
		"a file of the largest size":   {formOf("file", strings.Repeat("x", maxTestFile), boundary), []string{mediaType}, 200, "xxx"},
		"a file that is too large":     {formOf("file", strings.Repeat("x", maxTestFile+1), boundary), []string{mediaType}, 413, "file: has more than 1000 bytes"},
		"a field that is too large":    {formOf("transaction", strings.Repeat("x", maxFieldBytes+1), boundary), []string{mediaType}, 413, "transaction: has more than"},
		"a field twice":                {formOf("transaction", "1", boundary, "transaction", "2"), []string{mediaType}, 400, "is there twice"},
		"a file twice":                 {formOf("file", "1", boundary, "file", "2"), []string{mediaType}, 400, "is there twice"},
		"more fields than are allowed": {formOf(many[0], many[1], boundary, many[2:]...), []string{mediaType}, 400, "more than 16 fields"},
	} {
		t.Run(name, func(t *testing.T) {
			w := sendForm(t, a, strings.NewReader(c.body), c.mediaTypes...)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.text) {
				t.Errorf("%d %.300s, want %d with %s", w.Code, w.Body, c.status, c.text)
			}
		})
	}
}

// formOf returns a form with a boundary.
func formOf(name, value, boundary string, more ...string) string {
	text := &strings.Builder{}
	pairs := append([]string{name, value}, more...)
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(text, "--%s\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n", boundary, pairs[i], pairs[i+1])
	}
	return text.String() + "--" + boundary + "--\r\n"
}

// FuzzForm checks that a form is read within its limits, or rejected.
func FuzzForm(f *testing.F) {
	f.Add(formOf("file", "x", "b", "transaction", `{"id":"1"}`))
	f.Add(formOf("file", strings.Repeat("x", maxTestFile+1), "b"))
	f.Add("--b\r\nContent-Disposition: form-data; name=\"file\"\r\nContent-Transfer-Encoding: base64\r\n\r\nx\r\n--b--")
	f.Add("--b\r\n\r\nx\r\n--b\r\nContent-Disposition: form-data; name*=utf-8''file\r\n\r\n--b--\r\n--b")
	f.Fuzz(func(t *testing.T, body string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
		r.Header["Content-Type"] = []string{"multipart/form-data; boundary=b"}
		form := &Form{request: r}
		content, err := form.Read(maxTestFile)
		if err != nil {
			var problem *Problem
			if !errors.As(err, &problem) || problem.GetStatus()/100 != 4 {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		if len(content.File) > maxTestFile || len(content.Fields) > maxFormFields || !content.HasFile && len(content.File) > 0 {
			t.Fatalf("%d fields, a file of %d bytes", len(content.Fields), len(content.File))
		}
		for name, value := range content.Fields {
			if name == "file" || len(value) > maxFieldBytes {
				t.Fatalf("field %q has %d bytes", name, len(value))
			}
		}
	})
}

func TestFormsAreDocumented(t *testing.T) {
	a := formAPI(t)
	for _, part := range []string{`"multipart/form-data":{"schema"`, `"format":"binary"`} {
		if !strings.Contains(string(a.Document()), part) {
			t.Errorf("the document does not contain %s", part)
		}
	}
	if !strings.Contains(string(a.page), "-F &#39;transaction=") {
		t.Error("the reference has no command for the form")
	}
}

// TestFormsAreReadAsAStream: of a form with a file that is too large, not more is read than the limits
// allow.
func TestFormsAreReadAsAStream(t *testing.T) {
	_, mediaType := encodedForm("file", "x")
	_, boundary, _ := strings.Cut(mediaType, "=")
	body := &countingReader{Reader: io.MultiReader(
		strings.NewReader("--"+boundary+"\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n"), io.LimitReader(zeros{}, 1<<30))}
	if w := sendForm(t, formAPI(t), body, mediaType); w.Code != http.StatusRequestEntityTooLarge || body.n > 1<<20 {
		t.Errorf("%d after %d bytes: %s", w.Code, body.n, w.Body)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

type countingReader struct {
	io.Reader
	n int64
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.n += int64(n)
	return n, err
}
