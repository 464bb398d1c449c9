//! Requests and limits of one container, and the few operations the product needs on them.
//!
//! An absent value is absent, never zero: nothing here invents a key or drops one.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::quantity::{Bytes, Millicores};

/// CPU and memory, each of which may be absent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Amounts {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Millicores>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
}

/// The resource block of one container, as far as in-place resize may change it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    #[serde(default, skip_serializing_if = "Amounts::is_empty")]
    pub requests: Amounts,
    #[serde(default, skip_serializing_if = "Amounts::is_empty")]
    pub limits: Amounts,
}

/// Container name to resource block: what a pod has, or what it shall have.
pub type ContainerResources = BTreeMap<String, Resources>;

/// One of the four values of a block, by the path a kubectl user knows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Key {
    #[serde(rename = "requests.cpu")]
    RequestsCpu,
    #[serde(rename = "requests.memory")]
    RequestsMemory,
    #[serde(rename = "limits.cpu")]
    LimitsCpu,
    #[serde(rename = "limits.memory")]
    LimitsMemory,
}

impl Key {
    pub const ALL: [Self; 4] = [Self::RequestsCpu, Self::RequestsMemory, Self::LimitsCpu, Self::LimitsMemory];

    /// Each request with its limit.
    pub const PAIRS: [(Self, Self); 2] =
        [(Self::RequestsCpu, Self::LimitsCpu), (Self::RequestsMemory, Self::LimitsMemory)];

    pub const fn path(self) -> &'static str {
        match self {
            Self::RequestsCpu => "requests.cpu",
            Self::RequestsMemory => "requests.memory",
            Self::LimitsCpu => "limits.cpu",
            Self::LimitsMemory => "limits.memory",
        }
    }

    /// Whether the key is an amount of CPU (otherwise memory).
    pub const fn is_cpu(self) -> bool {
        matches!(self, Self::RequestsCpu | Self::LimitsCpu)
    }

    /// The value as kubectl would print it.
    pub fn show(self, value: u64) -> String {
        if self.is_cpu() { Millicores::new(value).to_string() } else { Bytes::new(value).to_string() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path())
    }
}

impl Amounts {
    pub const fn is_empty(&self) -> bool {
        self.cpu.is_none() && self.memory.is_none()
    }
}

impl Resources {
    pub const fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.limits.is_empty()
    }

    /// The value of a key: millicores or bytes.
    pub fn get(&self, key: Key) -> Option<u64> {
        match key {
            Key::RequestsCpu => self.requests.cpu.map(Millicores::get),
            Key::RequestsMemory => self.requests.memory.map(Bytes::get),
            Key::LimitsCpu => self.limits.cpu.map(Millicores::get),
            Key::LimitsMemory => self.limits.memory.map(Bytes::get),
        }
    }

    /// Sets or clears a key: millicores or bytes.
    pub fn set(&mut self, key: Key, value: Option<u64>) {
        match key {
            Key::RequestsCpu => self.requests.cpu = value.map(Millicores::new),
            Key::RequestsMemory => self.requests.memory = value.map(Bytes::new),
            Key::LimitsCpu => self.limits.cpu = value.map(Millicores::new),
            Key::LimitsMemory => self.limits.memory = value.map(Bytes::new),
        }
    }

    /// The keys that are present, with their values.
    pub fn present(&self) -> impl Iterator<Item = (Key, u64)> + '_ {
        Key::ALL.into_iter().filter_map(|key| self.get(key).map(|value| (key, value)))
    }

    /// This block with every key that `over` names replaced; nothing else changes.
    pub fn overlaid(&self, over: &Self) -> Self {
        let mut out = *self;
        for (key, value) in over.present() {
            out.set(key, Some(value));
        }
        out
    }

    /// The keys of this block that differ from `current`: what a patch has to carry.
    pub fn changes_from(&self, current: &Self) -> Self {
        let mut out = Self::default();
        for (key, value) in self.present() {
            if current.get(key) != Some(value) {
                out.set(key, Some(value));
            }
        }
        out
    }

    /// This block with the request that the API server itself adds where only a limit is set: it copies the limit
    /// (`SetDefaults_Pod`, which also runs on the result of a resize patch; seen on 1.37).
    pub fn with_implied_requests(&self) -> Self {
        let mut out = *self;
        for (request, limit) in Key::PAIRS {
            if out.get(request).is_none() {
                out.set(request, out.get(limit));
            }
        }
        out
    }

    /// The first request that is above its limit, as the pair of keys.
    pub fn request_above_limit(&self) -> Option<(Key, Key)> {
        Key::PAIRS.into_iter().find(
            |&(request, limit)| matches!((self.get(request), self.get(limit)), (Some(low), Some(high)) if low > high),
        )
    }

    /// The keys that `before` lacks and this block has. They cannot be taken away again in place: the API server
    /// answers 422 `resource limits cannot be removed` (validation of the resize subresource).
    pub fn added_to(&self, before: &Self) -> Vec<Key> {
        self.present().map(|(key, _)| key).filter(|key| before.get(*key).is_none()).collect()
    }
}

impl fmt::Display for Resources {
    /// `requests.cpu=250m,limits.memory=256Mi`, the form of `--set`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (key, value) in self.present() {
            write!(f, "{separator}{key}={}", key.show(value))?;
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(text: &str) -> Resources {
        let mut out = Resources::default();
        for part in text.split(',').filter(|p| !p.is_empty()) {
            let (path, value) = part.split_once('=').unwrap();
            let key = Key::ALL.into_iter().find(|k| k.path() == path).unwrap();
            let value =
                if key.is_cpu() { Millicores::parse(value).unwrap().get() } else { Bytes::parse(value).unwrap().get() };
            out.set(key, Some(value));
        }
        out
    }

    #[test]
    fn an_overlay_changes_only_what_it_names() {
        let have = block("requests.cpu=100m,requests.memory=64Mi,limits.memory=128Mi");
        let got = have.overlaid(&block("requests.cpu=250m"));
        assert_eq!(got, block("requests.cpu=250m,requests.memory=64Mi,limits.memory=128Mi"));
    }

    #[test]
    fn a_patch_carries_only_what_differs() {
        let want = block("requests.cpu=250m,limits.memory=128Mi");
        assert_eq!(want.changes_from(&block("requests.cpu=100m,limits.memory=128Mi")), block("requests.cpu=250m"));
    }

    #[test]
    fn added_keys_are_named() {
        let want = block("requests.cpu=250m,limits.cpu=1");
        assert_eq!(want.added_to(&block("requests.cpu=100m")), vec![Key::LimitsCpu]);
    }

    #[test]
    fn shown_in_the_form_of_set() {
        assert_eq!(
            block("limits.memory=1.5Gi,requests.cpu=0.25").to_string(),
            "requests.cpu=250m,limits.memory=1536Mi"
        );
    }
}
