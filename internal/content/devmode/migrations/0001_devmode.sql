-- Parents and owners of the branches in the repositories that Quoin keeps. A branch without a row is
-- shared, and its parent is the production branch. owner is a principal, or empty for a shared branch.
-- Times are microseconds since 1970, UTC.
CREATE TABLE devmode_branch (
    account_uid    TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    name           TEXT NOT NULL,
    parent         TEXT NOT NULL,
    owner          TEXT NOT NULL,
    PRIMARY KEY (account_uid, deployment_uid, name)
);

-- The branch that a principal has active in dev mode.
CREATE TABLE devmode_session (
    account_uid    TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    principal      TEXT NOT NULL,
    branch         TEXT NOT NULL,
    entered_at     BIGINT NOT NULL,
    PRIMARY KEY (account_uid, deployment_uid, principal)
);
