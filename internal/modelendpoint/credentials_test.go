package modelendpoint

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestKey(t *testing.T) {
	for value, want := range map[string]string{
		"sk-1": "sk-1", "sk-1\n": "sk-1", "sk-1\r\n": "sk-1", "": "", "\n": "", "a b": "", "a\nb": "", "é": "", "a\x00": "", strings.Repeat("a", 8193): "",
	} {
		got, err := Key([]byte(value))
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", value, got, err)
		}
	}
}

func FuzzKey(f *testing.F) {
	f.Add([]byte("sk-1\n"))
	f.Add([]byte("a\r\nX-Header: b"))
	f.Fuzz(func(t *testing.T, value []byte) {
		key, err := Key(value)
		if err != nil {
			if len(key) > 0 {
				t.Errorf("%q with %v", key, err)
			}
			return
		}
		// A key is sent in a header: it must reach the server as it is.
		got := ""
		server := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("X-Api-Key") })
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Api-Key", key)
		server.ServeHTTP(httptest.NewRecorder(), r)
		if got != key || strings.TrimSpace(key) != key || strings.ContainsAny(key, "\r\n") {
			t.Errorf("%q is sent as %q", key, got)
		}
	})
}

func TestRoots(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	roots, err := Roots(text)
	if err != nil {
		t.Fatal(err)
	}
	clone := server.Client().Transport.(*http.Transport).Clone()
	clone.TLSClientConfig.RootCAs = roots
	response, err := (&http.Client{Transport: clone}).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	for _, value := range []string{"", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		if _, err := Roots([]byte(value)); err == nil {
			t.Errorf("%q has certificates", value)
		}
	}
}
