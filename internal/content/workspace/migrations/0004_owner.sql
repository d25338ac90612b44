-- What somebody owns is found by these.
CREATE INDEX workbook_owner ON workbook (deployment_uid, account_uid, owner);

CREATE INDEX report_owner ON report (deployment_uid, account_uid, owner);
