// Package githttp_test attacks the Git server over HTTP, with requests that no git client sends.
package githttp_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/apiserver/auth"
	"github.com/quoin-dev/quoin/apiserver/githttp"
	"github.com/quoin-dev/quoin/internal/audit"
	"github.com/quoin-dev/quoin/internal/content"
	"github.com/quoin-dev/quoin/internal/content/repository"
	"github.com/quoin-dev/quoin/internal/serving"
	"github.com/quoin-dev/quoin/internal/store"
	"github.com/quoin-dev/quoin/internal/store/storetest"
)

const (
	zeroID      = "0000000000000000000000000000000000000000"
	receivePack = "git-receive-pack"
	uploadPack  = "git-upload-pack"
)

// world is a server with the repositories 1 and 2 of an account.
type world struct {
	*testing.T
	repositories *repository.Repositories
	url          string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s, err := store.Open(t.Context(), storetest.SQLiteURL(t), nil, audit.Owner, repository.Owner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	w := &world{T: t, repositories: &repository.Repositories{
		DB: s, Record: func(context.Context, *store.Tx, audit.Event) error { return nil },
	}}
	server := githttp.New(githttp.Options{
		Deployments: w, Repositories: w.repositories, Moved: func(context.Context, *v1alpha1.Deployment) error { return nil },
	})
	handler := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		server.ServeHTTP(rw, r, account(), &auth.Principal{Kind: auth.KindAPIKey, Grants: access.OnAll("SchemaRead", "SchemaUpdate")})
	})
	web := httptest.NewServer(serving.Wrap(handler, serving.WrapOptions{BodyLimitOf: githttp.BodyLimit, Log: slog.New(slog.DiscardHandler)}))
	t.Cleanup(web.Close)
	w.url = web.URL
	return w
}

func account() *v1alpha1.Account {
	return &v1alpha1.Account{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "a"}, Spec: v1alpha1.AccountSpec{Namespace: "acme"}}
}

// Find implements githttp.DeploymentFinder.
func (*world) Find(_ context.Context, _, id string) (*v1alpha1.Deployment, error) {
	if id != "1" && id != "2" {
		return nil, nil
	}
	return &v1alpha1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: "d" + id, UID: types.UID("d" + id)},
		Spec:       v1alpha1.DeploymentSpec{Model: v1alpha1.ModelSource{Repository: &v1alpha1.RepositorySource{}}},
	}, nil
}

func (w *world) session(id string) *repository.Session {
	return w.repositories.Session(w.Context(), content.Scope{
		Account:    store.Account{UID: "a", Name: "acme"},
		Deployment: store.Deployment{UID: "d" + id, Namespace: "acme", Name: "d" + id},
	})
}

// send sends a request to a service of a repository, and returns the status and the body.
func (w *world) send(id, service string, body io.Reader, headers ...string) (int, string) {
	w.Helper()
	r, err := http.NewRequestWithContext(w.Context(), http.MethodPost, w.url+"/git/"+id+".git/"+service, body)
	if err != nil {
		w.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-"+service+"-request")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error() // the server has closed the connection
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return response.StatusCode, err.Error()
	}
	return response.StatusCode, string(text)
}

// push pushes a pack to a new branch and returns the response.
func (w *world) push(id, branch string, commit [20]byte, pack io.Reader) string {
	w.Helper()
	command := line(zeroID + " " + hex.EncodeToString(commit[:]) + " refs/heads/" + branch + "\x00report-status")
	_, text := w.send(id, receivePack, io.MultiReader(strings.NewReader(command+"0000"), pack))
	return text
}

// noBranches checks that a repository has no branches.
func (w *world) noBranches(id string) {
	w.Helper()
	branches, err := w.session(id).Branches()
	if err != nil || len(branches) > 0 {
		w.Errorf("branches %v: %v", branches, err)
	}
}

func line(text string) string { return fmt.Sprintf("%04x%s\n", len(text)+5, text) }

// pack is a pack that is built object by object.
type pack struct {
	bytes.Buffer
	count uint32
}

// Types of objects in a pack.
const (
	commitType   = 1
	treeType     = 2
	blobType     = 3
	refDeltaType = 7
)

// add adds an object whose content is declared to have a size; reference is the base of a delta.
func (p *pack) add(kind byte, size int, reference, content []byte) {
	group := kind<<4 | byte(size&0x0f)
	for size >>= 4; size > 0; size >>= 7 {
		p.WriteByte(group | 0x80)
		group = byte(size & 0x7f)
	}
	p.WriteByte(group)
	p.Write(reference)
	z := zlib.NewWriter(&p.Buffer)
	_, _ = z.Write(content)
	_ = z.Close()
	p.count++
}

// object adds an object and returns its name.
func (p *pack) object(kind byte, content []byte) [20]byte {
	p.add(kind, len(content), nil, content)
	name := map[byte]string{commitType: "commit", treeType: "tree", blobType: "blob"}[kind]
	return sha1.Sum(append(fmt.Appendf(nil, "%s %d\x00", name, len(content)), content...))
}

// commit adds a commit of a tree.
func (p *pack) commit(tree [20]byte) [20]byte {
	return p.object(commitType, fmt.Appendf(nil, "tree %x\nauthor A <a@example.com> 1 +0000\ncommitter A <a@example.com> 1 +0000\n\nm\n", tree))
}

// finish returns the pack with header and checksum.
func (p *pack) finish() io.Reader {
	all := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), p.count)
	all = append(all, p.Bytes()...)
	sum := sha1.Sum(all)
	return bytes.NewReader(append(all, sum[:]...))
}

func entry(mode, name string, hash [20]byte) []byte {
	return append([]byte(mode+" "+name+"\x00"), hash[:]...)
}

// heapDuring returns by how many bytes the heap grew at most while a function ran.
func heapDuring(f func()) uint64 {
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	var most atomic.Uint64
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			most.Store(max(most.Load(), now.HeapAlloc))
			select {
			case <-done:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	f()
	close(done)
	<-ended
	if most.Load() < before.HeapAlloc {
		return 0
	}
	return most.Load() - before.HeapAlloc
}

// maxHeap is what a request may need at most: twice the 64 MiB of a push, because the garbage collector
// lets the heap grow to twice what is in use.
const maxHeap = 192 << 20

func (w *world) checkHeap(grown uint64) {
	w.Helper()
	w.Logf("the heap grew by %d MiB", grown>>20)
	if grown > maxHeap {
		w.Errorf("the heap grew by %d MiB; allowed: %d", grown>>20, maxHeap>>20)
	}
}
