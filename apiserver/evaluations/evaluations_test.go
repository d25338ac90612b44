package evaluations

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/quoin-dev/quoin/api/v1alpha1"
	"github.com/quoin-dev/quoin/apiserver/access"
	"github.com/quoin-dev/quoin/apiserver/agents"
	"github.com/quoin-dev/quoin/apiserver/rest"
	"github.com/quoin-dev/quoin/internal/agent/grading"
	"github.com/quoin-dev/quoin/internal/agent/semantic"
	"github.com/quoin-dev/quoin/internal/content/contenttest"
	"github.com/quoin-dev/quoin/internal/content/evaluation"
)

// TestKilledReplica: an evaluation whose replica was killed is ended by another one with what was finished, and a replica that was
// only slow adds nothing to it.
func TestKilledReplica(t *testing.T) {
	w := newWorld(t, "SELECT 1", "wait SELECT 2")
	first := w.start()
	e := w.begin(first, StartBody{})
	<-w.begun
	w.eventually(func() bool {
		found, err := first.find(w.request(), e.ID)
		return err == nil && found.Counts.Pass == 1
	})
	contenttest.Exec(t, w.db, "UPDATE evaluation SET lease_until = 1")
	second := w.start()
	w.equal(w.ended(second, e.ID), "failed "+orphaned+" 1:pass")
	w.eventually(func() bool { // the first one has noticed
		first.mu.Lock()
		defer first.mu.Unlock()
		return len(first.jobs) == 0
	})
	w.equal(w.ended(second, e.ID), "failed "+orphaned+" 1:pass")
	if w.begin(first, StartBody{}); <-w.begun == "" {
		t.Error("the places of the evaluation are not released")
	}
}

// TestStop: a server that stops ends its evaluations, with what was finished.
func TestStop(t *testing.T) {
	w := newWorld(t, "SELECT 1", "wait SELECT 2")
	first := w.start()
	e := w.begin(first, StartBody{})
	<-w.begun
	w.eventually(func() bool {
		found, err := first.find(w.request(), e.ID)
		return err == nil && found.Counts.Pass == 1
	})
	first.stop()
	w.equal(w.ended(first, e.ID), "failed the server is restarting: start the evaluation again 1:pass")
	_, err := first.evaluate(w.request(), &StartBody{})
	var refused *rest.Problem
	if !errors.As(err, &refused) || refused.GetStatus() != 503 {
		t.Errorf("a server that stops starts an evaluation: %v", err)
	}
}

// TestCancelOnAnotherReplica: the replica that works on an evaluation learns of the cancellation.
func TestCancelOnAnotherReplica(t *testing.T) {
	w := newWorld(t, "wait SELECT 1")
	first, second := w.start(), w.start()
	e := w.begin(first, StartBody{})
	<-w.begun
	in := &InEvaluation{EvaluationID: e.ID}
	if _, err := second.cancel(w.request(), in); err != nil {
		t.Fatal(err)
	}
	w.equal(w.ended(second, e.ID), "failed it was cancelled by ApiKey:k1")
}

// TestRevoked: an evaluation whose caller may not ask any more ends, also while the model answers.
func TestRevoked(t *testing.T) {
	w := newWorld(t, "wait SELECT 1")
	r := w.start()
	e := w.begin(r, StartBody{})
	<-w.begun
	w.mu.Lock()
	w.revoked = rest.Forbidden("the credential was revoked")
	w.mu.Unlock()
	w.equal(w.ended(r, e.ID), "failed the credential was revoked")
}

// TestTokens: an evaluation ends when its answers have used its tokens. What was finished remains.
func TestTokens(t *testing.T) {
	var questions []string
	for i := range 12 {
		questions = append(questions, fmt.Sprint("SELECT ", i))
	}
	w := newWorld(t, questions...)
	r := w.start()
	got := w.ended(r, w.begin(r, StartBody{MaxTokens: ptr.To(int64(2000))}).ID)
	if n := strings.Count(got, ":"); !strings.HasPrefix(got, "failed it has reached its limit of 2000 tokens 1:") || n < 2 || n > 2+parallel {
		t.Error(got)
	}
	all := w.ended(r, w.begin(r, StartBody{}).ID)
	w.equal(strings.Count(all, "pass"), 12)
}

// TestDefect: a defect ends the evaluation, not the server.
func TestDefect(t *testing.T) {
	w := newWorld(t, "SELECT 1")
	w.panics = true
	r := w.start()
	w.equal(w.ended(r, w.begin(r, StartBody{}).ID), "failed internal error")
}

