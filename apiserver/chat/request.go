package chat

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"unicode/utf8"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/apiserver/agents"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/agent/model"
)

const (
	// maxImages is the size of the images of a message together, in bytes without base64.
	maxImages = 5 << 20
	// maxContext is the size of workbookContext and of dashboardContext as JSON, in bytes.
	maxContext = 64 << 10
)

// chat returns the id of the chat that is read.
func (b *StreamBody) chat() (string, error) {
	if b.ChatID == nil {
		return "", rest.BadRequest("input: is absent, and so is chatId; one of them is required")
	}
	return *b.ChatID, checkText("chatId", *b.ChatID)
}

// message returns the message, without agent and asker.
func (b *StreamBody) message() (m Message, err error) {
	m = Message{ChatID: ptr.Deref(b.ChatID, ""), ID: ptr.Deref(b.MessageID, ""), Text: *b.Input, Branch: ptr.Deref(b.ActiveBranchName, "")}
	if strings.TrimSpace(m.Text) == "" {
		return m, rest.BadRequest("input: is empty; allowed: text")
	}
	for field, text := range map[string]string{"input": m.Text, "chatId": m.ChatID} {
		if err := checkText(field, text); err != nil {
			return m, err
		}
	}
	switch isDefault := b.IsDefaultBranch; {
	case isDefault != nil && *isDefault:
		m.Branch = ""
	case isDefault != nil && m.Branch == "":
		return m, rest.BadRequest("activeBranchName: is absent; required if isDefaultBranch is false")
	}
	if m.Images, err = images(b.Images); err != nil {
		return m, err
	}
	m.Data, err = documents(b)
	return m, err
}

// checkText returns an error for text that the store cannot have.
func checkText(field, text string) error {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return rest.BadRequest("%s: has a NUL character or is not UTF-8; allowed: text", field)
	}
	return nil
}

// images checks images.
func images(in []ImageInput) (out []model.Image, err error) {
	total := 0
	for i, image := range in {
		data, err := base64.StdEncoding.DecodeString(image.Data)
		if err != nil || len(data) == 0 {
			return nil, rest.BadRequest("images[%d].data: is not base64 of an image", i)
		}
		// An image is recognized by its first bytes.
		if kind := http.DetectContentType(data); kind != image.MimeType {
			return nil, rest.BadRequest("images[%d].mimeType: %q, but the data is %s", i, rest.Clip(image.MimeType), kind)
		}
		if total += len(data); total > maxImages {
			return nil, rest.BadRequest("images: have more than %d bytes together; allowed: %d", maxImages, maxImages)
		}
		out = append(out, model.Image{MimeType: image.MimeType, Data: image.Data})
	}
	return out, nil
}

// documents returns what the client shows, for the model.
func documents(b *StreamBody) (out []Document, err error) {
	for _, c := range []struct {
		field, source string
		value         any
		is            bool
	}{
		{"workbookContext", "workbook", b.WorkbookContext, b.WorkbookContext != nil},
		{"dashboardContext", "dashboard", b.DashboardContext, b.DashboardContext != nil},
	} {
		if !c.is {
			continue
		}
		text, err := json.Marshal(c.value)
		if err != nil {
			return nil, err
		}
		if len(text) > maxContext {
			return nil, rest.BadRequest("%s: has %d bytes as JSON; allowed: %d", c.field, len(text), maxContext)
		}
		out = append(out, Document{c.source, string(text)})
	}
	return out, nil
}

// Settings returns the session; nil if there is none.
func (in *SessionInput) Settings() (*agents.Session, error) {
	if in == nil {
		return nil, nil
	}
	s := &agents.Session{
		ExternalID: strings.ToLower(strings.TrimSpace(ptr.Deref(in.ExternalID, ""))), InternalID: strings.ToLower(strings.TrimSpace(ptr.Deref(in.InternalID, ""))),
		Groups: ptr.Deref(in.Groups, nil), SecurityContext: in.SecurityContext,
	}
	for i, group := range s.Groups {
		if group == "" || len(group) > 255 {
			return nil, rest.BadRequest("sessionSettings.groups[%d]: has %d bytes; allowed: 1 to 255", i, len(group))
		}
	}
	for _, a := range in.UserAttributes {
		s.Attributes = append(s.Attributes, agents.Attribute{Name: a.Name, Value: a.Value.Value})
	}
	if err := checkText("sessionSettings.externalId", s.ExternalID); err != nil {
		return nil, err
	}
	switch {
	case s.ExternalID == "" && s.InternalID == "":
		return nil, rest.BadRequest("sessionSettings: externalId and internalId are absent or empty; one of them is required")
	case s.ExternalID != "" && s.InternalID != "":
		return nil, rest.BadRequest("sessionSettings: has externalId and internalId; allowed: one of them")
	case s.InternalID == "":
		return s, nil
	}
	for field, is := range map[string]bool{"groups": in.Groups != nil, "roles": in.Roles != nil, "userAttributes": in.UserAttributes != nil, "securityContext": in.SecurityContext != nil} {
		if is {
			return nil, rest.BadRequest("sessionSettings.%s: is set together with internalId; the user of the account has its own", field)
		}
	}
	return s, nil
}
