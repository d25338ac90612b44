package githttp

import (
	"bufio"
	"net/http"
	"slices"
	"strings"

	"github.com/quoin-dev/quoin/internal/content/repository"
)

const (
	headsDir = "refs/heads/"
	zeroID   = "0000000000000000000000000000000000000000"
	agent    = "agent=quoin"
	format   = "object-format=sha1"
)

// Capabilities in version 0. "no-progress", "quiet" and "ofs-delta" concern what the server may omit.
const (
	uploadCapabilities  = "multi_ack_detailed side-band-64k ofs-delta shallow no-progress allow-tip-sha1-in-want allow-reachable-sha1-in-want " + format + " " + agent
	receiveCapabilities = "report-status delete-refs side-band-64k quiet atomic ofs-delta push-options " + format + " " + agent
)

// isVersion2 reports whether a client requests version 2 of the protocol: gitprotocol-http(5).
func isVersion2(r *http.Request) bool {
	return slices.Contains(strings.Split(r.Header.Get("Git-Protocol"), ":"), "version=2")
}

// advertise serves the first request of a session.
func (s *Server) advertise(out *response, r *http.Request, a action, t target, session *repository.Session) {
	if a.service == uploadPack && isVersion2(r) {
		// Before the response, so that a repository that cannot be read is an error.
		if _, err := session.Branches(); err != nil {
			out.fail(r, err)
			return
		}
		p := &packetWriter{w: out}
		for _, line := range []string{"version 2", agent, "ls-refs=unborn", "fetch=shallow", format} {
			p.line("%s", line)
		}
		p.flush()
		return
	}
	branches, err := session.Branches()
	if err != nil {
		out.fail(r, err)
		return
	}
	buffered := bufio.NewWriterSize(out, maxPacket)
	p := &packetWriter{w: buffered}
	p.line("# service=%s", a.service)
	p.flush()
	p.refs(a.service, t.production(), branches)
	p.flush()
	_ = buffered.Flush() // fails only if the client has disconnected
}

// refs writes the refs in version 0. The first line has the capabilities.
func (p *packetWriter) refs(service, production string, branches []repository.Branch) {
	capabilities := receiveCapabilities
	var lines []string
	if service == uploadPack {
		capabilities = uploadCapabilities
		for _, b := range branches {
			if b.Name == production {
				capabilities += " symref=HEAD:" + headsDir + production
				lines = append(lines, b.Commit.String()+" HEAD")
			}
		}
	}
	for _, b := range branches {
		lines = append(lines, b.Commit.String()+" "+headsDir+b.Name)
	}
	if len(lines) == 0 {
		lines = []string{zeroID + " capabilities^{}"}
	}
	for i, line := range lines {
		if i == 0 {
			line += "\x00" + capabilities
		}
		p.line("%s", line)
	}
}

// maxPrefixes bounds the prefixes of a request for refs. If there are more, all refs are returned.
const maxPrefixes = 1000

// refsRequest are the arguments of ls-refs.
type refsRequest struct {
	prefixes        []string
	symrefs, unborn bool
	// all is true if there are too many prefixes.
	all bool
}

// add adds an argument.
func (l *refsRequest) add(line string) {
	switch prefix, ok := strings.CutPrefix(line, "ref-prefix "); {
	case ok && len(l.prefixes) == maxPrefixes:
		l.all = true
	case ok:
		l.prefixes = append(l.prefixes, prefix)
	case line == "symrefs":
		l.symrefs = true
	case line == "unborn":
		l.unborn = true
	}
}

// wants reports whether a ref is requested.
func (l *refsRequest) wants(name string) bool {
	return len(l.prefixes) == 0 || l.all ||
		slices.ContainsFunc(l.prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// serve serves the command ls-refs of version 2.
func (l *refsRequest) serve(p *packetWriter, production string, branches []repository.Branch) {
	if l.wants("HEAD") {
		target := ""
		if l.symrefs {
			target = " symref-target:" + headsDir + production
		}
		i := slices.IndexFunc(branches, func(b repository.Branch) bool { return b.Name == production })
		switch {
		case i >= 0:
			p.line("%s HEAD%s", branches[i].Commit, target)
		case l.unborn && l.symrefs:
			p.line("unborn HEAD%s", target)
		}
	}
	for _, b := range branches {
		if l.wants(headsDir + b.Name) {
			p.line("%s %s%s", b.Commit, headsDir, b.Name)
		}
	}
	p.flush()
}
