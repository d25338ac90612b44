-- The runs of a replica whose end was requested are found by the replica.
CREATE INDEX chat_thread_abort ON chat_thread (holder) WHERE abort = 1;

-- From here on, a row of chat_line can have several lines, with line breaks between them: sort is that of the last one.
