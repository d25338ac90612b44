-- What a SCIM user has is deleted when the user is deactivated.
CREATE INDEX oauth_session_user ON oauth_session (account_uid, user_uid);

CREATE INDEX oauth_grant_user ON oauth_grant (account_uid, user_uid);
