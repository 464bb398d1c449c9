//! The krew manifest and the release archive against krew's rules: the ones that its code checks (`ValidatePlugin`,
//! `validate-krew-manifest`, installation) and the ones that its reviewers ask for.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const TEMPLATE: &str = "krew-manifest.yaml";
const TAG: &str = "v0.1.0";
/// Any SHA-256: lower-case letters and digits.
const SUM: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The template as krew-release-bot fills it in.
fn rendered() -> String {
    let template = std::fs::read_to_string(root().join(TEMPLATE)).unwrap();
    let mut out = String::new();
    for line in template.lines() {
        let indent = &line[..line.len() - line.trim_start().len()];
        let uri = line.trim().strip_prefix("{{addURIAndSha \"").and_then(|rest| rest.strip_suffix("\" .TagName }}"));
        // The bot indents its second line by four, whatever the first one has.
        let filled = uri.map(|uri| format!("{indent}uri: {uri}\n    sha256: {SUM}"));
        out.push_str(filled.as_deref().unwrap_or(line));
        out.push('\n');
    }
    let out = out.replace("{{ .TagName }}", TAG);
    assert!(!out.contains("{{"), "not filled in:\n{out}");
    out
}

fn manifest() -> Value {
    serde_saphyr::from_str(&rendered()).unwrap()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("no text at {pointer}"))
}

fn platforms(manifest: &Value) -> &[Value] {
    manifest.pointer("/spec/platforms").and_then(Value::as_array).unwrap()
}

/// Rules 1 to 5 and 7.
#[test]
fn the_head_is_valid() {
    let manifest = manifest();
    assert_eq!(text(&manifest, "/apiVersion"), "krew.googlecontainertools.github.com/v1alpha2");
    assert_eq!(text(&manifest, "/kind"), "Plugin");
    let name = text(&manifest, "/metadata/name");
    assert!(name.chars().all(|c| c.is_ascii_lowercase()), "{name}: kubectl reads a dash as another command");
    let short = text(&manifest, "/spec/shortDescription");
    assert!(!short.is_empty() && !short.contains(['\r', '\n']), "{short:?}");
    let version = text(&manifest, "/spec/version").strip_prefix('v').unwrap();
    let parts = version.split('.').collect::<Vec<_>>();
    assert_eq!(parts.len(), 3, "{version}");
    assert!(parts.iter().all(|part| part.parse::<u32>().is_ok_and(|n| n.to_string() == *part)), "{version}");
}

/// The tag is the version of the package.
#[test]
fn the_version_is_the_packages() {
    assert_eq!(TAG, format!("v{}", env!("CARGO_PKG_VERSION")));
}

/// Rules 6, 8 to 12, 22 and 24 to 26.
#[test]
fn every_platform_is_valid() {
    let manifest = manifest();
    assert!(!platforms(&manifest).is_empty());
    for platform in platforms(&manifest) {
        let uri = text(platform, "/uri");
        assert!(uri.starts_with("https://") && uri.contains(TAG), "{uri}");
        // Text and not a number: a sum of digits alone must be quoted.
        let sum = text(platform, "/sha256");
        assert!(sum.len() == 64 && sum.chars().all(|c| matches!(c, 'a'..='f' | '0'..='9')), "{sum}");
        let bin = text(platform, "/bin");
        assert!(!bin.contains(['/', '\\']), "{bin} is in the root of the archive");
        assert!(platform.get("files").is_none(), "the default (everything) is right for a flat archive");
        let labels = platform.pointer("/selector/matchLabels").and_then(Value::as_object).unwrap();
        assert_eq!(labels.keys().map(String::as_str).collect::<Vec<_>>(), ["arch", "os"]);
        let known =
            [("linux", "amd64"), ("linux", "arm64"), ("darwin", "amd64"), ("darwin", "arm64"), ("windows", "amd64")];
        assert!(
            known.contains(&(text(platform, "/selector/matchLabels/os"), text(platform, "/selector/matchLabels/arch")))
        );
    }
}

