//! Entries as bytes: gzipped JSON, one key of the ConfigMap for each write. Pure.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::core::journal::{Append, Folded, Record};

/// The key that holds the folded runs and the deny-list.
pub const FOLDED: &str = "folded";

/// A record that unpacks to more is not one of ours: 10,000 pods take about 2 MB.
const MOST_UNPACKED: u64 = 64 << 20;

/// The key of the `n`th write: sorts as text in the order of writing.
pub fn key(n: u64) -> String {
    format!("e{n:08}")
}

/// The number in a key, if it is one of ours.
pub fn number(key: &str) -> Option<u64> {
    key.strip_prefix('e').filter(|digits| digits.len() == 8)?.parse().ok()
}

pub fn pack<T: Serialize>(value: &T) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let json = serde_json::to_vec(value).expect("entries have string keys only");
    encoder.write_all(&json).and_then(|()| encoder.finish()).expect("writing to memory does not fail")
}

pub fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let mut json = Vec::new();
    let limit = MOST_UNPACKED + 1;
    GzDecoder::new(bytes).take(limit).read_to_end(&mut json).map_err(|e| format!("not gzip: {e}"))?;
    if u64::try_from(json.len()).is_ok_and(|n| n > MOST_UNPACKED) {
        return Err(format!("unpacks to more than {} MiB", MOST_UNPACKED >> 20));
    }
    serde_json::from_slice(&json).map_err(|e| e.to_string())
}

/// The record in a ConfigMap's data, and the keys of its entries in order. Keys that are not ours are ignored.
pub fn decode(data: &BTreeMap<String, Vec<u8>>) -> Result<(Record, Vec<String>), String> {
    let folded = match data.get(FOLDED) {
        Some(bytes) => unpack::<Folded>(bytes).map_err(|e| format!("key {FOLDED}: {e}"))?,
        None => Folded::default(),
    };
    let keys = data.keys().filter(|key| number(key).is_some()).cloned().collect::<Vec<_>>();
    // Every record of ours has at least its first entry: one that has none was damaged.
    if keys.is_empty() && !data.contains_key(FOLDED) {
        return Err("it holds no entry".to_owned());
    }
    let appends = keys
        .iter()
        .map(|key| unpack::<Append>(&data[key]).map_err(|e| format!("key {key}: {e}")))
        .collect::<Result<Vec<_>, _>>()?;
    let record = Record::fold(folded, appends).map_err(|e| e.to_string())?;
    Ok((record, keys))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;
    use crate::core::journal::{Entry, SCHEMA};

    fn append(schema: u32) -> Append {
        let revision = "ab".repeat(32).try_into().unwrap();
        Append { schema, at: Timestamp::UNIX_EPOCH, by: "ann@desk".into(), entries: vec![Entry::Allowed { revision }] }
    }

    #[test]
    fn keys_sort_in_the_order_of_writing() {
        assert!(key(9) < key(10));
        assert_eq!(number(&key(12)), Some(12));
        assert_eq!(number("folded"), None);
        assert_eq!(number("e12"), None);
    }

    #[test]
    fn what_was_written_reads_back_and_foreign_keys_are_left_alone() {
        let data = BTreeMap::from([(key(1), pack(&append(SCHEMA))), ("note".to_owned(), b"mine".to_vec())]);
        let (record, keys) = decode(&data).unwrap();
        assert_eq!(keys, [key(1)]);
        assert_eq!(record, Record::fold(Folded::default(), [append(SCHEMA)]).unwrap());
    }

    #[test]
    fn a_damaged_record_is_never_read_as_an_empty_one() {
        assert_eq!(decode(&BTreeMap::new()).unwrap_err(), "it holds no entry");
        let cut = pack(&append(SCHEMA))[..20].to_vec();
        assert!(decode(&BTreeMap::from([(key(1), cut)])).unwrap_err().starts_with("key e00000001: not gzip"));
        let newer = BTreeMap::from([(key(1), pack(&append(SCHEMA + 1)))]);
        assert!(decode(&newer).unwrap_err().contains("newer kubectl-kapr"));
    }

    #[test]
    fn a_bomb_is_refused() {
        let bomb = pack(&"a".repeat(usize::try_from(MOST_UNPACKED).unwrap() + 10));
        assert!(unpack::<Append>(&bomb).unwrap_err().contains("more than 64 MiB"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in ".{0,200}") {
            let _ = decode(&BTreeMap::from([(key(1), bytes)]));
            let _ = decode(&BTreeMap::from([(key(1), pack(&text)), (FOLDED.to_owned(), pack(&text))]));
        }
    }
}
