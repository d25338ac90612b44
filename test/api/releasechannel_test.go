package api_test

import "strings"

const (
	repositoryMessage = "must be an image repository such as registry.example.com/team/cube, without scheme, tag and digest"
	storeMessage      = "must be an image repository such as registry.example.com/team/cubestore, without scheme, tag and digest"
	intervalMessage   = "interval must be between 1s and 24h"
	intervalPattern   = `should match '^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$'`
	thresholdMessage  = "failureThreshold must not be greater than firstDeployments, which is 10 when absent"
	listedMessage     = "must be a version such as 1.2.3, without a prefix"
)

var _ = declare(table{
	kind:     "ReleaseChannel",
	headings: "Name Repository Latest Proven Stopped Ready Reason [Message] Changed Age",
	whole: []string{
		// policy
		`
imageRepository: registry.example.com/team/cube
storeImageRepository: registry.example.com/team/cubestore
policy:
  range: "~1.2"
  preReleases: true
  keep: 50
rollout:
  failureThreshold: 3
  firstDeployments: 10
  resumeVersion: 1.2.4
interval: 5m
pullSecretRef:
  name: registry
caBundle: "-----BEGIN CERTIFICATE-----"
insecure: false
suspend: false
`,
		// versions
		`
imageRepository: registry.example.com/team/cube
versions:
- version: 1.2.3
  digest: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
  storeDigest: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
`,
	},
	spec: `{imageRepository: registry.example.com/team/cube}`,
	cases: []validationCase{
		{name: "a repository is enough"},
		{name: "everything with a policy", with: `
imageRepository: 127.0.0.1:15000/cube
storeImageRepository: 127.0.0.1:15000/cube-store
policy: {range: ">=1.2.0 <2", preReleases: true, keep: 10}
interval: 10s
pullSecretRef: {name: registry}
caBundle: "-----BEGIN CERTIFICATE-----"
insecure: true
suspend: false
`},
		{name: "a list", with: `{versions: [{version: 1.2.3, digest: "sha256:` + strings.Repeat("0a", 32) + `"}, {version: 1.3.0-rc.1}]}`},
		{name: "no repository", with: `{imageRepository: null}`, field: "spec.imageRepository", message: "Required value"},
		{name: "policy and versions", with: `{policy: {range: "~1.2"}, versions: [{version: 1.2.3}]}`,
			field: "spec", message: "policy and versions are mutually exclusive: set a range of versions or an explicit list"},
		{name: "policy added to versions", with: `{versions: [{version: 1.2.3}]}`, then: `{policy: {keep: 5}}`,
			field: "spec", message: "policy and versions are mutually exclusive"},
		{name: "policy instead of versions", with: `{versions: [{version: 1.2.3}]}`, then: `{policy: {keep: 5}, versions: null}`},

		{name: "imageRepository: host alone", with: `{imageRepository: cube}`},
		{name: "imageRepository: doubled underscore", with: `{imageRepository: registry.example.com/a__b/c-d}`},
		{name: "imageRepository: with tag", with: `{imageRepository: "registry.example.com/cube:v1.2.3"}`, field: "spec.imageRepository", message: repositoryMessage},
		{name: "imageRepository: with digest", with: `{imageRepository: "registry.example.com/cube@sha256:00"}`, field: "spec.imageRepository", message: repositoryMessage},
		{name: "imageRepository: with scheme", with: `{imageRepository: "https://registry.example.com/cube"}`, field: "spec.imageRepository", message: repositoryMessage},
		{name: "imageRepository: upper case", with: `{imageRepository: registry.example.com/Cube}`, field: "spec.imageRepository", message: repositoryMessage},
		{name: "imageRepository: slash at the end", with: `{imageRepository: registry.example.com/cube/}`, field: "spec.imageRepository", message: repositoryMessage},
		{name: "imageRepository: with password", with: `{imageRepository: "user:password@registry.example.com/cube"}`, field: "spec.imageRepository", message: repositoryMessage},
		{name: "storeImageRepository: with tag", with: `{storeImageRepository: "registry.example.com/cubestore:v1"}`, field: "spec.storeImageRepository", message: storeMessage},

		{name: "rollout: stops disabled", with: `{rollout: {failureThreshold: 0}}`},
		{name: "rollout: one of one", with: `{rollout: {failureThreshold: 1, firstDeployments: 1}}`},
		{name: "rollout: fewer deployments than the default threshold", with: `{rollout: {firstDeployments: 2}}`},
		{name: "rollout: more failures than deployments", with: `{rollout: {failureThreshold: 6, firstDeployments: 5}}`, field: "spec.rollout", message: thresholdMessage},
		{name: "rollout: more failures than the default", with: `{rollout: {failureThreshold: 11}}`, field: "spec.rollout", message: thresholdMessage},
		{name: "rollout: no deployments", with: `{rollout: {firstDeployments: 0}}`, field: "spec.rollout.firstDeployments", message: "greater than or equal to 1"},
		{name: "rollout: resumed with prefix", with: `{rollout: {resumeVersion: v1.2.3}}`, field: "spec.rollout.resumeVersion", message: listedMessage},

		{name: "interval: hours and minutes", with: `{interval: 1h30m}`},
		{name: "interval: 1s", with: `{interval: 1s}`},
		{name: "interval: below 1s", with: `{interval: 999ms}`, field: "spec.interval", message: intervalMessage},
		{name: "interval: above 24h", with: `{interval: 24h1s}`, field: "spec.interval", message: intervalMessage},
		{name: "interval: zero", with: `{interval: 0s}`, field: "spec.interval", message: intervalMessage},
		{name: "interval: without unit", with: `{interval: "10"}`, field: "spec.interval", message: intervalPattern},
		{name: "interval: negative", with: `{interval: -10s}`, field: "spec.interval", message: intervalPattern},
		{name: "interval: days", with: `{interval: 1d}`, field: "spec.interval", message: intervalPattern},
		{name: "interval: number", with: `{interval: 10}`, field: "spec.interval", message: `must be of type string: "integer"`},

		{name: "versions: with prefix", with: `{versions: [{version: v1.2.3}]}`, field: "spec.versions[0].version", message: listedMessage},
		{name: "versions: word", with: `{versions: [{version: latest}]}`, field: "spec.versions[0].version", message: listedMessage},
		{name: "versions: build", with: `{versions: [{version: 1.2.3+build}]}`, field: "spec.versions[0].version", message: listedMessage},
		{name: "versions: leading zero", with: `{versions: [{version: 1.02.3}]}`, field: "spec.versions[0].version", message: listedMessage},
		{name: "versions: the same twice", with: `{versions: [{version: 1.2.3}, {version: 1.2.3}]}`, field: "spec.versions[1]", message: "Duplicate value"},
		{name: "versions: digest of another algorithm", with: `{versions: [{version: 1.2.3, digest: "md5:00"}]}`,
			field: "spec.versions[0].digest", message: "should match '^sha256:[0-9a-f]{64}$'"},
		{name: "versions: empty list", with: `{versions: []}`, field: "spec.versions", message: "should have at least 1 items"},

		{name: "metadata.name: 63 characters", metadataName: strings.Repeat("a", 63)},
		{name: "metadata.name: 64 characters", metadataName: strings.Repeat("a", 64), field: "<nil>", message: "metadata.name must be no more than 63 characters"},
	},
})
