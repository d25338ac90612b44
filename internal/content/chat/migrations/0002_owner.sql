-- The threads of a user who is deleted are found by the owner.
CREATE INDEX chat_thread_owner ON chat_thread (account_uid, owner);
