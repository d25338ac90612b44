-- The audit log (internal/audit). Times are microseconds since 1970, UTC. Empty text is what is
-- not known. words are those of the event, as internal/audit has found them: the index proposes
-- rows, and internal/audit decides, so that both databases find the same.
CREATE TABLE audit_event (
{{- if .PostgreSQL}}
    id               UUID PRIMARY KEY,
{{- else}}
    number           INTEGER PRIMARY KEY,
    id               TEXT NOT NULL UNIQUE,
{{- end}}
    account          TEXT NOT NULL,
    time             BIGINT NOT NULL,
    name             TEXT NOT NULL,
    outcome          TEXT NOT NULL,
    reason           TEXT NOT NULL,
    source           TEXT NOT NULL,
    actor_kind       TEXT NOT NULL,
    actor_id         TEXT NOT NULL,
    actor_email      TEXT NOT NULL,
    deployment_id    TEXT NOT NULL,
    deployment_name  TEXT NOT NULL,
    object_kind      TEXT NOT NULL,
    object_namespace TEXT NOT NULL,
    object_name      TEXT NOT NULL,
    object_id        TEXT NOT NULL,
    ip               TEXT NOT NULL,
    request_id       TEXT NOT NULL,
    changes          TEXT NOT NULL,
    words            {{if .PostgreSQL}}TSVECTOR{{else}}TEXT{{end}} NOT NULL
);

-- Not UNIQUE, though it is: where two processes store the same event at once, ON CONFLICT (id) helps
-- with the key alone, and the one that comes later would fail at this index.
CREATE INDEX audit_event_order ON audit_event (account, time, id);

{{if .PostgreSQL -}}
-- A short list of what is not in the index yet (KiB): whoever has to put it there waits less.
CREATE INDEX audit_event_words ON audit_event USING gin (words) WITH (gin_pending_list_limit = 256);
{{- else -}}
-- ascii: a word ends at a blank; letters beyond ASCII are kept as they are.
CREATE VIRTUAL TABLE audit_event_words USING fts5 (words, content = 'audit_event', content_rowid = 'number', tokenize = 'ascii', detail = 'none');

CREATE TRIGGER audit_event_inserted AFTER INSERT ON audit_event BEGIN
    INSERT INTO audit_event_words (rowid, words) VALUES (new.number, new.words);
END;

CREATE TRIGGER audit_event_updated AFTER UPDATE OF words ON audit_event WHEN new.words <> old.words BEGIN
    INSERT INTO audit_event_words (audit_event_words, rowid, words) VALUES ('delete', old.number, old.words);
    INSERT INTO audit_event_words (rowid, words) VALUES (new.number, new.words);
END;

CREATE TRIGGER audit_event_deleted AFTER DELETE ON audit_event BEGIN
    INSERT INTO audit_event_words (audit_event_words, rowid, words) VALUES ('delete', old.number, old.words);
END;
{{- end}}
