//! The record as it lies in the cluster, read without the product's own store.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use kapr::core::journal::{Append, Folded, Record, Run};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::cluster::Place;

impl Place {
    /// The record of a workload such as `deployment-web`.
    pub fn record(&self, workload: &str) -> Record {
        let map = self.get(&["configmap", &format!("kapr-{workload}")]);
        let data = map["binaryData"].as_object().unwrap();
        let folded = data.get("folded").map(unpack::<Folded>).unwrap_or_default();
        let mut keys = data.keys().filter(|key| key.starts_with('e')).collect::<Vec<_>>();
        keys.sort();
        Record::fold(folded, keys.into_iter().map(|key| unpack::<Append>(&data[key]))).unwrap()
    }

    /// The last run of a deployment.
    pub fn last_run(&self, name: &str) -> Run {
        self.record(&format!("deployment-{name}")).run.unwrap()
    }

    /// Who holds a deployment, if anybody does.
    pub fn holder(&self, name: &str) -> Option<String> {
        let lease = self.get(&["lease", &format!("kapr-deployment-{name}")]);
        lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty()).map(str::to_owned)
    }
}

fn unpack<T: DeserializeOwned>(value: &Value) -> T {
    let bytes = STANDARD.decode(value.as_str().unwrap()).unwrap();
    let mut json = Vec::new();
    GzDecoder::new(bytes.as_slice()).read_to_end(&mut json).unwrap();
    serde_json::from_slice(&json).unwrap()
}
