-- The person who created a token, whose deactivation ends it: the id of the SCIM user, and the userName of a
-- person who has authenticated with it. Both are empty for a token that no person created, and for tokens
-- that are older than these columns.
ALTER TABLE deploy_token ADD COLUMN creator_user TEXT NOT NULL DEFAULT '';

ALTER TABLE deploy_token ADD COLUMN creator_user_name TEXT NOT NULL DEFAULT '';
