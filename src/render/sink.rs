//! A writer that cannot be broken: a reader that went away ends the writing, quietly; any other error is kept.

use std::io::{self, Write};

/// Where a reporter writes. Reporters never fail in the middle of a run: what was written to whom matters less than the
/// pods that are on their way.
pub struct Sink {
    to: Box<dyn Write + Send>,
    /// Nothing is written any more.
    closed: bool,
    error: Option<io::Error>,
}

impl Sink {
    pub fn new(to: Box<dyn Write + Send>) -> Self {
        Self { to, closed: false, error: None }
    }

    /// Writes and flushes `text`: a line that sits in a buffer is no progress.
    pub fn put(&mut self, text: &str) {
        if self.closed || text.is_empty() {
            return;
        }
        if let Err(error) = self.to.write_all(text.as_bytes()).and_then(|()| self.to.flush()) {
            self.closed = true;
            if error.kind() != io::ErrorKind::BrokenPipe {
                self.error = Some(error);
            }
        }
    }

    /// The error that ended the writing, once; `BrokenPipe` is none.
    pub fn finish(&mut self) -> io::Result<()> {
        self.error.take().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken(io::ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_left_is_no_error() {
        let mut sink = Sink::new(Box::new(Broken(io::ErrorKind::BrokenPipe)));
        sink.put("one\n");
        sink.put("two\n");
        assert!(sink.finish().is_ok());
    }

    #[test]
    fn a_full_disk_is_told_at_the_end() {
        let mut sink = Sink::new(Box::new(Broken(io::ErrorKind::StorageFull)));
        sink.put("one\n");
        assert_eq!(sink.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(sink.finish().is_ok());
    }
}
