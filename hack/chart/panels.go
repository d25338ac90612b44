package main

// The functions with which most queries are written.

// rate returns the sum of the rates of a counter by labels, per second.
func rate(selector, by string) string {
	return "sum by (" + by + ") (rate(" + selector + "[$__rate_interval]))"
}

// quantile returns a quantile of a histogram by labels; by is empty or begins with a comma.
func quantile(q, bucket, by string) string {
	return "histogram_quantile(" + q + ", sum by (le" + by + ") (rate(" + bucket + "[$__rate_interval])))"
}

// rows are the panels of the dashboard. Queries select metrics that other programs export too by the jobs
// of Quoin.
var rows = []row{
	{"Overview", []panel{
		{stat, "Versions", "short", 8, []query{{`count by (component, version) (quoin_build_info{job=~"$job"})`, "{{component}} {{version}}"}}},
		{stat, "Objects that are not ready", "short", 4, []query{{`sum(quoin_objects{ready!="True",kind!~"ApiKey|ScimUser|ScimGroup"}) or vector(0)`, ""}}},
		{stat, "Deployments behind their channel", "short", 4, []query{{`sum(quoin_releasechannel_deployments{state="behind"})`, ""}}},
		{stat, "Stopped versions", "short", 4, []query{{`max(quoin_releasechannel_stopped_versions)`, ""}}},
		{stat, "Time until a certificate expires", "s", 4, []query{{`min(quoin_certificate_expiry_timestamp_seconds) - time()`, ""}}},
	}},
	{"Objects", []panel{
		{graph, "Deployments by Ready and reason", "short", 12, []query{{`sum by (ready, reason) (quoin_objects{kind="Deployment"})`, "{{ready}} {{reason}}"}}},
		{graph, "Objects that are not ready, by kind", "short", 12, []query{{`sum by (kind, reason) (quoin_objects{ready!="True"})`, "{{kind}} {{reason}}"}}},
		{table, "Objects that are not ready, and for how long", "s", 24, []query{{`sort_desc(time() - quoin_object_not_ready_since_timestamp_seconds)`, ""}}},
	}},
	{"Channels and rollouts", []panel{
		{graph, "Deployments by channel", "short", 8, []query{{`sum by (channel, state) (quoin_releasechannel_deployments)`, "{{channel}} {{state}}"}}},
		{graph, "Lag of channels", "s", 8, []query{{`max by (channel) (time() - quoin_releasechannel_behind_since_timestamp_seconds)`, "{{channel}}"}}},
		{graph, "Rollouts in progress", "short", 8, []query{{`sum by (state) (quoin_deployment_rollouts_in_progress)`, "{{state}}"}}},
		{graph, "Completed rollouts", "short", 8, []query{{`sum by (result) (increase(quoin_deployment_rollouts_total[$__rate_interval]))`, "{{result}}"}}},
		{graph, "Duration of rollouts", "s", 8, []query{
			{quantile("0.5", "quoin_deployment_rollout_duration_seconds_bucket", ""), "p50"}, {quantile("0.95", "quoin_deployment_rollout_duration_seconds_bucket", ""), "p95"},
		}},
		{graph, "Scans of image repositories", "ops", 8, []query{{rate("quoin_releasechannel_scans_total", "result"), "{{result}}"}}},
		{graph, "Reads of Git repositories", "ops", 8, []query{{rate("quoin_git_fetches_total", "result"), "{{result}}"}}},
		{graph, "Waiting reads of Git repositories", "short", 8, []query{{`sum(quoin_git_fetches_waiting)`, "waiting"}}},
		{graph, "Duration of reads of Git repositories", "s", 8, []query{{quantile("0.95", "quoin_git_fetch_duration_seconds_bucket", ""), "p95"}}},
	}},
	{"Controllers", []panel{
		{graph, "Reconciliations", "ops", 8, []query{{rate(`controller_runtime_reconcile_total{job=~"$job"}`, "controller, result"), "{{controller}} {{result}}"}}},
		{graph, "Length of queues", "short", 8, []query{{`sum by (name) (workqueue_depth{job=~"$job"})`, "{{name}}"}}},
		{graph, "Time in queues, p99", "s", 8, []query{{quantile("0.99", `workqueue_queue_duration_seconds_bucket{job=~"$job"}`, ", name"), "{{name}}"}}},
		{graph, "Requests to the Kubernetes API server", "reqps", 12, []query{{rate(`rest_client_requests_total{job=~"$job"}`, "job, method, code"), "{{job}} {{method}} {{code}}"}}},
		{graph, "Leaders", "short", 12, []query{{`sum by (name) (leader_election_master_status{job=~"$job"})`, "{{name}}"}}},
	}},
	{"REST and SCIM", []panel{
		{graph, "Requests by status", "reqps", 8, []query{{rate("quoin_http_requests_total", "code"), "{{code}}"}}},
		{graph, "Requests by route", "reqps", 8, []query{{"topk(10, " + rate("quoin_http_requests_total", "method, route") + ")", "{{route}}"}}},
		{graph, "Duration by route, p99", "s", 8, []query{{"topk(10, " + quantile("0.99", "quoin_http_request_duration_seconds_bucket", ", route") + ")", "{{route}}"}}},
		{graph, "Connections", "short", 12, []query{{`sum(quoin_apiserver_connections)`, "open"}, {`sum(quoin_apiserver_unauthenticated)`, "unauthenticated"}}},
		{graph, "Requests in progress", "short", 12, []query{{`sum by (instance) (quoin_http_requests_in_flight)`, "{{instance}}"}}},
	}},
	{"Audit log and content store", []panel{
		{graph, "Audit events", "ops", 8, []query{{rate("quoin_audit_events_total", "outcome"), "{{outcome}}"}}},
		{graph, "Queue of audit events", "short", 8, []query{{`sum by (instance) (quoin_audit_queue_length)`, "{{instance}}"}}},
		{graph, "Time to store audit events, p99", "s", 8, []query{{quantile("0.99", "quoin_audit_store_duration_seconds_bucket", ""), "p99"}}},
		{graph, "Duration of reads and transactions, p99", "s", 8, []query{{quantile("0.99", "quoin_store_duration_seconds_bucket", ", operation"), "{{operation}}"}}},
		{graph, "Connections to the database", "short", 8, []query{{`sum by (pool, state) (quoin_store_connections)`, "{{pool}} {{state}}"}}},
		{graph, "Failures of the database", "ops", 8, []query{{rate("quoin_store_unavailable_total", "operation"), "{{operation}}"}, {rate("quoin_audit_unavailable_total", "job"), "audit log"}}},
		{graph, "dbt syncs", "ops", 8, []query{{rate("quoin_dbt_syncs_total", "result"), "{{result}}"}}},
		{graph, "Size of Git repositories", "bytes", 8, []query{{`max(quoin_repository_size_bytes)`, "all"}, {`max(quoin_repository_largest_size_bytes)`, "largest"}}},
		{graph, "Git repositories", "short", 8, []query{{`max(quoin_repositories)`, "repositories"}}},
	}},
	{"Gateway", []panel{
		{graph, "Requests by outcome", "reqps", 8, []query{{rate("quoin_gateway_requests_total", "outcome"), "{{outcome}}"}}},
		{graph, "Duration, p99", "s", 8, []query{{quantile("0.99", "quoin_gateway_request_duration_seconds_bucket", ", kind"), "{{kind}}"}}},
		{graph, "Requests in progress and waiting", "short", 8, []query{{`sum(quoin_gateway_requests_in_flight)`, "in progress"}, {`sum(quoin_gateway_waiting_requests)`, "waiting for a pod"}}},
		{graph, "Requests by deployment", "reqps", 8, []query{{"topk(10, " + rate("quoin_gateway_deployment_requests_total", "account, deployment") + ")", "{{account}}/{{deployment}}"}}},
		{graph, "Share of failed requests by deployment", "percentunit", 8, []query{{"topk(10, " + rate(`quoin_gateway_deployment_requests_total{class="5xx"}`, "account, deployment") + " / " + rate("quoin_gateway_deployment_requests_total", "account, deployment") + ")", "{{account}}/{{deployment}}"}}},
		{graph, "Mean duration by deployment", "s", 8, []query{{"topk(10, " + rate("quoin_gateway_deployment_request_duration_seconds_sum", "account, deployment") + " / " + rate("quoin_gateway_deployment_request_duration_seconds_count", "account, deployment") + ")", "{{account}}/{{deployment}}"}}},
		{graph, "Connections", "short", 8, []query{{`sum(quoin_gateway_connections)`, "clients"}, {`sum(quoin_gateway_upstream_connections)`, "pods"}, {`sum(quoin_gateway_sql_connections)`, "SQL"}}},
		{graph, "SQL connections by deployment", "short", 8, []query{{"topk(10, sum by (account, deployment) (quoin_gateway_deployment_sql_connections))", "{{account}}/{{deployment}}"}}},
		{graph, "Completed SQL connections", "ops", 8, []query{{rate("quoin_gateway_sql_connections_total", "outcome"), "{{outcome}}"}}},
		{graph, "Retries", "ops", 8, []query{{rate("quoin_gateway_retries_total", "reason"), "{{reason}}"}}},
	}},
	{"Processes", []panel{
		{graph, "Memory", "bytes", 8, []query{{`process_resident_memory_bytes{job=~"$job"}`, "{{job}} {{instance}}"}}},
		{graph, "Processor time", "short", 8, []query{{`rate(process_cpu_seconds_total{job=~"$job"}[$__rate_interval])`, "{{job}} {{instance}}"}}},
		{graph, "Goroutines", "short", 8, []query{{`go_goroutines{job=~"$job"}`, "{{job}} {{instance}}"}}},
	}},
}
