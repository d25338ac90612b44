# Developer commands; `make help` lists them.
#
# The only prerequisite is Go: tools are built at the versions that hack/tools and hack/localcluster
# pin.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := $(CURDIR)/bin
NODES ?= simulated
VERSION ?= dev
# All programs and tests are built in the same way, because each other way compiles all packages again, which takes minutes:
# without cgo, and with the paths of sources, except in releases.
export CGO_ENABLED = 0
TRIMPATH = $(if $(filter dev,$(VERSION)),,-trimpath)
# The commit and its time; empty outside of a repository. Go's own record of them, which depends on the tags of a clone, is
# left out, so that a build can be repeated.
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null)
DATE ?= $(shell git log -1 --format=%cI 2>/dev/null)
GO_BUILD = go build $(TRIMPATH) -buildvcs=false -ldflags "-s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT) -X main.date=$(DATE)"
# Evaluated lazily: the first build of the API server takes minutes.
ASSETS = $(shell $(BIN)/localcluster binaries --nodes simulated)
TEST_FLAGS ?=
# A folder for the names of tests that failed and then passed when they were run again; without it no test is run again.
FLAKY_REPORTS ?=
# $(call go-test,flags,packages)
go-test = $(if $(FLAKY_REPORTS),\
	$(BIN)/gotestsum --format standard-verbose --hide-summary skipped --rerun-fails=1 --rerun-fails-max-failures=6 \
		--rerun-fails-report "$$(mktemp -p "$(FLAKY_REPORTS)")" --packages "$(2)" -- $(1),\
	go test $(1) $(2))
# $(call journeys,nodes): journeys that fail are run again, with a new cluster.
journeys = export QUOIN_E2E_NODES=$(1); failed=$$(mktemp); run=(go test $(TEST_FLAGS) -count=1 -timeout 30m ./test/e2e); \
	if QUOIN_FAILED_JOURNEYS=$$failed "$${run[@]}"; then rm $$failed; \
	elif [ -n "$(FLAKY_REPORTS)" ] && [ -s $$failed ]; then \
		echo "the journeys that failed are run again: $$(cat $$failed)"; \
		"$${run[@]}" -ginkgo.fail-on-empty -ginkgo.focus="$$(cat $$failed)" && \
		{ sed 's/^/journeys on $(1) nodes: /' $$failed >"$$(mktemp -p "$(FLAKY_REPORTS)")"; rm $$failed; }; \
	else exit 1; fi
# BENCH_FLAGS=-docs writes the results of a benchmark to docs/operations/sizing.md.
BENCH_FLAGS ?=

##@ A local cluster

.PHONY: up
up: $(BIN)/localcluster ## Start a cluster with Quoin and a sample account (NODES=simulated, or NODES=real for Cube on a real node: Linux, root).
	@$(BIN)/localcluster up --nodes $(NODES)

.PHONY: down
down: $(BIN)/localcluster ## Stop the cluster and all its processes.
	@$(BIN)/localcluster down

.PHONY: push
push: $(BIN)/localcluster ## Push a new version of the sample server or, with NODES=real, of Cube: make push TAG=v1.2.4
	@# The store first: a version is complete when the channel sees it.
	@$(BIN)/localcluster push cube-store $(TAG)
	@$(BIN)/localcluster push cube $(TAG)

.PHONY: observe
observe: ## Scrape the cluster of make up with Prometheus, and run all queries of the dashboard and the alerts.
	QUOIN_OBSERVE=$(CURDIR)/.local go test $(TEST_FLAGS) -v -count=1 -run TestDashboardOnLocalCluster ./test/monitoring

.PHONY: session
session: $(BIN)/localcluster ## Record docs/plugin-session.md: every command of the plugin on a cluster with simulated nodes.
	KUBEBUILDER_ASSETS="$(ASSETS)" go test $(TEST_FLAGS) -count=1 -timeout 20m -run TestSession ./test/session -update

##@ Build

.PHONY: build
build: ## Build bin/quoin.
	$(GO_BUILD) -o $(BIN)/quoin ./cmd/quoin

# Platforms of the plugin's archives.
PLUGIN_PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

