-- The accounts and deployments that content belongs to. Tables of content refer to them with
-- ON UPDATE CASCADE. Times are microseconds since 1970, UTC; absent_since is 0 while the object
-- exists.
CREATE TABLE account (
    uid          TEXT PRIMARY KEY,
    name         TEXT NOT NULL,
    first_seen   BIGINT NOT NULL,
    last_seen    BIGINT NOT NULL,
    absent_since BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE deployment (
    uid          TEXT PRIMARY KEY,
    account_uid  TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    namespace    TEXT NOT NULL,
    name         TEXT NOT NULL,
    first_seen   BIGINT NOT NULL,
    last_seen    BIGINT NOT NULL,
    absent_since BIGINT NOT NULL DEFAULT 0
);

CREATE INDEX deployment_account ON deployment (account_uid);

-- The last integer id issued, by account and sequence.
CREATE TABLE account_sequence (
    account_uid TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    name        TEXT NOT NULL,
    last        BIGINT NOT NULL,
    PRIMARY KEY (account_uid, name)
);
