//! Small pieces of text: what came from the cluster made safe, text fitted to a width, ages, times and plurals.
//!
//! Nothing here knows an event or a colour.

use std::borrow::Cow;
use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What stands for the part that was cut off. One column wide.
pub const ELLIPSIS: &str = "…";

/// `text` with every character that could move the cursor, hide, reorder or join what is beside it written as a
/// visible escape: control characters (C0 and C1, so ESC, CR, newline), and everything without a width of its own
/// (bidirectional overrides, zero-width characters, combining marks, variation selectors, tags).
///
/// Names and messages in a cluster can be written by people who have fewer rights than the reader.
pub fn clean(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push(' '),
            c if is_plain(c) => out.push(c),
            c if u32::from(c) < 0x100 => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
        }
    }
    Cow::Owned(out)
}

fn is_plain(c: char) -> bool {
    // The soft hyphen has a width in the tables and is invisible in most terminals; the two separators end a line in
    // some readers of logs.
    !matches!(c, '\u{ad}' | '\u{2028}' | '\u{2029}') && c.width().is_some_and(|columns| columns > 0)
}

/// Columns that `text` takes in a terminal.
pub fn width(text: &str) -> usize {
    text.width()
}

/// `text`, or as much of its beginning as fits into `columns` with an ellipsis.
pub fn fit(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    if columns == 0 {
        return Cow::Borrowed("");
    }
    let mut out = head(text, columns - 1).trim_end().to_owned();
    out.push_str(ELLIPSIS);
    Cow::Owned(out)
}

/// `text`, or its two ends with an ellipsis between them: the pods of a workload differ in their last letters.
pub fn fit_middle(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    if columns < 3 {
        return fit(text, columns);
    }
    let first = (columns - 1) / 2;
    let mut out = head(text, first).to_owned();
    out.push_str(ELLIPSIS);
    out.push_str(tail(text, columns - 1 - first));
    Cow::Owned(out)
}

/// `text` in at most `most` lines of `columns`, broken between words where that is possible. The last one is cut.
pub fn wrap(text: &str, columns: usize, most: usize) -> Vec<Cow<'_, str>> {
    let mut lines = Vec::new();
    let mut rest = text;
    while lines.len() + 1 < most && columns > 0 && width(rest) > columns {
        let whole = head(rest, columns);
        // A word that is longer than half a line is broken rather than moved to the next.
        let end = match whole.rfind(' ') {
            _ if rest[whole.len()..].starts_with(' ') => whole.len(),
            Some(space) if space > whole.len() / 2 => space,
            Some(_) | None => whole.len(),
        };
        if end == 0 {
            break;
        }
        lines.push(Cow::Borrowed(rest[..end].trim_end()));
        rest = rest[end..].trim_start();
    }
    lines.push(fit(rest, columns));
    lines
}

/// `text` filled up with spaces to `columns`.
pub fn pad(text: &str, columns: usize) -> String {
    let mut out = text.to_owned();
    out.extend(std::iter::repeat_n(' ', columns.saturating_sub(width(text))));
    out
}

fn head(text: &str, columns: usize) -> &str {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > columns {
            return &text[..at];
        }
    }
    text
}

fn tail(text: &str, columns: usize) -> &str {
    let mut used = 0;
    for (at, c) in text.char_indices().rev() {
        used += c.width().unwrap_or(0);
        if used > columns {
            return &text[at + c.len_utf8()..];
        }
    }
    text
}

/// A duration as kubectl prints ages (`k8s.io/apimachinery/pkg/util/duration.HumanDuration`): `12s`, `3m10s`, `2h`.
/// Less than nothing, as when two clocks differ, is `0s`.
pub fn age(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |big: i64, unit: char, small: i64, small_unit: char| {
        if small == 0 { format!("{big}{unit}") } else { format!("{big}{unit}{small}{small_unit}") }
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, 'd', hours % 24, 'h'),
        () if days < 730 => format!("{days}d"),
        () if days < 2920 => two(days / 365, 'y', days % 365, 'd'),
        () => format!("{}y", days / 365),
    }
}

/// The age at `now` of what began at `since`.
pub fn age_at(since: Timestamp, now: Timestamp) -> String {
    age(now.duration_since(since))
}

/// RFC 3339, UTC, whole seconds.
pub fn time(at: Timestamp) -> String {
    // The fraction is cut, not rounded: a line is never dated after what it says.
    let whole = Timestamp::from_second(at.as_second()).unwrap_or(at);
    format!("{whole:.0}")
}