.PHONY: plugin
plugin: ## Archives of the kubectl plugin and its krew manifest in dist: make plugin VERSION=v1.2.3 URL=https://example.com/releases/v1.2.3
	@mkdir -p dist
	for platform in $(PLUGIN_PLATFORMS); do \
		os=$${platform%/*} arch=$${platform#*/} folder=$$(mktemp -d) program=kubectl-quoin; \
		if [ $$os = windows ]; then program+=.exe; fi; \
		GOOS=$$os GOARCH=$$arch $(GO_BUILD) -o $$folder/$$program ./cmd/quoin; \
		cp LICENSE $$folder; \
		tar --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="$(or $(DATE),1970-01-01)" -C $$folder -cf - LICENSE $$program | gzip -n > dist/kubectl-quoin_$${os}_$$arch.tar.gz; \
		rm -r $$folder; \
	done
	go run ./hack/krew --version $(VERSION) --url $(URL) dist/kubectl-quoin_*.tar.gz > dist/quoin.yaml

# Labels of images. The time is that of the commit, so that a build can be repeated.
IMAGE_LABELS = --version "$(VERSION)" --revision "$(COMMIT)" --created "$(DATE)"

.PHONY: image
image: build ## Build an OCI image without a container engine: make image PUSH=127.0.0.1:15000/quoin:dev
	go run ./hack/image --binary $(BIN)/quoin $(IMAGE_LABELS) $(if $(PUSH),--push $(PUSH),--tarball $(BIN)/quoin.tar)

.PHONY: dbt-image
dbt-image: $(BIN)/localcluster ## Build an image with dbt from PyPI without a container engine: make dbt-image PUSH=127.0.0.1:15000/dbt:1.10.13
	@$(BIN)/localcluster dbt-image --install-packages $(if $(PUSH),--push $(PUSH),--tarball $(BIN)/dbt.tar)

