//! The settings of a run as flags; what is not given is left to the file, then to the default.

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::core::policy::{OnDeferred, PolicyPatch};
use crate::core::share::Steps;

// Each flag is a field of `spec.policy` in the recommendation file.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Run options")]
pub struct PolicyFlags {
    /// Shares of the eligible pods, or numbers of pods, one after the other [default: 10%,25%,50%,100%]
    #[arg(long, value_name = "SHARES")]
    pub steps: Option<Steps>,
    /// How long to wait after each step [default: 1m]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub pause: Option<Duration>,
    /// How long the pods of a step must have been ready without a break [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub min_ready: Option<Duration>,
    /// Pods that may be on their way to the new values at the same time [default: 32]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub max_in_flight: Option<usize>,
    /// Pods that may be restarting at the same time, where `resizePolicy` says `RestartContainer` [default: 1]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub max_unavailable: Option<usize>,
    /// A pod that is not at target this long after its patch fails the run [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub resize_timeout: Option<Duration>,
    /// A pod whose resize stays Deferred for this long fails the run [default: 10m]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub deferred_timeout: Option<Duration>,
    /// What to do with a pod that stays Deferred [default: fail]
    #[arg(long, value_name = "ACTION", value_enum)]
    pub on_deferred: Option<OnDeferredFlag>,
    /// Take changes that cannot be undone in place
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub allow_one_way: Option<bool>,
    /// Leave pods of older templates alone
    #[arg(long, num_args = 0..=1, default_missing_value = "true", require_equals = true, value_name = "BOOL")]
    pub only_current: Option<bool>,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDeferredFlag {
    Fail,
    Skip,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(n) if n >= 1 => Ok(n),
        _ => Err("write a number of pods, 1 or more".to_owned()),
    }
}

impl PolicyFlags {
    pub fn patch(&self) -> PolicyPatch {
        PolicyPatch {
            steps: self.steps.clone(),
            pause: self.pause,
            min_ready: self.min_ready,
            max_in_flight: self.max_in_flight,
            max_unavailable: self.max_unavailable,
            resize_timeout: self.resize_timeout,
            deferred_timeout: self.deferred_timeout,
            on_deferred: self.on_deferred.map(|flag| match flag {
                OnDeferredFlag::Fail => OnDeferred::Fail,
                OnDeferredFlag::Skip => OnDeferred::Skip,
            }),
            allow_one_way: self.allow_one_way,
            only_current: self.only_current,
        }
    }
}
