# What CI runs, all of it.
check:
    .ci/run

test:
    cargo test

lint:
    cargo fmt --check
    cargo clippy --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --no-deps

# Writes the generated files: command reference, exit codes, RBAC roles, manual pages, completions.
reference:
    cargo run -q -- reference

# On real clusters: needs root and ../shared/kube (KAPR_KUBE_DIR names another folder).
e2e *arguments:
    tests/e2e.sh {{arguments}}

demo:
    cargo run --release -- demo
