//! One value of a container as people write it, in a file or after `--set`.

use super::complaint::quote;
use crate::core::quantity::{Bytes, Millicores};
use crate::core::resources::Key;

/// Longer texts are no quantity; their echo would hide the sentence.
const MAX_TEXT: usize = 48;

/// Below this, a memory amount in `m`, `u` or `n` is a mistake for `M`: no container runs in less than a page.
const PAGE: u64 = 4096;

/// The value of the key in millicores or bytes, or the sentence that says what is wrong.
pub fn parse(key: Key, text: &str) -> Result<u64, String> {
    if text.len() > MAX_TEXT {
        return Err(format!("{} is not a quantity: it is too long", quote(text)));
    }
    let value =
        if key.is_cpu() { Millicores::parse(text).map(Millicores::get) } else { Bytes::parse(text).map(Bytes::get) };
    let value = value.map_err(|error| error.to_string())?;
    if !key.is_cpu() && value < PAGE && text.ends_with(['m', 'u', 'n']) && value > 0 {
        let number = &text[..text.len() - 1];
        return Err(format!("{} of memory is a fraction of a byte; did you mean {number}Mi?", quote(text)));
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(Key::RequestsCpu, "0.1", Ok(100))]
    #[case(Key::LimitsMemory, "128974848000m", Ok(128_974_848))]
    #[case(Key::LimitsMemory, "256m", Err("\"256m\" of memory is a fraction of a byte; did you mean 256Mi?"))]
    #[case(Key::RequestsMemory, "0", Ok(0))]
    #[case(Key::RequestsCpu, "-1", Err("\"-1\" is negative: an amount of CPU or memory is zero or more"))]
    fn values(#[case] key: Key, #[case] text: &str, #[case] want: Result<u64, &str>) {
        assert_eq!(parse(key, text), want.map_err(str::to_owned));
    }

    #[test]
    fn a_long_text_is_not_echoed_whole() {
        let error = parse(Key::RequestsCpu, &"9".repeat(5000)).unwrap_err();
        assert!(error.len() < 120, "{error}");
    }
}
