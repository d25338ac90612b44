package chat

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quoin-dev/quoin/apiserver/rest"
)

// png is the beginning of an image.
const png = "\x89PNG\x0D\x0A\x1A\x0A"

// FuzzRequest: a body is rejected with 400, or it is a message within the limits.
func FuzzRequest(f *testing.F) {
	image := base64.StdEncoding.EncodeToString([]byte(png))
	for _, seed := range []string{
		`{"input":"Orders?","chatId":"c","messageId":"1795316968000-message","sessionSettings":{"externalId":" U-42 ","groups":["emea"],"userAttributes":[{"name":"region","value":["a",1,null]}],"securityContext":{"t":{}}}}`,
		`{"input":" ","isDefaultBranch":false}`, `{"input":"x","activeBranchName":"b","isDefaultBranch":true}`, `{"chatId":"c"}`, `{}`, `{"input":"\u0000"}`,
		`{"input":"x","images":[{"mimeType":"image/png","data":"` + image + `"},{"mimeType":"image/gif","data":"?"}]}`,
		`{"input":"x","workbookContext":{"charts":[{"widgetId":"a","sql":"b"}]},"dashboardContext":{"publicId":"a","widgets":[{}],"viewerState":{"filterState":[]}}}`,
		`{"input":"x","sessionSettings":{"internalId":"ada","roles":[]}}`, `{"input":"x","sessionSettings":{"internalId":"ada","externalId":"b"}}`,
	} {
		f.Add([]byte(seed))
	}
	rejected := func(t *testing.T, err error) bool {
		var p *rest.Problem
		if err != nil && (!errors.As(err, &p) || p.GetStatus() != http.StatusBadRequest || p.Message == "") {
			t.Errorf("%v", err)
		}
		return err != nil
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var body StreamBody
		if json.Unmarshal(text, &body) != nil {
			return
		}
		if s, err := body.SessionSettings.Settings(); !rejected(t, err) && s != nil {
			if (s.ExternalID == "") == (s.InternalID == "") || s.ExternalID != strings.TrimSpace(s.ExternalID) {
				t.Errorf("%+v", s)
			}
			if s.InternalID != "" && (s.Groups != nil || s.Attributes != nil || s.SecurityContext != nil) {
				t.Errorf("a user of the account with %+v", s)
			}
		}
		if body.Input == nil {
			id, err := body.chat()
			if !rejected(t, err) && (!utf8.ValidString(id) || strings.ContainsRune(id, 0)) {
				t.Errorf("chat %q", id)
			}
			return
		}
		if m, err := body.message(); !rejected(t, err) {
			checkMessage(t, &m)
		}
	})
}

// checkMessage checks the limits of a message.
func checkMessage(t *testing.T, m *Message) {
	t.Helper()
	if strings.TrimSpace(m.Text) == "" || !utf8.ValidString(m.Text) || strings.ContainsRune(m.Text, 0) {
		t.Errorf("text %q", m.Text)
	}
	total := 0
	for _, i := range m.Images {
		data, err := base64.StdEncoding.DecodeString(i.Data)
		if err != nil || http.DetectContentType(data) != i.MimeType {
			t.Errorf("%+v", i)
		}
		total += len(data)
	}
	if total > maxImages {
		t.Errorf("%d bytes of images", total)
	}
	for _, d := range m.Data {
		if len(d.Text) > maxContext || !json.Valid([]byte(d.Text)) {
			t.Errorf("%+v", d)
		}
	}
}

// TestImages: images are what they are said to be, and have a size together.
func TestImages(t *testing.T) {
	of := func(size int) ImageInput {
		return ImageInput{MimeType: "image/png", Data: base64.StdEncoding.EncodeToString([]byte(png + strings.Repeat("x", size-len(png))))}
	}
	if out, err := images([]ImageInput{of(100), of(maxImages - 100)}); err != nil || len(out) != 2 {
		t.Error(len(out), err)
	}
	for want, in := range map[string][]ImageInput{
		"more than 5242880 bytes together": {of(100), of(maxImages - 99)}, "images[1].data": {of(100), {MimeType: "image/png"}},
		"images[0].mimeType": {{MimeType: "image/gif", Data: of(100).Data}},
	} {
		if _, err := images(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
