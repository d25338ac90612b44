-- The webhooks of Git hosts that have been answered with a run: delivery is a hash of the id that the host has
-- given to the delivery, job that of the run.
CREATE TABLE dbt_sync_delivery (
    account_uid    TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    id             BIGINT NOT NULL,
    delivery       TEXT NOT NULL,
    job            TEXT NOT NULL,
    PRIMARY KEY (account_uid, id)
);

CREATE UNIQUE INDEX dbt_sync_delivery_once ON dbt_sync_delivery (deployment_uid, account_uid, delivery);

CREATE INDEX dbt_sync_delivery_oldest ON dbt_sync_delivery (deployment_uid, account_uid, id);
