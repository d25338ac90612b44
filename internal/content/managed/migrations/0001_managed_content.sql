-- Content that belongs to objects in Kubernetes. kind is that of the object, which is that of the content too;
-- content_id is the id of the workbook or the folder. object and generation are the UID and the generation of the
-- object from which the content was made, definition is the hash of what it defined.
CREATE TABLE managed_content (
    account_uid    TEXT NOT NULL REFERENCES account (uid) ON UPDATE CASCADE,
    deployment_uid TEXT NOT NULL REFERENCES deployment (uid) ON UPDATE CASCADE,
    kind           TEXT NOT NULL,
    content_id     BIGINT NOT NULL,
    namespace      TEXT NOT NULL,
    name           TEXT NOT NULL,
    object         TEXT NOT NULL,
    generation     BIGINT NOT NULL,
    definition     TEXT NOT NULL,
    PRIMARY KEY (account_uid, kind, content_id)
);

CREATE UNIQUE INDEX managed_content_object ON managed_content (account_uid, deployment_uid, kind, namespace, name);