/// Rules 14 and 15, and that no archive is named twice.
#[test]
fn platforms_do_not_overlap() {
    let manifest = manifest();
    let selectors =
        platforms(&manifest).iter().map(|platform| platform["selector"].to_string()).collect::<BTreeSet<_>>();
    let archives = platforms(&manifest).iter().map(|platform| text(platform, "/uri")).collect::<BTreeSet<_>>();
    assert_eq!(selectors.len(), platforms(&manifest).len());
    assert_eq!(archives.len(), platforms(&manifest).len());
}

/// What reviewers of krew-index ask for.
#[test]
fn the_words_are_fit_for_the_index() {
    let manifest = manifest();
    let short = text(&manifest, "/spec/shortDescription");
    assert!(short.chars().count() <= 50, "{} characters: {short}", short.chars().count());
    assert!(!short.ends_with('.') && !short.to_lowercase().contains("kubectl"), "{short}");
    for field in ["/spec/description", "/spec/caveats"] {
        for line in text(&manifest, field).lines() {
            assert!(line.chars().count() <= 80, "{field}: {line}");
        }
    }
    assert!(!text(&manifest, "/spec/description").contains("kubectl kapr"), "no usage examples in a description");
    assert!(text(&manifest, "/spec/homepage").starts_with("https://"));
}

/// An entry of a tar archive: name, type and mode.
#[derive(PartialEq, Debug)]
struct Member {
    name: String,
    kind: char,
    mode: u32,
    content: Vec<u8>,
}

fn members(archive: &Path) -> Vec<Member> {
    let packed = std::fs::read(archive).unwrap();
    assert_eq!(packed[..2], [0x1f, 0x8b], "gzip, by its first bytes");
    let mut tar = Vec::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut tar).unwrap();
    let octal = |bytes: &[u8]| {
        let digits = std::str::from_utf8(bytes).unwrap().trim_matches(['\0', ' ']);
        u32::from_str_radix(digits, 8).unwrap()
    };
    let mut found = Vec::new();
    let mut at = 0;
    while tar[at] != 0 {
        let head = &tar[at..at + 512];
        let name = std::str::from_utf8(&head[..100]).unwrap().trim_end_matches('\0').to_owned();
        let size = octal(&head[124..136]) as usize;
        let content = tar[at + 512..at + 512 + size].to_vec();
        found.push(Member { name, kind: char::from(head[156]), mode: octal(&head[100..108]), content });
        at += 512 + size.div_ceil(512) * 512;
    }
    found
}

fn pack(os: &str, folder: &Path) -> PathBuf {
    let binary = folder.join("built");
    std::fs::write(&binary, "not really a program").unwrap();
    let output = Command::new(root().join("release/package"))
        .args([binary.as_os_str(), os.as_ref(), "amd64".as_ref(), folder.as_os_str()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

/// Rules 17 to 21 and 25, on what the release makes.
#[test]
fn the_archive_can_be_installed() {
    let folder = tempfile::tempdir().unwrap();
    for (os, bin) in [("linux", "kubectl-kapr"), ("windows", "kubectl-kapr.exe")] {
        let archive = pack(os, folder.path());
        let manifest = manifest();
        let platform = platforms(&manifest)
            .iter()
            .find(|platform| text(platform, "/uri").ends_with(archive.file_name().unwrap().to_str().unwrap()))
            .unwrap_or_else(|| panic!("no platform downloads {}", archive.display()));
        assert_eq!(text(platform, "/bin"), bin);
        let members = members(&archive);
        let names = members.iter().map(|member| (member.name.as_str(), member.kind, member.mode)).collect::<Vec<_>>();
        assert_eq!(names, [("LICENSE", '0', 0o644), (bin, '0', 0o755)]);
        assert_eq!(members[1].content, b"not really a program");
    }
}

#[test]
fn the_same_binary_gives_the_same_archive() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    assert_eq!(std::fs::read(pack("linux", one.path())).unwrap(), std::fs::read(pack("linux", two.path())).unwrap());
}

/// For krew's own tools (`.ci/run`): the manifest as the index would get it, in the folder that `KAPR_KREW_OUT` names.
#[test]
fn the_filled_in_manifest_is_written_on_request() {
    if let Some(folder) = std::env::var_os("KAPR_KREW_OUT") {
        std::fs::write(Path::new(&folder).join("kapr.yaml"), rendered()).unwrap();
    }
}
