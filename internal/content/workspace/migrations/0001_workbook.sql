-- Workbooks of deployments. folder_id is 0 at the root; slug is empty without one. meta is a JSON
-- object in canonical form. owner is who the workbook belongs to, as <kind>:<id>. version counts the
-- changes from 1. Times are microseconds since 1970, UTC.
CREATE TABLE workbook (
    account_uid    TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    id             BIGINT NOT NULL,
    folder_id      BIGINT NOT NULL,
    slug           TEXT NOT NULL,
    name           TEXT NOT NULL,
    meta           TEXT NOT NULL,
    version        BIGINT NOT NULL,
    owner          TEXT NOT NULL,
    created_at     BIGINT NOT NULL,
    created_by     TEXT NOT NULL,
    updated_at     BIGINT NOT NULL,
    updated_by     TEXT NOT NULL,
    PRIMARY KEY (account_uid, id)
);

CREATE INDEX workbook_deployment ON workbook (deployment_uid, account_uid, id);

CREATE INDEX workbook_folder ON workbook (deployment_uid, account_uid, folder_id, id);

CREATE UNIQUE INDEX workbook_slug ON workbook (deployment_uid, account_uid, slug) WHERE slug <> '';
