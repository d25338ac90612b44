package certificates

import (
	"testing"
	"time"
)

// testPair returns a new CA and a certificate for names, in PEM.
func testPair(t *testing.T, names ...string) (certificate, key, ca []byte) {
	t.Helper()
	authority, err := newAuthority("quoin-apiserver", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if certificate, key, err = authority.issue("quoin-apiserver", names, time.Now()); err != nil {
		t.Fatal(err)
	}
	return certificate, key, authority.certificatePEM
}

// eventually waits until a condition holds, without a timeout of its own.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	for !condition() {
		if t.Context().Err() != nil {
			t.Fatal("the test ended before the condition held")
		}
		time.Sleep(5 * time.Millisecond)
	}
}
