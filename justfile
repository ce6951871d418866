# What was just changed: format, clippy, the tests of the binaries it belongs to.
quick *binaries:
    .ci/quick {{binaries}}

# What CI runs.
check:
    .ci/run

# Fuzzing, killing and soaking: about an hour.
long *part:
    .ci/long {{part}}

# The tests with every feature; a name selects some of them.
test *filter:
    cargo test --all-features {{filter}}

# Measurements.
bench *filter:
    cargo bench {{filter}}

# Formatting, and what clippy can repair by itself.
fix:
    cargo fmt
    cargo clippy --all-features --all-targets --fix --allow-dirty

# Writes the recorded API and compiler messages anew.
record:
    UPDATE_PUBLIC_API=1 cargo test --all-features --test house public_api
    TRYBUILD=overwrite cargo test --features testing --test house compile_fail
