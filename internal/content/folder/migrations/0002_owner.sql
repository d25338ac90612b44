-- owner is who the folder belongs to, as <kind>:<id>.
ALTER TABLE folder ADD COLUMN owner TEXT NOT NULL DEFAULT '';

UPDATE folder SET owner = created_by;

CREATE INDEX folder_owner ON folder (deployment_uid, account_uid, owner);
