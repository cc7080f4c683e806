#!/bin/sh
# Cargo's RUSTC_WORKSPACE_WRAPPER: counts the lines of our own crates, not of their dependencies.
exec "$@" -C instrument-coverage
