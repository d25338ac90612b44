-- Tokens that were issued for environments, without the tokens themselves and their security
-- contexts. Times are microseconds since 1970, UTC.
CREATE TABLE issued_token (
    account_uid     TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid  TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    id              BIGINT NOT NULL,
    environment_uid TEXT NOT NULL,
    metadata_only   INTEGER NOT NULL,
    created_at      BIGINT NOT NULL,
    created_by      TEXT NOT NULL,
    expires_at      BIGINT NOT NULL,
    PRIMARY KEY (account_uid, id)
);

CREATE INDEX issued_token_environment ON issued_token (environment_uid, deployment_uid, account_uid, id);

CREATE INDEX issued_token_expiry ON issued_token (expires_at);
