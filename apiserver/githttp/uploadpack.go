package githttp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/fairsemaphore"
	"github.com/quoin-dev/quoin/internal/gitpack"
	"github.com/quoin-dev/quoin/internal/serving"
)

const (
	// maxFetchRequest bounds an inflated request of git-upload-pack.
	maxFetchRequest = 4 << 20
	// maxWants bounds the commits that a fetch requests; there is one for each branch.
	maxWants = 10_000
	// maxLookups bounds the commits of a client that are looked up in a request. The others count as
	// unknown: the pack is larger, and correct.
	maxLookups = 1024
	// maxFetches is the number of fetches on the hosts of accounts at the same time, and maxAccountFetches that of
	// those of an account: each needs up to some 10 MiB of memory while it is sent, and its client may read slowly.
	// Others wait, at most maxWait. On the internal address, maxReaders limits them.
	maxFetches, maxAccountFetches = 24, 12
	// maxHistories is the number of fetches, on both, of which is determined what their clients lack, and
	// maxAccountHistories that of those of an account: each needs up to some 60 MiB of memory. Others wait as well.
	maxHistories, maxAccountHistories = 4, 2
)

// errTooManyFetches is the error of a fetch that has waited for maxWait.
var errTooManyFetches = errors.New("too many fetches at the moment: retry later")

// fetchRequest are the arguments of a fetch.
type fetchRequest struct {
	gitpack.Request
	// done is true if the client has no more haves. asked is true if it wants to know, in version 0,
	// which of them are common.
	done, asked bool
	// quiet is true if the client wants no progress, multiplexed is true for bands.
	quiet, multiplexed bool
}

// add adds an argument. It returns false for an unknown one.
func (f *fetchRequest) add(line string) (bool, error) {
	name, value, _ := strings.Cut(line, " ")
	switch name {
	case "want":
		if len(f.Wants) == maxWants {
			return false, rejectf("more than %d commits are requested", maxWants)
		}
		return true, addHash(&f.Wants, value)
	case "have":
		if len(f.Haves) == maxLookups {
			return true, nil
		}
		return true, addHash(&f.Haves, value)
	case "shallow":
		hash, err := parseHash(value)
		if f.Shallow == nil {
			f.Shallow = map[plumbing.Hash]bool{}
		}
		f.Shallow[hash] = true
		return true, err
	case "deepen":
		depth, err := strconv.ParseInt(value, 10, 32)
		if err != nil || depth <= 0 {
			return false, rejection("deepen must be a positive number")
		}
		f.Depth = int(depth)
	case "deepen-since", "deepen-not", "deepen-relative":
		return false, rejectf("%s is not supported: fetch with --depth or --unshallow", name)
	case "done":
		f.done = true
	case "no-progress":
		f.quiet = true
	default:
		return false, nil
	}
	return true, nil
}

func addHash(to *[]plumbing.Hash, value string) error {
	hash, err := parseHash(value)
	*to = append(*to, hash)
	return err
}

// parseHash parses the name of an object.
func parseHash(text string) (plumbing.Hash, error) {
	if len(text) != len(zeroID) || strings.Trim(text, "0123456789abcdef") != "" {
		return plumbing.ZeroHash, rejection("the name of an object must have 40 hexadecimal digits")
	}
	return plumbing.NewHash(text), nil
}

// uploadPack serves a request of git-upload-pack.
func (s *Server) uploadPack(out *response, r *http.Request, t target, session *repository.Session) {
	body, err := bodyOf(r, maxFetchRequest)
	if err != nil {
		out.fail(r, err)
		return
	}
	buffered := bufio.NewWriterSize(out, maxPacket)
	u := &upload{
		in: newPacketReader(bufio.NewReader(body), maxFetchRequest), out: &packetWriter{w: buffered},
		production: t.production(), session: session,
		place: func() (func(), error) { return wait(r.Context(), s.histories, t.account.Name) },
		begin: func() (*fairsemaphore.Turn, error) {
			return fairsemaphore.Processors.Begin(r.Context(), t.account.Name)
		},
	}
	serve := u.version0
	if isVersion2(r) {
		serve = u.version2
	}
	if err = serve(); err == nil {
		err = u.out.err
	}
	if errors.Is(err, errTooManyFetches) { // nothing has been written
		serving.WriteBusy(out.ResponseWriter, http.StatusServiceUnavailable, errTooManyFetches.Error())
		return
	}
	if err == nil {
		err = buffered.Flush()
	}
	if err != nil {
		u.fail(r, buffered, err)
	}
}

