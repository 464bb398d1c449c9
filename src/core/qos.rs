//! The QOS class that Kubernetes gives a pod. A resize that would change it is refused by the API server.
//!
//! Rules: `pkg/apis/core/v1/helper/qos` (`ComputePodQOS`) over all containers, init containers and sidecars included.

use super::pod::QosClass;
use super::resources::{Key, Resources};

/// The class of a pod with these containers (every container of the pod, of any role). A limit without a request
/// counts as a request too, as the API server fills it in. Zero counts as absent.
pub fn qos_class<'a>(containers: impl IntoIterator<Item = &'a Resources>) -> QosClass {
    let mut any = false;
    let mut guaranteed = true;
    for block in containers {
        let block = block.with_implied_requests();
        for (request, limit) in Key::PAIRS {
            let (request, limit) = (positive(&block, request), positive(&block, limit));
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && request == limit;
        }
    }
    match (any, guaranteed) {
        (false, _) => QosClass::BestEffort,
        (true, true) => QosClass::Guaranteed,
        (true, false) => QosClass::Burstable,
    }
}

fn positive(block: &Resources, key: Key) -> Option<u64> {
    block.get(key).filter(|value| *value > 0)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::core::testing::block;

    #[rstest]
    #[case(&[""], QosClass::BestEffort)]
    #[case(&[], QosClass::BestEffort)]
    #[case(&["requests.cpu=0"], QosClass::BestEffort)]
    #[case(&["requests.cpu=1m"], QosClass::Burstable)]
    #[case(&["requests.cpu=1,limits.cpu=1"], QosClass::Burstable)]
    #[case(&["requests.cpu=1,limits.cpu=1,requests.memory=1Gi,limits.memory=1Gi"], QosClass::Guaranteed)]
    #[case(&["limits.cpu=1,limits.memory=1Gi"], QosClass::Guaranteed)]
    #[case(&["requests.cpu=1,limits.cpu=2,requests.memory=1Gi,limits.memory=1Gi"], QosClass::Burstable)]
    #[case(&["limits.cpu=1,limits.memory=1Gi", ""], QosClass::Burstable)]
    #[case(&["limits.cpu=1,limits.memory=1Gi", "limits.cpu=1"], QosClass::Burstable)]
    #[case(&["limits.cpu=1,limits.memory=1Gi", "limits.cpu=2,limits.memory=1Mi"], QosClass::Guaranteed)]
    fn classes(#[case] containers: &[&str], #[case] want: QosClass) {
        let blocks = containers.iter().map(|text| block(text)).collect::<Vec<_>>();
        assert_eq!(qos_class(&blocks), want);
    }
}
