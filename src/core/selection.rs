//! Which pods a step takes: the StableHash order of the eligible pods, and the prefix that fills up.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

use super::pod::PodUid;

/// The pods in StableHash order: by SHA-256 over the workload's UID, a newline and the pod's UID. The same on every
/// machine and whatever order they came in; a UID that is given twice comes out once.
pub fn stable_order<'a>(workload_uid: &str, uids: impl IntoIterator<Item = &'a PodUid>) -> Vec<PodUid> {
    let mut keyed = uids
        .into_iter()
        .map(|uid| {
            let mut hash = Sha256::new();
            hash.update(workload_uid.as_bytes());
            hash.update(b"\n");
            hash.update(uid.0.as_bytes());
            (<[u8; 32]>::from(hash.finalize()), uid.clone())
        })
        .collect::<Vec<_>>();
    keyed.sort();
    keyed.dedup();
    keyed.into_iter().map(|(_, uid)| uid).collect()
}

/// The pods that a step wants at target, at least `wanted` of them where there are so many.
///
/// `order` is the stable order of the pods that are there now, `taken` the pods this run has already touched. Taken
/// pods that are still there come first, in order, and all of them: a step never gives a pod back. Then the order
/// fills up. Without churn the answer is the prefix of `order`.
pub fn select(order: &[PodUid], taken: &BTreeSet<PodUid>, wanted: usize) -> Vec<PodUid> {
    let (mut chosen, free): (Vec<_>, Vec<_>) = order.iter().cloned().partition(|uid| taken.contains(uid));
    let missing = wanted.saturating_sub(chosen.len());
    chosen.extend(free.into_iter().take(missing));
    chosen
}

#[cfg(test)]
mod tests {
    use proptest::collection::btree_set;
    use proptest::prelude::*;

    use super::*;
    use crate::core::share::Share;

    fn uids(n: usize) -> Vec<PodUid> {
        (0..n).map(|i| PodUid::new(&format!("00000000-0000-4000-8000-{i:012}"))).collect()
    }

    #[test]
    fn the_order_is_fixed() {
        let order = stable_order("shop", &uids(4));
        let last = order.iter().map(|uid| uid.0.chars().last().unwrap()).collect::<String>();
        assert_eq!(last, ORDER_OF_FOUR);
    }

    /// Worked out once with `printf 'shop\n<uid>' | sha256sum`; another order on another machine would resize other pods.
    const ORDER_OF_FOUR: &str = "2130";

    #[test]
    fn ten_percent_of_eleven_is_two() {
        let order = stable_order("w", &uids(11));
        assert_eq!(select(&order, &BTreeSet::new(), Share::Percent(10).of(11)), order[..2]);
    }

    #[test]
    fn a_replaced_pod_makes_room_for_the_next() {
        let order = stable_order("w", &uids(8));
        let taken = order[..3].iter().cloned().collect::<BTreeSet<_>>();
        let after = [&order[..1], &order[2..]].concat();
        let chosen = select(&after, &taken, 3);
        assert_eq!(chosen, [order[0].clone(), order[2].clone(), order[3].clone()]);
    }

    fn some_uids() -> impl Strategy<Value = BTreeSet<PodUid>> {
        btree_set("[0-9a-f]{4}".prop_map(|text| PodUid::new(&text)), 0..40)
    }

    proptest! {
        #[test]
        fn the_order_does_not_depend_on_the_input_order(uids in some_uids(), workload in "[a-z]{1,6}") {
            let forward = stable_order(&workload, uids.iter());
            prop_assert_eq!(&forward, &stable_order(&workload, uids.iter().rev()));
            prop_assert_eq!(forward.into_iter().collect::<BTreeSet<_>>(), uids);
        }

        #[test]
        fn a_larger_share_never_removes_a_pod(uids in some_uids(), taken in some_uids(), a in 0usize..50, b in 0usize..50) {
            let order = stable_order("w", &uids);
            let small = select(&order, &taken, a.min(b));
            let large = select(&order, &taken, a.max(b));
            prop_assert!(large.starts_with(&small));
        }

        #[test]
        fn without_churn_it_is_the_prefix(uids in some_uids(), first in 0usize..50, then in 0usize..50) {
            let order = stable_order("w", &uids);
            let (first, then) = (first.min(then), first.max(then));
            let taken = select(&order, &BTreeSet::new(), first).into_iter().collect();
            prop_assert_eq!(select(&order, &taken, then), &order[..then.min(order.len())]);
        }

        #[test]
        fn with_churn_taken_pods_stay_and_the_count_is_met(
            before in some_uids(), gone in some_uids(), new in some_uids(), first in 0usize..50, then in 0usize..50,
        ) {
            let taken: BTreeSet<_> = select(&stable_order("w", &before), &BTreeSet::new(), first).into_iter().collect();
            let now = before.difference(&gone).chain(&new).cloned().collect::<BTreeSet<_>>();
            let chosen = select(&stable_order("w", &now), &taken, then);
            let set = chosen.iter().cloned().collect::<BTreeSet<_>>();
            let stayed = taken.intersection(&now).cloned().collect::<BTreeSet<_>>();
            prop_assert!(stayed.is_subset(&set));
            prop_assert!(set.is_subset(&now));
            prop_assert_eq!(chosen.len(), set.len());
            prop_assert_eq!(chosen.len(), then.max(stayed.len()).min(now.len()));
        }
    }
}