// upload is a request of git-upload-pack.
type upload struct {
	in         *packetReader
	out        *packetWriter
	production string
	session    *repository.Session
	// place waits for one of maxHistories.
	place func() (release func(), err error)
	// begin waits for a place among the processors.
	begin func() (*fairsemaphore.Turn, error)
	// multiplexed is true once the response is in bands.
	multiplexed bool
}

// fail tells the client why the request failed.
func (u *upload) fail(r *http.Request, buffered *bufio.Writer, err error) {
	report(r.Context(), err)
	text, _ := explain(err)
	if u.out.err != nil || r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the client has gone, or does not read
	}
	if u.multiplexed {
		_, _ = band{u.out, bandError}.Write([]byte(text + "\n"))
	} else {
		u.out.packet([]byte("ERR " + text))
	}
	if u.out.err != nil || buffered.Flush() != nil {
		panic(http.ErrAbortHandler)
	}
}

// version2 serves a command of version 2: gitprotocol-v2(5).
func (u *upload) version2() error {
	command, ok, err := u.in.data()
	if err != nil || !ok {
		return err // an empty request does nothing
	}
	arguments := false
	for {
		kind, line, err := u.in.next()
		if errors.Is(err, io.EOF) {
			err = errMalformed
		}
		if err != nil {
			return err
		}
		if kind == packetData {
			if name, value, _ := strings.Cut(string(line), "="); name == "object-format" && value != "sha1" {
				return rejection("the repository has objects of the format sha1")
			}
			continue
		}
		arguments = kind == packetDelimiter
		break
	}
	switch command {
	case "command=ls-refs":
		return u.lsRefs(arguments)
	case "command=fetch":
		return u.fetch2(arguments)
	}
	return rejection("unknown command; allowed: ls-refs, fetch")
}

func (u *upload) lsRefs(arguments bool) error {
	request := &refsRequest{}
	if err := u.arguments(arguments, func(line string) error { request.add(line); return nil }); err != nil {
		return err
	}
	branches, err := u.session.Branches()
	if err != nil {
		return err
	}
	request.serve(u.out, u.production, branches)
	return nil
}

// arguments calls add for each argument of a command.
func (u *upload) arguments(present bool, add func(string) error) error {
	for present {
		line, ok, err := u.in.data()
		if err != nil || !ok {
			return err
		}
		if err := add(line); err != nil {
			return err
		}
	}
	return nil
}

// fetch2 serves the command fetch of version 2.
func (u *upload) fetch2(arguments bool) error {
	f := &fetchRequest{multiplexed: true}
	err := u.arguments(arguments, func(line string) error {
		_, err := f.add(line)
		return err
	})
	if err != nil {
		return err
	}
	h, err := u.history(f, func(common []plumbing.Hash) bool { return f.done || len(common) > 0 })
	if err != nil {
		return err
	}
	if !f.done {
		u.out.line("acknowledgments")
		for _, have := range h.common {
			u.out.line("ACK %s", have)
		}
		if len(h.common) == 0 {
			u.out.line("NAK")
			u.out.flush()
			return nil
		}
		u.out.line("ready")
		u.out.delimiter()
	}
	if f.Depth > 0 {
		u.out.line("shallow-info")
		u.shallowInfo(h)
		u.out.delimiter()
	}
	u.out.line("packfile")
	if err := u.pack(f, h.objects); err != nil {
		return err
	}
	u.out.flush()
	return nil
}

// version0 serves a request of version 0: gitprotocol-pack(5), heading "Packfile Negotiation".
func (u *upload) version0() error {
	f := &fetchRequest{}
	if err := u.readWants(f); err != nil || len(f.Wants) == 0 {
		return err
	}
	h, err := u.history(f, func([]plumbing.Hash) bool { return f.done })
	if err != nil {
		return err
	}
	if f.Depth > 0 {
		u.shallowInfo(h)
		u.out.flush()
	}
	if f.done || f.asked {
		u.acknowledge(f, h)
	}
	if !f.done {
		return nil
	}
	if err := u.pack(f, h.objects); err != nil {
		return err
	}
	if f.multiplexed {
		u.out.flush()
	}
	return nil
}

