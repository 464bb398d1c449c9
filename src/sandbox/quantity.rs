//! Kubernetes quantities as the sandbox's server needs them: parse, compare, and the canonical text that a real API
//! server answers with. May not: know objects or rules.

use serde_json::Value;

const NANOS: i128 = 1_000_000_000;

/// A quantity in billionths, rounded up; `None` when the text is not a quantity.
pub(super) fn nanos(text: &str) -> Option<i128> {
    let (number, suffix) = split(text)?;
    let scale = Scale::of(suffix)?;
    let (negative, digits) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mantissa: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let down = 10i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let up = scale.nanos()?;
    let (up, down) = match up {
        Factor::Times(n) => (n, down),
        Factor::Over(n) => (1, down.checked_mul(n)?),
    };
    let value = mantissa.checked_mul(up)?;
    let rounded = (value + down - 1) / down;
    Some(if negative { -rounded } else { rounded })
}

/// Thousandths, rounded up: the unit of CPU.
pub(super) fn millis(text: &str) -> Option<i64> {
    nanos(text).and_then(|n| i64::try_from((n + 999_999).div_euclid(1_000_000)).ok())
}

/// Whole units, rounded up: the unit of memory.
pub(super) fn units(text: &str) -> Option<i64> {
    nanos(text).and_then(|n| i64::try_from((n + NANOS - 1).div_euclid(NANOS)).ok())
}

/// The amount in the unit that the scheduler counts: milli for cpu, whole units for everything else.
pub(super) fn amount(resource: &str, text: &str) -> Option<i64> {
    if resource == "cpu" { millis(text) } else { units(text) }
}

/// The text a server answers with for what a client sent: `1000m` is `1`, `1.5Gi` is `1536Mi`.
pub(super) fn canonical(text: &str) -> Option<String> {
    let value = nanos(text)?;
    let (_, suffix) = split(text)?;
    Some(match Scale::of(suffix)? {
        Scale::Binary(_) => binary(value),
        Scale::Exponent(_) => exponent(value),
        Scale::Decimal(_) => decimal(value),
    })
}

/// A JSON quantity, which may be a string or a bare number.
pub(super) fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(s) => Some(s.clone()),
        Value::Number(n) => Some(n.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

enum Scale {
    Binary(u32),
    Decimal(i32),
    Exponent(i32),
}

enum Factor {
    Times(i128),
    Over(i128),
}

impl Scale {
    fn of(suffix: &str) -> Option<Self> {
        Some(match suffix {
            "Ki" => Self::Binary(1),
            "Mi" => Self::Binary(2),
            "Gi" => Self::Binary(3),
            "Ti" => Self::Binary(4),
            "Pi" => Self::Binary(5),
            "Ei" => Self::Binary(6),
            "n" => Self::Decimal(-9),
            "u" => Self::Decimal(-6),
            "m" => Self::Decimal(-3),
            "" => Self::Decimal(0),
            "k" => Self::Decimal(3),
            "M" => Self::Decimal(6),
            "G" => Self::Decimal(9),
            "T" => Self::Decimal(12),
            "P" => Self::Decimal(15),
            "E" => Self::Decimal(18),
            other => Self::Exponent(other.strip_prefix(['e', 'E'])?.parse().ok()?),
        })
    }

    fn nanos(&self) -> Option<Factor> {
        Some(match *self {
            Self::Binary(n) => Factor::Times(1024i128.checked_pow(n)?.checked_mul(NANOS)?),
            Self::Decimal(n) | Self::Exponent(n) => {
                let exponent = n.checked_add(9)?;
                let power = 10i128.checked_pow(exponent.unsigned_abs())?;
                if exponent >= 0 { Factor::Times(power) } else { Factor::Over(power) }
            }
        })
    }
}

fn split(text: &str) -> Option<(&str, &str)> {
    let end = text
        .char_indices()
        .find(|&(i, c)| !(c.is_ascii_digit() || c == '.' || (i == 0 && (c == '-' || c == '+'))))
        .map_or(text.len(), |(i, _)| i);
    let (number, suffix) = text.split_at(end);
    (!number.is_empty() && number.matches('.').count() <= 1).then_some((number, suffix))
}

fn binary(value: i128) -> String {
    let mut units = (value + NANOS - 1).div_euclid(NANOS);
    if units.abs() < 1024 {
        return decimal(value);
    }
    let mut steps = 0;
    while units % 1024 == 0 && steps < 6 {
        units /= 1024;
        steps += 1;
    }
    format!("{units}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][steps])
}

fn decimal(value: i128) -> String {
    if value == 0 {
        return "0".to_owned();
    }
    let (mut number, mut steps) = (value, 0);
    while number % 1000 == 0 && steps < 9 {
        number /= 1000;
        steps += 1;
    }
    format!("{number}{}", ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"][steps])
}

fn exponent(value: i128) -> String {
    if value == 0 {
        return "0".to_owned();
    }
    let (mut number, mut power) = (value, -9);
    while number % 1000 == 0 {
        number /= 1000;
        power += 3;
    }
    if power == 0 { number.to_string() } else { format!("{number}e{power}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_text_is_what_a_server_answers() {
        for (sent, answered) in [
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.1", "100m"),
            ("1.5Gi", "1536Mi"),
            ("1024Ki", "1Mi"),
            ("1e3", "1e3"),
            ("12e-1", "1200e-3"),
            ("128M", "128M"),
            ("1000M", "1G"),
            ("0", "0"),
            ("0.5Ki", "512"),
            ("-5m", "-5m"),
        ] {
            assert_eq!(canonical(sent).as_deref(), Some(answered), "{sent}");
        }
        for wrong in ["abc", "", "1.2.3", "1x", "--1", "m"] {
            assert_eq!(canonical(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn amounts_round_up() {
        assert_eq!(millis("0.1"), Some(100));
        assert_eq!(millis("100u"), Some(1));
        assert_eq!(units("1.5Gi"), Some(1_610_612_736));
        assert_eq!(units("1m"), Some(1));
        assert_eq!(units("1Ei"), Some(1 << 60));
    }
}
