-- Whether all lines of a row append text to a message. The history of a thread is made of the others: at its end, each message has a
-- line with its whole text.
ALTER TABLE chat_line ADD COLUMN deltas BOOLEAN NOT NULL DEFAULT FALSE;