// TestLimits: what one person, key and account may run at a time, and all together.
func TestLimits(t *testing.T) {
	l := newPlaces()
	w := newWorld(t)
	var held []func()
	for i := range maxOfAccount {
		release, err := l.Acquire(w.request(), &agents.Asker{Owner: fmt.Sprint("user-", i/maxOfOwner)})
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, release)
	}
	for owner, want := range map[string]string{"user-0": "2 evaluations of the user", "user-9": "4 evaluations of the caller"} {
		if _, err := l.Acquire(w.request(), &agents.Asker{Owner: owner}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for _, release := range held {
		release()
	}
	if _, err := l.Acquire(w.request(), &agents.Asker{Owner: "user-0"}); err != nil {
		t.Error(err)
	}
}

// TestFit: whatever an agent says and does, a result is stored, and is short enough for all to be read at once.
func TestFit(t *testing.T) {
	long := strings.Repeat("\x01ü", 1<<20)
	r := &Result{QuestionTextSnapshot: long, ExpectedQuery: ptr.To(long), ActualQuery: ptr.To(long), Answer: ptr.To(long), RecordedAnswer: ptr.To(long)}
	for range 500 {
		r.ToolCalls = append(r.ToolCalls, Call{Tool: long, Input: ptr.To(long), RecordedInput: ptr.To(long), Error: ptr.To(long), RecordedError: ptr.To(long), Detail: ptr.To(long)})
	}
	var rows [][]*string
	for range 100 {
		rows = append(rows, []*string{ptr.To("x"), nil})
	}
	r.Expected, r.Actual = rowsOf(&semantic.Table{Columns: []string{"a", "b"}, Rows: rows}), rowsOf(&semantic.Table{Columns: []string{"a"}, Rows: [][]*string{{&long}}})
	body, err := r.encode()
	if err != nil || len(body) > evaluation.MaxBody || len(body) < evaluation.MaxBody/8 || !strings.HasSuffix(*r.Answer, "…") || len(r.ToolCalls) == 0 {
		t.Errorf("%d bytes, %d calls, %v", len(body), len(r.ToolCalls), err)
	}
	if len(r.Expected.Rows) != maxRows || r.Expected.TotalRows != 100 || len(r.Actual.Rows) != 0 {
		t.Errorf("%d rows of %d, and %d", len(r.Expected.Rows), r.Expected.TotalRows, len(r.Actual.Rows))
	}
}

// TestFitWide: results with more columns than a result can have are stored too, whatever their names are.
func TestFitWide(t *testing.T) {
	for _, name := range []string{"a", strings.Repeat("\x01", maxColumn)} {
		wide := &semantic.Table{}
		for range 20_000 {
			wide.Columns = append(wide.Columns, name)
		}
		for range maxRows {
			wide.Rows = append(wide.Rows, make([]*string, len(wide.Columns)))
		}
		r := &Result{Expected: rowsOf(wide), Actual: rowsOf(wide)}
		body, err := r.encode()
		if err != nil || len(body) > evaluation.MaxBody {
			t.Errorf("%d bytes, %v", len(body), err)
		}
		for _, rows := range []*Rows{r.Expected, r.Actual} {
			if n := len(rows.Columns); n != grading.MaxColumns || len(rows.Rows) != maxRows || len(rows.Rows[0]) != n || rows.TotalRows != maxRows {
				t.Errorf("%d columns, and %d rows of %d", n, len(rows.Rows), rows.TotalRows)
			}
		}
	}
}

// TestHide: only what has no data is left.
func TestHide(t *testing.T) {
	r := (&Result{ID: 1, QuestionTextSnapshot: "Orders?", Answer: ptr.To("12"), Seconds: 3}).grade(grading.Grade{Verdict: grading.Fail, Reason: grading.ValueMismatch, Detail: "secret"})
	r.hide()
	body, err := json.Marshal(r)
	if want := `{"id":1,"verdict":"fail","score":0,"reason":"value mismatch","questionTextSnapshot":"Orders?","inputTokens":0,"outputTokens":0,"seconds":3,"isDataHidden":true}`; err != nil || string(body) != want {
		t.Errorf("%s, %v", body, err)
	}
	replayed := &Result{ID: 1, QuestionTextSnapshot: "Is Ada paid enough?", MessageID: ptr.To("1-message")}
	if replayed.hide(); replayed.QuestionTextSnapshot != "" || *replayed.MessageID != "1-message" {
		t.Errorf("the message of a chat of another person is shown: %+v", replayed)
	}
}

// TestKeyOfAnotherUser: a key has the evaluations that it has started, but not those of a deleted key of its name which another user had.
func TestKeyOfAnotherUser(t *testing.T) {
	w := newWorld(t)
	ownerless, ada, ben, admin := "", "ada", "ben", access.OnAll(v1alpha1.PermissionAdmin)
	for i, c := range []struct {
		user   string
		grants access.Grants
		owner  string
		want   bool
	}{
		{ada, nil, "ScimUser:ada", true},
		{ben, nil, "ScimUser:ada", false},
		{ben, admin, "ScimUser:ada", true},
		{ada, nil, "External:u1", true},
		{ownerless, nil, "ApiKey:k1", true},
		{ownerless, nil, "ScimUser:ada", false},
		{ownerless, admin, "ScimUser:ada", true},
	} {
		ctx := w.request()
		p := rest.ScopeFrom(ctx).Principal
		p.User, p.Grants = c.user, c.grants
		if got := isOf(ctx, &evaluation.Evaluation{New: evaluation.New{Owner: c.owner, Caller: "ApiKey:k1"}}); got != c.want {
			t.Errorf("case %d: %t", i, got)
		}
	}
}

// TestExpiry: evaluations are deleted some time after their end.
func TestExpiry(t *testing.T) {
	w := newWorld(t, "SELECT 1")
	r := w.start()
	w.ended(r, w.begin(r, StartBody{}).ID)
	if err := evaluation.Expire(t.Context(), w.db, time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	w.equal(contenttest.Count(t, w.db, "evaluation")+contenttest.Count(t, w.db, "evaluation_result"), 0)
}
