-- name_key is the name of a workbook in the form in which names are searched and ordered. Of workbooks that are older than the
-- column, it is the name in lower case until their next change.
ALTER TABLE workbook ADD COLUMN name_key TEXT NOT NULL DEFAULT '';

UPDATE workbook SET name_key = LOWER(name);

CREATE INDEX workbook_name ON workbook (deployment_uid, account_uid, folder_id, name_key, id);

-- A report in a workbook has the folder 0, as one at the root: lists of a folder begin with the workbook 0.
CREATE INDEX report_place ON report (deployment_uid, account_uid, workbook_id, folder_id, name_key, id);

-- The workbooks that people have marked. owner is <kind>:<id>. Times are microseconds since 1970, UTC.
CREATE TABLE favorite (
    account_uid    TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    owner          TEXT NOT NULL,
    workbook_id    BIGINT NOT NULL,
    created_at     BIGINT NOT NULL,
    PRIMARY KEY (account_uid, owner, workbook_id)
);

CREATE INDEX favorite_workbook ON favorite (account_uid, workbook_id);

-- When people have read workbooks and reports last, and how often: one row for each person and object. viewer is <kind>:<id>;
-- object_type is WORKBOOK or REPORT.
CREATE TABLE view_event (
    account_uid    TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    viewer         TEXT NOT NULL,
    object_type    TEXT NOT NULL,
    object_id      BIGINT NOT NULL,
    viewed_at      BIGINT NOT NULL,
    views          BIGINT NOT NULL,
    PRIMARY KEY (account_uid, viewer, object_type, object_id)
);

CREATE INDEX view_event_object ON view_event (account_uid, object_type, object_id);

CREATE INDEX view_event_viewer ON view_event (deployment_uid, account_uid, viewer, viewed_at);
