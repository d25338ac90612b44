-- Git repositories of deployments. Hashes are the 20 bytes of SHA-1; data is the content of an object
-- compressed with zlib, as in a packfile. Times are microseconds since 1970, UTC.

-- objects, bytes and branches count the rows of the other tables and the bytes of data. generation is
-- raised by each change that can make an object reachable. The last collection that was complete was
-- of collected_generation, and considered objects from before collected_until.
CREATE TABLE git_repository (
    account_uid          TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid       TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    objects              BIGINT NOT NULL,
    bytes                BIGINT NOT NULL,
    branches             BIGINT NOT NULL,
    generation           BIGINT NOT NULL,
    collected_generation BIGINT NOT NULL DEFAULT 0,
    collected_until      BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (account_uid, deployment_uid)
);

CREATE TABLE git_branch (
    account_uid    TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    name           TEXT NOT NULL,
    commit_hash    {{if .PostgreSQL}}BYTEA{{else}}BLOB{{end}} NOT NULL,
    updated_at     BIGINT NOT NULL,
    PRIMARY KEY (account_uid, deployment_uid, name)
);

-- type is the number of the type in a packfile: 1 commit, 2 tree, 3 blob, 4 tag. size is that of the
-- content, created_at the time when the object was last stored.
CREATE TABLE git_object (
    account_uid    TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    hash           {{if .PostgreSQL}}BYTEA{{else}}BLOB{{end}} NOT NULL,
    type           INTEGER NOT NULL,
    size           BIGINT NOT NULL,
    data           {{if .PostgreSQL}}BYTEA{{else}}BLOB{{end}} NOT NULL,
    created_at     BIGINT NOT NULL,
    PRIMARY KEY (account_uid, deployment_uid, hash)
);
{{if .PostgreSQL}}
ALTER TABLE git_object ALTER COLUMN data SET STORAGE EXTERNAL;
{{end}}
CREATE INDEX git_object_age ON git_object (deployment_uid, account_uid, created_at, hash, type);
