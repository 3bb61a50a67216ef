//! A base consumer: what it waits for, it waits for inside of a poll.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerGroupMetadata};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, Timestamp, TopicPartitionList};
use serde_json::{Value, json};

use super::offsets;
use crate::failure::Failure;
use crate::requests::{Commit, CommitOffset, OpenConsumer, Partitions, Place, Poll, Seek, Subscribe, Times};
use crate::wire::{Bytes, Partition, Taken};

/// The longest that one call waits for a record, so that a poll's own time is kept.
const SLICE: Duration = Duration::from_millis(100);

const CLASSIC_ASSIGNORS: [&str; 3] = ["range", "roundrobin", "cooperative-sticky"];
/// How long to wait before a seek that came too early is tried again.
const STATE_PAUSE: Duration = Duration::from_millis(20);
/// librdkafka's default of `message.max.bytes`, which `fetch.max.bytes` has to reach.
const MESSAGE_MAX_BYTES: u64 = 1_000_000;

pub struct Consumer {
    consumer: BaseConsumer,
    /// The next offset of what polls have answered.
    polled: HashMap<Partition, i64>,
    /// What came before an error that a poll answered: the next poll has it.
    pending: Vec<Taken>,
    /// Where an assignment starts. Without a group nothing was committed, and librdkafka asks the group all the same.
    start: Offset,
}

impl Consumer {
    pub fn open(request: &OpenConsumer) -> Result<Self, Failure> {
        if request.max_poll_records.is_some() {
            return Failure::unsupported("librdkafka has no limit of records: a poll answers one");
        }
        let remote = request.group_protocol.as_deref() == Some("consumer");
        if let Some(assignor) = request.assignor.as_deref().filter(|name| !remote && !CLASSIC_ASSIGNORS.contains(name))
        {
            let known = CLASSIC_ASSIGNORS.join(", ");
            return Failure::unsupported(format!("librdkafka has the assignors {known}, not {assignor}"));
        }
        let start = match (&request.group, request.reset.as_deref()) {
            (None, Some("earliest")) => Offset::Beginning,
            (None, Some("latest") | None) => Offset::End,
            _ => Offset::Invalid,
        };
        Ok(Self { consumer: config(request).create()?, polled: HashMap::new(), pending: Vec::new(), start })
    }

    pub fn group_metadata(&self) -> KafkaResult<ConsumerGroupMetadata> {
        self.consumer.group_metadata().ok_or(KafkaError::Global(RDKafkaErrorCode::UnknownGroup))
    }

    pub fn subscribe(&self, request: &Subscribe) -> Result<Value, Failure> {
        // librdkafka takes a topic that begins with ^ for a regular expression.
        let pattern = request.pattern.as_ref().map(|pattern| format!("^{}", pattern.trim_start_matches('^')));
        let topics: Vec<&str> = match &pattern {
            Some(pattern) => vec![pattern],
            None => request.topics.iter().map(String::as_str).collect(),
        };
        self.consumer.subscribe(&topics)?;
        Ok(json!({}))
    }

    pub fn assign(&self, request: &Partitions) -> Result<Value, Failure> {
        let mut partitions = offsets::list(&request.partitions);
        partitions.set_all_offsets(self.start)?;
        self.consumer.assign(&partitions)?;
        Ok(json!({}))
    }

    pub fn poll(&mut self, request: &Poll) -> Result<Value, Failure> {
        let ends = Instant::now() + Duration::from_millis(request.timeout_ms);
        while self.pending.len() < request.count {
            let left = ends.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match self.consumer.poll(left.min(SLICE)) {
                None => (),
                Some(Ok(message)) => self.pending.push(taken(&message)),
                Some(Err(error)) if is_passing(&error) => eprintln!("poll: {error}"),
                Some(Err(error)) => return Err(error.into()),
            }
        }
        let records = std::mem::take(&mut self.pending);
        for record in &records {
            self.polled.insert((record.topic.clone(), record.partition), record.offset + 1);
        }
        Ok(json!({"records": records}))
    }

