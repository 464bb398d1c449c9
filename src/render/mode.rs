//! Which reporter speaks, and where colours are used. A pure function of what the terminal is and what was asked for.
//!
//! The environment is read by the caller and handed in: every rule here has a row in the table at the end.

/// What is known about where the output goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one observed fact, named at the call")]
pub struct Surroundings<'a> {
    pub stdout_is_tty: bool,
    pub stderr_is_tty: bool,
    /// A continuous integration system runs us (`CI` is set and not `false` or empty): some pretend to be a terminal.
    pub is_ci: bool,
    /// `TERM`.
    pub term: Option<&'a str>,
    /// `NO_COLOR` is there, even if empty: kubectl's rule, stricter than no-color.org's.
    pub no_color: bool,
    /// Log lines go to stderr too (`-v`): they would cut through a view that is redrawn.
    pub logs_to_stderr: bool,
    /// Windows has no `TERM`; its terminals take escape sequences all the same.
    pub is_windows: bool,
}

/// `--progress`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ProgressFlag {
    #[default]
    Auto,
    Tty,
    Plain,
    Json,
    Quiet,
}

/// `-o`, as far as a run can be shown with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OutputFlag {
    /// The summary in words.
    #[default]
    Text,
    /// One JSON object for each event.
    Json,
}

/// `--color`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ColorFlag {
    #[default]
    Auto,
    Always,
    Never,
}

/// What is written to stderr while the run goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// A view that is redrawn in place.
    Live,
    /// A line for each change.
    Plain,
    /// A JSON object for each event.
    Json,
    /// Nothing.
    Quiet,
}

/// How a run is reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mode {
    pub progress: Progress,
    /// What stdout carries: the summary at the end, or the events as JSON.
    pub output: OutputFlag,
    pub color_stdout: bool,
    pub color_stderr: bool,
}

/// Decides; what was asked for wins over what was observed.
pub fn resolve(around: Surroundings<'_>, progress: ProgressFlag, output: OutputFlag, color: ColorFlag) -> Mode {
    let capable = match around.term {
        Some("dumb" | "") => false,
        Some(_) => true,
        None => around.is_windows,
    };
    let live = around.stderr_is_tty && capable && !around.is_ci && !around.logs_to_stderr;
    let unasked = match output {
        // The JSON lines say all of it, and stdout may be the same terminal.
        OutputFlag::Json => Progress::Quiet,
        OutputFlag::Text if live => Progress::Live,
        OutputFlag::Text => Progress::Plain,
    };
    let progress = match progress {
        ProgressFlag::Auto => unasked,
        ProgressFlag::Tty => Progress::Live,
        ProgressFlag::Plain => Progress::Plain,
        ProgressFlag::Json => Progress::Json,
        ProgressFlag::Quiet => Progress::Quiet,
    };
    let colored = |is_tty: bool| match color {
        ColorFlag::Always => true,
        ColorFlag::Never => false,
        ColorFlag::Auto => is_tty && capable && !around.no_color,
    };
    Mode { progress, output, color_stdout: colored(around.stdout_is_tty), color_stderr: colored(around.stderr_is_tty) }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// Letters: `o` stdout and `e` stderr are terminals, `c` CI, `n` `NO_COLOR`, `v` logs, `w` Windows.
    fn around<'a>(letters: &str, term: &'a str) -> Surroundings<'a> {
        Surroundings {
            stdout_is_tty: letters.contains('o'),
            stderr_is_tty: letters.contains('e'),
            is_ci: letters.contains('c'),
            no_color: letters.contains('n'),
            logs_to_stderr: letters.contains('v'),
            is_windows: letters.contains('w'),
            term: (term != "unset").then_some(term),
        }
    }

    #[rstest]
    #[case("oe", "xterm-256color", ProgressFlag::Auto, Progress::Live)]
    #[case("e", "xterm", ProgressFlag::Auto, Progress::Live)]
    #[case("o", "xterm", ProgressFlag::Auto, Progress::Plain)]
    #[case("", "xterm", ProgressFlag::Auto, Progress::Plain)]
    #[case("oec", "xterm", ProgressFlag::Auto, Progress::Plain)]
    #[case("oev", "xterm", ProgressFlag::Auto, Progress::Plain)]
    #[case("oe", "dumb", ProgressFlag::Auto, Progress::Plain)]
    #[case("oe", "", ProgressFlag::Auto, Progress::Plain)]
    #[case("oe", "unset", ProgressFlag::Auto, Progress::Plain)]
    #[case("oew", "unset", ProgressFlag::Auto, Progress::Live)]
    #[case("oen", "xterm", ProgressFlag::Auto, Progress::Live)]
    #[case("", "dumb", ProgressFlag::Tty, Progress::Live)]
    #[case("oe", "xterm", ProgressFlag::Plain, Progress::Plain)]
    #[case("oe", "xterm", ProgressFlag::Json, Progress::Json)]
    #[case("oe", "xterm", ProgressFlag::Quiet, Progress::Quiet)]
    fn progress(#[case] letters: &str, #[case] term: &str, #[case] flag: ProgressFlag, #[case] want: Progress) {
        assert_eq!(resolve(around(letters, term), flag, OutputFlag::Text, ColorFlag::Auto).progress, want);
    }

    #[rstest]
    #[case(ProgressFlag::Auto, Progress::Quiet)]
    #[case(ProgressFlag::Tty, Progress::Live)]
    #[case(ProgressFlag::Plain, Progress::Plain)]
    #[case(ProgressFlag::Quiet, Progress::Quiet)]
    fn json_output_is_alone_unless_asked(#[case] flag: ProgressFlag, #[case] want: Progress) {
        let mode = resolve(around("oe", "xterm"), flag, OutputFlag::Json, ColorFlag::Auto);
        assert_eq!((mode.progress, mode.output), (want, OutputFlag::Json));
    }

    #[rstest]
    #[case("oe", "xterm", ColorFlag::Auto, (true, true))]
    #[case("e", "xterm", ColorFlag::Auto, (false, true))]
    #[case("o", "xterm", ColorFlag::Auto, (true, false))]
    #[case("oen", "xterm", ColorFlag::Auto, (false, false))]
    #[case("oe", "dumb", ColorFlag::Auto, (false, false))]
    #[case("oec", "xterm", ColorFlag::Auto, (true, true))]
    #[case("oen", "dumb", ColorFlag::Always, (true, true))]
    #[case("oe", "xterm", ColorFlag::Never, (false, false))]
    fn colors(#[case] letters: &str, #[case] term: &str, #[case] flag: ColorFlag, #[case] want: (bool, bool)) {
        let mode = resolve(around(letters, term), ProgressFlag::Auto, OutputFlag::Text, flag);
        assert_eq!((mode.color_stdout, mode.color_stderr), want);
    }
}
