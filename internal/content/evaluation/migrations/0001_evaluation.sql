-- Evaluations of agents. kind is questions or replay, and state running, completed or failed, with failure as the reason. owner is
-- the person who sees the answers and the data, and caller the principal that has started it. request has, as JSON, what was asked
-- for. total is the number of items, and passed, failed, for_review and errors those of results by verdict. holder is the replica that
-- works on it until lease_until, and cancelled_by is who has requested its end. Times are microseconds since 1970, UTC; 0 is none.
CREATE TABLE evaluation (
    account_uid    TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    id             BIGINT NOT NULL,
    kind           TEXT NOT NULL,
    agent_id       BIGINT NOT NULL,
    owner          TEXT NOT NULL,
    caller         TEXT NOT NULL,
    request        TEXT NOT NULL,
    state          TEXT NOT NULL,
    failure        TEXT NOT NULL,
    total          BIGINT NOT NULL,
    passed         BIGINT NOT NULL,
    failed         BIGINT NOT NULL,
    for_review     BIGINT NOT NULL,
    errors         BIGINT NOT NULL,
    holder         TEXT NOT NULL,
    lease_until    BIGINT NOT NULL,
    cancelled_by   TEXT NOT NULL,
    started_at     BIGINT NOT NULL,
    ended_at       BIGINT NOT NULL,
    PRIMARY KEY (account_uid, id)
);

CREATE INDEX evaluation_list ON evaluation (deployment_uid, account_uid, id);

CREATE INDEX evaluation_lease ON evaluation (lease_until);

CREATE INDEX evaluation_ended ON evaluation (ended_at);

-- The evaluations of a user who is deleted are found by the owner.
CREATE INDEX evaluation_owner ON evaluation (account_uid, owner);

-- The result of a question or a message, by its number in the evaluation. body is JSON.
CREATE TABLE evaluation_result (
    account_uid    TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    evaluation_id  BIGINT NOT NULL,
    number         BIGINT NOT NULL,
    verdict        TEXT NOT NULL,
    body           TEXT NOT NULL,
    PRIMARY KEY (account_uid, evaluation_id, number)
);
