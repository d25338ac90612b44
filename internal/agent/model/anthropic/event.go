package anthropic

import (
	client "github.com/anthropics/anthropic-sdk-go"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/quoin-dev/quoin/internal/agent/model/transport"
)

// event is what is read of an event. The type of the client keeps the JSON of all fields, which takes many times as long for each
// piece of text.
type event struct {
	Type    string `json:"type"`
	Message struct {
		Usage usage `json:"usage"`
	} `json:"message"`
	ContentBlock block `json:"content_block"`
	Delta        delta `json:"delta"`
	Usage        usage `json:"usage"`
}

// block is the beginning of a block.
type block struct {
	Type     string         `json:"type"`
	Text     string         `json:"text"`
	Thinking string         `json:"thinking"`
	Data     string         `json:"data"`
	ID       string         `json:"id"`
	Name     string         `json:"name"`
	Input    jsontext.Value `json:"input"`
}

// delta is a piece of a block, or the end of a message.
type delta struct {
	Type        string            `json:"type"`
	Text        string            `json:"text"`
	Thinking    string            `json:"thinking"`
	Signature   string            `json:"signature"`
	PartialJSON string            `json:"partial_json"`
	StopReason  client.StopReason `json:"stop_reason"`
}

type usage struct {
	Input        int64 `json:"input_tokens"`
	CacheRead    int64 `json:"cache_read_input_tokens"`
	CacheWritten int64 `json:"cache_creation_input_tokens"`
	Output       int64 `json:"output_tokens"`
}

// decode replaces an event with that of a JSON text.
func (e *event) decode(data []byte) error {
	*e = event{}
	return transport.Decode(data, e)
}
