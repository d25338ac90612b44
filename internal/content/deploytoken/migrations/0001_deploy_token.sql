-- Tokens with which programs deploy the data model of a deployment, without the tokens themselves:
-- hash is the SHA-256 of a token in hexadecimal. expires_at is 0 for a token without an end. Times are
-- microseconds since 1970, UTC.
CREATE TABLE deploy_token (
    account_uid    TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    id             TEXT NOT NULL,
    kind           TEXT NOT NULL,
    hash           TEXT NOT NULL,
    created_at     BIGINT NOT NULL,
    created_by     TEXT NOT NULL,
    expires_at     BIGINT NOT NULL,
    PRIMARY KEY (account_uid, id)
);

CREATE INDEX deploy_token_deployment ON deploy_token (deployment_uid, account_uid, kind, created_at);

CREATE INDEX deploy_token_expiry ON deploy_token (expires_at);
