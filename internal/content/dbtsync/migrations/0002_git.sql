-- A run whose manifest is made by a pod has a DbtSync object: object_name is set from the start, object_uid
-- when the object exists. options and git are JSON. Such a run has lease_until 9223372036854775807 until
-- the manifest has been delivered.
ALTER TABLE dbt_sync ADD COLUMN object_name TEXT NOT NULL DEFAULT '';
ALTER TABLE dbt_sync ADD COLUMN object_uid TEXT NOT NULL DEFAULT '';
ALTER TABLE dbt_sync ADD COLUMN options TEXT NOT NULL DEFAULT '{}';
ALTER TABLE dbt_sync ADD COLUMN git TEXT NOT NULL DEFAULT 'null';

CREATE INDEX dbt_sync_object ON dbt_sync (account_uid, deployment_uid, object_name) WHERE object_name <> '';
