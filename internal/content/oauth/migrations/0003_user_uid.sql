-- The UID of the SCIM user of the person: another user of the name is another person. It is empty for a person without one, and for
-- rows from before the column. A restore replaces it.
ALTER TABLE oauth_session ADD COLUMN user_uid TEXT NOT NULL DEFAULT '';

ALTER TABLE oauth_grant ADD COLUMN user_uid TEXT NOT NULL DEFAULT '';
