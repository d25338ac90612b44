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

-- The other tables refer to this one, so that checking and cascading foreign keys uses their primary
-- keys.
CREATE TABLE git_branch (
    account_uid    TEXT NOT NULL,
    deployment_uid TEXT NOT NULL,
    name           TEXT NOT NULL,
    commit_hash    {{if .PostgreSQL}}BYTEA{{else}}BLOB{{end}} NOT NULL,
    updated_at     BIGINT NOT NULL,
    PRIMARY KEY (account_uid, deployment_uid, name),
    FOREIGN KEY (account_uid, deployment_uid) REFERENCES git_repository (account_uid, deployment_uid) ON UPDATE CASCADE
);

-- type is the number of the type in a packfile: 1 commit, 2 tree, 3 blob, 4 tag. size is that of the
-- content, created_at the time when the object was last stored.
CREATE TABLE git_object (
    account_uid    TEXT NOT NULL,
    deployment_uid TEXT NOT NULL,
    hash           {{if .PostgreSQL}}BYTEA{{else}}BLOB{{end}} NOT NULL,
    type           INTEGER NOT NULL,
    size           BIGINT NOT NULL,
    data           {{if .PostgreSQL}}BYTEA{{else}}BLOB{{end}} NOT NULL,
    created_at     BIGINT NOT NULL,
    PRIMARY KEY (account_uid, deployment_uid, hash),
    FOREIGN KEY (account_uid, deployment_uid) REFERENCES git_repository (account_uid, deployment_uid) ON UPDATE CASCADE
);
{{if .PostgreSQL}}
ALTER TABLE git_object ALTER COLUMN data SET STORAGE EXTERNAL;
{{end}}
-- By an expression, so that a planner without statistics does not take it for reading objects by hash.
CREATE INDEX git_object_age ON git_object ((account_uid || '/' || deployment_uid), created_at, hash, type);