/// `1 pod`, `2 pods`.
pub fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// The first `most` of `names`, separated by commas, and how many more there are.
pub fn list<'a>(names: impl IntoIterator<Item = &'a str>, most: usize) -> String {
    let mut out = String::new();
    let mut more = 0;
    for (i, name) in names.into_iter().enumerate() {
        if i >= most {
            more += 1;
            continue;
        }
        if i > 0 {
            out.push_str(", ");
        }
        out.push_str(&clean(name));
    }
    if more > 0 {
        let _ = write!(out, " and {more} more");
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("plain text, ünïcode ✔", "plain text, ünïcode ✔")]
    #[case("red \x1b[31m", "red \\x1b[31m")]
    #[case("a\r\nb\tc", "a\\r\\nb c")]
    #[case("bell\x07 del\x7f csi\u{9b}31m", "bell\\x07 del\\x7f csi\\x9b31m")]
    #[case("ab\u{202e}dc", "ab\\u{202e}dc")]
    #[case("iso\u{2066}x\u{2069}", "iso\\u{2066}x\\u{2069}")]
    #[case("zero\u{200b}width\u{feff}", "zero\\u{200b}width\\u{feff}")]
    #[case("soft\u{ad} sep\u{2028}", "soft\\xad sep\\u{2028}")]
    #[case("z\u{301}", "z\\u{301}")]
    #[case("tag\u{e0041}", "tag\\u{e0041}")]
    fn cluster_text_cannot_reach_the_terminal(#[case] text: &str, #[case] want: &str) {
        assert_eq!(clean(text), want);
    }

    #[rstest]
    #[case(0, "0s")]
    #[case(-5, "0s")]
    #[case(119, "119s")]
    #[case(120, "2m")]
    #[case(190, "3m10s")]
    #[case(600, "10m")]
    #[case(10_800, "3h")]
    #[case(11_220, "3h7m")]
    #[case(28_800, "8h")]
    #[case(172_800, "2d")]
    #[case(176_400, "2d1h")]
    #[case(864_000, "10d")]
    #[case(63_072_000, "2y")]
    #[case(64_000_000, "2y10d")]
    #[case(315_360_000, "10y")]
    fn ages_as_kubectl_prints_them(#[case] seconds: i64, #[case] want: &str) {
        assert_eq!(age(SignedDuration::from_secs(seconds)), want);
    }

    #[rstest]
    #[case("payments-7d4b9c6f5-abcde", 24, "payments-7d4b9c6f5-abcde")]
    #[case("payments-7d4b9c6f5-abcde", 13, "paymen…-abcde")]
    #[case("payments", 1, "…")]
    #[case("日本語日本語", 7, "日…語")]
    fn the_middle_is_cut(#[case] text: &str, #[case] columns: usize, #[case] want: &str) {
        assert_eq!(fit_middle(text, columns), want);
    }

    #[test]
    fn long_text_is_broken_between_words_and_then_cut() {
        assert_eq!(wrap("one two three four", 9, 2), ["one two", "three fo…"]);
        assert_eq!(wrap("one two", 7, 2), ["one two"]);
        assert_eq!(wrap("abcdefghijkl m", 5, 3), ["abcde", "fghij", "kl m"]);
    }

    #[test]
    fn times_are_cut_to_the_second() {
        assert_eq!(time("2026-03-01T10:00:00.999Z".parse().unwrap()), "2026-03-01T10:00:00Z");
    }

    #[test]
    fn lists_end_in_a_number() {
        assert_eq!(list(["a", "b", "c", "d"], 2), "a, b and 2 more");
        assert_eq!(list(["a", "b"], 2), "a, b");
    }

    proptest! {
        #[test]
        fn never_wider_than_asked(text in ".{0,60}", columns in 0usize..40) {
            let safe = clean(&text);
            prop_assert!(width(&fit(&safe, columns)) <= columns);
            prop_assert!(width(&fit_middle(&safe, columns)) <= columns);
            prop_assert!(wrap(&safe, columns, 3).iter().all(|line| width(line) <= columns));
        }

        #[test]
        fn clean_text_has_no_control_character(text in "\\PC{0,10}[\\x00-\\x1f\\u{7f}-\\u{9f}\\u{200b}-\\u{200f}\\u{202a}-\\u{202e}]{0,5}") {
            let safe = clean(&text);
            prop_assert!(safe.chars().all(|c| c.width().is_some_and(|w| w > 0)));
        }
    }
}
