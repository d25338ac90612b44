package metering

import "github.com/quoin-dev/quoin/internal/agent/model"

// octetsPerToken is about the length of a token of text.
const octetsPerToken = 4

// estimate returns the approximate usage of a request whose answer has ended early, because a person has aborted it or the connection
// was lost. Providers send the usage at the end of an answer, and charge for what they have sent until then: without an estimate,
// answers that are aborted would not count for the limits of the day. Images are not counted.
func estimate(in *model.Request, answered int) model.Usage {
	asked := len(in.System)
	for i := range in.Tools {
		asked += len(in.Tools[i].Name) + len(in.Tools[i].Description) + len(in.Tools[i].Schema)
	}
	for i := range in.Messages {
		asked += in.Messages[i].Size()
	}
	return model.Usage{Input: tokens(asked), Output: tokens(answered)}
}

// octets returns the length of what the model has written.
func octets(e model.Event) int {
	n := len(e.Text) + len(e.Thinking)
	if e.ToolCall != nil {
		n += len(e.ToolCall.Name) + len(e.ToolCall.Input)
	}
	return n
}

func tokens(octets int) int64 { return int64(octets+octetsPerToken-1) / octetsPerToken }
