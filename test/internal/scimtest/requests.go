package scimtest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// RunID returns a text that is unique among test runs.
func RunID() string { return strconv.FormatInt(time.Now().UnixNano(), 36) }

// Delete deletes a resource if it still exists.
func (a Caller) Delete(t *testing.T, location string) {
	got, err := a.Try(context.WithoutCancel(t.Context()), "DELETE", location, nil)
	if err != nil || got.Status != 204 && got.Status != 404 {
		t.Errorf("DELETE %s: %v %v", location, got, err)
	}
}

// EncodeTarget percent-encodes the characters of a request target that are not allowed in URLs.
func EncodeTarget(target string) string {
	var b strings.Builder
	for _, c := range []byte(target) {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~:/?@!$&'()*+,;=%", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

// Token returns the token of a key by name.
func (a *Account) Token(key string) string {
	return map[string]string{"rfc": a.RFC, "okta": a.Okta, "entra": a.Entra, "auto": a.Auto}[key]
}

// ProfileKeys are the profiles with the names of their keys.
var ProfileKeys = map[string]string{"RFC": "rfc", "Okta": "okta", "EntraID": "entra"}

// CreateUsers creates users with bulk requests. They are deleted after the test.
func (a Caller) CreateUsers(t *testing.T, prefix string, n int) []string {
	t.Helper()
	ids := make([]string, 0, n)
	for len(ids) < n {
		var operations []string
		for i := range min(500, n-len(ids)) {
			operations = append(operations, fmt.Sprintf(`{"method":"POST","path":"/Users","bulkId":"%d","data":{"userName":"%s-%05d"}}`, i, prefix, len(ids)+i))
		}
		for _, o := range a.Call(t, "POST", "/Bulk", `{"schemas":["`+BulkURN+`"],"Operations":[`+strings.Join(operations, ",")+`]}`).WantStatus(200).List("Operations") {
			location, _ := o["location"].(string)
			if o["status"] != "201" {
				t.Fatal(o)
			}
			ids = append(ids, location[strings.LastIndex(location, "/")+1:])
			t.Cleanup(func() { a.Delete(t, strings.TrimPrefix(location, a.BaseURL())) })
		}
	}
	return ids
}

// Body returns a request body; nil for an empty text.
func Body(text string) any {
	if text == "" {
		return nil
	}
	return text
}
