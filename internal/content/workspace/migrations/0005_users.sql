-- What names a user is found by these.
CREATE INDEX report_refreshed_by ON report (deployment_uid, account_uid, refreshed_by);

CREATE INDEX dashboard_version_owner ON dashboard_version (deployment_uid, account_uid, owner);

CREATE INDEX report_placement_placed_by ON report_placement (deployment_uid, account_uid, placed_by);

CREATE INDEX report_placement_refreshed_by ON report_placement (deployment_uid, account_uid, refreshed_by);
