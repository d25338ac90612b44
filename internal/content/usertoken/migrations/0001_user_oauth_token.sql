-- OAuth tokens of people for integrations. sealed has the tokens, encrypted with the key key_id of the account. Times are
-- microseconds since 1970, UTC; 0 for none. tomb is 0, or the id of a token that was deleted and is revoked at the provider.
-- A replica works on a token until lease_until; version changes with each lease and each new authorization.
CREATE TABLE user_oauth_token (
    account_uid        TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    id                 BIGINT NOT NULL,
    user_id            TEXT NOT NULL,
    integration_id     BIGINT NOT NULL,
    tomb               BIGINT NOT NULL,
    status             TEXT NOT NULL,
    key_id             TEXT NOT NULL,
    sealed             TEXT NOT NULL,
    access_expires_at  BIGINT NOT NULL,
    refresh_expires_at BIGINT NOT NULL,
    last_error         TEXT NOT NULL,
    failures           BIGINT NOT NULL,
    due_at             BIGINT NOT NULL,
    lease_until        BIGINT NOT NULL,
    version            BIGINT NOT NULL,
    created_at         BIGINT NOT NULL,
    updated_at         BIGINT NOT NULL,
    PRIMARY KEY (account_uid, id)
);

CREATE UNIQUE INDEX user_oauth_token_user ON user_oauth_token (account_uid, user_id, integration_id, tomb);

CREATE INDEX user_oauth_token_due ON user_oauth_token (due_at);

-- Authorizations that people have begun. hash is the SHA-256 of the state in hexadecimal; sealed has the code verifier.
CREATE TABLE user_oauth_flow (
    account_uid    TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    hash           TEXT NOT NULL,
    user_id        TEXT NOT NULL,
    integration_id BIGINT NOT NULL,
    key_id         TEXT NOT NULL,
    sealed         TEXT NOT NULL,
    redirect_uri   TEXT NOT NULL,
    created_at     BIGINT NOT NULL,
    expires_at     BIGINT NOT NULL,
    PRIMARY KEY (account_uid, hash)
);

CREATE INDEX user_oauth_flow_user ON user_oauth_flow (account_uid, user_id, created_at);

CREATE INDEX user_oauth_flow_expiry ON user_oauth_flow (expires_at);
