package audit

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quoin-dev/quoin/internal/apikey"
	"github.com/quoin-dev/quoin/internal/masking"
)

const aJWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"

func aKey(t testing.TB) string {
	t.Helper()
	token, err := apikey.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return token.Reveal()
}

func TestMaskChanges(t *testing.T) {
	key := aKey(t)
	for name, test := range map[string]struct{ given, want string }{
		"nothing secret":                {`{"spec.size":{"before":"Shared","after":"Large"},"n":12345678901234567890,"b":[true,null]}`, `{"b":[true,null],"n":12345678901234567890,"spec.size":{"after":"Large","before":"Shared"}}`},
		"names with PASS":               {`{"DB_PASS":"a","passphrase":{"x":1},"Password":["b"]}`, `{"DB_PASS":"[HIDDEN]","Password":"[HIDDEN]","passphrase":"[HIDDEN]"}`},
		"names with SECRET":             {`{"secretRef":{"name":"git"},"MYSECRETS":1}`, `{"MYSECRETS":"[HIDDEN]","secretRef":"[HIDDEN]"}`},
		"names with TOKEN":              {`{"accessToken":"x","spec.token.sha256":{"before":"a","after":"b"}}`, `{"accessToken":"[HIDDEN]","spec.token.sha256":"[HIDDEN]"}`},
		"names with KEY":                {`{"keyId":"x","AWS_KEY":null}`, `{"AWS_KEY":"[HIDDEN]","keyId":"[HIDDEN]"}`},
		"case of other alphabets":       {`{"pa` + "\u017f\u017f" + `word":"x","` + "\u212a" + `EY":"y"}`, `{"pa` + "\u017f\u017f" + `word":"[HIDDEN]","` + "\u212a" + `EY":"[HIDDEN]"}`},
		"escaped names":                 {`{"\u0070assword":"x"}`, `{"password":"[HIDDEN]"}`},
		"variables in a list":           {`{"spec.env":{"before":[{"name":"HOST","value":"db"}],"after":[{"name":"HOST","value":"db2"},{"name":"A","valueFrom":{"x":"y"}}]}}`, `{"spec.env":{"after":[{"name":"HOST","value":"[HIDDEN]"},{"name":"A","valueFrom":{"x":"[HIDDEN]"}}],"before":[{"name":"HOST","value":"[HIDDEN]"}]}}`},
		"variables in an object":        {`{"env_variables":{"HOST":"db","name":"x"},"envVars":"A=B"}`, `{"envVars":"[HIDDEN]","env_variables":{"HOST":"[HIDDEN]","name":"[HIDDEN]"}}`},
		"variables in a path":           {`{"spec.env.HOST":{"before":"a","after":"b"}}`, `{"spec.env.HOST":{"after":"[HIDDEN]","before":"[HIDDEN]"}}`},
		"a name beside its value":       {`[{"name":"DB_PASS","value":"x"},{"op":"replace","path":"password","value":{"a":1}},{"name":"HOST","value":"x"}]`, `[{"name":"DB_PASS","value":"[HIDDEN]"},{"op":"replace","path":"password","value":"[HIDDEN]"},{"name":"HOST","value":"x"}]`},
		"an object named like a secret": {`{"name":"token-service","size":3}`, `{"name":"token-service","size":3}`},
		"a JWT":                         {`{"x":"` + aJWT + `","y":"before ` + aJWT + ` after"}`, `{"x":"[HIDDEN]","y":"before [HIDDEN] after"}`},
		"a bearer token":                {`{"x":"Authorization: Bearer abc.def","y":"bearer abc"}`, `{"x":"Authorization: [HIDDEN]","y":"bearer [HIDDEN]"}`},
		"basic authentication":          {`{"x":"authorization: Basic aHVudGVyMg== and","y":"'Authorization':'aHVudGVyMg=='"}`, `{"x":"authorization: [HIDDEN] and","y":"'Authorization':[HIDDEN]"}`},
		"a private key":                 {`{"x":"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nrest","y":"-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blb"}`, `{"x":"[HIDDEN]\nrest","y":"[HIDDEN]"}`},
		"an API key of Quoin":           {`{"x":"` + key + `","y":"a` + key[:30] + `"}`, `{"x":"[HIDDEN]","y":"a[HIDDEN]"}`},
		"a URL with a password":         {`{"x":"postgres://quoin:hunter2@db:5432/quoin?sslmode=disable","y":"https://git.example.com/a@b","z":"https://user@host/"}`, `{"x":"postgres://[HIDDEN]@db:5432/quoin?sslmode=disable","y":"https://git.example.com/a@b","z":"https://user@host/"}`},
		"an @ in a URL's password":      {`{"x":"mysql://u:p@ss:word@db/x"}`, `{"x":"mysql://[HIDDEN]@db/x"}`},
		"tokens of sign-in":             {`["qat_ABCDEFGHIJKLMNOP234567","qrt_ABCDEFGHIJKLMNOP234567"]`, `["[HIDDEN]","[HIDDEN]"]`},
		"tokens of Git hosts":           {`["ghp_abcdefghijklmnopqrstuvwxyz0123456789","glpat-abcdefghij0123456789","xoxb-123456789012","AKIAIOSFODNN7EXAMPLE"]`, `["[HIDDEN]","[HIDDEN]","[HIDDEN]","[HIDDEN]"]`},
		"a DSN":                         {`{"x":"host=db password=hunter2 user=q","y":"https://x/?access_token=abc&z=1","z":"passwd='a b' c"}`, `{"x":"host=db password=[HIDDEN] user=q","y":"https://x/?access_token=[HIDDEN]&z=1","z":"passwd=[HIDDEN] c"}`},
		"YAML":                          {`{"x":"user: q\npassword: hunter2\nhost: db"}`, `{"x":"user: q\npassword: [HIDDEN]\nhost: db"}`},
		"JSON in a string":              {`{"x":"{\"password\":\"hunter2\",\"a\":1}"}`, `{"x":"{\"a\":1,\"password\":\"[HIDDEN]\"}"}`},
		"broken JSON in a string":       {`{"x":"{\"password\":\"hunter2\",\"a\""}`, `{"x":"{\"password\":[HIDDEN],\"a\""}`},
		"a quotation mark in a value":   {`{"x":"failed {\"password\":\"hunt\\\"hunter2\",\"a\"","y":"password='it\\'s hunter2' c","z":"password=\"C:\\\" c"}`, `{"x":"failed {\"password\":[HIDDEN],\"a\"","y":"password=[HIDDEN] c","z":"password=[HIDDEN] c"}`},
		"one in a quoted text":          {`{"x":"msg=\"failed {\\\"password\\\":\\\"hunt\\\\\\\"hunter2\\\"}\""}`, `{"x":"msg=\"failed {\\\"password\\\":[HIDDEN]}\""}`},
		"a secret as a name":            {`{"` + aJWT + `":1}`, `{"[HIDDEN]":1}`},
		"not JSON":                      {`password=hunter2`, `"password=[HIDDEN]"`},
		"data after the JSON":           {`{} {"password":"hunter2"}`, `"{} {\"password\":[HIDDEN]}"`},
		"deep":                          {strings.Repeat("[", 50) + `"hunter2"` + strings.Repeat("]", 50), strings.Repeat("[", masking.MaxDepth+1) + `"[HIDDEN]"` + strings.Repeat("]", masking.MaxDepth+1)},
	} {
		t.Run(name, func(t *testing.T) {
			got := string(prepareChanges(json.RawMessage(test.given)))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if strings.Contains(got, "hunter2") {
				t.Error("the secret is not masked")
			}
		})
	}
}

