//! Steps: which share of the eligible pods shall be at target, as a percentage or a number.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `25%` of the eligible pods, or `3` of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Share {
    /// 1 to 100.
    Percent(u8),
    /// 1 or more; more than there are pods means all of them.
    Count(u32),
}

/// Steps in order. Never empty; the last one is what the run ends with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(transparent)]
pub struct Steps(Vec<Share>);

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ShareError {
    #[error("{0:?} is not a step: write a percentage such as 25%, or a number of pods such as 3")]
    Malformed(String),
    #[error("step {0:?} is out of range: a percentage is 1% to 100%, a number of pods is 1 or more")]
    OutOfRange(String),
    #[error("there is no step: write at least one, such as 10%,25%,50%,100%")]
    Empty,
    #[error("step {later} comes after {earlier} but is smaller: steps only grow")]
    Shrinks { earlier: Share, later: Share },
}

impl Share {
    /// How many of `n` eligible pods this share is: `ceil(n*P/100)`, never more than `n`.
    pub fn of(self, n: usize) -> usize {
        match self {
            Self::Percent(percent) => (n * usize::from(percent)).div_ceil(100).min(n),
            Self::Count(count) => usize::try_from(count).unwrap_or(usize::MAX).min(n),
        }
    }
}

impl FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, ShareError> {
        let malformed = || ShareError::Malformed(text.to_owned());
        let digits = text.strip_suffix('%').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(malformed());
        }
        let value = digits.parse::<u32>().map_err(|_| ShareError::OutOfRange(text.to_owned()))?;
        let share = match (text.ends_with('%'), u8::try_from(value)) {
            (true, Ok(percent @ 1..=100)) => Self::Percent(percent),
            (false, _) if value >= 1 => Self::Count(value),
            _ => return Err(ShareError::OutOfRange(text.to_owned())),
        };
        Ok(share)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::Count(count) => write!(f, "{count}"),
        }
    }
}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Share {
    /// `25%`, `"3"` and a bare `3` are all taken, as with kubectl's int-or-string values.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Share;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a step such as 25% or 3")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Share, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Share, E> {
                value.to_string().parse().map_err(E::custom)
            }
            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Share, E> {
                value.to_string().parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl Steps {
    /// Checks that there is a step and that comparable neighbours grow. A number beside a percentage is compared when
    /// the number of pods is known: a step that adds nothing passes at once.
    pub fn new(shares: Vec<Share>) -> Result<Self, ShareError> {
        if shares.is_empty() {
            return Err(ShareError::Empty);
        }
        for pair in shares.windows(2) {
            let (earlier, later) = (pair[0], pair[1]);
            let shrinks = match (earlier, later) {
                (Share::Percent(a), Share::Percent(b)) => b < a,
                (Share::Count(a), Share::Count(b)) => b < a,
                (Share::Percent(_), Share::Count(_)) | (Share::Count(_), Share::Percent(_)) => false,
            };
            if shrinks {
                return Err(ShareError::Shrinks { earlier, later });
            }
        }
        Ok(Self(shares))
    }

    pub fn shares(&self) -> &[Share] {
        &self.0
    }
}

impl Default for Steps {
    fn default() -> Self {
        Self(vec![Share::Percent(10), Share::Percent(25), Share::Percent(50), Share::Percent(100)])
    }
}

impl FromStr for Steps {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, ShareError> {
        let parts = text.split(',').map(str::trim).collect::<Vec<_>>();
        if parts == [""] {
            return Err(ShareError::Empty);
        }
        Self::new(parts.into_iter().map(str::parse).collect::<Result<_, _>>()?)
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, share) in self.0.iter().enumerate() {
            write!(f, "{}{share}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Steps {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(Vec::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("10%", 11, 2)]
    #[case("25%", 11, 3)]
    #[case("100%", 11, 11)]
    #[case("1%", 1, 1)]
    #[case("50%", 0, 0)]
    #[case("3", 11, 3)]
    #[case("30", 11, 11)]
    fn share_of_pods(#[case] share: &str, #[case] n: usize, #[case] want: usize) {
        assert_eq!(share.parse::<Share>().unwrap().of(n), want);
    }

    #[rstest]
    #[case("0%")]
    #[case("101%")]
    #[case("0")]
    #[case("-1")]
    #[case("1.5%")]
    #[case("")]
    #[case("10%,")]
    #[case("50%,25%")]
    #[case("4294967296")]
    #[case("5,3")]
    fn bad_steps(#[case] text: &str) {
        assert!(text.parse::<Steps>().is_err(), "{text:?} was accepted");
    }

    #[test]
    fn mixed_steps_and_spaces_are_taken() {
        assert_eq!("1, 25%, 100%".parse::<Steps>().unwrap().to_string(), "1,25%,100%");
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in ".{0,30}") {
            let _ = text.parse::<Steps>();
        }

        #[test]
        fn a_larger_percentage_is_never_fewer_pods(n in 0usize..20_000, a in 1u8..=100, b in 1u8..=100) {
            let (small, large) = (a.min(b), a.max(b));
            prop_assert!(Share::Percent(small).of(n) <= Share::Percent(large).of(n));
        }
    }
}
