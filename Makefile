# Percale. `make` alone lists the targets.

PREFIX  ?= /usr/local
DESTDIR ?=
ifneq ($(words $(PREFIX)) $(words $(DESTDIR)),1 $(if $(DESTDIR),1,0))
$(error PREFIX ("$(PREFIX)") and DESTDIR ("$(DESTDIR)") cannot contain blanks)
endif
override PREFIX := $(abspath $(PREFIX))
override DESTDIR := $(abspath $(DESTDIR))
CARGO   ?= cargo
PYTHON  ?= python3
CFLAGS  ?= -O2

# Version of the C interface, as pkg-config and `fi_version` tell it.
INTERFACE := 2.6.0
RELEASE   := target/release
MSRV      := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml).0
HEADERS   := $(shell cd ffi/include && find rdma -type f -name '*.h')
# What a static link of the archive needs besides.
PRIVATE_LIBS := -lpthread -ldl -lm -lgcc_s

.DEFAULT_GOAL := help
.PHONY: help build demo test test-mpi test-vm conformance fuzz bench bench-tcp lint miri asan msrv install uninstall docs clean

help: ## this list
	@echo "Percale: libfabric.so.1 in Rust"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## release build: libfabric.so.1, libfabric.a, the percale command and its manual
	$(CARGO) build --release --locked -p percale-ffi -p percale --features percale/cli
	ln -sfn libfabric.so $(RELEASE)/libfabric.so.1
	mkdir -p $(RELEASE)/libexec
	$(CC) $(CFLAGS) -Wall -Wextra -I ffi/include ffi/libexec/percale-bench.c -o $(RELEASE)/libexec/percale-bench -ldl
	$(RELEASE)/percale pages $(RELEASE)/share

demo: ## unmodified fi_pingpong and MPI on this build, with figures beside upstream's
	$(PYTHON) tests/demo/demo.py

test: ## everything that must hold; ends with one line of totals
	$(PYTHON) tests/run.py

test-mpi: build ## MPICH, Intel MPI and Open MPI: C programs, IMB, all of mpi4py's suite; MPI="-p tcp --quick"
ifdef MPI
	$(PYTHON) tests/mpi/run.py $(MPI)
else
	$(PYTHON) tests/mpi/run.py
	$(PYTHON) tests/mpi/run.py -p tcp
	$(PYTHON) tests/mpi/run.py -p 'tcp;ofi_rxm'
endif

test-vm: build ## programs on soft RDMA devices, in virtual machines; VM="-v 'rping*'"
	$(PYTHON) tests/vm/suite.py --all $(VM)

conformance: build ## what the manual pages promise, asked of all providers; CONFORMANCE="-p tcp 'rma/*'"
ifdef CONFORMANCE
	$(PYTHON) tests/conformance/run.py $(CONFORMANCE)
else
	$(PYTHON) tests/conformance/run.py -p shm
	$(PYTHON) tests/conformance/run.py -p tcp
	$(PYTHON) tests/conformance/run.py -p tcp -e msg
	$(PYTHON) tests/conformance/run.py -p 'tcp;ofi_rxm'
endif

fuzz: ## parsers of bytes from the network on inputs by libFuzzer; FUZZ="--seconds 600 head"
	$(PYTHON) tests/fuzz/run.py $(FUZZ)

bench: build ## fi_pingpong against other libfabric builds; tables in build/bench
	$(PYTHON) tests/bench/pingpong.py $(BENCH)

bench-tcp: build ## tcp against another libfabric and bare sockets, loopback and veth; BENCH="--brief -n 3"
	$(PYTHON) tests/bench/tcp.py $(BENCH)

lint: ## formatting, clippy, documentation, licences of dependencies
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path tests/fuzz/Cargo.toml --check
	$(CARGO) fmt --manifest-path tests/bindings/Cargo.toml --check
	$(CARGO) fmt --manifest-path tests/oracle/Cargo.toml --check
	$(CARGO) clippy --workspace --all-features --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --all-features --no-deps --locked
	@if command -v cargo-deny >/dev/null; then \
		$(CARGO) fetch --locked && $(CARGO) deny --offline check licenses bans sources; \
	else \
		echo "cargo-deny is not installed: dependency rules were not checked"; \
	fi

# Root may install without Rust what somebody else has built.
install: ## what was built, into PREFIX (/usr/local): library, headers, libfabric.pc, percale with its manual; honours DESTDIR
	@test -e $(RELEASE)/share/man/man1/percale.1 || $(MAKE) build
	install -d "$(DESTDIR)$(PREFIX)/bin" "$(DESTDIR)$(PREFIX)/lib/pkgconfig"
	install -s -m 755 $(RELEASE)/libfabric.so "$(DESTDIR)$(PREFIX)/lib/libfabric.so.1"
	ln -sfn libfabric.so.1 "$(DESTDIR)$(PREFIX)/lib/libfabric.so"
	install -m 644 $(RELEASE)/libfabric.a "$(DESTDIR)$(PREFIX)/lib/libfabric.a"
	strip --strip-debug "$(DESTDIR)$(PREFIX)/lib/libfabric.a"
	install -s -m 755 $(RELEASE)/percale "$(DESTDIR)$(PREFIX)/bin/percale"
	install -D -s -m 755 $(RELEASE)/libexec/percale-bench "$(DESTDIR)$(PREFIX)/libexec/percale/percale-bench"
	cd $(RELEASE)/share && find . -type f -exec install -D -m 644 {} "$(DESTDIR)$(PREFIX)/share/{}" \;
	for header in $(HEADERS); do \
		install -D -m 644 "ffi/include/$$header" "$(DESTDIR)$(PREFIX)/include/$$header" || exit 1; \
	done
	sed -e 's|@prefix@|$(PREFIX)|' -e 's|@version@|$(INTERFACE)|' \
		-e 's|@private_libs@|$(PRIVATE_LIBS)|' ffi/libfabric.pc.in \
		> "$(DESTDIR)$(PREFIX)/lib/pkgconfig/libfabric.pc"

uninstall: ## takes away what `make install` put into PREFIX
	! cd "$(DESTDIR)$(PREFIX)" 2>/dev/null || rm -f bin/percale lib/libfabric.so.1 lib/libfabric.so \
		lib/libfabric.a lib/pkgconfig/libfabric.pc $(addprefix include/,$(HEADERS)) \
		libexec/percale/percale-bench share/man/man1/percale.1 share/man/man1/percale-*.1 \
		share/bash-completion/completions/percale share/zsh/site-functions/_percale \
		share/fish/vendor_completions.d/percale.fish

miri: ## what Miri can run of the Rust interface: buffers, views, abandoned operations (nightly toolchain)
	MIRIFLAGS=-Zmiri-disable-isolation $(CARGO) +nightly miri test -p percale --lib -- \
		buf:: memory:: op:: queue::table region::view stats::

asan: ## tests of the Rust interface under AddressSanitizer (nightly toolchain)
	RUSTFLAGS=-Zsanitizer=address $(CARGO) +nightly test -p percale --all-features --lib --test api \
		--target x86_64-unknown-linux-gnu --target-dir target/asan

msrv: ## that the oldest compiler that Cargo.toml names is enough (its toolchain)
	$(CARGO) +$(MSRV) check --workspace --all-features --locked --target-dir target/msrv

docs: ## the book, where mdbook is installed, into build/book
	@command -v mdbook >/dev/null || { echo "mdbook is not installed: cargo install mdbook --locked"; exit 1; }
	mdbook build docs --dest-dir $(abspath build/book)

clean: ## removes what builds made
	$(CARGO) clean
	rm -rf build