func TestMaskNamesOfUsersAndObjects(t *testing.T) {
	key := aKey(t)
	for given, want := range map[string]string{
		"system:serviceaccount:demo:token-reader": "system:serviceaccount:demo:token-reader",
		"ada@example.com":                         "ada@example.com",
		"oidc:https://issuer.example.com#1234":    "oidc:https://issuer.example.com#1234",
		"Basic analytics":                         "Basic analytics",
		key:                                       masking.Hidden,
		"x " + aJWT:                               "x " + masking.Hidden,
	} {
		if got := masking.Credentials(given); got != want {
			t.Errorf("Credentials(%q) is %q, want %q", given, got, want)
		}
	}
}

func TestPreparedEventContainsNoSecret(t *testing.T) {
	key := aKey(t)
	e := Event{
		Account: "demo", Name: UpdatedAPIKey, Outcome: Failed, Source: SourceREST, Reason: "refused: token=" + key,
		Actor: Actor{ActorKey, key, key}, Deployment: Deployment{key, key}, Object: Object{key, key, key, key}, IP: key, RequestID: "Bearer " + key,
		Changes: json.RawMessage(`{"a":"` + key + `"}`),
	}
	e, err := e.prepare(e.Time)
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%+v %s", e, e.Changes); strings.Contains(text, key[len(apikey.Prefix):]) {
		t.Error("the key is in", text)
	}
}

// FuzzMask checks that masking removes a secret in all known forms, and that the result is JSON of
// bounded size and does not change when it is masked again.
func FuzzMask(f *testing.F) {
	const secret = "Zx9Qw7Vb3NmKj5Hg2Fd"
	forms := []string{
		`{"%sPASSword":"` + secret + `"}`, `{"a":{"%stoken":{"before":"` + secret + `"}}}`, `{"env":[{"name":"%s","value":"` + secret + `"}]}`,
		`{"env":{"A%s":"` + secret + `"}}`, `{"x":"%s eyJhbGciOiJIUzI1NiJ9.` + secret + `.` + secret + `"}`, `{"x":"%s Bearer ` + secret + `"}`,
		`{"x":"%s postgres://u:` + secret + `@h/d"}`, `{"x":"%s sk-quoin-` + secret + `"}`, `{"x":"%s password=` + secret + `"}`,
		`{"x":"%s -----BEGIN PRIVATE KEY-----` + secret + `"}`, `[{"name":"%s_KEY","value":"` + secret + `"}]`, `{"x":"%s\npassword: ` + secret + `"}`,
	}
	for i := range forms {
		for _, around := range []string{"", "a", `\"`, `\\`, "{", "\u00e9", "name", "=", ": ", "://", "@", "eyJ", "-----BEGIN"} {
			f.Add(i, around)
		}
	}
	f.Fuzz(func(t *testing.T, form int, around string) {
		quoted, err := json.Marshal(around)
		if err != nil || len(around) > 200 {
			t.Skip()
		}
		inside := string(quoted[1 : len(quoted)-1])
		given := strings.Replace(forms[uint(form)%uint(len(forms))], "%s", inside, 1)
		once := prepareChanges(json.RawMessage(given))
		if !json.Valid(once) || len(once) > maxChanges {
			t.Fatalf("%q became %q, which is no JSON, or too long", given, once)
		}
		if strings.Contains(string(once), secret) {
			t.Fatalf("%q became %q, which shows the secret", given, once)
		}
		if twice := prepareChanges(once); string(twice) != string(once) {
			t.Fatalf("%q became %q, then %q", given, once, twice)
		}
		// Input that is not JSON, too.
		if any := prepareChanges(json.RawMessage(around)); len(any) > 0 && !json.Valid(any) {
			t.Fatalf("%q became %q, which is no JSON", around, any)
		}
	})
}
