#!/usr/bin/env bash
# Kills real processes at random moments and compares what the chief logs as lost with what is really missing from the last
# checkpoint: chief and server 0 killed together, server 0 killed while the chief is stopped, a server killed again while it
# is being restored.
#
#   tests/acceptance/losses.sh [RUNS]     # of each kind; 20 unless given
set -euo pipefail
cd "$(dirname "$0")/../.."
PHALANX_CHAOS=${1:-20} timeout --kill-after=10 3600 cargo test -p phalanx-tests --test it -- \
  --test-threads=1 --nocapture returning::what_is_lost returning::a_server_that_dies_again
