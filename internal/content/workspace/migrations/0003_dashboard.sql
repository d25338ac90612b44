-- Published dashboards: one of each workbook that was published. version_id is the version that is shown.
CREATE TABLE dashboard (
    account_uid    TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    id             BIGINT NOT NULL,
    workbook_id    BIGINT NOT NULL,
    public_id      TEXT NOT NULL,
    version_id     BIGINT NOT NULL,
    allow_embed    BOOLEAN NOT NULL,
    PRIMARY KEY (account_uid, id)
);

CREATE UNIQUE INDEX dashboard_public_id ON dashboard (account_uid, public_id);

CREATE UNIQUE INDEX dashboard_workbook ON dashboard (account_uid, workbook_id);

-- Versions of dashboards, which do not change. config is a JSON object in canonical form. content_hash is that of the config,
-- the title, the description and the snapshots. Times are microseconds since 1970, UTC.
CREATE TABLE dashboard_version (
    account_uid    TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    id             BIGINT NOT NULL,
    dashboard_id   BIGINT NOT NULL,
    number         BIGINT NOT NULL,
    title          TEXT NOT NULL,
    description    TEXT NOT NULL,
    config         TEXT NOT NULL,
    content_hash   TEXT NOT NULL,
    owner          TEXT NOT NULL,
    created_at     BIGINT NOT NULL,
    created_by     TEXT NOT NULL,
    PRIMARY KEY (account_uid, id)
);

CREATE UNIQUE INDEX dashboard_version_number ON dashboard_version (account_uid, dashboard_id, number);

-- The reports that a version shows, as they were when it was published. number counts the states of a report that were
-- published.
CREATE TABLE report_snapshot (
    account_uid    TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    id             BIGINT NOT NULL,
    version_id     BIGINT NOT NULL,
    report_id      BIGINT NOT NULL,
    number         BIGINT NOT NULL,
    public_id      TEXT NOT NULL,
    name           TEXT NOT NULL,
    title          TEXT NOT NULL,
    json_query     TEXT NOT NULL,
    sql_query      TEXT NOT NULL,
    pivot_items    TEXT NOT NULL,
    meta           TEXT NOT NULL,
    content_hash   TEXT NOT NULL,
    PRIMARY KEY (account_uid, id)
);

CREATE INDEX report_snapshot_version ON report_snapshot (account_uid, version_id, id);

CREATE INDEX report_snapshot_report ON report_snapshot (account_uid, report_id, number);
