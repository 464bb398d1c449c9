#!/usr/bin/env bash
# The end-to-end and contract tests on real clusters, one Kubernetes version after the other. A cluster is taken down
# whatever happens. Needs root (a real node) and the folder that brings clusters up: KAPR_KUBE_DIR, by default
# ../shared/kube beside the repository.
#
#   tests/e2e.sh [VERSION…] [-- MORE ARGUMENTS OF THE TEST RUNNER]
#
# VERSION is 1.37.2 or 1.34.4; both by default.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

kube=${KAPR_KUBE_DIR:-$PWD/../shared/kube}
versions=()
while [ $# -gt 0 ]; do
  case $1 in
    --) shift; break ;;
    *) versions+=("$1"); shift ;;
  esac
done
[ ${#versions[@]} -gt 0 ] || versions=(1.37.2 1.34.4)

if [ ! -x "$kube/cluster" ] || [ "$(id -u)" != 0 ]; then
  echo "skipped: no cluster (needs root and $kube/cluster; KAPR_KUBE_DIR names another folder)" >&2
  exit 0
fi

# Built before, so that no cluster waits for the compiler.
cargo test --no-run

nextest=false
cargo nextest --version >/dev/null 2>&1 && nextest=true

# run_tests V1_37 [ARGUMENTS]: what is written for this version (its name is in the case's name), and what runs on any
# cluster. Without nextest the tests that use up the node's CPUs come after the others, one by one.
run_tests() {
  local version=$1
  shift
  if $nextest; then
    cargo nextest run --no-fail-fast --test-threads 6 \
      -E "test(/^e2e::.*$version/) or test(/^cluster_edge::/) or test(/^contract::on_a_real_cluster/)" "$@"
  else
    local failed=0
    cargo test --test it -- --test-threads=5 "$version" cluster_edge:: contract::on_a_real_cluster --skip e2e::room "$@" || failed=1
    cargo test --test it -- --test-threads=1 e2e::room "$@" || failed=1
    return $failed
  fi
}

folder=$(mktemp -d "${TMPDIR:-/tmp}/kapr-e2e.XXXXXX")
down() {
  for dir in "$folder"/*/; do
    [ -d "$dir" ] && "$kube/cluster" down --dir "${dir%/}" || true
  done
  rmdir "$folder" 2>/dev/null || true
}
trap down EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

failed=0
for version in "${versions[@]}"; do
  minor=${version%.*} # 1.37
  dir=$folder/${minor/./}
  "$kube/cluster" up --dir "$dir" --node --version "$version" >/dev/null
  export "KAPR_E2E_${minor/./}=$dir" "KAPR_TEST_KUBECONFIG=$dir/kubeconfig"
  run_tests "V${minor/./_}" "$@" || failed=1
  unset "KAPR_E2E_${minor/./}" KAPR_TEST_KUBECONFIG
  "$kube/cluster" down --dir "$dir"
done
exit $failed
