-- The UID of the ScimUser that has authorized the integration: another ScimUser of the name is another person. It is empty for tokens
-- from before the column. A restore replaces it.
ALTER TABLE user_oauth_token ADD COLUMN user_uid TEXT NOT NULL DEFAULT '';
