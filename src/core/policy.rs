//! How a run proceeds: every field is a flag of `rollout` and a field of the recommendation file.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::share::Steps;

/// What to do with a pod whose resize stays Deferred for longer than the timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnDeferred {
    /// The step fails and the run is rolled back.
    #[default]
    Fail,
    /// The pod is put back to its baseline, named in the result, and the run goes on without it.
    Skip,
}

/// The settings of a run, all decided.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    pub steps: Steps,
    /// After a step's pods are at target and ready: how long to wait before the next step.
    #[serde(with = "duration_text")]
    pub pause: Duration,
    /// How long every pod of the step must have been ready without a break.
    #[serde(with = "duration_text")]
    pub min_ready: Duration,
    /// Pods that may be on their way (patched, not yet at target) at the same time.
    pub max_in_flight: usize,
    /// Pods that may be restarting because of their `resizePolicy` at the same time.
    pub max_unavailable: usize,
    /// A pod that is not at target this long after its patch (and not Deferred) fails the step.
    #[serde(with = "duration_text")]
    pub resize_timeout: Duration,
    #[serde(with = "duration_text")]
    pub deferred_timeout: Duration,
    pub on_deferred: OnDeferred,
    /// Take changes that cannot be undone in place.
    pub allow_one_way: bool,
    /// Leave pods of older templates alone.
    pub only_current: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            steps: Steps::default(),
            pause: Duration::from_mins(1),
            min_ready: Duration::from_secs(10),
            max_in_flight: 32,
            max_unavailable: 1,
            resize_timeout: Duration::from_mins(5),
            deferred_timeout: Duration::from_mins(10),
            on_deferred: OnDeferred::Fail,
            allow_one_way: false,
            only_current: false,
        }
    }
}

/// The settings somebody wrote down: the policy part of a file, or the flags. What is absent is left to the next source.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PolicyPatch {
    pub steps: Option<Steps>,
    #[serde(with = "duration_text::option")]
    pub pause: Option<Duration>,
    #[serde(with = "duration_text::option")]
    pub min_ready: Option<Duration>,
    pub max_in_flight: Option<usize>,
    pub max_unavailable: Option<usize>,
    #[serde(with = "duration_text::option")]
    pub resize_timeout: Option<Duration>,
    #[serde(with = "duration_text::option")]
    pub deferred_timeout: Option<Duration>,
    pub on_deferred: Option<OnDeferred>,
    pub allow_one_way: Option<bool>,
    pub only_current: Option<bool>,
}

impl PolicyPatch {
    /// `policy` with every setting of this patch put in.
    pub fn over(&self, policy: Policy) -> Policy {
        Policy {
            steps: self.steps.clone().unwrap_or(policy.steps),
            pause: self.pause.unwrap_or(policy.pause),
            min_ready: self.min_ready.unwrap_or(policy.min_ready),
            max_in_flight: self.max_in_flight.unwrap_or(policy.max_in_flight),
            max_unavailable: self.max_unavailable.unwrap_or(policy.max_unavailable),
            resize_timeout: self.resize_timeout.unwrap_or(policy.resize_timeout),
            deferred_timeout: self.deferred_timeout.unwrap_or(policy.deferred_timeout),
            on_deferred: self.on_deferred.unwrap_or(policy.on_deferred),
            allow_one_way: self.allow_one_way.unwrap_or(policy.allow_one_way),
            only_current: self.only_current.unwrap_or(policy.only_current),
        }
    }
}

/// Durations as people write them: `1m`, `1h 30m`, `0s`.
pub mod duration_text {
    use std::borrow::Cow;
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(*value))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        humantime::parse_duration(&text).map_err(|_| {
            serde::de::Error::custom(format!(
                "{text:?} is not a duration: write a number with a unit, such as 30s, 5m or 1h30m"
            ))
        })
    }

    /// The same for a value that may be absent.
    pub mod option {
        use std::time::Duration;

        use serde::{Deserialize, Deserializer, Serialize, Serializer};

        #[derive(Serialize, Deserialize)]
        struct Text(#[serde(with = "super")] Duration);

        pub fn serialize<S: Serializer>(value: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
            value.map(Text).serialize(serializer)
        }

        pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
            Ok(Option::<Text>::deserialize(deserializer)?.map(|text| text.0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_wins_where_it_speaks() {
        let patch: PolicyPatch = serde_json::from_str(r#"{"pause":"5s","steps":["1","100%"]}"#).unwrap();
        let got = patch.over(Policy::default());
        assert_eq!(got.pause, Duration::from_secs(5));
        assert_eq!(got.steps.to_string(), "1,100%");
        assert_eq!(got.min_ready, Policy::default().min_ready);
    }

    #[test]
    fn a_policy_reads_back() {
        let text = serde_json::to_string(&Policy::default()).unwrap();
        assert_eq!(serde_json::from_str::<Policy>(&text).unwrap(), Policy::default());
    }

    #[test]
    fn unknown_settings_and_bare_numbers_are_errors() {
        assert!(serde_json::from_str::<PolicyPatch>(r#"{"pauses":"5s"}"#).is_err());
        assert!(serde_json::from_str::<PolicyPatch>(r#"{"pause":"5"}"#).is_err());
    }
}
