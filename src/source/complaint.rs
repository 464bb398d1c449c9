//! What is wrong with a text, and where: one sentence, the place, and the line it is on.
//!
//! Everything shown passes through [`clean`]: a file must not be able to move the cursor of whoever reads the message.

use std::fmt;

/// A place in a text. All three count from one, in characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    pub line: usize,
    pub column: usize,
    /// How many characters to underline.
    pub width: usize,
}

/// What a reader found wrong, before it is said in which file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    pub place: Option<Place>,
    pub text: String,
}

impl Fault {
    pub fn at(place: Place, text: impl Into<String>) -> Self {
        Self { place: Some(place), text: text.into() }
    }

    /// Makes the fault one of the file `source`, of which `content` is the text.
    pub fn in_source(self, source: &str, content: &str) -> Complaint {
        let snippet = self.place.and_then(|place| snippet(content, place));
        Complaint { name: clean(source), place: self.place, text: self.text, snippet }
    }
}

/// `FILE:LINE:COLUMN: sentence`, then the line with the place underlined.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct Complaint {
    name: String,
    place: Option<Place>,
    text: String,
    snippet: Option<String>,
}

impl Complaint {
    pub fn place(&self) -> Option<Place> {
        self.place
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(place) = self.place {
            write!(f, ":{}:{}", place.line, place.column)?;
        }
        write!(f, ": {}", self.text)?;
        self.snippet.as_ref().map_or(Ok(()), |snippet| write!(f, "\n{snippet}"))
    }
}

/// So much of a line is shown around the place.
const SNIPPET_WIDTH: usize = 100;

/// The line of the place with a mark under it. A long line is cut around the place.
fn snippet(content: &str, place: Place) -> Option<String> {
    let line = content.lines().nth(place.line.checked_sub(1)?)?;
    let column = place.column.checked_sub(1)?;
    let first = column.saturating_sub(SNIPPET_WIDTH / 2);
    let shown = line.chars().skip(first).take(SNIPPET_WIDTH).map(|c| if unfit(c) { ' ' } else { c });
    let shown = shown.collect::<String>();
    let number = place.line.to_string();
    let gap = " ".repeat(number.len());
    let room = SNIPPET_WIDTH - (column - first);
    let mark = format!("{}{}", " ".repeat(column - first), "^".repeat(place.width.clamp(1, room)));
    Some(format!("{gap} |\n{number} | {}\n{gap} | {mark}", shown.trim_end()))
}

/// Whether showing the character raw could change what the terminal shows: control characters and those that turn the
/// direction of writing or cannot be seen.
fn unfit(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The text with every unfit character written as an escape (`\u{1b}`).
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if unfit(c) { out.extend(c.escape_debug()) } else { out.push(c) }
    }
    // `escape_debug` leaves some invisible characters as they are.
    if out.chars().any(unfit) { out.chars().filter(|c| !unfit(*c)).collect() } else { out }
}

/// More of a quoted text tells the reader nothing new.
const QUOTED: usize = 60;

/// The text in double quotes, escaped, and cut when it is long.
pub fn quote(text: &str) -> String {
    let short = text.chars().take(QUOTED).collect::<String>();
    let more = if short.len() < text.len() { "..." } else { "" };
    format!("\"{}{more}\"", clean(&short))
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use proptest::prelude::*;

    use super::*;

    fn complain(content: &str, line: usize, column: usize, width: usize) -> String {
        Fault::at(Place { line, column, width }, "wrong").in_source("web.yaml", content).to_string()
    }

    #[test]
    fn the_line_is_shown_with_a_mark() {
        assert_snapshot!(complain("a: 1\nbb: 22\n", 2, 5, 2), @r"
        web.yaml:2:5: wrong
          |
        2 | bb: 22
          |     ^^
        ");
        let long = format!("{}bad{}", "x".repeat(300), "y".repeat(300));
        assert_snapshot!(complain(&long, 1, 301, 3), @r"
        web.yaml:1:301: wrong
          |
        1 | xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxbadyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy
          |                                                   ^^^
        ");
    }

    #[test]
    fn escape_sequences_do_not_reach_the_terminal() {
        assert_eq!(quote("a\u{1b}[2Jb\u{202e}c"), "\"a\\u{1b}[2Jb\\u{202e}c\"");
        assert!(!complain("k: \u{1b}[31m\r\n", 1, 4, 1).contains('\u{1b}'));
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(quote(&"x".repeat(100)), format!("\"{}...\"", "x".repeat(60)));
    }

    proptest! {
        #[test]
        fn no_control_character_survives(text in "\\PC*|[\\x00-\\x1f\\x7f-\\x9f\u{200b}-\u{206f}\u{e0001}a]*") {
            prop_assert!(!clean(&text).chars().any(unfit));
        }

        #[test]
        fn any_place_is_answered(text in "(.|\n){0,80}", line in 0usize..9, column in 0usize..200, width in 0usize..300) {
            let _ = complain(&text, line, column, width);
        }
    }
}
