package chart_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// invalidValues are values that the chart rejects, and a part of the message.
var invalidValues = map[string]struct {
	values string
	want   string
}{
	"GitHub App without its key":      {`apiserver: {github: {appId: "1", appSlug: x}}`, "apiserver.github.appId requires apiserver.github.appSlug and apiserver.github.existingSecret.name"},
	"unknown value":                   {`crd: {enabled: false}`, "additional properties 'crd'"},
	"unknown in controller":           {`controller: {replicaCount: 2}`, "additional properties 'replicaCount'"},
	"unknown in image":                {`image: {name: quoin}`, "additional properties 'name'"},
	"unknown component":               {`router: {enabled: true}`, "additional properties 'router'"},
	"replicas as text":                {`controller: {replicas: two}`, "/controller/replicas"},
	"replicas below zero":             {`controller: {replicas: -1}`, "/controller/replicas"},
	"concurrency of 0":                {`controller: {concurrency: 0}`, "/controller/concurrency"},
	"rollouts below zero":             {`controller: {maxConcurrentRollouts: -1}`, "/controller/maxConcurrentRollouts"},
	"log level":                       {`controller: {log: {level: verbose}}`, "/controller/log/level"},
	"log format":                      {`controller: {log: {format: xml}}`, "/controller/log/format"},
	"argument without dashes":         {`controller: {extraArgs: [concurrency=3]}`, "/controller/extraArgs/0"},
	"variable without name":           {`controller: {extraEnv: [{value: x}]}`, "/controller/extraEnv/0"},
	"quantity":                        {`controller: {resources: {limits: {memory: 512MB}}}`, "/controller/resources/limits/memory"},
	"resources misspelt":              {`controller: {resources: {limit: {memory: 1Gi}}}`, "additional properties 'limit'"},
	"pod label":                       {`controller: {podLabels: {a: "not a label"}}`, "/controller/podLabels/a"},
	"annotation not a string":         {`controller: {podAnnotations: {a: true}}`, "/controller/podAnnotations/a"},
	"budget with both":                {`controller: {podDisruptionBudget: {minAvailable: 1, maxUnavailable: 1}}`, "/controller/podDisruptionBudget"},
	"budget":                          {`controller: {podDisruptionBudget: {minAvailable: most}}`, "/controller/podDisruptionBudget/minAvailable"},
	"reader without namespace":        {`monitoring: {readers: [{name: prometheus}]}`, "/monitoring/readers/0"},
	"scrape interval":                 {`monitoring: {monitor: {interval: 30}}`, "/monitoring/monitor/interval"},
	"kind of monitor":                 {`monitoring: {monitor: {kind: Probe}}`, "/monitoring/monitor/kind"},
	"unknown in monitoring":           {`monitoring: {rules: {enabled: true}}`, "additional properties 'rules'"},
	"pod monitor without token":       {`monitoring: {monitor: {kind: PodMonitor}}`, "requires monitoring.monitor.authorization"},
	"readers as they were":            {`controller: {metrics: {readers: [{name: a, namespace: b}]}}`, "has moved to monitoring.readers"},
	"monitor as it was":               {`controller: {metrics: {serviceMonitor: {enabled: true}}}`, "has moved to monitoring.monitor"},
	"alerts as they were":             {`controller: {metrics: {prometheusRule: {enabled: true}}}`, "has moved to monitoring.alerts"},
	"pull policy":                     {`image: {pullPolicy: Sometimes}`, "/image/pullPolicy"},
	"repository with scheme":          {`image: {repository: "https://ghcr.io/quoin"}`, "/image/repository"},
	"empty repository":                {`image: {repository: ""}`, "/image/repository"},
	"tag with colon":                  {`image: {tag: "quoin:v1"}`, "/image/tag"},
	"short digest":                    {`image: {digest: "sha256:abc"}`, "/image/digest"},
	"digest without algorithm":        {`image: {digest: "` + strings.Repeat("a", 64) + `"}`, "/image/digest"},
	"pull secret as text":             {`imagePullSecrets: [mirror]`, "/imagePullSecrets/0"},
	"crds as text":                    {`crds: {enabled: "false"}`, "/crds/enabled"},
	"account namespace":               {`accountNamespaces: [Tenant]`, "/accountNamespaces/0"},
	"account namespace twice":         {`accountNamespaces: [a, a]`, "/accountNamespaces"},
	"account namespace not text":      {`accountNamespaces: [{name: a}]`, "/accountNamespaces/0"},
	"watched namespace":               {`watchNamespaces: [Tenant]`, "/watchNamespaces/0"},
	"own namespace":                   {`watchNamespaces: [default]`, "watchNamespaces must not contain default, the namespace of Quoin itself"},
	"account elsewhere":               {`{watchNamespaces: [a], accountNamespaces: [a, b]}`, "accountNamespaces contains b, which watchNamespaces does not contain"},
	"long name":                       {`fullnameOverride: ` + strings.Repeat("a", 41), "/fullnameOverride"},
	"extra object as text":            {`extraObjects: ["apiVersion: v1"]`, "/extraObjects/0"},
	"unknown in apiserver":            {`apiserver: {port: 8443}`, "additional properties 'port'"},
	"region":                          {`apiserver: {region: ""}`, "/apiserver/region"},
	"trusted proxy":                   {`apiserver: {trustedProxies: [proxy.example.com]}`, "/apiserver/trustedProxies/0"},
	"service type":                    {`apiserver: {service: {type: ExternalName}}`, "/apiserver/service/type"},
	"authority not in PEM":            {`apiserver: {aggregation: {caBundle: LS0tLS1CRUdJTg==}}`, "/apiserver/aggregation/caBundle"},
	"certificate without CA":          {`apiserver: {tls: {secretName: web}, aggregation: {enabled: true}}`, "requires apiserver.aggregation.caBundle"},
	"password in the values":          {`apiserver: {database: {url: "postgres://quoin:secret@db/quoin"}}`, "additional properties 'url'"},
	"secret as text":                  {`apiserver: {database: {existingSecret: quoin-database}}`, "/apiserver/database/existingSecret"},
	"key of the secret":               {`apiserver: {database: {existingSecret: {name: db, key: ""}}}`, "/apiserver/database/existingSecret/key"},
	"size of the volume":              {`apiserver: {database: {sqlite: {size: 5GB}}}`, "/apiserver/database/sqlite/size"},
	"two pods with SQLite":            {`apiserver: {replicas: 2}`, "apiserver.replicas above 1 requires PostgreSQL (apiserver.database.existingSecret.name)"},
	"unknown in gateway":              {`gateway: {region: eu}`, "additional properties 'region'"},
	"unknown limit":                   {`gateway: {limits: {rps: 1}}`, "additional properties 'rps'"},
	"no requests at all":              {`gateway: {limits: {requestsPerSecond: 0}}`, "/gateway/limits/requestsPerSecond"},
	"fractional burst":                {`gateway: {limits: {burst: 0.5}}`, "/gateway/limits/burst"},
	"time with a unit":                {`gateway: {limits: {waitSeconds: 30s}}`, "/gateway/limits/waitSeconds"},
	"SQL port":                        {`gateway: {sql: {port: 70000}}`, "/gateway/sql/port"},
	"no time to finish":               {`gateway: {shutdown: {drainSeconds: 0}}`, "/gateway/shutdown/drainSeconds"},
	"budget of the gateway":           {`gateway: {podDisruptionBudget: {minAvailable: 1, maxUnavailable: 1}}`, "/gateway/podDisruptionBudget"},
	"shared ServiceAccount":           {`{gateway: {serviceAccount: {name: quoin}}, controller: {serviceAccount: {name: quoin}}}`, "gateway.serviceAccount and controller.serviceAccount must not be the same"},
	"two pods without election":       {`controller: {replicas: 2, leaderElection: {enabled: false}}`, "controller.replicas above 1 requires controller.leaderElection.enabled"},
	"monitor without metrics":         {`{monitoring: {monitor: {kind: ServiceMonitor}}, controller: {metrics: {enabled: false}}, apiserver: {metrics: {enabled: false}}, gateway: {enabled: false}}`, "requires metrics.enabled of at least one component"},
	"strategy":                        {`gateway: {strategy: {type: Rolling}}`, "/gateway/strategy/type"},
	"surge":                           {`gateway: {strategy: {rollingUpdate: {maxSurge: one}}}`, "/gateway/strategy/rollingUpdate/maxSurge"},
	"no pod is replaced":              {`gateway: {strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0%}}}`, "gateway.strategy.rollingUpdate: maxSurge and maxUnavailable must not both be 0"},
	"rolling update with SQLite":      {`apiserver: {strategy: {type: RollingUpdate}}`, "apiserver.strategy.type must be Recreate, or empty: with SQLite"},
	"rolling without election":        {`controller: {leaderElection: {enabled: false}, strategy: {type: RollingUpdate}}`, "controller.strategy.type must be Recreate, or empty: without controller.leaderElection.enabled"},
	"class of ClusterIP":              {`gateway: {service: {loadBalancerClass: internal}}`, "gateway.service.loadBalancerClass requires gateway.service.type=LoadBalancer; the type is ClusterIP"},
	"ranges of NodePort":              {`apiserver: {service: {type: NodePort, loadBalancerSourceRanges: [10.0.0.0/8]}}`, "apiserver.service.loadBalancerSourceRanges requires apiserver.service.type=LoadBalancer; the type is NodePort"},
	"range without length":            {`gateway: {service: {type: LoadBalancer, loadBalancerSourceRanges: [10.0.0.1]}}`, "/gateway/service/loadBalancerSourceRanges/0"},
	"traffic of ClusterIP":            {`gateway: {service: {externalTrafficPolicy: Local}}`, "gateway.service.externalTrafficPolicy requires gateway.service.type=LoadBalancer or NodePort"},
	"traffic policy":                  {`gateway: {service: {type: LoadBalancer, externalTrafficPolicy: Global}}`, "/gateway/service/externalTrafficPolicy"},
	"two families of one stack":       {`gateway: {service: {ipFamilies: [IPv4, IPv6]}}`, "gateway.service.ipFamilies with two families requires gateway.service.ipFamilyPolicy=PreferDualStack or RequireDualStack"},
	"families of metrics":             {`controller: {metrics: {service: {ipFamilies: [IPv6, IPv4], ipFamilyPolicy: SingleStack}}}`, "controller.metrics.service.ipFamilies with two families"},
	"family":                          {`gateway: {service: {ipFamilies: [ipv4]}}`, "/gateway/service/ipFamilies/0"},
	"type of metrics Service":         {`gateway: {metrics: {service: {type: NodePort}}}`, "additional properties 'type'"},
	"container without image":         {`gateway: {extraContainers: [{name: proxy}]}`, "/gateway/extraContainers/0"},
	"init container's name":           {`gateway: {extraInitContainers: [{name: Wait, image: busybox}]}`, "/gateway/extraInitContainers/0/name"},
	"DNS policy":                      {`gateway: {dnsPolicy: Cluster}`, "/gateway/dnsPolicy"},
	"DNS without servers":             {`gateway: {dnsPolicy: None, dnsConfig: {searches: [a]}}`, "gateway.dnsPolicy=None requires gateway.dnsConfig.nameservers"},
	"name server by name":             {`gateway: {dnsConfig: {nameservers: [dns.example.com]}}`, "/gateway/dnsConfig/nameservers/0"},
	"host network as text":            {`gateway: {hostNetwork: "true"}`, "/gateway/hostNetwork"},
	"host alias without names":        {`gateway: {hostAliases: [{ip: 192.0.2.1}]}`, "/gateway/hostAliases/0"},
	"runtime class":                   {`gateway: {runtimeClassName: G Visor}`, "/gateway/runtimeClassName"},
	"container port":                  {`gateway: {containerPorts: {https: 0}}`, "/gateway/containerPorts/https"},
	"unknown port":                    {`controller: {containerPorts: {https: 8443}}`, "additional properties 'https'"},
	"namespace":                       {`namespaceOverride: Quoin`, "/namespaceOverride"},
	"selectors as text":               {`kustomizeSelectors: "no"`, "/kustomizeSelectors"},
	"tracing with credentials":        {`tracing: {endpoint: "http://user:secret@collector:4318"}`, "/tracing/endpoint"},
	"tracing without scheme":          {`tracing: {endpoint: "collector:4318"}`, "/tracing/endpoint"},
	"tracing protocol":                {`tracing: {endpoint: "http://collector:4318", protocol: http/json}`, "/tracing/protocol"},
	"tracing without endpoint":        {`tracing: {sampler: always_on}`, "tracing requires tracing.endpoint"},
	"argument without sampler":        {`tracing: {endpoint: "http://collector:4318", samplerArg: "0.1"}`, "tracing.samplerArg requires tracing.sampler"},
	"ratio above 1":                   {`tracing: {endpoint: "http://collector:4318", sampler: traceidratio, samplerArg: "2"}`, "/tracing/samplerArg"},
	"fewer pods than the minimum":     {`gateway: {autoscaling: {enabled: true, minReplicas: 5, maxReplicas: 3}}`, "gateway.autoscaling.minReplicas is 5, must not be above maxReplicas, 3"},
	"scaled to zero":                  {`gateway: {autoscaling: {minReplicas: 0}}`, "/gateway/autoscaling/minReplicas"},
	"scaled by nothing":               {`gateway: {autoscaling: {enabled: true, targetCPUUtilizationPercentage: 0}}`, "gateway.autoscaling.enabled requires a metric"},
	"scaled by what is not requested": {`gateway: {autoscaling: {enabled: true}, resources: {requests: {cpu: null}}}`, "relative to gateway.resources.requests.cpu, which is not set"},
	"scaled SQLite":                   {`apiserver: {autoscaling: {enabled: true}}`, "apiserver.autoscaling.enabled requires PostgreSQL"},
	"scaled controller":               {`controller: {autoscaling: {enabled: true}}`, "additional properties 'autoscaling'"},
	"metric without type":             {`gateway: {autoscaling: {metrics: [{pods: {}}]}}`, "/gateway/autoscaling/metrics/0"},
	"ingress without hosts":           {`apiserver: {ingress: {enabled: true}}`, "apiserver.ingress.enabled requires apiserver.ingress.hosts"},
	"ingress host with scheme":        {`apiserver: {ingress: {hosts: ["https://a.example.com"]}}`, "/apiserver/ingress/hosts/0"},
	"ingress class":                   {`apiserver: {ingress: {className: NGINX}}`, "/apiserver/ingress/className"},
	"route without Gateway":           {`gateway: {httpRoute: {enabled: true, hostnames: [a]}}`, "gateway.httpRoute.enabled requires gateway.httpRoute.parentRefs"},
	"route without hosts":             {`gateway: {tlsRoute: {enabled: true, parentRefs: [{name: a}]}}`, "gateway.tlsRoute.enabled requires gateway.tlsRoute.hostnames"},
	"route in plain text":             {`gateway: {httpRoute: {enabled: true, hostnames: [a], parentRefs: [{name: a}]}}`, "gateway.httpRoute.backendTLS requires caCertificateRefs"},
	"two authorities":                 {`gateway: {httpRoute: {enabled: true, hostnames: [a], parentRefs: [{name: a}], backendTLS: {wellKnownCACertificates: System, caCertificateRefs: [{kind: ConfigMap, name: a}]}}}`, "caCertificateRefs and wellKnownCACertificates must not both be set"},
	"Gateway as text":                 {`gateway: {httpRoute: {parentRefs: [public]}}`, "/gateway/httpRoute/parentRefs/0"},
	"SQL route without SQL":           {`gateway: {sql: {enabled: false, tlsRoute: {enabled: true, hostnames: [a], parentRefs: [{name: a}]}}}`, "gateway.sql.tlsRoute.enabled requires gateway.sql.enabled"},
	"certificate without issuer":      {`gateway: {tls: {certManager: {enabled: true, dnsNames: [a]}}}`, "gateway.tls.certManager.enabled requires gateway.tls.certManager.issuerRef.name"},
	"certificate without names":       {`gateway: {tls: {certManager: {enabled: true, issuerRef: {name: a}}}}`, "gateway.tls.certManager.enabled requires gateway.tls.certManager.dnsNames"},
	"name in the certificate":         {`gateway: {tls: {certManager: {dnsNames: ["*.*.example.com"]}}}`, "/gateway/tls/certManager/dnsNames/0"},
	"duration in days":                {`gateway: {tls: {certManager: {duration: 90d}}}`, "/gateway/tls/certManager/duration"},
	"alerts without monitor":          {`monitoring: {alerts: {enabled: true}}`, "requires monitoring.monitor.kind"},
}

// A misspelt or invalid value is rejected, instead of installing something else than intended.
func TestInvalidValuesAreRejected(t *testing.T) {
	for name, test := range invalidValues {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "values.yaml")
			writeFile(t, file, test.values)
			_, err := helm(t, "template", releaseName, chartFolder, "--values", file)
			if err == nil {
				t.Fatalf("%s is accepted", test.values)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("the message does not contain %q:\n%v", test.want, err)
			}
		})
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// copyChart copies the chart into a subfolder of a temporary folder.
func copyChart(t *testing.T, below string) string {
	t.Helper()
	target := filepath.Join(t.TempDir(), below)
	if err := os.MkdirAll(target, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(target, os.DirFS(chartFolder)); err != nil {
		t.Fatal(err)
	}
	return target
}
