// Package githook reads the push webhooks of GitHub, Gitea, Forgejo, GitLab and Bitbucket. It does not verify
// who has sent them.
package githook

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"mime"
	"net/url"
	"strings"
)

// Push is a push of branches and tags to a repository.
type Push struct {
	// Refs are those that exist after it.
	Refs []Ref
	// DefaultBranch is that of the repository; empty if the webhook does not name it.
	DefaultBranch string
}

// Ref is a branch or a tag and its commit.
type Ref struct {
	// Name is the full name: refs/heads/main.
	Name string
	// Commit is empty if the webhook does not name it.
	Commit string
}

const (
	headsPrefix = "refs/heads/"
	tagsPrefix  = "refs/tags/"
)

// Find returns the branch or else the tag with a name.
func (p *Push) Find(name string) (Ref, bool) {
	for _, prefix := range []string{headsPrefix, tagsPrefix} {
		for _, ref := range p.Refs {
			if ref.Name == prefix+name {
				return ref, true
			}
		}
	}
	return Ref{}, false
}

// events are the headers that name the event, with the events that are pushes. A Gitea sends that of GitHub too.
var events = []struct {
	header string
	pushes []string
}{
	{"X-GitHub-Event", []string{"push"}},
	{"X-Gitea-Event", []string{"push"}},
	{"X-Gitlab-Event", []string{"Push Hook", "Tag Push Hook"}},
	{"X-Event-Key", []string{"repo:push", "repo:refs_changed"}},
}

// IsPush reports whether a webhook is a push, by its headers. Without the header of an event it is.
func IsPush(header func(name string) string) bool {
	for _, e := range events {
		if event := header(e.header); event != "" {
			for _, push := range e.pushes {
				if event == push {
					return true
				}
			}
			return false
		}
	}
	return true
}

// deliveries are the headers with the id of a delivery, which is the same when the host repeats it.
var deliveries = []string{"X-GitHub-Delivery", "X-Gitea-Delivery", "Idempotency-Key", "X-Gitlab-Event-UUID", "X-Request-UUID", "X-Request-Id"}

// Delivery identifies a delivery among those of a repository: a hash of the id that the host has given to it, or
// else of the body.
func Delivery(header func(name string) string, body []byte) string {
	for _, name := range deliveries {
		if id := header(name); id != "" {
			sum := sha256.Sum256([]byte(name + "\x00" + id))
			return hex.EncodeToString(sum[:])
		}
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// repository has the default branch.
type repository struct {
	DefaultBranch string `json:"default_branch"`
}

// payload has the fields of the bodies of all hosts.
type payload struct {
	// GitHub, Gitea, Forgejo and GitLab.
	Ref        string      `json:"ref"`
	After      string      `json:"after"`
	Deleted    bool        `json:"deleted"`
	Repository *repository `json:"repository"`
	// Project is that of GitLab.
	Project *repository `json:"project"`
	// Push is that of Bitbucket Cloud.
	Push *struct {
		Changes []struct {
			New *struct {
				Type   string `json:"type"`
				Name   string `json:"name"`
				Target struct {
					Hash string `json:"hash"`
				} `json:"target"`
			} `json:"new"`
		} `json:"changes"`
	} `json:"push"`
	// Changes are those of Bitbucket Data Center.
	Changes []struct {
		Ref struct {
			ID string `json:"id"`
		} `json:"ref"`
		ToHash string `json:"toHash"`
		Type   string `json:"type"`
	} `json:"changes"`
}

// errPayload is the error for a body that is not one of a push.
var errPayload = errors.New("the body is not the JSON of a push event")

// Parse reads the body of a push.
func Parse(contentType string, body []byte) (*Push, error) {
	if media, _, _ := mime.ParseMediaType(contentType); media == "application/x-www-form-urlencoded" { // an option of GitHub
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return nil, errPayload
		}
		body = []byte(form.Get("payload"))
	}
	var in payload
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, errPayload
	}
	p := &Push{}
	switch {
	case in.Repository != nil && in.Repository.DefaultBranch != "":
		p.DefaultBranch = in.Repository.DefaultBranch
	case in.Project != nil:
		p.DefaultBranch = in.Project.DefaultBranch
	}
	if !in.Deleted {
		p.add(in.Ref, in.After)
	}
	if in.Push != nil {
		for _, c := range in.Push.Changes {
			if c.New == nil {
				continue // it was deleted
			}
			prefix := headsPrefix
			if c.New.Type == "tag" {
				prefix = tagsPrefix
			}
			p.add(prefix+c.New.Name, c.New.Target.Hash)
		}
	}
	for _, c := range in.Changes {
		if c.Type != "DELETE" {
			p.add(c.Ref.ID, c.ToHash)
		}
	}
	return p, nil
}

// add adds a ref that has been pushed. The commit of a deleted one is zero.
func (p *Push) add(name, commit string) {
	isRef := strings.HasPrefix(name, headsPrefix) && name != headsPrefix || strings.HasPrefix(name, tagsPrefix) && name != tagsPrefix
	switch {
	case !isRef, commit != "" && strings.Trim(commit, "0") == "":
	case !isHash(commit):
		p.Refs = append(p.Refs, Ref{Name: name})
	default:
		p.Refs = append(p.Refs, Ref{Name: name, Commit: commit})
	}
}

// isHash reports whether a text is the id of a Git object.
func isHash(text string) bool {
	if len(text) != 40 && len(text) != 64 {
		return false
	}
	_, err := hex.DecodeString(text)
	return err == nil
}
