-- What the tokens of a grant are valid for. Grants from before had the one scope that there was.
ALTER TABLE oauth_grant ADD COLUMN scope TEXT NOT NULL DEFAULT 'all';
