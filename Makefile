# The two commands a newcomer needs are `make demo` and `make test`; both do their own set-up.

CARGO      ?= cargo
PREFIX     ?= /usr/local
BINDIR     ?= $(PREFIX)/bin
MANDIR     ?= $(PREFIX)/share/man/man1
# Rules of the correlator, each with its test.
RULESDIR   ?= $(PREFIX)/share/ringtap/rules/correlation
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
# Apart from the system's libpcap: nothing finds this folder unless it is told to.
PCAPDIR    ?= $(PREFIX)/lib/ringtap
PCAPMANDIR ?= $(PREFIX)/share/man/man7
DEMO_ARGS  ?=
TEST_ARGS  ?=
# Of ringtap bench; without --out in them the results go to bench-results/.
BENCH_ARGS ?= --out bench-results

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
RINGTAP    := $(TARGET_DIR)/release/ringtap
MAN_OUT    := $(TARGET_DIR)/man
COMPLETIONS_OUT := $(TARGET_DIR)/completions
PCAP_BUILT := $(TARGET_DIR)/release/libringtap_pcap.so
C_BUILT    := $(TARGET_DIR)/release/libringtap_c.so
C_STATIC   := $(TARGET_DIR)/release/libringtap_c.a
DPDK_BUILT := $(TARGET_DIR)/release/libringtap-dpdk.so

export CARGO

LINTS := lint-format lint-clippy lint-doc lint-deny lint-shell lint-links lint-sizes lint-alerts

.PHONY: help setup build demo test test-long fuzz miri conformance wasm flink scale-demo lab lab-ci lint $(LINTS) man completions licences sbom install uninstall install-services deb deb-test rpm build-pcap install-pcap uninstall-pcap leak-pcap build-c install-c uninstall-c build-dpdk install-dpdk uninstall-dpdk bench clean

help: ## this list
	@echo 'make TARGET, where TARGET is one of:'
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/  \1 \2/p' $(MAKEFILE_LIST) | awk '{ name = $$1; $$1 = ""; printf "  %-15s%s\n", name, $$0 }'
	@echo
	@echo 'Variables: PREFIX (/usr/local), DESTDIR, DEMO_ARGS, TEST_ARGS (arguments of cargo test), BENCH_ARGS,'
	@echo 'RINGTAP_CONFORMANCE (folder of third-party test data; "make test" uses it where it is),'
	@echo 'KERNEL and NIC (one cell of the lab; lab/run --list has them);'
	@echo 'ALLOW_MISSING=1 makes "make test" warn, not fail, about tests that lack a privilege or a peer.'

setup: ## install what is missing for demo and test (says what, and why)
	scripts/setup test

build: ## the release binary
	$(CARGO) build --release -p ringtap-cli

demo: ## set up, build, and prove on a private testbed that nothing is lost (as root)
	scripts/setup demo
	$(CARGO) build --release -p ringtap-cli
	scripts/as-root 'make a private network testbed, load BPF programs and run a real-time thread' $(RINGTAP) demo $(DEMO_ARGS)

test: ## set up and run all tests, those of the kernel as root; ends with one summary line
	scripts/setup test
	scripts/test $(TEST_ARGS)

test-long: ## the tests that take a minute and more each: a storm of traps, valgrind, endurance (leak-pcap has its whole length), the benchmark of everybody
	scripts/setup test
	MINUTES=$(or $(MINUTES),1) CYCLES=$(or $(CYCLES),50000) LIVE_CYCLES=$(or $(LIVE_CYCLES),500) XDP_CYCLES=$(or $(XDP_CYCLES),50) scripts/test --workspace --tests -- --ignored --test-threads 1

fuzz: ## a minute of fuzzing for each target, from its committed corpus (FUZZ_SECONDS=, TARGETS=, JOBS=)
	scripts/setup fuzz
	scripts/fuzz $(TARGETS)

miri: ## Miri over the unsafe code of the rings, with the kernel or card played by the tests (JOBS=)
	scripts/setup fuzz
	scripts/miri

conformance: ## hold it against third-party data: captures, rules and detection cases in RINGTAP_CONFORMANCE or ../shared/data
	scripts/setup test
	scripts/test --conformance

wasm: ## ringtap-sigma for wasm32, and its vectors inside wasm: the same bytes as natively
	scripts/setup ci
	scripts/wasm

flink: ## the correlator's Flink job and its tests, with the vectors as JVM bytecode (wants a JDK 17 and Maven; FLINK_ARGS=package makes the jar)
	scripts/flink $(FLINK_ARGS)

scale-demo: build ## a Kafka broker and a Flink cluster on loopback: killed in mid-window, and the same incidents as `ringtap correlate` (wants a JDK 17 and Maven)
	scripts/setup ci
	RINGTAP=$(RINGTAP) scripts/scale-demo $(SCALE_ARGS)

