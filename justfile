# Daily commands. `just --list` shows them.

# All tests, hermetic.
test *ARGS:
    cargo test --workspace {{ARGS}}

# The checks that need no build of everything: format, lints, dependencies, documents.
lint:
    cargo fmt --all -- --check
    cargo clippy --workspace --all-targets --all-features -- -D warnings
    cargo deny --log-level error check bans licenses sources
    docs/check

# Format the workspace.
fmt:
    cargo fmt --all

# API documentation of the workspace.
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --all-features

# The demo on an embedded API server.
demo:
    cargo run --release -- demo

# Suites against real peers: all of them, or those that are named.
e2e *NAMES:
    e2e/run {{NAMES}}

# Every fuzz target for this many seconds.
fuzz SECONDS="60":
    fuzz/run {{SECONDS}}

# Everything that CI runs.
ci:
    .ci/run
