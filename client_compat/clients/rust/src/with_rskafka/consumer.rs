//! One stream for each assigned partition, made where it is to start and made anew after a seek or an error.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{FutureExt, select_all};
use rskafka::chrono::DateTime;
use rskafka::client::Client;
use rskafka::client::consumer::{StartOffset, StreamConsumer, StreamConsumerBuilder};
use rskafka::client::partition::{OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::record::RecordAndOffset;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::failure::{Failure, Fault};
use crate::requests::{OpenConsumer, Partitions, Place, Poll, Seek, Times};
use crate::wire::{Bytes, Partition, Taken};

struct Source {
    client: Arc<PartitionClient>,
    stream: StreamConsumer,
    /// Where the stream is to begin, if it has to be made anew.
    next: StartOffset,
}

pub struct Consumer {
    client: Client,
    request: OpenConsumer,
    sources: BTreeMap<Partition, Source>,
    paused: HashSet<Partition>,
}

impl Consumer {
    pub async fn open(request: OpenConsumer) -> Result<Self, Failure> {
        refuse(&request)?;
        let client = super::connect(&request.bootstrap, request.client_id.clone()).await?;
        Ok(Self { client, request, sources: BTreeMap::new(), paused: HashSet::new() })
    }

    pub async fn assign(&mut self, request: Partitions) -> Result<Value, Failure> {
        let start = match self.request.reset.as_deref() {
            Some("earliest") => StartOffset::Earliest,
            _ => StartOffset::Latest,
        };
        let mut sources = BTreeMap::new();
        for (topic, partition) in request.partitions {
            let client = Arc::new(self.partition(&topic, partition).await?);
            // So that what is latest is so now, and not when it is first polled.
            let next = match start {
                StartOffset::Latest => StartOffset::At(client.get_offset(OffsetAt::Latest).await?),
                start => start,
            };
            let stream = self.stream(&client, next);
            sources.insert((topic, partition), Source { client, stream, next });
        }
        self.sources = sources;
        self.paused.clear();
        Ok(json!({}))
    }

    async fn partition(&self, topic: &str, partition: i32) -> Result<PartitionClient, Failure> {
        Ok(self.client.partition_client(topic, partition, UnknownTopicHandling::Error).await?)
    }

    fn stream(&self, client: &Arc<PartitionClient>, start: StartOffset) -> StreamConsumer {
        let mut builder = StreamConsumerBuilder::new(Arc::clone(client), start);
        if let Some(bytes) = self.request.fetch_min_bytes {
            builder = builder.with_min_batch_size(clamp(bytes));
        }
        if let Some(bytes) = self.request.fetch_max_bytes {
            builder = builder.with_max_batch_size(clamp(bytes));
        }
        if let Some(wait) = self.request.fetch_max_wait_ms {
            builder = builder.with_max_wait_ms(clamp(wait));
        }
        builder.build()
    }

    pub async fn poll(&mut self, request: &Poll) -> Result<Value, Failure> {
        let ends = Instant::now() + Duration::from_millis(request.timeout_ms);
        let mut records = Vec::new();
        while records.len() < request.count {
            let paused = &self.paused;
            let waiting: Vec<_> = self
                .sources
                .iter_mut()
                .filter(|(partition, _)| !paused.contains(*partition))
                .map(|(partition, source)| source.stream.next().map(|item| (partition.clone(), item)).boxed())
                .collect();
            if waiting.is_empty() {
                tokio::time::sleep_until(ends).await;
                break;
            }
            let Ok(((partition, item), _, _)) = timeout_at(ends, select_all(waiting)).await else { break };
            match item {
                Some(Ok((record, _))) => {
                    let source = self.sources.get_mut(&partition).expect("its stream was just polled");
                    source.next = StartOffset::At(record.offset + 1);
                    records.push(taken(partition, record));
                }
                Some(Err(error)) if records.is_empty() => {
                    self.restart(&partition);
                    return Err(error.into());
                }
                Some(Err(_)) | None => {
                    self.restart(&partition);
                    break;
                }
            }
        }
        Ok(json!({"records": records}))
    }

    /// A stream ends with its first error.
    fn restart(&mut self, partition: &Partition) {
        let Some(mut source) = self.sources.remove(partition) else { return };
        source.stream = self.stream(&source.client, source.next);
        self.sources.insert(partition.clone(), source);
    }

    pub fn assignment(&self) -> Value {
        json!({"partitions": self.sources.keys().collect::<Vec<_>>()})
    }

    pub fn seek(&mut self, request: &Seek) -> Result<Value, Failure> {
        let partition = (request.topic.clone(), request.partition);
        let source =
            self.sources.get_mut(&partition).ok_or_else(|| Fault::new("CLIENT:BAD_REQUEST", "it is not assigned"))?;
        source.next = match &request.offset {
            Place::Number(offset) => StartOffset::At(*offset),
            Place::Name(name) if name == "beginning" => StartOffset::Earliest,
            Place::Name(_) => StartOffset::Latest,
        };
        self.restart(&partition);
        Ok(json!({}))
    }

    pub async fn edges(&self, request: &Partitions, edge: OffsetAt) -> Result<Value, Failure> {
        let mut rows = Vec::new();
        for (topic, partition) in &request.partitions {
            rows.push((topic, partition, self.partition(topic, *partition).await?.get_offset(edge).await?));
        }
        Ok(json!({"offsets": rows}))
    }

    pub async fn offsets_for_times(&self, request: &Times) -> Result<Value, Failure> {
        let mut rows = Vec::new();
        for (topic, partition, at) in &request.times {
            let at = OffsetAt::Timestamp(DateTime::from_timestamp_millis(*at).unwrap_or_default());
            let offset = self.partition(topic, *partition).await?.get_offset(at).await?;
            rows.push(json!([topic, partition, (offset >= 0).then_some(offset), null]));
        }
        Ok(json!({"offsets": rows}))
    }

    /// A stream that nobody reads is paused.
    pub fn pause(&mut self, request: &Partitions) -> Value {
        self.paused.extend(request.partitions.iter().cloned());
        json!({})
    }

    pub fn resume(&mut self, request: &Partitions) -> Value {
        self.paused.retain(|partition| !request.partitions.contains(partition));
        json!({})
    }
}

fn clamp(bytes: u64) -> i32 {
    i32::try_from(bytes).unwrap_or(i32::MAX)
}

fn refuse(request: &OpenConsumer) -> Result<(), Failure> {
    let lacks = [
        (request.group.is_some(), "rskafka has no consumer groups"),
        (request.reset.as_deref() == Some("none"), "rskafka's streams start where they are told: there is no reset"),
        (request.isolation.as_deref() == Some("read_uncommitted"), "rskafka always asks for committed records"),
        (request.max_poll_records.is_some(), "rskafka has no limit of records: a stream gives one"),
        (request.partition_fetch_bytes.is_some(), "rskafka fetches one partition at a time"),
    ];
    match lacks.iter().find(|(asked, _)| *asked) {
        Some((_, sentence)) => Failure::unsupported(*sentence),
        None => Ok(()),
    }
}

fn taken((topic, partition): Partition, RecordAndOffset { record, offset }: RecordAndOffset) -> Taken {
    let headers = record.headers.into_iter().map(|(name, value)| (name, Bytes(Some(value)))).collect();
    Taken {
        topic,
        partition,
        offset,
        key: Bytes(record.key),
        value: Bytes(record.value),
        headers,
        timestamp: record.timestamp.timestamp_millis(),
        // The crate keeps the type to itself.
        timestamp_type: None,
    }
}
