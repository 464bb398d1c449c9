//! The contract suite: what kapr relies on of the Kubernetes API, written once and run against the sandbox always and
//! against a real cluster when `KAPR_TEST_KUBECONFIG` names one. A difference is a bug of the sandbox. Cases are told
//! the version they run on; nothing else may tell the two apart, except that what only the sandbox can provoke is
//! skipped on a real cluster, visibly.

mod cluster;
mod eviction;
mod faults;
mod objects;
mod refusals;
mod resizes;

/// Runs each case on the sandbox in two versions and on the real cluster.
macro_rules! contract {
    ($($subject:ident: $($case:ident),+;)+) => {
        mod on_the_sandbox_1_37 {
            $($(#[tokio::test(start_paused = true)]
            async fn $case() {
                super::cluster::on_sandbox(kapr::sandbox::Version::V1_37, stringify!($case), super::$subject::$case).await;
            })+)+
        }
        mod on_the_sandbox_1_34 {
            $($(#[tokio::test(start_paused = true)]
            async fn $case() {
                super::cluster::on_sandbox(kapr::sandbox::Version::V1_34, stringify!($case), super::$subject::$case).await;
            })+)+
        }
        mod on_a_real_cluster {
            $($(#[tokio::test]
            async fn $case() {
                super::cluster::on_real(stringify!($case), super::$subject::$case).await;
            })+)+
        }
    };
}

contract! {
    refusals: refused_by_validation, refused_by_the_main_endpoint, refused_patches, node_capacity, limit_range, quota,
        wrong_uid, order_of_containers, stale_version;
    resizes: status_order, no_change, dry_run, deferred_until_room, restart_container, sidecar, adds_a_limit, events,
        managed_fields;
    faults: below_usage_and_the_cure, watch_too_old;
    objects: config_map_compare_and_swap, lease_conflict, pages, watch_from_a_version, watch_with_a_selector,
        label_selector, deployment_generations, delete_preconditions, delete_with_a_body_ignores_the_query, metadata_only,
        access_review, missing_things, stateful_names;
    eviction: budget_allows_none, uid_precondition, dry_run_of_an_eviction, budget_counts_down;
}
