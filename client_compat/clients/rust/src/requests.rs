//! The arguments of the operations, by the names that ../CONTROL.md gives them. What is left out is the client's own default.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

pub use crate::options::{OpenConsumer, OpenProducer};
use crate::wire::{Partition, PartitionOffset, Record};

#[derive(Debug, Deserialize)]
pub struct Send {
    pub topic: String,
    pub records: Vec<Record>,
    pub mode: Option<String>,
}

impl Send {
    /// Each record is to be acknowledged before the next is sent.
    pub fn one_by_one(&self) -> bool {
        self.mode.as_deref() == Some("sync")
    }
}

#[derive(Debug, Deserialize)]
pub struct SendOffsets {
    pub consumer: String,
    pub offsets: Vec<PartitionOffset>,
}

#[derive(Debug, Deserialize)]
pub struct Subscribe {
    #[serde(default)]
    pub topics: Vec<String>,
    pub pattern: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct Partitions {
    pub partitions: Vec<Partition>,
}

#[derive(Debug, Deserialize)]
pub struct Poll {
    pub count: usize,
    pub timeout_ms: u64,
}

#[derive(Debug, Deserialize)]
pub struct Commit {
    pub offsets: Option<Vec<CommitOffset>>,
    pub mode: Option<String>,
}

/// `[topic, partition, next offset]`, with or without the offset's metadata.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum CommitOffset {
    Plain(String, i32, i64),
    Described(String, i32, i64, Option<String>),
}

/// A place in a partition: a number, or a name such as "end" or "earliest".
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Place {
    Number(i64),
    Name(String),
}

#[derive(Debug, Deserialize)]
pub struct Seek {
    pub topic: String,
    pub partition: i32,
    pub offset: Place,
}

#[derive(Debug, Deserialize)]
pub struct Times {
    pub times: Vec<PartitionOffset>,
}

#[derive(Debug, Deserialize)]
pub struct Admin {
    pub bootstrap: String,
}

#[derive(Debug, Deserialize)]
pub struct NewTopic {
    pub name: String,
    pub partitions: i32,
    pub replication: Option<i32>,
    #[serde(default)]
    pub configs: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
pub struct CreateTopics {
    pub topics: Vec<NewTopic>,
}

#[derive(Debug, Deserialize)]
pub struct DeleteTopics {
    pub topics: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub struct OfTopic {
    pub topic: String,
}

#[derive(Debug, Deserialize)]
pub struct CreatePartitions {
    pub topic: String,
    pub count: usize,
}

#[derive(Debug, Deserialize)]
pub struct Configs {
    pub resource: String,
    pub name: String,
    #[serde(default)]
    pub set: BTreeMap<String, String>,
    #[serde(default)]
    pub delete: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub struct DeleteRecords {
    pub offsets: Vec<PartitionOffset>,
}

#[derive(Debug, Deserialize)]
pub struct ListOffsets {
    pub offsets: Vec<(String, i32, Place)>,
}

#[derive(Debug, Deserialize)]
pub struct OfGroup {
    pub group: String,
}

#[derive(Debug, Deserialize)]
pub struct AlterGroupOffsets {
    pub group: String,
    pub offsets: Vec<PartitionOffset>,
}

#[derive(Debug, Deserialize)]
pub struct DeleteGroups {
    pub groups: Vec<String>,
}

/// The request's `handle`.
pub fn handle_of(request: &Value) -> String {
    request["handle"].as_str().unwrap_or_default().to_owned()
}
