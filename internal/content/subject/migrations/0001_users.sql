-- Users who use content. name is that of the ScimUser, and user_uid its UID: another ScimUser of the name is another person.
-- user_uid is empty if it is not known; it becomes that of the next user of the name. gone is 1 while the content of a deleted
-- user is handed over; changed is a JSON object with the number of rows that were changed. Times are microseconds since 1970, UTC.
CREATE TABLE content_user (
    account_uid TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    name        TEXT NOT NULL,
    user_uid    TEXT NOT NULL,
    gone        BIGINT NOT NULL,
    changed     TEXT NOT NULL,
    first_seen  BIGINT NOT NULL,
    PRIMARY KEY (account_uid, name)
);
