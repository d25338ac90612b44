package audit

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestPrepareRejectsInvalidEvents(t *testing.T) {
	good := Event{Account: "demo", Name: CreatedUser, Outcome: Attempted, Source: SourceSCIM, Actor: Actor{Kind: ActorKey}}
	if _, err := good.prepare(time.Now()); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Event){
		"no account":      func(e *Event) { e.Account = "" },
		"long account":    func(e *Event) { e.Account = strings.Repeat("a", maxAccount+1) },
		"NUL in account":  func(e *Event) { e.Account = "a\x00" },
		"unknown name":    func(e *Event) { e.Name = "Did something" },
		"unknown outcome": func(e *Event) { e.Outcome = "done" },
		"unknown source":  func(e *Event) { e.Source = "" },
		"unknown actor":   func(e *Event) { e.Actor.Kind = "robot" },
	} {
		e := good
		change(&e)
		if _, err := e.prepare(time.Now()); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPrepareTruncatesWithAnEllipsis(t *testing.T) {
	for _, unit := range []string{"x", "é", "日", "\U0001F600"} {
		long := strings.Repeat(unit, 1000)
		e, err := Event{
			Account: "demo", Name: CreatedUser, Outcome: Attempted, Source: SourceSCIM, Actor: Actor{ActorKey, long, long},
			Reason: long, Deployment: Deployment{long, long}, Object: Object{long, long, long, long}, IP: long, RequestID: long,
		}.prepare(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		texts := e.texts()
		for _, text := range append(texts[1:11:11], e.Reason) {
			if !strings.HasSuffix(text, ellipsis) || len(text) > maxActor || !utf8.ValidString(text) {
				t.Errorf("%q has %d bytes", text, len(text))
			}
		}
	}
}

func TestPrepareReplacesInvalidCharacters(t *testing.T) {
	e, err := Event{Account: "demo", Name: CreatedUser, Outcome: Attempted, Source: SourceSCIM, Actor: Actor{ActorKey, "a\x00b\xff\x1f", ""}, Time: time.Unix(1, 1999)}.prepare(time.Now())
	if err != nil || e.Actor.ID != "a\uFFFDb\uFFFD\uFFFD" || !e.Time.Equal(time.Unix(1, 1000)) || e.Time.Location() != time.UTC || e.ID.Version() != 7 {
		t.Errorf("%+v, %v", e, err)
	}
}
