//! Keys, values and records as the control protocol writes them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes, or null: base64 text or null on the wire.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bytes(pub Option<Vec<u8>>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        let bytes = text.map(|text| STANDARD.decode(text)).transpose().map_err(serde::de::Error::custom)?;
        Ok(Self(bytes))
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_ref().map(|bytes| STANDARD.encode(bytes)).serialize(serializer)
    }
}

#[derive(Debug, Deserialize)]
pub struct Record {
    #[serde(default)]
    pub key: Bytes,
    #[serde(default)]
    pub value: Bytes,
    #[serde(default)]
    pub headers: Vec<(String, Bytes)>,
    pub partition: Option<i32>,
    /// Milliseconds.
    pub timestamp: Option<i64>,
}

#[derive(Debug, Serialize)]
pub struct Taken {
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
    pub key: Bytes,
    pub value: Bytes,
    pub headers: Vec<(String, Bytes)>,
    pub timestamp: i64,
    pub timestamp_type: Option<&'static str>,
}

pub type Partition = (String, i32);
pub type PartitionOffset = (String, i32, i64);