# CI takes what its tests built: features of dependencies differ without the tests, and all of it would be built once more.
LAB_BUILD = -p ringtap-lab -p ringtap-cli
lab: ## boot real kernels and network card models in QEMU and check Ringtap inside; all cells, or KERNEL=7-rt NIC=igb
	scripts/setup lab
	$(CARGO) build $(LAB_BUILD)
	RINGTAP_LAB_PROGRAM=$(TARGET_DIR)/debug/ringtap-lab lab/run $(if $(KERNEL)$(NIC),$(KERNEL) $(NIC),--all)

lab-ci: ## the cell of the lab that CI runs: a real-time kernel and a card's driver with zero-copy
	$(MAKE) lab KERNEL=7-rt NIC=igb LAB_BUILD='--workspace --bins --tests'
	RINGTAP_LAB_PROGRAM=$(TARGET_DIR)/debug/ringtap-lab lab/bad-input 7-rt igb

lint: $(LINTS) ## format, clippy, docs, licences, scripts, links, sizes, alert rules (scripts/setup ci installs the tools)

lint-format:
	$(CARGO) fmt --all --check

lint-clippy:
	$(CARGO) clippy --workspace --all-targets -- -D warnings

lint-doc:
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps

# Not advisories: that database is fetched at every run, and a check must not depend on the day it is made.
lint-deny:
	$(CARGO) deny check licenses bans sources

