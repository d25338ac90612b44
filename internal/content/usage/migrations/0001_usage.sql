-- The usage of language models: a row for each run of an agent, with its sums so far. source is chat, mcp or evaluation, and run is
-- the id of the run there. caller is the principal, and user_name the user on whose behalf it runs, empty if there is none.
-- day is the first microsecond of the day in which the run began, and times are microseconds since 1970, UTC. cost is in millionths
-- of the currency, which is empty if the endpoint has no price.
CREATE TABLE agent_usage (
    account_uid    TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    source         TEXT NOT NULL,
    run            TEXT NOT NULL,
    day            BIGINT NOT NULL,
    agent_id       BIGINT NOT NULL,
    endpoint       TEXT NOT NULL,
    caller         TEXT NOT NULL,
    user_name      TEXT NOT NULL,
    currency       TEXT NOT NULL,
    cost           BIGINT NOT NULL,
    input_tokens   BIGINT NOT NULL,
    cached_tokens  BIGINT NOT NULL,
    output_tokens  BIGINT NOT NULL,
    requests       BIGINT NOT NULL,
    tool_calls     BIGINT NOT NULL,
    milliseconds   BIGINT NOT NULL,
    PRIMARY KEY (account_uid, deployment_uid, source, run)
);

CREATE INDEX agent_usage_day ON agent_usage (account_uid, deployment_uid, day);

CREATE INDEX agent_usage_expiry ON agent_usage (day);

-- The usage of a user who is deleted is found by the name.
CREATE INDEX agent_usage_user ON agent_usage (account_uid, user_name);

CREATE INDEX agent_usage_caller ON agent_usage (account_uid, caller);
