-- What sign-in keeps, without the secrets themselves: hashes are the SHA-256 of a secret in hexadecimal.
-- Times are microseconds since 1970, UTC; 0 for none. claims are those of the person's ID token, as JSON.
CREATE TABLE oauth_session (
    account_uid  TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    id           TEXT NOT NULL,
    hash         TEXT NOT NULL,
    issuer       TEXT NOT NULL,
    subject      TEXT NOT NULL,
    claims       TEXT NOT NULL,
    address      TEXT NOT NULL,
    user_agent   TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    PRIMARY KEY (account_uid, id)
);

CREATE UNIQUE INDEX oauth_session_hash ON oauth_session (account_uid, hash);

CREATE INDEX oauth_session_person ON oauth_session (account_uid, issuer, subject);

CREATE INDEX oauth_session_expiry ON oauth_session (expires_at);

-- What a person has granted to a client. Its tokens are valid as long as it exists.
CREATE TABLE oauth_grant (
    account_uid  TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    id           TEXT NOT NULL,
    client_id    TEXT NOT NULL,
    issuer       TEXT NOT NULL,
    subject      TEXT NOT NULL,
    claims       TEXT NOT NULL,
    address      TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    PRIMARY KEY (account_uid, id)
);

CREATE INDEX oauth_grant_person ON oauth_grant (account_uid, issuer, subject);

CREATE INDEX oauth_grant_expiry ON oauth_grant (expires_at);

-- The codes, access tokens and refresh tokens of grants. A code or refresh token that was used is kept, to
-- detect that it is used again. successor is the hash of the refresh token that replaced a refresh token.
CREATE TABLE oauth_token (
    account_uid  TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    hash         TEXT NOT NULL,
    kind         TEXT NOT NULL,
    grant_id     TEXT NOT NULL,
    redirect_uri TEXT NOT NULL,
    challenge    TEXT NOT NULL,
    successor    TEXT NOT NULL,
    used_at      BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    PRIMARY KEY (account_uid, hash)
);

CREATE INDEX oauth_token_grant ON oauth_token (account_uid, grant_id);

CREATE INDEX oauth_token_expiry ON oauth_token (expires_at);

-- Requests of devices. grant_id is empty until a person approves the request.
CREATE TABLE oauth_device (
    account_uid      TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    hash             TEXT NOT NULL,
    user_code_hash   TEXT NOT NULL,
    client_id        TEXT NOT NULL,
    address          TEXT NOT NULL,
    status           TEXT NOT NULL,
    grant_id         TEXT NOT NULL,
    interval_seconds BIGINT NOT NULL,
    polled_at        BIGINT NOT NULL,
    created_at       BIGINT NOT NULL,
    expires_at       BIGINT NOT NULL,
    PRIMARY KEY (account_uid, hash)
);

CREATE UNIQUE INDEX oauth_device_user_code ON oauth_device (account_uid, user_code_hash);

CREATE INDEX oauth_device_expiry ON oauth_device (expires_at);
