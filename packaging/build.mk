# What packages of every kind have in common: how the programs are built, so that the same commit, compiler and libraries give the
# same bytes in any folder, and the staged tree. Included by packaging/debian/rules; packaging/rpm/ringtap.spec calls it. Both run
# at the root of a copy of the repository.
#
#   make -f packaging/build.mk built
#   make -f packaging/build.mk staged STAGE=FOLDER

export CARGO_TARGET_DIR ?= $(CURDIR)/target
# cargo comes from PATH: a distribution's is older than the workspace asks for.
export CARGO ?= cargo
REGISTRY = $(or $(CARGO_HOME),$(HOME)/.cargo)
# Where rust-src is installed the compiler writes its folder for the standard library's own files, else /rustc/COMMIT.
STANDARD = $(shell rustc --print sysroot)/lib/rustlib/src/rust
RUSTC_COMMIT = $(shell rustc -vV | sed -n 's/^commit-hash: //p')
export RUSTFLAGS = --remap-path-prefix=$(CURDIR)=/usr/src/ringtap --remap-path-prefix=$(CARGO_TARGET_DIR)=/usr/src/target \
	--remap-path-prefix=$(REGISTRY)=/usr/src/cargo --remap-path-prefix=$(STANDARD)=/rustc/$(RUSTC_COMMIT)
# C inside crates: zstd, SQLite, PCRE2, ring.
export CFLAGS = -O2 -fstack-protector-strong -ffile-prefix-map=$(REGISTRY)=/usr/src/cargo -ffile-prefix-map=$(CARGO_TARGET_DIR)=/usr/src/target
# Packages are stripped.
export CARGO_PROFILE_RELEASE_DEBUG = 0
# Not the system's where it happens to be installed: the same library everywhere.
export PCRE2_SYS_STATIC = 1
export CARGO_INCREMENTAL = 0

.PHONY: built staged

built:
	$(MAKE) build man completions build-pcap licences sbom

staged:
	$(MAKE) install install-pcap install-services DESTDIR=$(STAGE) PREFIX=/usr
	install -d $(STAGE)/usr/share/doc/ringtap/examples
	install -m 644 packaging/examples/*.toml $(STAGE)/usr/share/doc/ringtap/examples/
	for package in ringtap libringtap-pcap; do \
		install -D -m 644 $(CARGO_TARGET_DIR)/THIRD-PARTY $(STAGE)/usr/share/doc/$$package/THIRD-PARTY && \
		install -m 644 $(CARGO_TARGET_DIR)/sbom/$$package.cdx.json $(STAGE)/usr/share/doc/$$package/ || exit 1; \
	done
