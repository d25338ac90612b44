package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const (
	// MaxTags bounds the tags read of one repository.
	MaxTags = 10000

	// pageSize is the maximum of Amazon ECR.
	pageSize = 1000
	// maxPages bounds the pages of a registry whose links do not end.
	maxPages = 1000
)

// Tags returns all tags of a repository, sorted and without duplicates. Invalid
// tags are omitted.
//
// Links to further pages are followed on the same host only, until a link
// repeats. The error is an *Error of one of the kinds, or wraps ErrInvalidName
// or ErrTooManyTags.
//
// Source: OCI Distribution Specification, heading "Listing Tags".
func (c *Client) Tags(ctx context.Context, repository string) ([]string, error) {
	s, err := c.open(ctx, repository)
	if err != nil {
		return nil, err
	}
	tags, seen := map[string]struct{}{}, map[string]struct{}{}
	next := fmt.Sprintf("%s?n=%d", s.address("tags", "list"), pageSize)
	for page := 0; next != ""; page++ {
		if _, repeated := seen[next]; repeated {
			break
		}
		if page == maxPages {
			return nil, s.protocolError("the list of tags has too many pages")
		}
		seen[next] = struct{}{}
		if next, err = s.tagPage(ctx, next, tags); err != nil {
			return nil, err
		}
	}
	list := make([]string, 0, len(tags))
	for tag := range tags {
		list = append(list, tag)
	}
	slices.Sort(list)
	return list, nil
}

// tagPage adds the tags of one page and returns the address of the next one, or
// "".
func (s *session) tagPage(ctx context.Context, address string, tags map[string]struct{}) (string, error) {
	resp, err := s.do(ctx, http.MethodGet, address, []string{"application/json"})
	if err != nil {
		return "", err
	}
	defer discard(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return "", s.statusError(resp.StatusCode, "")
	}
	var page struct {
		Tags []string `json:"tags"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&page); err != nil {
		return "", s.decodeError(ctx, err)
	}
	for _, tag := range page.Tags {
		if tagPattern.MatchString(tag) {
			tags[tag] = struct{}{}
		}
	}
	if len(tags) > MaxTags {
		return "", &Error{
			Subject: "repository " + s.path,
			Reason:  fmt.Sprintf("more than %d tags", MaxTags),
			kind:    ErrTooManyTags,
		}
	}
	return s.nextPage(resp)
}

// decodeError returns the error for a response that is truncated or not JSON.
func (s *session) decodeError(ctx context.Context, err error) error {
	var syntax *json.SyntaxError
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &syntax) || errors.As(err, &wrongType) {
		return s.protocolError("the list of tags is not valid JSON of the distribution API")
	}
	return s.transportError(ctx, err)
}

// nextPage parses the Link header, RFC 8288. The link is relative to the URL of
// the response and keeps its scheme: registries behind a proxy often send
// http:// there.
func (s *session) nextPage(resp *http.Response) (string, error) {
	link := resp.Header.Get("Link")
	if link == "" {
		return "", nil
	}
	target, params, ok := strings.Cut(strings.TrimPrefix(link, "<"), ">")
	if !ok || !strings.HasPrefix(link, "<") {
		return "", s.protocolError("malformed Link header")
	}
	if strings.Contains(params, "rel=") && !strings.Contains(params, "next") {
		return "", nil
	}
	ref, err := url.Parse(target)
	if err != nil {
		return "", s.protocolError("malformed Link header")
	}
	from := resp.Request.URL
	next := from.ResolveReference(ref)
	if next.Host != from.Host && next.Host != s.base.Host {
		return "", s.protocolError("the next page of tags is on another host")
	}
	next.Scheme, next.User, next.Fragment = from.Scheme, nil, ""
	return next.String(), nil
}
