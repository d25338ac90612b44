-- Runs that generate a data model from a dbt project. Times are microseconds since 1970, UTC; 0 is none.

-- id orders the runs of an account; job is the id that clients see. branch is empty if the files are
-- handed out instead of being written to a branch. report, log and files are JSON. A replica works on
-- a run until lease_until; another one takes it over then.
CREATE TABLE dbt_sync (
    account_uid       TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid    TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    id                BIGINT NOT NULL,
    job               TEXT NOT NULL,
    deployment_number TEXT NOT NULL,
    started_from      TEXT NOT NULL,
    source            TEXT NOT NULL,
    output            TEXT NOT NULL,
    git_ref           TEXT NOT NULL,
    branch            TEXT NOT NULL,
    base_branch       TEXT NOT NULL,
    root              TEXT NOT NULL,
    catalog           TEXT NOT NULL,
    started_by        TEXT NOT NULL,
    author_name       TEXT NOT NULL,
    author_email      TEXT NOT NULL,
    started_at        BIGINT NOT NULL,
    updated_at        BIGINT NOT NULL,
    completed_at      BIGINT NOT NULL,
    status            TEXT NOT NULL,
    stage             TEXT NOT NULL,
    error             TEXT NOT NULL,
    report            TEXT NOT NULL,
    log               TEXT NOT NULL,
    files             TEXT NOT NULL,
    lease_owner       TEXT NOT NULL,
    lease_until       BIGINT NOT NULL,
    tries             BIGINT NOT NULL,
    PRIMARY KEY (account_uid, id)
);

CREATE UNIQUE INDEX dbt_sync_job ON dbt_sync (account_uid, deployment_uid, job);

CREATE INDEX dbt_sync_list ON dbt_sync (deployment_uid, account_uid, id);

CREATE INDEX dbt_sync_running ON dbt_sync (lease_until) WHERE status = 'RUNNING';

CREATE UNIQUE INDEX dbt_sync_branch ON dbt_sync (deployment_uid, account_uid, branch) WHERE status = 'RUNNING' AND branch <> '';

-- The manifest of a run that has not ended, and the files of one that hands them out: gzip.
CREATE TABLE dbt_sync_data (
    account_uid    TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    id             BIGINT NOT NULL,
    kind           TEXT NOT NULL,
    data           {{if .PostgreSQL}}BYTEA{{else}}BLOB{{end}} NOT NULL,
    expires_at     BIGINT NOT NULL,
    PRIMARY KEY (account_uid, id, kind)
);

CREATE INDEX dbt_sync_data_expiry ON dbt_sync_data (expires_at);
