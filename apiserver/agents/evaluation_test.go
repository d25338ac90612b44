package agents

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quoin-dev/quoin/api/v1alpha1"
)

// TestChoose: an agent is chosen by the name of its object, then by that in the files, then by the one shown; never one of several.
func TestChoose(t *testing.T) {
	agent := func(name, config, shown string) v1alpha1.Agent {
		return v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.AgentSpec{ConfigName: config, DisplayName: shown}}
	}
	all := []v1alpha1.Agent{agent("b", "a", "Seller"), agent("a", "seller", "Seller"), agent("c", "twice", "Helper"), agent("d", "twice", "")}
	for name, want := range map[string]string{
		"a": "a", "b": "b", "seller": "a", "Helper": "c", "d": "d",
		"Seller": `400 agentName: "Seller" is the name of several agents; allowed: the name of an object, of a, b, c, d`,
		"twice":  `400 agentName: "twice" is the name of several agents; allowed: the name of an object, of a, b, c, d`,
		"x":      `404 agentName: the deployment has no agent "x"; allowed: one of a, b, c, d`,
		"":       "400 agentName: is absent, and the deployment has 4 agents that are not suspended; allowed: one of a, b, c, d",
	} {
		if got := chosen(all, name); got != want {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
	}
	for want, some := range map[string][]v1alpha1.Agent{
		"a": {agent("a", "", "")}, "e": {agent("a", "", ""), agent("e", "auto", "")}, "404 agentName: the deployment has no agent that can be asked": nil,
	} {
		if got := chosen(some, ""); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	var many []v1alpha1.Agent
	for i := range 30 {
		many = append(many, agent(fmt.Sprintf("agent-%02d", i), "", ""))
	}
	if got := chosen(many, "x"); !strings.HasSuffix(got, "agent-19, …") {
		t.Error(got)
	}
}

// chosen returns the name of the object, or the status and the message.
func chosen(all []v1alpha1.Agent, name string) string {
	found, err := choose(all, name)
	if err != nil {
		status, _ := err.(interface{ GetStatus() int })
		return fmt.Sprint(status.GetStatus(), " ", err)
	}
	return found.Name
}