    pub fn assignment(&self) -> Result<Value, Failure> {
        let list = self.consumer.assignment()?;
        let partitions: Vec<Partition> =
            list.elements().iter().map(|element| (element.topic().to_owned(), element.partition())).collect();
        Ok(json!({"partitions": partitions}))
    }

    pub fn commit(&self, request: &Commit) -> Result<Value, Failure> {
        let mode = if request.mode.as_deref() == Some("async") { CommitMode::Async } else { CommitMode::Sync };
        let mut list = TopicPartitionList::new();
        match &request.offsets {
            Some(rows) => {
                for row in rows {
                    let (topic, partition, offset, metadata) = match row {
                        CommitOffset::Plain(topic, partition, offset) => (topic, partition, offset, None),
                        CommitOffset::Described(topic, partition, offset, metadata) => {
                            (topic, partition, offset, metadata.as_ref())
                        }
                    };
                    let mut element = list.add_partition(topic, *partition);
                    element.set_offset(Offset::Offset(*offset))?;
                    if let Some(metadata) = metadata {
                        element.set_metadata(metadata);
                    }
                }
            }
            None => {
                for ((topic, partition), offset) in &self.polled {
                    list.add_partition_offset(topic, *partition, Offset::Offset(*offset))?;
                }
            }
        }
        self.consumer.commit(&list, mode)?;
        Ok(json!({}))
    }

    pub fn committed(&self, request: &Partitions, timeout: Duration) -> Result<Value, Failure> {
        let list = self.consumer.committed_offsets(offsets::list(&request.partitions), timeout)?;
        let metadata: HashMap<Partition, String> = list
            .elements()
            .iter()
            .map(|element| ((element.topic().to_owned(), element.partition()), element.metadata().to_owned()))
            .collect();
        let rows = offsets::rows(&list)?.into_iter().map(|(topic, partition, offset)| {
            let text = metadata.get(&(topic.clone(), partition)).cloned().unwrap_or_default();
            (topic, partition, offset, text)
        });
        Ok(json!({"offsets": rows.collect::<Vec<_>>()}))
    }

    /// librdkafka's position is that of the last record it gave out, and none before the first.
    pub fn position(&self, request: &Partitions) -> Result<Value, Failure> {
        let known = self.consumer.position()?;
        let rows = offsets::rows(&known)?.into_iter().filter(|(topic, partition, _)| {
            request.partitions.iter().any(|(wanted, index)| wanted == topic && index == partition)
        });
        Ok(
            json!({"offsets": rows.map(|(topic, partition, offset)| (topic, partition, offset.unwrap_or(-1))).collect::<Vec<_>>()}),
        )
    }

