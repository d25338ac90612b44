package modelendpoint

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestInterpret(t *testing.T) {
	for name, c := range map[string]struct {
		status          int
		body            string
		want            metav1.ConditionStatus
		reason, message string
	}{
		"listed":               {200, `{"data":[{"id":"gpt-x"}]}`, "True", "Reachable", ""},
		"listed with a date":   {200, `{"data":[{"id":"gpt-x-20260101"}]}`, "True", "Reachable", ""},
		"listed with a tag":    {200, `{"data":[{"id":"gpt-x:latest"}]}`, "True", "Reachable", ""},
		"listed with a prefix": {200, `{"data":[{"id":"models/gpt-x"}]}`, "True", "Reachable", ""},
		"another model":        {200, `{"data":[{"id":"gpt-xl"}]}`, "True", "ModelNotListed", "does not have gpt-x"},
		"no models":            {200, `{"data":[]}`, "True", "ModelNotListed", ""},
		"the first page":       {200, `{"data":[{"id":"other"}],"has_more":true}`, "True", "Reachable", ""},
		"another document":     {200, `{"models":[]}`, "True", "Reachable", ""},
		"not JSON":             {200, `<html>`, "True", "Reachable", ""},
		"a long list":          {200, `{"data":[` + strings.Repeat(" ", maxList) + `]}`, "True", "Reachable", ""},
		"no list":              {404, ``, "True", "Reachable", "has no list of models: 404 Not Found"},
		"bad request":          {400, `secret`, "True", "Reachable", "400 Bad Request"},
		"limited":              {429, ``, "True", "Reachable", "limits requests"},
		"no key":               {401, ``, "False", "APIKeyRejected", "401 Unauthorized"},
		"forbidden":            {403, ``, "False", "APIKeyRejected", "403 Forbidden"},
		"redirect":             {307, ``, "False", "Unreachable", "redirects"},
		"failure":              {503, `secret`, "False", "Unreachable", "503 Service Unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			got := interpret(c.status, strings.NewReader(c.body), "gpt-x")
			if got.status != c.want || got.reason != c.reason || !strings.Contains(got.message, c.message) {
				t.Errorf("got %+v", got)
			}
			if strings.Contains(got.message, "secret") {
				t.Errorf("the message has the body: %s", got.message)
			}
		})
	}
}

// FuzzInterpret: a response is never more than one of the results, and its text is not in the message.
func FuzzInterpret(f *testing.F) {
	f.Add(200, `{"data":[{"id":"gpt-x"}]}`)
	f.Add(200, `{"data":[null,{"id":5}],"has_more":"x"}`)
	f.Add(599, ``)
	f.Fuzz(func(t *testing.T, status int, body string) {
		got := interpret(status, strings.NewReader(body), "gpt-x")
		if got.reason == "" || got.message == "" || got.status != metav1.ConditionTrue && got.status != metav1.ConditionFalse {
			t.Errorf("%d %q: %+v", status, body, got)
		}
		if len(got.message) > 256 {
			t.Errorf("%d: the message has %d bytes", status, len(got.message))
		}
	})
}