lint-shell:
	shellcheck $(filter-out scripts/lint-links scripts/licences,$(wildcard scripts/*)) .ci/run packaging/units-test lab/run lab/kernel lab/initramfs lab/bad-input
	shellcheck -s sh lab/init

# Files and headings inside the repository; the web is not asked.
lint-links:
	scripts/lint-links

lint-sizes:
	scripts/lint-sizes

lint-alerts:
	scripts/promtool check rules deploy/prometheus/ringtap.rules.yml
	scripts/promtool test rules deploy/prometheus/ringtap.rules.test.yml

man: build ## the manual pages, into target/man
	mkdir -p $(MAN_OUT)
	$(RINGTAP) man --out $(MAN_OUT)

completions: build ## completions of bash, zsh and fish, into target/completions
	$(RINGTAP) completions --out $(COMPLETIONS_OUT)

licences: ## the licences of all that is compiled in, into target/THIRD-PARTY
	scripts/licences $(TARGET_DIR)/THIRD-PARTY

sbom: ## what is inside the programs, as CycloneDX, into target/sbom
	scripts/sbom $(TARGET_DIR)/sbom

install: ## copy binary, manual pages, completions and the correlator's rules under PREFIX (after: make build man completions)
	@test -x $(RINGTAP) && test -f $(MAN_OUT)/ringtap.1 && test -f $(COMPLETIONS_OUT)/ringtap.bash || { echo 'Nothing built yet: run "make build man completions" as yourself, then "make install" as root.' >&2; exit 1; }
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(MANDIR)
	install -m 755 $(RINGTAP) $(DESTDIR)$(BINDIR)/ringtap
	install -m 644 $(MAN_OUT)/*.1 $(DESTDIR)$(MANDIR)/
	install -D -m 644 $(COMPLETIONS_OUT)/ringtap.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/ringtap
	install -D -m 644 $(COMPLETIONS_OUT)/_ringtap $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_ringtap
	install -D -m 644 $(COMPLETIONS_OUT)/ringtap.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/ringtap.fish
	install -d $(DESTDIR)$(RULESDIR)/base $(DESTDIR)$(RULESDIR)/tests
	install -m 644 rules/correlation/*.yml $(DESTDIR)$(RULESDIR)/
	install -m 644 rules/correlation/base/*.yml $(DESTDIR)$(RULESDIR)/base/
	install -m 644 rules/correlation/tests/*.toml $(DESTDIR)$(RULESDIR)/tests/

# Rules of one's own that were put beside ours stay.
uninstall: ## remove what install copied (same PREFIX)
	rm -f $(DESTDIR)$(BINDIR)/ringtap $(DESTDIR)$(MANDIR)/ringtap.1 $(DESTDIR)$(MANDIR)/ringtap-*.1
	rm -f $(DESTDIR)$(PREFIX)/share/bash-completion/completions/ringtap $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_ringtap $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/ringtap.fish
	find rules/correlation -type f -printf '$(DESTDIR)$(RULESDIR)/%P\n' | xargs -d '\n' rm -f
	for folder in base tests .; do rmdir $(DESTDIR)$(RULESDIR)/$$folder 2>/dev/null || :; done

bench: ## set up and measure this host with all peers (as root, hours; BENCH_ARGS='--quick --out DIR' takes minutes)
	scripts/setup test
	$(CARGO) build --release -p ringtap-cli
	scripts/as-root 'make a private network testbed and read cycle counters' $(RINGTAP) bench $(BENCH_ARGS)

build-pcap: ## Ringtap's libpcap
	$(CARGO) build --release -p ringtap-pcap

install-pcap: ## copy libpcap, headers, pkg-config file and manual under PREFIX, beside the system's (after: make build-pcap)
	@test -f $(PCAP_BUILT) || { echo 'Nothing built yet: run "make build-pcap" as yourself, then "make install-pcap" as root.' >&2; exit 1; }
	install -d $(DESTDIR)$(PCAPDIR)/pkgconfig $(DESTDIR)$(PCAPDIR)/include/pcap $(DESTDIR)$(PCAPMANDIR)
	install -m 644 $(PCAP_BUILT) $(DESTDIR)$(PCAPDIR)/libpcap.so.0.8
	ln -sf libpcap.so.0.8 $(DESTDIR)$(PCAPDIR)/libpcap.so.1
	ln -sf libpcap.so.0.8 $(DESTDIR)$(PCAPDIR)/libpcap.so
	scripts/pcap-headers $(DESTDIR)$(PCAPDIR)/include
	sed -e 's|@PCAPDIR@|$(PCAPDIR)|' -e "s|@VERSION@|$$(pkg-config --modversion libpcap)|" packaging/libpcap.pc.in >$(DESTDIR)$(PCAPDIR)/pkgconfig/libpcap.pc
	install -m 644 docs/ringtap-pcap.7 $(DESTDIR)$(PCAPMANDIR)/ringtap-pcap.7

uninstall-pcap: ## remove what install-pcap copied (same PREFIX)
	rm -rf $(DESTDIR)$(PCAPDIR) $(DESTDIR)$(PCAPMANDIR)/ringtap-pcap.7

build-c: ## libringtap, the C library (docs/c-api.md)
	$(CARGO) build --release -p ringtap-c

install-c: ## copy it with header and pkg-config file under PREFIX (after: make build-c)
	@test -f $(C_BUILT) && test -f $(C_STATIC) || { echo 'Nothing built yet: run "make build-c" as yourself, then "make install-c" as root.' >&2; exit 1; }
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(INCLUDEDIR)
	install -m 644 $(C_BUILT) $(DESTDIR)$(LIBDIR)/libringtap.so.0
	ln -sf libringtap.so.0 $(DESTDIR)$(LIBDIR)/libringtap.so
	install -m 644 $(C_STATIC) $(DESTDIR)$(LIBDIR)/libringtap.a
	install -m 644 crates/ringtap-c/include/ringtap.h $(DESTDIR)$(INCLUDEDIR)/ringtap.h
	sed -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' -e "s|@VERSION@|$$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)|" packaging/ringtap.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/ringtap.pc
	test -n "$(DESTDIR)" || ldconfig

uninstall-c: ## remove what install-c copied (same PREFIX)
	rm -f $(DESTDIR)$(LIBDIR)/libringtap.so.0 $(DESTDIR)$(LIBDIR)/libringtap.so $(DESTDIR)$(LIBDIR)/libringtap.a
	rm -f $(DESTDIR)$(LIBDIR)/pkgconfig/ringtap.pc $(DESTDIR)$(INCLUDEDIR)/ringtap.h

build-dpdk: ## what --backend dpdk loads, against the DPDK that pkg-config finds (docs/dpdk.md)
	scripts/dpdk $(dir $(DPDK_BUILT))

install-dpdk: ## copy it under PREFIX (after: make build-dpdk)
	@test -f $(DPDK_BUILT) || { echo 'Nothing built yet: run "make build-dpdk" as yourself, then "make install-dpdk" as root.' >&2; exit 1; }
	install -D -m 644 $(DPDK_BUILT) $(DESTDIR)$(LIBDIR)/libringtap-dpdk.so
	test -n "$(DESTDIR)" || ldconfig

uninstall-dpdk: ## remove what install-dpdk copied (same PREFIX)
	rm -f $(DESTDIR)$(LIBDIR)/libringtap-dpdk.so

install-services: ## copy systemd units, and what makes their user and folders, under PREFIX (their programs are /usr/bin's)
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system $(DESTDIR)/etc/ringtap
	install -m 644 packaging/systemd/*.service $(DESTDIR)$(PREFIX)/lib/systemd/system/
	sed -i 's|/usr/bin/ringtap|$(BINDIR)/ringtap|' $(addprefix $(DESTDIR)$(PREFIX)/lib/systemd/system/,$(notdir $(wildcard packaging/systemd/*.service)))
	install -D -m 644 packaging/systemd/sysusers.conf $(DESTDIR)$(PREFIX)/lib/sysusers.d/ringtap.conf
	install -D -m 644 packaging/systemd/tmpfiles.conf $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/ringtap.conf
	install -m 600 packaging/ringtap.toml $(DESTDIR)/etc/ringtap/
	install -m 644 packaging/sensor.rules $(DESTDIR)/etc/ringtap/

deb: ## Debian packages, into target/deb (wants what scripts/setup ci installs; the same commit gives the same bytes)
	scripts/deb

deb-test: ## those packages in a clean Debian root: installed, used, upgraded, purged (as root, with the network; after: make deb)
	scripts/deb-test

rpm: ## RPM packages, into target/rpm (on the distribution they are for)
	scripts/rpm

leak-pcap: ## the libpcap's long tests: odd calls, a million cycles, an hour's capture (MINUTES=, CYCLES=, LIVE_CYCLES=, XDP_CYCLES= shorten them; JOBS=)
	scripts/setup test
	scripts/test -p ringtap-pcap --test net_endurance -- --ignored --nocapture --test-threads 1

clean: ## remove everything built
	$(CARGO) clean