// acknowledge writes which commits of the client are common, in the form multi_ack_detailed. Common
// commits of a client without it are not used.
func (u *upload) acknowledge(f *fetchRequest, h *lacking) {
	for _, have := range h.common {
		u.out.line("ACK %s common", have)
	}
	switch n := len(h.common); {
	case n == 0:
		u.out.line("NAK")
	case f.done:
		u.out.line("ACK %s", h.common[n-1])
	default:
		u.out.line("ACK %s ready", h.common[n-1])
		u.out.line("NAK")
	}
}

// readWants reads a request in version 0: the wanted commits, then those of the client.
func (u *upload) readWants(f *fetchRequest) error {
	detailed := false
	for first := true; ; first = false {
		line, ok, err := u.in.data()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if first {
			// "want <commit> <capabilities>"
			fields := strings.Fields(line)
			line = strings.Join(fields[:min(len(fields), 2)], " ")
			f.multiplexed = slices.Contains(fields, "side-band-64k")
			f.quiet = slices.Contains(fields, "no-progress")
			detailed = slices.Contains(fields, "multi_ack_detailed")
		}
		if known, err := f.add(line); err != nil || !known {
			return errors.Join(err, unknownLine(known))
		}
	}
	err := u.readHaves(f)
	if !detailed {
		f.Haves = nil
	}
	return err
}

// readHaves reads the commits of the client in version 0.
func (u *upload) readHaves(f *fetchRequest) error {
	for !f.done {
		kind, line, err := u.in.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if kind != packetData { // a flush packet after each group
			f.asked = true
			continue
		}
		if known, err := f.add(string(line)); err != nil || !known {
			return errors.Join(err, unknownLine(known))
		}
	}
	return nil
}

func unknownLine(known bool) error {
	if known {
		return nil
	}
	return errMalformed
}

// lacking is what a client lacks, without the history from which it is determined, which needs more memory.
type lacking struct {
	// common are the commits that both have, newShallow and unshallow the changes of those whose parents the client
	// lacks, and objects those of the pack; none if it is not sent now.
	common, newShallow, unshallow, objects []plumbing.Hash
}

// history returns what the client lacks, with the objects if sends returns true for the common commits. Commits of the
// client that were deleted here may still be in the cache, without what they refer to.
func (u *upload) history(f *fetchRequest, sends func(common []plumbing.Hash) bool) (*lacking, error) {
	if len(f.Wants) == 0 {
		return nil, rejection("no commit is requested")
	}
	stored, err := u.session.Existing(f.Haves)
	if err != nil {
		return nil, err
	}
	f.Haves = slices.DeleteFunc(f.Haves, func(have plumbing.Hash) bool { return !stored[have] })
	release, err := u.place()
	if err != nil {
		return nil, errTooManyFetches
	}
	defer release()
	turn, err := u.begin()
	if err != nil {
		return nil, err
	}
	defer turn.End()
	u.session.InTurns(turn)
	defer u.session.InTurns(nil)
	h, err := gitpack.NewHistory(u.session, f.Request)
	if err != nil {
		return nil, err
	}
	out := &lacking{common: h.Common, newShallow: h.NewShallow, unshallow: h.Unshallow}
	if sends(h.Common) {
		out.objects, err = h.Objects()
	}
	return out, err
}

// shallowInfo writes the commits whose parents the client will lack, and those whose parents it gets.
func (u *upload) shallowInfo(h *lacking) {
	for _, hash := range h.newShallow {
		u.out.line("shallow %s", hash)
	}
	for _, hash := range h.unshallow {
		u.out.line("unshallow %s", hash)
	}
}

// pack writes the pack of what the client lacks.
func (u *upload) pack(f *fetchRequest, objects []plumbing.Hash) error {
	var to io.Writer = writerFunc(func(data []byte) (int, error) {
		u.out.write(data)
		return len(data), u.out.err
	})
	if f.multiplexed {
		u.multiplexed = true
		if !f.quiet {
			fmt.Fprintf(band{u.out, bandProgress}, "Sending %d objects\n", len(objects))
		}
		to = band{u.out, bandData}
	}
	buffered := bufio.NewWriterSize(to, maxBand)
	if err := gitpack.Write(buffered, u.session, objects); err != nil {
		return err
	}
	return buffered.Flush()
}

// writerFunc is a function that implements io.Writer.
type writerFunc func([]byte) (int, error)

// Write implements io.Writer.
func (w writerFunc) Write(data []byte) (int, error) { return w(data) }