    /// librdkafka refuses until its fetcher has taken up the partition, which is a moment after the assignment.
    pub fn seek(&self, request: &Seek, timeout: Duration) -> Result<Value, Failure> {
        let offset = match &request.offset {
            Place::Number(offset) => Offset::Offset(*offset),
            Place::Name(name) if name == "beginning" => Offset::Beginning,
            Place::Name(_) => Offset::End,
        };
        let ends = Instant::now() + timeout;
        loop {
            match self.consumer.seek(&request.topic, request.partition, offset, timeout) {
                Ok(()) => return Ok(json!({})),
                // The crate gives the error's text only.
                Err(KafkaError::Seek(text)) if text.contains("state") && Instant::now() < ends => {
                    std::thread::sleep(STATE_PAUSE);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// librdkafka answers the end of the partition where no record is that young; the timestamp that was found it keeps to itself.
    pub fn offsets_for_times(&self, request: &Times, timeout: Duration) -> Result<Value, Failure> {
        let found = self.consumer.offsets_for_times(offsets::offsets(&request.times)?, timeout)?;
        let rows = offsets::rows(&found)?;
        let rows: Vec<_> =
            rows.into_iter().map(|(topic, partition, offset)| json!([topic, partition, offset, null])).collect();
        Ok(json!({"offsets": rows}))
    }

    pub fn end_offsets(&self, request: &Partitions, timeout: Duration) -> Result<Value, Failure> {
        self.edges(&request.partitions, timeout, |(_, high)| high)
    }

    pub fn beginning_offsets(&self, request: &Partitions, timeout: Duration) -> Result<Value, Failure> {
        self.edges(&request.partitions, timeout, |(low, _)| low)
    }

    fn edges(
        &self,
        partitions: &[Partition],
        timeout: Duration,
        edge: fn((i64, i64)) -> i64,
    ) -> Result<Value, Failure> {
        let mut rows = Vec::new();
        for (topic, partition) in partitions {
            rows.push((topic, partition, edge(self.consumer.fetch_watermarks(topic, *partition, timeout)?)));
        }
        Ok(json!({"offsets": rows}))
    }

    pub fn pause(&self, request: &Partitions) -> Result<Value, Failure> {
        self.consumer.pause(&offsets::list(&request.partitions))?;
        Ok(json!({}))
    }

    pub fn resume(&self, request: &Partitions) -> Result<Value, Failure> {
        self.consumer.resume(&offsets::list(&request.partitions))?;
        Ok(json!({}))
    }
}

/// What librdkafka mentions and then mends by itself.
fn is_passing(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{AllBrokersDown, BrokerTransportFailure, OperationTimedOut, Resolve};
    let code = error.rdkafka_error_code();
    code.is_some_and(|code| matches!(code, AllBrokersDown | BrokerTransportFailure | OperationTimedOut | Resolve))
}

fn taken(message: &BorrowedMessage<'_>) -> Taken {
    let (timestamp, timestamp_type) = match message.timestamp() {
        Timestamp::CreateTime(at) => (at, Some("create")),
        Timestamp::LogAppendTime(at) => (at, Some("append")),
        Timestamp::NotAvailable => (-1, None),
    };
    let headers = message.headers().map(|headers| {
        headers.iter().map(|header| (header.key.to_owned(), Bytes(header.value.map(<[u8]>::to_vec)))).collect()
    });
    Taken {
        topic: message.topic().to_owned(),
        partition: message.partition(),
        offset: message.offset(),
        key: Bytes(message.key().map(<[u8]>::to_vec)),
        value: Bytes(message.payload().map(<[u8]>::to_vec)),
        headers: headers.unwrap_or_default(),
        timestamp,
        timestamp_type,
    }
}

/// A consumer without a group needs a group's name all the same; it never joins, and commits nothing.
const NO_GROUP: &str = "none";

fn config(request: &OpenConsumer) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &request.bootstrap);
    config.set("group.id", request.group.as_deref().unwrap_or(NO_GROUP));
    let remote = request.group_protocol.as_deref() == Some("consumer");
    let texts = [
        ("client.id", request.client_id.as_deref()),
        ("group.instance.id", request.instance_id.as_deref()),
        ("auto.offset.reset", request.reset.as_deref().map(|reset| if reset == "none" { "error" } else { reset })),
        ("isolation.level", request.isolation.as_deref()),
        ("group.protocol", request.group_protocol.as_deref()),
        (if remote { "group.remote.assignor" } else { "partition.assignment.strategy" }, request.assignor.as_deref()),
    ];
    for (name, value) in texts {
        value.map(|value| config.set(name, value));
    }
    let numbers = [
        ("auto.commit.interval.ms", request.auto_commit_interval_ms),
        ("session.timeout.ms", request.session_timeout_ms),
        ("heartbeat.interval.ms", request.heartbeat_interval_ms),
        ("fetch.min.bytes", request.fetch_min_bytes),
        ("fetch.wait.max.ms", request.fetch_max_wait_ms),
        ("fetch.max.bytes", request.fetch_max_bytes),
        ("max.partition.fetch.bytes", request.partition_fetch_bytes),
        ("message.max.bytes", request.fetch_max_bytes.map(|bytes| bytes.min(MESSAGE_MAX_BYTES))),
    ];
    for (name, value) in numbers {
        value.map(|value| config.set(name, value.to_string()));
    }
    let auto_commit = if request.group.is_none() { Some(false) } else { request.auto_commit };
    auto_commit.map(|enabled| config.set("enable.auto.commit", enabled.to_string()));
    config
}
