//! CPU and memory amounts as integers, and the Kubernetes quantity grammar that reads and writes them.
//!
//! Grammar and rounding: `k8s.io/apimachinery/pkg/api/resource/quantity.go`. A value is `sign? digits (. digits)?
//! suffix?` with a binary suffix (`Ki`..`Ei`), a decimal suffix (`n u m k M G T P E`) or an exponent (`e3`, `E-1`).
//! Fractions of a millicore or of a byte round up, as Kubernetes does. No floating point anywhere.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// CPU in thousandths of a core.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Millicores(u64);

/// Memory in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Bytes(u64);

/// Why a text is not a quantity. The sentence names the text; the caller names the field.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum QuantityError {
    #[error("{0:?} is not a quantity: write a number with an optional unit, such as 250m, 0.5 or 256Mi")]
    Malformed(String),
    #[error(
        "{text:?} is not a quantity: unknown unit {unit:?} (units are n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or an exponent such as e3)"
    )]
    UnknownUnit { text: String, unit: String },
    #[error("{0:?} is negative: an amount of CPU or memory is zero or more")]
    Negative(String),
    #[error("{0:?} is too large")]
    TooLarge(String),
}

impl Millicores {
    pub const fn new(millicores: u64) -> Self {
        Self(millicores)
    }

    /// Thousandths of a core.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Reads a Kubernetes quantity; a fraction of a millicore rounds up (`0.1m` is `1m`).
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        Decimal::parse(text)?.scaled_up(3, text).map(Self)
    }
}

impl Bytes {
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    pub const fn get(self) -> u64 {
        self.0
    }

    /// Reads a Kubernetes quantity; a fraction of a byte rounds up.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        Decimal::parse(text)?.scaled_up(0, text).map(Self)
    }
}

impl fmt::Display for Millicores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(1000) { write!(f, "{}", self.0 / 1000) } else { write!(f, "{}m", self.0) }
    }
}

impl fmt::Display for Bytes {
    /// The largest binary unit that divides the value; otherwise plain bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 6] =
            [(1 << 60, "Ei"), (1 << 50, "Pi"), (1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")];
        for (size, unit) in UNITS {
            if self.0 >= size && self.0.is_multiple_of(size) {
                return write!(f, "{}{unit}", self.0 / size);
            }
        }
        write!(f, "{}", self.0)
    }
}

/// A mantissa of decimal digits, scaled by a power of ten and a power of two.
struct Decimal {
    digits: u128,
    ten: i32,
    two: u32,
}

/// More digits than this cannot be held exactly; Kubernetes itself caps a quantity at 2^63-1.
const MAX_DIGITS: usize = 36;

impl Decimal {
    fn parse(text: &str) -> Result<Self, QuantityError> {
        let malformed = || QuantityError::Malformed(text.to_owned());
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, unit) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(malformed());
        }
        let fraction = fraction.trim_end_matches('0');
        let all = format!("{}{fraction}", whole.trim_start_matches('0'));
        if all.len() > MAX_DIGITS {
            return Err(QuantityError::TooLarge(text.to_owned()));
        }
        let digits = if all.is_empty() { 0 } else { all.parse::<u128>().map_err(|_| malformed())? };
        let (ten, two) = scale(unit).ok_or_else(|| {
            if unit.is_ascii()
                && !unit.is_empty()
                && unit.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'+')
            {
                QuantityError::UnknownUnit { text: text.to_owned(), unit: unit.to_owned() }
            } else {
                malformed()
            }
        })?;
        if negative && digits != 0 {
            return Err(QuantityError::Negative(text.to_owned()));
        }
        let places = i32::try_from(fraction.len()).map_err(|_| malformed())?;
        Ok(Self { digits, ten: ten.saturating_sub(places), two })
    }

    /// `self * 10^extra`, rounded up to an integer of at most 2^63-1 (the largest quantity Kubernetes holds).
    fn scaled_up(&self, extra: i32, text: &str) -> Result<u64, QuantityError> {
        let too_large = || QuantityError::TooLarge(text.to_owned());
        if self.digits == 0 {
            return Ok(0);
        }
        let binary = self.digits.checked_mul(1u128 << self.two).ok_or_else(too_large)?;
        let exponent = self.ten.saturating_add(extra);
        let power = |n: u32| 10u128.checked_pow(n);
        let value = if exponent >= 0 {
            power(exponent.unsigned_abs()).and_then(|p| binary.checked_mul(p)).ok_or_else(too_large)?
        } else {
            // A power beyond 10^38 is larger than any mantissa we hold: the quotient rounds up to one.
            power(exponent.unsigned_abs()).map_or(1, |p| binary.div_ceil(p))
        };
        u64::try_from(value).ok().filter(|v| i64::try_from(*v).is_ok()).ok_or_else(too_large)
    }
}

