-- Threads of chats with agents. chat_id is the id that the client uses; owner is the person or program that the thread belongs to.
-- last_sort is the sort of the last line. run_id is the run in progress, 0 if there is none: holder is the replica that works on
-- it until lease_until, and abort is 1 if it shall end. Times are microseconds since 1970, UTC.
CREATE TABLE chat_thread (
    account_uid    TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    id             BIGINT NOT NULL,
    agent_id       BIGINT NOT NULL,
    chat_id        TEXT NOT NULL,
    owner          TEXT NOT NULL,
    title          TEXT NOT NULL,
    last_sort      BIGINT NOT NULL,
    run_id         BIGINT NOT NULL,
    holder         TEXT NOT NULL,
    lease_until    BIGINT NOT NULL,
    abort          BIGINT NOT NULL,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    PRIMARY KEY (account_uid, id)
);

CREATE UNIQUE INDEX chat_thread_chat ON chat_thread (account_uid, agent_id, chat_id);

CREATE INDEX chat_thread_lease ON chat_thread (lease_until);

CREATE INDEX chat_thread_updated ON chat_thread (updated_at);

-- Runs: the answer to one message each. Its lines are those after after_sort, through last_sort, which is 0 while the run is in
-- progress. state is running, done, failed or aborted.
CREATE TABLE chat_run (
    account_uid    TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    thread_id      BIGINT NOT NULL,
    id             BIGINT NOT NULL,
    message_id     TEXT NOT NULL,
    after_sort     BIGINT NOT NULL,
    last_sort      BIGINT NOT NULL,
    state          TEXT NOT NULL,
    created_at     BIGINT NOT NULL,
    ended_at       BIGINT NOT NULL,
    PRIMARY KEY (account_uid, thread_id, id)
);

CREATE UNIQUE INDEX chat_run_message ON chat_run (account_uid, thread_id, message_id);

-- Lines, as they are sent. They are only added.
CREATE TABLE chat_line (
    account_uid    TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    thread_id      BIGINT NOT NULL,
    sort           BIGINT NOT NULL,
    body           TEXT NOT NULL,
    PRIMARY KEY (account_uid, thread_id, sort)
);
