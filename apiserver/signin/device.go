package signin

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/quoin-dev/quoin/internal/content/oauth"
	"github.com/quoin-dev/quoin/internal/serving"
)

// address returns the address of the client as it is stored.
func address(r *http.Request) string {
	if known := serving.RemoteAddress(r.Context()); known.IsValid() {
		return known.String()
	}
	return ""
}

// startDevice serves the device authorization endpoint (RFC 8628, section 3.1).
func (s *Server) startDevice(w http.ResponseWriter, r *http.Request, in *request) {
	if wait := s.limits.devices.take(r, in.account.Name, s.Clock.Now()); wait > 0 {
		writeTooMany(w, r, wait)
		return
	}
	device, err := s.newDevice(r, in)
	if err != nil {
		writeProtocolError(w, r, err)
		return
	}
	page := in.url + devicePath
	writeJSON(w, http.StatusOK, map[string]any{
		"device_code": device.Code, "user_code": device.UserCode, "verification_uri": page,
		"verification_uri_complete": page + "?" + url.Values{"user_code": {device.UserCode}}.Encode(),
		"expires_in":                int(oauth.DeviceLifetime / time.Second), "interval": int(oauth.DeviceInterval / time.Second),
	})
}

func (s *Server) newDevice(r *http.Request, in *request) (*oauth.Device, error) {
	form, err := formOf(r)
	if err != nil {
		return nil, err
	}
	c, err := clientIn(r, form)
	if err != nil {
		return nil, err
	}
	if err := checkScope(c, form); err != nil {
		return nil, err
	}
	switch {
	case !c.Device:
		return nil, reject(unauthorizedClient, "the client %q may not use the device grant", c.ID)
	case len(issuers(in.account)) == 0:
		return nil, &protocolError{http.StatusForbidden, accessDenied, "sign-in is not configured for this account: use an API key"}
	}
	return s.Store.StartDevice(r.Context(), in.stored(), c.ID, address(r))
}

// poll returns the tokens of a device (RFC 8628, section 3.4).
func (s *Server) poll(r *http.Request, in *request, c *oauthClient, form url.Values) (*oauth.Tokens, error) {
	code := form.Get("device_code")
	switch {
	case code == "":
		return nil, reject(invalidRequest, "device_code is missing")
	case len(code) > maxToken:
		return nil, reject(expiredToken, "the device code is invalid or has expired")
	}
	tokens, err := s.Store.PollDevice(r.Context(), in.stored(), c.ID, code)
	switch {
	case errors.Is(err, oauth.ErrPending):
		return nil, reject(authorizationPending, "no person has entered the user code yet")
	case errors.Is(err, oauth.ErrSlowDown):
		return nil, reject(slowDown, "the interval between two polls is 5 seconds longer from now on")
	case errors.Is(err, oauth.ErrDenied):
		return nil, reject(accessDenied, "the request was denied")
	case errors.Is(err, oauth.ErrUnknown):
		return nil, reject(expiredToken, "the device code is invalid or has expired")
	}
	return tokens, grantError("the device code", err)
}

// maxUserCode is the maximum length of a user code as a person enters it in bytes.
const maxUserCode = 64

// devicePage serves the page on which a person enters a user code, and the one that asks to approve it.
func (s *Server) devicePage(w http.ResponseWriter, r *http.Request, in *request) {
	if in.browser == nil {
		redirectTo(w, r, loginURL(r.URL))
		return
	}
	code := r.URL.Query().Get("user_code")
	if code == "" {
		s.enterCode(w, r, http.StatusOK, "", "")
		return
	}
	request, ok := s.findDevice(w, r, in, code)
	if !ok {
		return
	}
	s.render(w, r, http.StatusOK, "approve", pageData{Title: "Connect this device?", Content: map[string]any{
		"Client": clientName(request.ClientID), "Code": code, "Address": request.Address, "At": request.CreatedAt, "Action": devicePath,
	}})
}

// findDevice returns the pending request with a user code, or responds and returns false. The number of codes
// that a person can try is limited.
func (s *Server) findDevice(w http.ResponseWriter, r *http.Request, in *request, code string) (*oauth.DeviceRequest, bool) {
	if wait := s.limits.userCodes.Take(in.account.Name+"\x00"+in.browser.principal.ID, s.Clock.Now()); wait > 0 {
		serving.RetryAfter(w, wait)
		s.enterCode(w, r, http.StatusTooManyRequests, "", "Too many codes were tried. Wait a minute.")
		return nil, false
	}
	request, err := (*oauth.DeviceRequest)(nil), oauth.ErrUnknown
	if len(code) <= maxUserCode {
		request, err = s.Store.FindDevice(r.Context(), string(in.account.UID), code)
	}
	switch {
	case errors.Is(err, oauth.ErrUnknown):
		s.enterCode(w, r, http.StatusNotFound, code[:min(len(code), maxUserCode)], "The code is unknown or has expired. Check it, or start again on the device.")
	case err != nil:
		s.failUnavailable(w, r, err)
	}
	return request, err == nil
}

func (s *Server) enterCode(w http.ResponseWriter, r *http.Request, status int, code, problem string) {
	s.render(w, r, status, "device", pageData{Title: "Connect a device", Content: map[string]any{"Code": code, "Problem": problem, "Action": devicePath}})
}

// decideDevice serves the form that approves or denies the request of a device.
func (s *Server) decideDevice(w http.ResponseWriter, r *http.Request, in *request) {
	code := r.PostForm.Get("user_code")
	if _, ok := s.findDevice(w, r, in, code); !ok {
		return
	}
	approve := r.PostForm.Get("decision") == "allow"
	err := s.Store.DecideDevice(r.Context(), in.stored(), code, approve, in.browser.session.Person)
	if errors.Is(err, oauth.ErrUnknown) { // it was decided meanwhile
		s.enterCode(w, r, http.StatusNotFound, "", "The code is unknown or has expired. Start again on the device.")
		return
	}
	if err != nil {
		s.failUnavailable(w, r, err)
		return
	}
	title, text := "The device is connected", "You can close this page and continue on the device."
	if !approve {
		title, text = "The device is not connected", "The request was denied. You can close this page."
	}
	s.render(w, r, http.StatusOK, "message", pageData{Title: title, Content: map[string]any{"Text": text}})
}
