//! Lines made of painted pieces: measured and cut as text, coloured last.
//!
//! Only the 16 standard colours and no background, so that the reader's own theme decides what they look like. Yellow
//! and cyan are for symbols only: as text they are hard to read on a light background. Nothing is told by colour alone.

use std::borrow::Cow;
use std::fmt::Write as _;

use anstyle::{AnsiColor, Effects, Style};

use super::text;

/// What a piece means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paint {
    Plain,
    Strong,
    /// Of less weight than what is around it.
    Faint,
    Good,
    Bad,
    /// Needs eyes: a wait, a warning.
    Attention,
    Moving,
}

impl Paint {
    fn style(self) -> Style {
        let color = |color: AnsiColor| Style::new().fg_color(Some(color.into()));
        match self {
            Self::Plain => Style::new(),
            Self::Strong => Style::new().effects(Effects::BOLD),
            Self::Faint => Style::new().effects(Effects::DIMMED),
            Self::Good => color(AnsiColor::Green),
            Self::Bad => color(AnsiColor::Red),
            Self::Attention => color(AnsiColor::Yellow),
            Self::Moving => color(AnsiColor::Cyan),
        }
    }
}

/// One line. What is added must be clean already (`text::clean`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Line {
    pieces: Vec<(Paint, Cow<'static, str>)>,
}

impl Line {
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn with(mut self, paint: Paint, text: impl Into<Cow<'static, str>>) -> Self {
        self.add(paint, text);
        self
    }

    pub fn add(&mut self, paint: Paint, text: impl Into<Cow<'static, str>>) {
        let text = text.into();
        if !text.is_empty() {
            self.pieces.push((paint, text));
        }
    }

    pub fn append(&mut self, other: Self) {
        self.pieces.extend(other.pieces);
    }

    pub fn width(&self) -> usize {
        self.pieces.iter().map(|(_, text)| text::width(text)).sum()
    }

    /// The line as text of at most `columns` columns, without blanks at its end.
    pub fn show(&self, columns: usize, colored: bool) -> String {
        let mut left = columns;
        let cut = self.width() > columns;
        let mut kept: Vec<(Paint, Cow<'_, str>)> = Vec::with_capacity(self.pieces.len());
        for (paint, piece) in &self.pieces {
            let wide = text::width(piece);
            if cut && wide >= left {
                // One more than fits, so that the piece in which the line is cut always shows the ellipsis.
                let marked = if wide > left { Cow::Borrowed(piece.as_ref()) } else { Cow::Owned(format!("{piece} ")) };
                kept.push((*paint, text::fit(&marked, left).into_owned().into()));
                break;
            }
            left -= wide;
            kept.push((*paint, Cow::Borrowed(piece)));
        }
        while let Some((_, last)) = kept.last_mut() {
            let trimmed = last.trim_end().to_owned();
            if !trimmed.is_empty() {
                *last = Cow::Owned(trimmed);
                break;
            }
            kept.pop();
        }
        let mut out = String::new();
        for (paint, piece) in kept {
            let style = paint.style();
            if colored && style != Style::new() {
                let _ = write!(out, "{style}{piece}{style:#}");
            } else {
                out.push_str(&piece);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(20, "abc def")]
    #[case(7, "abc def")]
    #[case(6, "abc d…")]
    #[case(4, "abc…")]
    #[case(3, "ab…")]
    #[case(1, "…")]
    #[case(0, "")]
    fn a_line_is_cut_with_an_ellipsis(#[case] columns: usize, #[case] want: &str) {
        let line = Line::new().with(Paint::Plain, "abc").with(Paint::Plain, " def");
        assert_eq!(line.show(columns, false), want);
    }

    #[test]
    fn colours_wrap_what_is_kept_and_nothing_else() {
        let line = Line::new().with(Paint::Plain, "a ").with(Paint::Bad, "bad").with(Paint::Plain, "   ");
        assert_eq!(line.show(80, true), "a \x1b[31mbad\x1b[0m");
        assert_eq!(line.show(80, false), "a bad");
    }

    proptest! {
        #[test]
        fn never_wider_than_the_terminal(pieces in proptest::collection::vec("[a-z日 ]{0,12}", 0..8), columns in 0usize..60) {
            let mut line = Line::new();
            for piece in pieces {
                line.add(Paint::Plain, piece);
            }
            prop_assert!(text::width(&line.show(columns, false)) <= columns);
        }
    }
}
