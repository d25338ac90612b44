package masking_test

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/quoin-dev/quoin/internal/masking"
)

func TestKnownValuesAreHiddenInEveryForm(t *testing.T) {
	const password, key = `p"ä ss/w+rd`, "-----BEGIN X-----\nMIIEvQIBADANBg\n-----END X-----\n"
	var known masking.Known
	known.Add("CUBEJS_DB_PASS", password)
	known.Add("PORT", "5432")
	known.Add("CUBEJS_DB_SSL", "true")
	known.Add("WAREHOUSE", "postgres://cube:hun%2Fter2@db.example.com/sales")
	known.Add("tls.crt", key)
	known.Add("MY_TOKEN", "abc")
	known.Add("OTHER_TOKEN", "ab")
	known.Add("CUBEJS_DB_PASS_LONG", password+"-and-more")
	known.Add("OTHER_PASS", "it's $5, a/b!")
	replacer := known.Replacer()
	for given, want := range map[string]string{
		"connect with " + password + ".":         "connect with [HIDDEN].",
		"two: " + password + password:            "two: [HIDDEN][HIDDEN]",
		"longest: " + password + "-and-more":     "longest: [HIDDEN]",
		"?p=" + url.QueryEscape(password) + "&x": "?p=[HIDDEN]&x",
		"/" + url.PathEscape(password) + "/":     "/[HIDDEN]/",
		`{"x":"p\"ä ss/w+rd"}`:                   `{"x":"[HIDDEN]"}`,
		"hun/ter2 alone":                         "[HIDDEN] alone",
		"?p=it's%20%245%2C%20a%2Fb!&x":           "?p=[HIDDEN]&x", // encodeURIComponent
		"u:it's%20$5,%20a%2Fb!":                  "u:[HIDDEN]",    // the password of a URL
		"MIIEvQIBADANBg":                         "[HIDDEN]",
		"x abc":                                  "x [HIDDEN]",
		"about 5432, true":                       "about 5432, true",
		"":                                       "",
	} {
		if got := replacer.Replace(given); got != want {
			t.Errorf("%q becomes %q, want %q", given, got, want)
		}
	}
	// What is left of the last characters of base64 does not reveal the value.
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		if got := replacer.Replace("b64 " + encoding.EncodeToString([]byte(password))); len(got) > len("b64 [HIDDEN]")+4 || !strings.HasPrefix(got, "b64 [HIDDEN]") {
			t.Errorf("base64 becomes %q", got)
		}
	}
	if got := new(masking.Known).Replacer().Replace("unchanged"); got != "unchanged" {
		t.Errorf("without values: %q", got)
	}
}

func TestPrivateKeysInSeveralLinesAreHidden(t *testing.T) {
	const hidden = masking.Hidden
	for name, c := range map[string]struct{ given, want []string }{
		"whole": {
			[]string{"before", "-----BEGIN RSA PRIVATE KEY-----", "MIIE", "vQIB", "-----END RSA PRIVATE KEY-----", "after"},
			[]string{"before", hidden, hidden, hidden, hidden, "after"},
		},
		"end only":   {[]string{"MIIE", "-----END PRIVATE KEY-----", "after"}, []string{hidden, hidden, "after"}},
		"begin only": {[]string{"x", "-----BEGIN PRIVATE KEY-----", "MIIE"}, []string{"x", hidden, hidden}},
		"one line":   {[]string{"-----BEGIN PRIVATE KEY-----MIIE-----END PRIVATE KEY-----", "after"}, []string{hidden, "after"}},
		"other text": {[]string{"password=hunter2", "certificate of db"}, []string{"password=" + hidden, "certificate of db"}},
	} {
		got := slices.Clone(c.given)
		masking.Lines(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	// A key that does not end does not hide all that follows.
	long := []string{"-----BEGIN PRIVATE KEY-----"}
	for range 300 {
		long = append(long, "line")
	}
	masking.Lines(long)
	if long[1] != hidden || long[299] != "line" {
		t.Errorf("lines after the key: %q, %q", long[1], long[299])
	}
}