/// The power of ten and of two that a unit stands for.
fn scale(unit: &str) -> Option<(i32, u32)> {
    Some(match unit {
        "" => (0, 0),
        "n" => (-9, 0),
        "u" => (-6, 0),
        "m" => (-3, 0),
        "k" => (3, 0),
        "M" => (6, 0),
        "G" => (9, 0),
        "T" => (12, 0),
        "P" => (15, 0),
        "E" => (18, 0),
        "Ki" => (0, 10),
        "Mi" => (0, 20),
        "Gi" => (0, 30),
        "Ti" => (0, 40),
        "Pi" => (0, 50),
        "Ei" => (0, 60),
        _ => {
            let exponent = unit.strip_prefix(['e', 'E'])?;
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if digits.is_empty() || digits.len() > 4 || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            (exponent.parse().ok()?, 0)
        }
    })
}

macro_rules! quantity_text {
    ($type:ident) => {
        impl std::str::FromStr for $type {
            type Err = QuantityError;
            fn from_str(text: &str) -> Result<Self, QuantityError> {
                Self::parse(text)
            }
        }
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}
quantity_text!(Millicores);
quantity_text!(Bytes);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("250m", 250)]
    #[case("0.1", 100)]
    #[case("1", 1000)]
    #[case("1e3", 1_000_000)]
    #[case("12e-1", 1200)]
    #[case("0.1m", 1)]
    #[case("1u", 1)]
    #[case("1500000n", 2)]
    #[case(".5", 500)]
    #[case("5.", 5000)]
    #[case("+2", 2000)]
    #[case("-0", 0)]
    fn cpu(#[case] text: &str, #[case] millicores: u64) {
        assert_eq!(Millicores::parse(text), Ok(Millicores::new(millicores)));
    }

    #[rstest]
    #[case("1.5Gi", 1_610_612_736)]
    #[case("0.5Gi", 536_870_912)]
    #[case("100M", 100_000_000)]
    #[case("128974848", 128_974_848)]
    #[case("129e6", 129_000_000)]
    #[case("128974848000m", 128_974_848)]
    #[case("1Ei", 1 << 60)]
    #[case("1E", 1_000_000_000_000_000_000)]
    #[case("0.5", 1)]
    #[case("1e-9999", 1)]
    fn memory(#[case] text: &str, #[case] bytes: u64) {
        assert_eq!(Bytes::parse(text), Ok(Bytes::new(bytes)));
    }

    #[rstest]
    #[case("")]
    #[case(".")]
    #[case("1.2.3")]
    #[case("Mi")]
    #[case("1 Mi")]
    #[case("１")]
    #[case("0x10")]
    #[case("1e")]
    #[case("1K")]
    #[case("1mi")]
    #[case("1MiB")]
    #[case("1_000")]
    #[case("NaN")]
    #[case("--1")]
    #[case("1e99999")]
    fn rejected(#[case] text: &str) {
        assert!(Bytes::parse(text).is_err(), "{text:?} was accepted");
    }

    #[rstest]
    #[case("-1", QuantityError::Negative("-1".into()))]
    #[case("16Ei", QuantityError::TooLarge("16Ei".into()))]
    #[case("8Ei", QuantityError::TooLarge("8Ei".into()))]
    #[case("1e40", QuantityError::TooLarge("1e40".into()))]
    #[case("2Gb", QuantityError::UnknownUnit { text: "2Gb".into(), unit: "Gb".into() })]
    fn refused_with_a_reason(#[case] text: &str, #[case] why: QuantityError) {
        assert_eq!(Bytes::parse(text), Err(why));
    }

    #[rstest]
    #[case(Bytes::new(0), "0")]
    #[case(Bytes::new(1 << 30), "1Gi")]
    #[case(Bytes::new(1_610_612_736), "1536Mi")]
    #[case(Bytes::new(1000), "1000")]
    fn memory_is_shown(#[case] bytes: Bytes, #[case] text: &str) {
        assert_eq!(bytes.to_string(), text);
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(n in 0..=(i64::MAX as u64)) {
            prop_assert_eq!(Bytes::parse(&Bytes::new(n).to_string()), Ok(Bytes::new(n)));
            let cpu = n / 1000;
            prop_assert_eq!(Millicores::parse(&Millicores::new(cpu).to_string()), Ok(Millicores::new(cpu)));
        }

        #[test]
        fn rounding_is_up_and_by_less_than_one(whole in 0u64..1_000_000_000, nanos in 0u64..1_000_000_000) {
            let got = Millicores::parse(&format!("{whole}.{nanos:09}")).unwrap().get();
            prop_assert_eq!(got, whole * 1000 + nanos.div_ceil(1_000_000));
        }

        #[test]
        fn any_text_is_answered(text in ".{0,40}") {
            let _ = Bytes::parse(&text);
            let _ = Millicores::parse(&text);
        }
    }
}
