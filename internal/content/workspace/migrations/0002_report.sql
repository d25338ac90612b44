-- Reports of deployments. A report is in a workbook or in a folder: one of workbook_id and folder_id is 0,
-- and both are at the root. name_key is the name in the form in which names are searched and ordered.
-- json_query and sql_query are empty without one; pivot_items is a JSON object in canonical form or empty,
-- meta one. checksum is that of the queries and the pivot items. owner and refreshed_by are <kind>:<id>.
-- version counts the changes from 1. Times are microseconds since 1970, UTC.
CREATE TABLE report (
    account_uid    TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    id             BIGINT NOT NULL,
    folder_id      BIGINT NOT NULL,
    workbook_id    BIGINT NOT NULL,
    public_id      TEXT NOT NULL,
    name           TEXT NOT NULL,
    name_key       TEXT NOT NULL,
    title          TEXT NOT NULL,
    json_query     TEXT NOT NULL,
    sql_query      TEXT NOT NULL,
    pivot_items    TEXT NOT NULL,
    meta           TEXT NOT NULL,
    source         TEXT NOT NULL,
    checksum       TEXT NOT NULL,
    version        BIGINT NOT NULL,
    owner          TEXT NOT NULL,
    refreshed_by   TEXT NOT NULL,
    created_at     BIGINT NOT NULL,
    created_by     TEXT NOT NULL,
    updated_at     BIGINT NOT NULL,
    updated_by     TEXT NOT NULL,
    PRIMARY KEY (account_uid, id)
);

CREATE UNIQUE INDEX report_public_id ON report (account_uid, public_id);

CREATE INDEX report_deployment ON report (deployment_uid, account_uid, id);

CREATE INDEX report_folder ON report (deployment_uid, account_uid, folder_id, id);

CREATE INDEX report_workbook ON report (deployment_uid, account_uid, workbook_id, id);

-- Where spreadsheets have the results of reports. details is a JSON object: the sheet, the cells, the checksum of the
-- result. query_checksum is that of the report when its result was read; empty if that is unknown.
CREATE TABLE report_placement (
    account_uid       TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid    TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    id                BIGINT NOT NULL,
    report_id         BIGINT NOT NULL,
    external_workbook TEXT NOT NULL,
    result_location   TEXT NOT NULL,
    details           TEXT NOT NULL,
    query_checksum    TEXT NOT NULL,
    placed_at         BIGINT NOT NULL,
    placed_by         TEXT NOT NULL,
    refreshed_at      BIGINT NOT NULL,
    refreshed_by      TEXT NOT NULL,
    PRIMARY KEY (account_uid, id)
);

CREATE UNIQUE INDEX report_placement_location ON report_placement (account_uid, report_id, external_workbook, result_location);

CREATE INDEX report_placement_workbook ON report_placement (deployment_uid, account_uid, external_workbook, report_id);
