package agents_test

import (
	"bufio"
	"encoding/json"
	"strings"
	"testing"
)

// TestFailures: a failure after the beginning is one line, and the chat stays readable.
func TestFailures(t *testing.T) {
	acme.startPod(t)
	session := external("u-failures", "CH")
	for name, c := range map[string]struct {
		agent       int
		input, want string
		// asked is how often the model is asked.
		asked int
	}{
		"a key that the provider refuses": {analyst, "refuse this key", "the model failed: the provider of the model does not accept the key (status 401)", 1},
		"a limit of the provider":         {analyst, "busy", "the model failed: the provider of the model accepts no more requests now (status 429)", 3},
		"a provider that is down":         {unreachable, "hello nobody", "the model failed: the provider of the model did not answer", 0},
		"a model that loops":              {small, "loop", "limit of 2 tool calls", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, chat := acme.path(c.agent, "stream-chat-state"), "c-"+strings.ReplaceAll(c.input, " ", "-")
			got := string(acme.call(t, acme.admin, "POST", path, object{"input": c.input, "chatId": chat, "sessionSettings": session}).Is(200).Body)
			lines := strings.Split(strings.TrimSpace(got), "\n")
			var last struct{ Error string }
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || !strings.Contains(last.Error, c.want) || strings.Count(got, `{"error":"`) != 1 {
				t.Errorf("the lines are %s", got)
			}
			if strings.Contains(got, modelKey) || strings.Contains(got, "Incorrect API key") {
				t.Errorf("the lines have the key: %s", got)
			}
			if n := len(scripted.asked(`"` + c.input + `"`)); n != c.asked {
				t.Errorf("the model was asked %d times, want %d", n, c.asked)
			}
			got = string(acme.call(t, acme.admin, "POST", path, object{"chatId": chat, "sessionSettings": session}).Is(200).Body)
			if !strings.Contains(got, `"content":"`+c.input+`"`) || strings.Contains(got, `{"error":"`) {
				t.Errorf("the chat is %s", got)
			}
		})
	}
}

// TestAbortBeforeTheFirstToken: an abort ends a request to the model that has said nothing yet, and the chat goes on.
func TestAbortBeforeTheFirstToken(t *testing.T) {
	acme.startPod(t)
	scripted.drain(t)
	session := external("u-silent", "CH")
	reading := bufio.NewReader(acme.open(t.Context(), t, acme.admin, object{"input": "silent model", "chatId": "c-silent", "sessionSettings": session}).Body) //nolint:bodyclose // open closes it when the test ends
	<-scripted.begun
	acme.call(t, acme.admin, "POST", acme.path(analyst, "abort"), object{"chatId": "c-silent", "sessionSettings": session}).Is(204)
	<-scripted.ended
	if body := until(t, reading, "__state__"); strings.Contains(body, `{"error":"`) {
		t.Error(body)
	}
	if body := string(acme.chat(t, acme.admin, object{"input": "hello", "chatId": "c-silent", "sessionSettings": session}).Is(200).Body); !strings.Contains(body, "You said hello") {
		t.Error(body)
	}
}
