//! One batch producer for each partition that was sent to.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::future::join_all;
use rskafka::chrono::{DateTime, Utc};
use rskafka::client::Client;
use rskafka::client::partition::{Compression, UnknownTopicHandling};
use rskafka::client::producer::aggregator::RecordAggregator;
use rskafka::client::producer::{BatchProducer, BatchProducerBuilder};
use rskafka::record::Record;
use serde_json::{Value, json};

use super::errors;
use crate::failure::Failure;
use crate::requests::{OpenProducer, Send};
use crate::wire;

/// The crate wants a size and has no default; what brokers take by default is a little more.
const BATCH_BYTES: usize = 900_000;

pub struct Producer {
    client: Client,
    request: OpenProducer,
    batches: HashMap<(String, i32), BatchProducer<RecordAggregator>>,
}

impl Producer {
    pub async fn open(request: OpenProducer) -> Result<Self, Failure> {
        refuse(&request)?;
        let client = super::connect(&request.bootstrap, request.client_id.clone()).await?;
        Ok(Self { client, request, batches: HashMap::new() })
    }

    pub async fn send(&mut self, request: Send) -> Result<Value, Failure> {
        let one_by_one = request.one_by_one();
        if request.records.iter().any(|record| record.headers.iter().any(|(_, value)| value.0.is_none())) {
            return Failure::unsupported("rskafka cannot write a header whose value is null");
        }
        let count = request.records.len();
        let mut placed = Vec::new();
        for record in request.records {
            let partition = match record.partition {
                Some(partition) => partition,
                None => self.only_partition(&request.topic).await?,
            };
            match self.prepare(&request.topic, partition).await {
                Err(Failure::Fault(fault)) => return Ok(json!({"results": vec![json!({"error": fault}); count]})),
                prepared => prepared?,
            }
            placed.push((partition, to_record(record)?));
        }
        let mut results = Vec::new();
        if one_by_one {
            for (partition, record) in placed {
                results.push(self.send_one(&request.topic, partition, record).await);
            }
        } else {
            let sent = placed.into_iter().map(|(partition, record)| self.send_one(&request.topic, partition, record));
            results = join_all(sent).await;
        }
        Ok(json!({"results": results}))
    }

    async fn send_one(&self, topic: &str, partition: i32, record: Record) -> Value {
        let batches = &self.batches[&(topic.to_owned(), partition)];
        match batches.produce(record).await {
            Ok(offset) => json!({"partition": partition, "offset": offset}),
            Err(error) => json!({"error": errors::producer_fault(&error)}),
        }
    }

    /// The partition of a record that names none, where there is nothing to choose.
    async fn only_partition(&self, topic: &str) -> Result<i32, Failure> {
        let topics = self.client.list_topics().await?;
        let partitions = topics.iter().find(|known| known.name == topic).map_or(0, |known| known.partitions.len());
        if partitions > 1 {
            return Failure::unsupported("rskafka has no partitioner: who sends names the partition");
        }
        Ok(0)
    }

    async fn prepare(&mut self, topic: &str, partition: i32) -> Result<(), Failure> {
        let key = (topic.to_owned(), partition);
        if self.batches.contains_key(&key) {
            return Ok(());
        }
        let client = self.client.partition_client(topic, partition, UnknownTopicHandling::Error).await?;
        let mut builder = BatchProducerBuilder::new(Arc::new(client)).with_compression(compression(&self.request));
        if let Some(linger) = self.request.linger_ms {
            builder = builder.with_linger(Duration::from_millis(linger));
        }
        let bytes = self.request.batch_bytes.map_or(BATCH_BYTES, |bytes| usize::try_from(bytes).unwrap_or(BATCH_BYTES));
        self.batches.insert(key, builder.build(RecordAggregator::new(bytes)));
        Ok(())
    }
}

fn refuse(request: &OpenProducer) -> Result<(), Failure> {
    let lacks = [
        (
            request.acks.as_deref().is_some_and(|acks| acks != "all"),
            "rskafka always asks for the acknowledgement of all",
        ),
        (request.idempotent == Some(true), "rskafka has no idempotent producer"),
        (request.transactional_id.is_some(), "rskafka has no transactions"),
        (request.buffer_bytes.is_some(), "rskafka has no limit of what waits to be sent"),
        (request.max_in_flight.is_some(), "rskafka has no limit of requests in flight"),
        (request.retries.is_some(), "rskafka has no count of retries: it tries until its deadline"),
        (request.request_timeout_ms.is_some(), "rskafka's request timeout is fixed"),
        (request.delivery_timeout_ms.is_some(), "rskafka has no delivery timeout"),
        (request.max_request_bytes.is_some(), "rskafka has no limit of a request"),
        (
            request.partitioner.as_deref().is_some_and(|partitioner| partitioner != "default"),
            "rskafka has no partitioner: who sends names the partition",
        ),
        (request.serializer.is_some(), "rskafka has no serializers: keys and values are bytes"),
        (request.interceptor.is_some(), "rskafka has no interceptors"),
    ];
    match lacks.iter().find(|(asked, _)| *asked) {
        Some((_, sentence)) => Failure::unsupported(*sentence),
        None => Ok(()),
    }
}

fn compression(request: &OpenProducer) -> Compression {
    match request.compression.as_deref() {
        Some("gzip") => Compression::Gzip,
        Some("snappy") => Compression::Snappy,
        Some("lz4") => Compression::Lz4,
        Some("zstd") => Compression::Zstd,
        _ => Compression::NoCompression,
    }
}

/// The crate keeps headers sorted by name, each name once.
fn to_record(record: wire::Record) -> Result<Record, Failure> {
    let count = record.headers.len();
    let headers: BTreeMap<_, _> =
        record.headers.into_iter().map(|(name, value)| (name, value.0.unwrap_or_default())).collect();
    if headers.len() < count {
        return Failure::unsupported("rskafka's headers have each name once");
    }
    let timestamp = record.timestamp.map_or_else(now, |at| DateTime::from_timestamp_millis(at).unwrap_or_default());
    Ok(Record { key: record.key.0, value: record.value.0, headers, timestamp })
}

/// The crate's records have a timestamp always: its users take the clock's.
fn now() -> DateTime<Utc> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    DateTime::UNIX_EPOCH + since
}
