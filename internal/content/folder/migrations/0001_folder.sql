-- Folders of deployments. parent_id is 0 at the root. name_key is the name in the form in which
-- names are compared. Times are microseconds since 1970, UTC.
CREATE TABLE folder (
    account_uid    TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    id             BIGINT NOT NULL,
    parent_id      BIGINT NOT NULL,
    name           TEXT NOT NULL,
    name_key       TEXT NOT NULL,
    position       BIGINT NOT NULL,
    created_at     BIGINT NOT NULL,
    created_by     TEXT NOT NULL,
    updated_at     BIGINT NOT NULL,
    updated_by     TEXT NOT NULL,
    PRIMARY KEY (account_uid, id)
);

CREATE INDEX folder_siblings ON folder (deployment_uid, account_uid, parent_id, position, id);

CREATE UNIQUE INDEX folder_name ON folder (deployment_uid, account_uid, parent_id, name_key);
