-- What is granted on folders, workbooks and reports. object_kind is Folder, Workbook or Report. subject is ScimUser:<name>,
-- ScimGroup:<name>, or Organization: for everyone. level is 1 for view, 2 for edit, 3 for manage. Times are microseconds since
-- 1970, UTC.
CREATE TABLE access_grant (
    account_uid    TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    object_kind    TEXT NOT NULL,
    object_id      BIGINT NOT NULL,
    subject        TEXT NOT NULL,
    level          BIGINT NOT NULL,
    created_at     BIGINT NOT NULL,
    created_by     TEXT NOT NULL,
    PRIMARY KEY (account_uid, object_kind, object_id, subject)
);

CREATE INDEX access_grant_subject ON access_grant (deployment_uid, account_uid, subject, object_kind);
