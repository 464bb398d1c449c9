//! `-f FILE`, `-f DIRECTORY` and `-f -`: which texts there are, and their bytes. What they mean is not known here.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::SourceError;
use super::complaint::clean;

/// The most a recommendation file may be. Thousands of workloads fit; it is what keeps a pipe that never ends, or the
/// wrong file, from filling the memory.
pub const MAX_BYTES: u64 = 4 << 20;

/// Names that are read from a directory, as with kubectl.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Deeper folders are not looked into; a link that leads back up would otherwise never end.
const MAX_FOLDERS: usize = 32;

/// The files that `-f argument` names, in order.
pub fn expand(argument: &str, recursive: bool) -> Result<Vec<PathBuf>, SourceError> {
    let path = Path::new(argument);
    let found = fs::metadata(path).map_err(|source| unreadable(argument, source))?;
    if !found.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    collect(path, if recursive { MAX_FOLDERS } else { 0 }, &mut files)?;
    if files.is_empty() {
        return Err(SourceError::EmptyDirectory { name: clean(argument) });
    }
    Ok(files)
}

fn collect(folder: &Path, deeper: usize, files: &mut Vec<PathBuf>) -> Result<(), SourceError> {
    let failed = |source| unreadable(&folder.to_string_lossy(), source);
    let entries = fs::read_dir(folder).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let mut paths = entries.into_iter().map(|entry| entry.path()).collect::<Vec<_>>();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            if deeper > 0 && !path.is_symlink() {
                collect(&path, deeper - 1, files)?;
            }
        } else if path.is_file() && path.extension().and_then(|e| e.to_str()).is_some_and(|e| EXTENSIONS.contains(&e)) {
            files.push(path);
        }
    }
    Ok(())
}

/// The text of a file.
pub fn read(path: &Path) -> Result<String, SourceError> {
    let name = path.to_string_lossy();
    let failed = |source| unreadable(&name, source);
    let file = File::open(path).map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    if found.is_file() && found.len() > MAX_BYTES {
        return Err(SourceError::TooLarge { name: clean(&name), size: megabytes(found.len()) });
    }
    read_stream(&name, file)
}

/// The text of anything that can be read, which may be longer than it says.
pub fn read_stream(name: &str, stream: impl Read) -> Result<String, SourceError> {
    let mut bytes = Vec::new();
    stream.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|source| unreadable(name, source))?;
    decode(name, bytes)
}

/// Bytes as text, if there are not too many.
pub fn decode(name: &str, bytes: Vec<u8>) -> Result<String, SourceError> {
    if bytes.len() as u64 > MAX_BYTES {
        return Err(SourceError::TooLarge { name: clean(name), size: "more than 4.0 MiB".to_owned() });
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        SourceError::NotText { name: clean(name), line: good.split(|byte| *byte == b'\n').count() }
    })
}

/// `5.2 MiB`, rounded up so that what is too large never looks like what is allowed.
fn megabytes(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10).div_ceil(1 << 20);
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

fn unreadable(name: &str, source: io::Error) -> SourceError {
    let name = clean(name);
    if source.kind() == io::ErrorKind::NotFound {
        SourceError::Missing { name }
    } else {
        SourceError::Unreadable { name, source }
    }
}
