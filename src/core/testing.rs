//! Small builders for the tests of the core: blocks and pods in one line. Compiled for tests only.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::pod::{ContainerRole, ContainerState, ContainerView, PodPhase, PodUid, PodView, QosClass, RestartsOn};
use super::quantity::{Bytes, Millicores};
use super::resources::{ContainerResources, Key, Resources};

/// `requests.cpu=250m,limits.memory=1Gi` as a block.
pub fn block(text: &str) -> Resources {
    let mut out = Resources::default();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (path, value) = part.split_once('=').unwrap();
        let key = Key::ALL.into_iter().find(|key| key.path() == path).unwrap();
        let value =
            if key.is_cpu() { Millicores::parse(value).unwrap().get() } else { Bytes::parse(value).unwrap().get() };
        out.set(key, Some(value));
    }
    out
}

/// Containers by name, each in the form of [`block`].
pub fn containers(list: &[(&str, &str)]) -> ContainerResources {
    list.iter().map(|(name, text)| ((*name).to_owned(), block(text))).collect()
}

/// Any block with small values, each of which may be absent.
pub fn any_block() -> impl Strategy<Value = Resources> {
    proptest::array::uniform4(proptest::option::of(0u64..4)).prop_map(|values| {
        let mut out = Resources::default();
        for (key, value) in Key::ALL.into_iter().zip(values) {
            out.set(key, value);
        }
        out
    })
}

/// A running, ready regular container with these values, never restarted.
pub fn container(desired: Resources) -> ContainerView {
    ContainerView {
        role: ContainerRole::Regular,
        position: 0,
        desired,
        allocated: Some(desired.requests),
        actual: Some(desired),
        restarts_on: RestartsOn::default(),
        restart_count: 0,
        state: ContainerState::Running { since: None, ready: true },
        last_end: None,
    }
}

/// A running, ready pod `web-0` with these containers and the class they give.
pub fn pod(list: &[(&str, &str)]) -> PodView {
    let containers: BTreeMap<Box<str>, _> =
        list.iter().map(|(name, text)| ((*name).into(), container(block(text)))).collect();
    let mut pod = PodView {
        name: "web-0".into(),
        uid: PodUid::new("pod-uid-0"),
        resource_version: "1".into(),
        generation: 1,
        observed_generation: Some(1),
        node: Some("n1".into()),
        owner_uid: Some("rs-uid".into()),
        created_at: Some(jiff::Timestamp::UNIX_EPOCH),
        template_hash: Some("abc".into()),
        phase: PodPhase::Running,
        terminating: false,
        qos: QosClass::BestEffort,
        oddity: None,
        ready_since: Some(jiff::Timestamp::UNIX_EPOCH),
        resize_pending: None,
        resize_in_progress: None,
        containers,
    };
    pod.qos = super::qos::qos_class(pod.containers.values().map(|container| &container.desired));
    pod
}
