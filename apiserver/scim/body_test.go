package scim

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/quoin-dev/quoin/apiserver/scim/schema"
	"github.com/quoin-dev/quoin/internal/serving"
)

// generatedGroup is the body of a group with members as responses contain them, generated while it is read. It
// measures the live heap after each tenth of it.
type generatedGroup struct {
	members, next int
	part          bytes.Buffer
	heap          uint64
}

func (g *generatedGroup) Read(p []byte) (int, error) {
	for g.part.Len() == 0 {
		switch {
		case g.next == 0:
			g.part.WriteString(`{"schemas":["` + schema.GroupURN + `"],"displayName":"Large","members":[`)
		case g.next > g.members+1:
			return 0, io.EOF
		case g.next == g.members+1:
			g.part.WriteString("]}")
		default:
			fmt.Fprintf(&g.part, `{"value":"%036d","$ref":"https://acme.example.com/api/scim/v2/Users/%036d","type":"User","display":"%s"},`, g.next, g.next, strings.Repeat("ö", 200))
			if g.next == g.members {
				g.part.Truncate(g.part.Len() - 1)
			}
		}
		if g.next++; g.next%(g.members/10) == 0 {
			g.heap = max(g.heap, liveHeap())
		}
	}
	return g.part.Read(p)
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func exchangeWith(body io.Reader, header ...string) *exchange {
	r := httptest.NewRequest(http.MethodPut, "/Groups/1", body)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	r.SetPathValue("type", "Groups")
	return &exchange{ResponseWriter: httptest.NewRecorder(), Request: r, tenant: &Tenant{Types: []*schema.ResourceType{schema.User, schema.Group}}, profile: profileRFC}
}

// A body with 50,000 members has 26 MiB. Reading it takes at most 12 MiB of memory.
func TestMemoryOfALargeGroup(t *testing.T) {
	const members = 50_000
	before := liveHeap()
	g := &generatedGroup{members: members}
	body, err := exchangeWith(g).body()
	if err != nil {
		t.Fatal(err)
	}
	d, err := schema.Group.Normalize(body, schema.Leniency{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range d["members"].(*schema.Elements).All() {
		n++
	}
	after := liveHeap()
	if n != members || g.heap-before > 12<<20 || after-before > 12<<20 {
		t.Errorf("%d members; the heap grew by %d KiB while reading, by %d KiB afterwards", n, (g.heap-before)>>10, (after-before)>>10)
	}
	t.Logf("the heap grew by %d KiB while reading, by %d KiB afterwards", (g.heap-before)>>10, (after-before)>>10)
	runtime.KeepAlive(d)
}

// A compressed body that decompresses to more than the limit is rejected before it is read.
func TestDecompressionIsLimited(t *testing.T) {
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	for range maxLargeBody>>20 + 1 {
		if _, err := w.Write(bytes.Repeat([]byte(" "), 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		body, encoding, want string
	}{
		"bomb":              {bomb.String(), "gzip", "413"},
		"not gzip":          {"{}", "gzip", "400 invalidSyntax: the body cannot be read"},
		"truncated":         {bomb.String()[:bomb.Len()/2], "gzip", "413"},
		"unknown encoding":  {"{}", "br", "415"},
		"several encodings": {"{}", "gzip, gzip", "415"},
	} {
		t.Run(name, func(t *testing.T) {
			before := liveHeap()
			_, err := exchangeWith(strings.NewReader(test.body), "Content-Encoding", test.encoding).body()
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
			if grown := int64(liveHeap()) - int64(before); grown > 4<<20 {
				t.Errorf("the heap grew by %d bytes", grown)
			}
		})
	}
}

// A body that arrives too slowly is 408, compressed or not, in a member of a group as before it.
func TestSlowBody(t *testing.T) {
	for _, begin := range []string{"", `{"displayName":"A`, `{"members":[{"value":"a"},`} {
		slow := func() io.Reader {
			return io.MultiReader(strings.NewReader(begin), iotest.ErrReader(serving.ErrSlowBody))
		}
		_, err := exchangeWith(slow()).body()
		if err == nil || !strings.HasPrefix(err.Error(), "408") {
			t.Errorf("after %q: got %v, want 408", begin, err)
		}
		if _, err = exchangeWith(slow(), "Content-Encoding", "gzip").body(); begin == "" && (err == nil || !strings.HasPrefix(err.Error(), "408")) {
			t.Errorf("compressed: got %v, want 408", err)
		}
	}
}

func TestAcceptsGzip(t *testing.T) {
	for header, want := range map[string]bool{
		"": false, "gzip": true, "GZIP;q=0.5": true, "gzip;q=0": false, "gzip; q=0.0": false, "br, gzip": true, "*": true, "*;q=0": false, "gzip;q=0, *": false,
		"identity": false, "x-gzip": true,
	} {
		if got := acceptsGzip([]string{header}); got != want {
			t.Errorf("%q: got %t", header, got)
		}
	}
}

func TestCompressorsAreReused(t *testing.T) {
	for _, want := range []string{strings.Repeat("long ", 1000), "short"} {
		var compressed bytes.Buffer
		compress(&compressed, []byte(want))
		reader, err := gzip.NewReader(&compressed)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(reader); err != nil || string(got) != want {
			t.Errorf("got %q, %v", got, err)
		}
	}
}
