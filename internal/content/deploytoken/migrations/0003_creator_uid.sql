-- The UID of the SCIM user: another user of the name has not created the token. It is empty for tokens that are older than the column.
-- A restore replaces it.
ALTER TABLE deploy_token ADD COLUMN creator_user_uid TEXT NOT NULL DEFAULT '';
