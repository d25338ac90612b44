package agents_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/internal/agent/stream"
	"github.com/quoin-dev/quoin/test/internal/apiclient"
	"github.com/quoin-dev/quoin/test/internal/modelserver"
)

// ofLlama is the number of the agent with the real model.
const ofLlama = 50

// TestRealModel: the answer of a real model is streamed, and an abort within it ends it and keeps what was said. The words of the
// model are not tested.
func TestRealModel(t *testing.T) {
	url := modelserver.Start(t, 8192)
	acme.startPod(t)
	endpoint := &v1alpha1.ModelEndpoint{ObjectMeta: metav1.ObjectMeta{Name: "llama"}, Spec: v1alpha1.ModelEndpointSpec{
		Protocol: v1alpha1.ModelOpenAI, BaseURL: v1alpha1.ModelBaseURL(url + "/v1"), Model: "smollm2", ContextTokens: ptr.To(int64(8192)), MaxOutputTokens: ptr.To(int64(600)),
	}}
	agent := &v1alpha1.Agent{
		ObjectMeta: metav1.ObjectMeta{Namespace: acme.name, Name: "of-llama", Labels: map[string]string{v1alpha1.LabelID: strconv.Itoa(ofLlama)}},
		Spec: v1alpha1.AgentSpec{
			DeploymentRef: v1alpha1.LocalReference{Name: deployment}, ModelEndpointRef: v1alpha1.ModelEndpointReference{Name: "llama"}, Limits: &v1alpha1.AgentLimits{ToolCalls: ptr.To(int32(2))},
		},
	}
	for _, o := range []client.Object{endpoint, agent} {
		if err := k8s.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	before := agent.DeepCopy()
	agent.Status.ID = ofLlama
	if err := k8s.Status().Patch(t.Context(), agent, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}

	message := object{"input": "Tell me a long story about a river and its towns.", "chatId": "c-llama", "messageId": "1795316968000-message", "sessionSettings": external("u-llama", "CH")}
	reading := bufio.NewReader(acme.openLlama(t, message).Body) //nolint:bodyclose // openLlama closes it when the test ends
	read := ""
	for deltas := 0; deltas < 3; {
		line, err := reading.ReadString('\n')
		if read += line; err != nil {
			t.Fatalf("%v after %s", err, read)
		}
		if strings.Contains(line, `"isDelta":true`) && strings.Contains(line, `"content":"`) {
			deltas++
		}
	}
	acme.call(t, acme.admin, http.MethodPost, acme.path(ofLlama, "abort"), object{"chatId": "c-llama", "sessionSettings": message["sessionSettings"]}).Is(http.StatusNoContent)
	rest, err := io.ReadAll(reading)
	if err != nil {
		t.Fatal(err)
	}
	whole := read + string(rest)
	messages := stream.Messages{}
	for text := range strings.Lines(whole) {
		if strings.TrimSpace(text) == "" {
			continue
		}
		l, err := stream.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		messages.Add(l)
	}
	if said, ok := messages.Answer(); !ok || said == "" {
		t.Errorf("nothing of the answer remains: %s", whole)
	}
	replay, err := io.ReadAll(acme.openLlama(t, message).Body) //nolint:bodyclose // as above
	if err != nil || withoutKeepAlive(string(replay)) != withoutKeepAlive(whole) {
		t.Errorf("%v: the replay differs:\n%s\n%s", err, replay, whole)
	}
}

// withoutKeepAlive returns a stream without its empty lines.
func withoutKeepAlive(body string) string {
	for strings.Contains(body, "\n\n") {
		body = strings.ReplaceAll(body, "\n\n", "\n")
	}
	return strings.TrimLeft(body, "\n")
}

// openLlama sends a message to the agent with the real model, once the server knows it.
func (a *account) openLlama(t *testing.T, body object) (response *http.Response) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	err = apiclient.Eventually(func() error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+a.host()+a.path(ofLlama, "stream-chat-state"), bytes.NewReader(text))
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Api-Key "+a.admin)
		r.Header.Set("Content-Type", "application/json")
		if response, err = anyone.Do(r); err != nil { //nolint:bodyclose // closed below, also when the test ends
			return err
		}
		if response.StatusCode != http.StatusOK {
			defer response.Body.Close()
			problem, _ := io.ReadAll(response.Body)
			return &unexpected{response.Status + " " + string(problem)}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// unexpected is a response that is not a stream.
type unexpected struct{ text string }

// Error implements error.
func (u *unexpected) Error() string { return u.text }
