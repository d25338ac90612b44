-- Uploads of data models. An upload is open until finished_at, which is 0 at first, and is deleted after
-- expires_at. request is the SHA-256 of what it was finished with, last_hash the commit that the branch
-- had afterwards. announced is 1 once the controller was told of it. Times are microseconds since 1970,
-- UTC.
CREATE TABLE upload (
    account_uid    TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    id             TEXT NOT NULL,
    branch         TEXT NOT NULL,
    created_at     BIGINT NOT NULL,
    created_by     TEXT NOT NULL,
    expires_at     BIGINT NOT NULL,
    files          BIGINT NOT NULL,
    bytes          BIGINT NOT NULL,
    finished_at    BIGINT NOT NULL,
    request        TEXT NOT NULL,
    last_hash      TEXT NOT NULL,
    announced      INTEGER NOT NULL,
    PRIMARY KEY (account_uid, id)
);

CREATE INDEX upload_deployment ON upload (deployment_uid, account_uid, finished_at, created_at);

CREATE INDEX upload_expiry ON upload (expires_at);

-- The files of uploads: the blob in the deployment's repository, and what clients compare.
CREATE TABLE upload_file (
    account_uid    TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    upload_id      TEXT NOT NULL,
    path           TEXT NOT NULL,
    blob           TEXT NOT NULL,
    sha1           TEXT NOT NULL,
    size           BIGINT NOT NULL,
    PRIMARY KEY (account_uid, upload_id, path)
);

CREATE INDEX upload_file_deployment ON upload_file (deployment_uid, account_uid);

-- The commit of the last upload of a deployment.
CREATE TABLE upload_last (
    account_uid    TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    last_hash      TEXT NOT NULL,
    finished_at    BIGINT NOT NULL,
    PRIMARY KEY (account_uid, deployment_uid)
);

-- The SHA-1 of the content of blobs, by the hash that Git gives them: computed once, and again after a
-- row has expired.
CREATE TABLE upload_hash (
    account_uid    TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    blob           TEXT NOT NULL,
    sha1           TEXT NOT NULL,
    created_at     BIGINT NOT NULL,
    PRIMARY KEY (account_uid, deployment_uid, blob)
);

CREATE INDEX upload_hash_created ON upload_hash (created_at);