# Architectures of the image, repository of the image and address of the folder of a release.
ARCHITECTURES ?= amd64 arm64
IMAGE ?= ghcr.io/quoin-dev/quoin
RELEASE_URL = $(or $(URL),https://github.com/quoin-dev/quoin/releases/download/$(VERSION))

.PHONY: release
release: $(BIN)/localcluster ## All files of a release in dist: make release VERSION=v1.2.3
	rm -rf dist
	$(MAKE) --no-print-directory plugin URL="$(RELEASE_URL)"
	$(MAKE) --no-print-directory docs-site
	tar --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="$(or $(DATE),1970-01-01)" --transform 's,^html,quoin-docs-$(VERSION),' -C $(BIN)/docs-site -cf - html | gzip -n > dist/quoin-docs-$(VERSION).tar.gz
	for arch in $(ARCHITECTURES); do GOOS=linux GOARCH=$$arch $(GO_BUILD) -o $(BIN)/release/quoin-$$arch ./cmd/quoin; done
	digest=$$(go run ./hack/image $(ARCHITECTURES:%=--binary $(BIN)/release/quoin-%) $(IMAGE_LABELS) --layout dist/quoin-image-$(VERSION).tar); \
	go run ./hack/release --version "$(VERSION)" --date "$(DATE)" --image "$(IMAGE)" --digest "$$digest" \
		--kubectl "$(ASSETS)/kubectl" $(ARCHITECTURES:%=--binary $(BIN)/release/quoin-%)
	@ls -l dist

# The branch or tag to which the documentation links.
DOCS_SITE_REF = $(if $(filter dev,$(VERSION)),main,$(VERSION))

.PHONY: docs-site
docs-site: $(BIN)/docs-site/ready ## The documentation as a site in bin/docs-site/html; a broken link is an error (needs Python 3 with venv).
	go run ./hack/docs-site/reference --version "$(VERSION)" --out $(BIN)/docs-site/reference
	DOCS_SITE_REFERENCE=$(BIN)/docs-site/reference DOCS_SITE_REF=$(DOCS_SITE_REF) SOURCE_DATE_EPOCH=$(or $(shell git log -1 --format=%ct 2>/dev/null),0) NO_MKDOCS_2_WARNING=1 \
		$(BIN)/docs-site/venv/bin/mkdocs build --strict --quiet --config-file hack/docs-site/mkdocs.yml --site-dir $(BIN)/docs-site/html

.PHONY: generate
generate: $(BIN)/controller-gen ## Regenerate derived files: deepcopy, CRDs, RBAC, chart, reference.
	$(BIN)/controller-gen object:headerFile=hack/boilerplate.go.txt paths=./api/...
	go run ./hack/manifests
	go run ./hack/argocd
	$(BIN)/controller-gen crd paths=./api/... output:crd:dir=config/crd/bases
	$(BIN)/controller-gen rbac:roleName=quoin-controller paths="./controllers/...;./cmd/quoin/..." output:rbac:dir=config/rbac
	$(BIN)/controller-gen rbac:roleName=quoin-apiserver,fileName=apiserver_role.yaml paths="./apiserver/..." output:rbac:dir=config/rbac
	$(BIN)/controller-gen rbac:roleName=quoin-gateway,fileName=gateway_role.yaml paths="./gateway/..." output:rbac:dir=config/rbac
	go run ./hack/chart
	go run ./hack/docs

##@ Check

.PHONY: test
test: lint test-unit test-cluster ## All tests that need no root.

.PHONY: test-unit
test-unit: $(BIN)/localcluster ## Unit, CRD, controller and chart tests, on a real API server.
	@# One after the other, and all of them if one fails.
	@$(MAKE) --no-print-directory --keep-going --jobs=1 test-packages test-suites test-localcluster

.PHONY: test-packages
test-packages: $(BIN)/localcluster $(if $(FLAKY_REPORTS),$(BIN)/gotestsum)
	KUBEBUILDER_ASSETS="$(ASSETS)" $(call go-test,-timeout 40m $(TEST_FLAGS),$$(go list ./... | grep -v /test/))

.PHONY: test-suites
test-suites: $(BIN)/localcluster $(if $(FLAKY_REPORTS),$(BIN)/gotestsum)
	@# -count=1: these tests run binaries that they build, which the test cache does not track. The
	@# first package mostly waits, so the others run in parallel with it.
	KUBEBUILDER_ASSETS="$(ASSETS)" $(call go-test,-timeout 40m -count=1 $(TEST_FLAGS),./test/controllers $$(go list ./test/... | grep -v -e /test/e2e -e /test/controllers))
	go test $(TEST_FLAGS) -tags memory ./test/contract/scim/... ./test/security/scim

.PHONY: test-localcluster
test-localcluster:
	cd hack/localcluster && go test $(TEST_FLAGS) ./...

.PHONY: test-cluster
test-cluster: $(BIN)/localcluster build ## Journeys on simulated nodes.
	@# Build the binaries of the cluster first: it takes minutes, and go test would not show progress.
	@$(BIN)/localcluster binaries --nodes simulated >/dev/null
	@$(call journeys,simulated)

.PHONY: e2e
e2e: $(BIN)/localcluster build ## Journeys on a real node with real containers (Linux, root).
	@$(BIN)/localcluster binaries --nodes real >/dev/null
	@$(call journeys,real)

# The number of deployments of make upgrade-check, and the commit that is upgraded.
DEPLOYMENTS ?= 200
FROM ?= HEAD~1

.PHONY: upgrade-check
upgrade-check: $(BIN)/localcluster build ## Upgrade the chart and the processes of a commit under load (DEPLOYMENTS=200 FROM=HEAD~1).
	@$(BIN)/localcluster binaries --nodes simulated >/dev/null
	@# In its folder go test prints the steps while it runs.
	cd test/e2e && QUOIN_E2E_NODES=simulated QUOIN_UPGRADE=$(DEPLOYMENTS) QUOIN_UPGRADE_FROM=$(FROM) \
		go test $(TEST_FLAGS) -count=1 -timeout 40m -ginkgo.focus='Upgrade of a fleet' -ginkgo.v -ginkgo.no-color

.PHONY: rbac-check
rbac-check: ## Compare the roles with the requests of a test run: export QUOIN_AUDIT_LOGS=/tmp/audit; make test rbac-check
	go run ./hack/rbac "$(QUOIN_AUDIT_LOGS)"

# The time in which faults are tried, and the order of the faults: make chaos FAULTS_SEED=5 repeats the order of a run.
FAULTS_TIME ?= 8m
FAULTS_SEED ?=

.PHONY: chaos
chaos: $(BIN)/localcluster ## Faults in a sample of the controllers' API calls: 10 minutes, ends with a table (FAULTS_TIME=8m FAULTS_SEED=5).
	@# In its folder go test prints the table also if no test fails.
	cd test/controllers && KUBEBUILDER_ASSETS="$(ASSETS)" QUOIN_FAULTS_TIME=$(FAULTS_TIME) QUOIN_FAULTS_SEED=$(FAULTS_SEED) \
		go test $(TEST_FLAGS) -count=1 -timeout 1h -run TestSampleOfFaults

.PHONY: chaos-all
chaos-all: $(BIN)/localcluster ## Fault injection at every API call of the controllers, one at a time (hours).
	KUBEBUILDER_ASSETS="$(ASSETS)" QUOIN_FAULTS=all go test $(TEST_FLAGS) -count=1 -timeout 12h -run TestFaultAtEveryCall ./test/controllers

# The time of make soak, 3m or more.
SOAK_TIME ?= 10m

.PHONY: soak
soak: $(BIN)/localcluster ## Faults of cluster, database, registry and Git while clients write and query: 10 minutes, ends with tables (SOAK_TIME=10m).
	@$(BIN)/localcluster binaries --nodes simulated >/dev/null
	@# In its folder go test prints the tables also if no test fails.
	cd test/bench/soak && QUOIN_SOAK=$(SOAK_TIME) go test $(TEST_FLAGS) -count=1 -timeout 3h -run TestSoak

# The time for each fuzz test.
FUZZ_TIME ?= 20s

.PHONY: fuzz
fuzz: ## New inputs for each parser: half an hour (FUZZ_TIME=20s).
	@# Minimization is off: while coverage differs from run to run it would take all the time.
	@failed=; for f in $$(git grep -oE '^func Fuzz[A-Za-z0-9]+' -- '*_test.go' ':!hack' | sed 's/:func /:/'); do \
		echo "== $$f"; \
		go test -run '^$$' -fuzz "^$${f#*:}\$$" -fuzztime $(FUZZ_TIME) -fuzzminimizetime 1x "./$$(dirname $${f%:*})" || failed="$$failed $$f"; \
	done; test -z "$$failed" || { echo "failed:$$failed"; exit 1; }

.PHONY: bench-rollout
bench-rollout: $(BIN)/localcluster build ## Roll out 1,000 deployments, compared with patching the same workloads directly.
	go run ./test/bench/rollout $(BENCH_FLAGS)

.PHONY: bench-rest
bench-rest: $(BIN)/localcluster build ## List 1,000 deployments over REST, compared with the same list from the API server.
	KUBEBUILDER_ASSETS="$(ASSETS)" go run ./test/bench/rest $(BENCH_FLAGS)

.PHONY: bench-scim
bench-scim: $(BIN)/localcluster build ## SCIM at 100,000 users, compared with raw creates and gets, and with scimmy (npm).
	KUBEBUILDER_ASSETS="$(ASSETS)" go run ./test/bench/scim $(BENCH_FLAGS)

.PHONY: bench-auth
bench-auth: $(BIN)/localcluster ## Authentications a second with keys, JWTs and access tokens, compared with none; permissions by 100 roles and 10,000 groups.
	KUBEBUILDER_ASSETS="$(ASSETS)" go run ./test/bench/auth $(BENCH_FLAGS)

.PHONY: bench-audit
bench-audit: ## The audit log at 1,000,000 events, in PostgreSQL and SQLite, compared with psql's \copy.
	go run ./test/bench/audit $(BENCH_FLAGS)

.PHONY: bench-content
bench-content: ## Workspace content at 100,000 items: feeds, searches, upserts, publications, in PostgreSQL and SQLite, compared with plain SQL.
	go run ./test/bench/content $(BENCH_FLAGS)

.PHONY: bench-chat
bench-chat: $(BIN)/localcluster build ## 500 streams of chats from a scripted model: latency, memory, compared with a bare proxy of NDJSON.
	KUBEBUILDER_ASSETS="$(ASSETS)" go run ./test/bench/chat $(BENCH_FLAGS)

.PHONY: bench-dbt
bench-dbt: ## Conversions of manifests of dbt with up to 5,000 models: time and memory.
	go run ./test/bench/dbt $(BENCH_FLAGS)

.PHONY: bench-model
bench-model: $(BIN)/localcluster build ## Uploads of 2,000 files over REST, compared with git push to git http-backend, and lists of 10,000 files.
	KUBEBUILDER_ASSETS="$(ASSETS)" go run ./test/bench/model $(BENCH_FLAGS)

.PHONY: bench-gateway
bench-gateway: $(BIN)/localcluster build ## The data API through the gateway, compared with Caddy and nginx in front of the same backend.
	KUBEBUILDER_ASSETS="$(ASSETS)" go run ./test/bench/gateway $(BENCH_FLAGS)

.PHONY: bench-neighbour
bench-neighbour: $(BIN)/localcluster build ## One tenant's p99 while another one, or anyone, attacks gateway, API server and controller.
	KUBEBUILDER_ASSETS="$(ASSETS)" go run ./test/bench/neighbour $(BENCH_FLAGS)

# The numbers of deployments and of users of make bench-scale. Those of the documentation are
# SCALE_DEPLOYMENTS=1000,3000,10000 SCALE_USERS=10000,100000,1000000.
SCALE_DEPLOYMENTS ?= 300,1000
SCALE_USERS ?= 10000,30000

.PHONY: bench-scale
bench-scale: ## What grows with deployments and users, beside the bars: minutes; an hour with SCALE_DEPLOYMENTS=1000,10000 SCALE_USERS=100000,1000000.
	@$(MAKE) --no-print-directory --jobs=1 bench-scale-users bench-scale-fleet

.PHONY: bench-scale-fleet
bench-scale-fleet: $(BIN)/localcluster build ## Rollouts, restarts, queues and memory with numbers of deployments (SCALE_DEPLOYMENTS=1000,10000).
	KUBEBUILDER_ASSETS="$(ASSETS)" go run ./test/bench/scale-fleet -sizes $(SCALE_DEPLOYMENTS) $(BENCH_FLAGS)

.PHONY: bench-scale-users
bench-scale-users: $(BIN)/localcluster build ## Memory, start, lookups and pages with numbers of users (SCALE_USERS=100000,1000000).
	KUBEBUILDER_ASSETS="$(ASSETS)" go run ./test/bench/scale-users -sizes $(SCALE_USERS) $(BENCH_FLAGS)

.PHONY: lint
lint: lint-go prose ## Static checks of code and prose.

.PHONY: lint-go
lint-go: $(BIN)/golangci-lint
	@# A cache per clone: a shared cache reports file names of another clone.
	GOLANGCI_LINT_CACHE=$(BIN)/.golangci-cache $(BIN)/golangci-lint run

.PHONY: prose
prose: $(BIN)/vale ## Words and sentences of comments and documentation.
	@# Vale reads Go with tree-sitter, so building it needs a C compiler.
	@if [ -x $(BIN)/vale ]; then $(BIN)/vale --output=line $$(git ls-files '*.go' '*.md' ':!*zz_generated*'); \
	else echo "SKIPPED LOUDLY: make prose needs a C compiler (Debian: apt-get install gcc libc6-dev)"; fi

.PHONY: verify
verify: generate ## Fail when generated files are not up to date, or modules not tidy.
	go mod tidy -diff
	@test -z "$$(git status --porcelain)" || { git status --short; echo "make verify: run 'make generate' and commit the result"; exit 1; }

##@ Tools

$(BIN)/localcluster: $(wildcard $(addprefix hack/localcluster/,*.go go.* */*.go */go.* */*.yaml))
	@echo "building localcluster" >&2
	@go build -C hack/localcluster -o $@ .

$(BIN)/controller-gen: hack/tools/go.mod
	go build -C hack/tools -o $@ sigs.k8s.io/controller-tools/cmd/controller-gen

$(BIN)/golangci-lint: hack/tools/golangci-lint/go.mod
	@echo "building golangci-lint (about 4 min cold)" >&2
	@go build -C hack/tools/golangci-lint -ldflags "-s -w" -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(BIN)/gotestsum: hack/tools/gotestsum/go.mod
	go build -C hack/tools/gotestsum -o $@ gotest.tools/gotestsum

$(BIN)/vale: hack/tools/vale/go.mod
	@echo "building vale (about 1 min cold)" >&2
	@if command -v $$(go env CC) >/dev/null; then CGO_ENABLED=1 go build -C hack/tools/vale -ldflags "-s -w" -o $@ github.com/errata-ai/vale/v3/cmd/vale; fi

$(BIN)/docs-site/ready: hack/docs-site/requirements.txt
	@echo "installing the packages of the documentation's site (some seconds)" >&2
	@mkdir -p $(@D)
	@python3 -m venv --clear $(@D)/venv || { echo "make docs-site: needs Python 3 with venv (Debian: apt-get install python3-venv)"; exit 1; }
	@$(@D)/venv/bin/pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	@touch $@

.PHONY: help
help:
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*##/ {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
