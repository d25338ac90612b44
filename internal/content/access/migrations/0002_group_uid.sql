-- group_uid is the UID of the ScimGroup that a grant to a group is to: another ScimGroup of the name does not have it. It is empty for
-- other grants, and for those that are older than the column, which any group of the name has.
ALTER TABLE access_grant ADD COLUMN group_uid TEXT NOT NULL DEFAULT '';
