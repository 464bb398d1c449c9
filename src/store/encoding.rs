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
    let appends = keys
        .iter()
        .map(|key| unpack::<Append>(&data[key]).map_err(|e| format!("key {key}: {e}")))
        .collect::<Result<Vec<_>, _>>()?;
    let record = Record::fold(folded, appends).map_err(|e| e.to_string())?;
    Ok((record, keys))
}
