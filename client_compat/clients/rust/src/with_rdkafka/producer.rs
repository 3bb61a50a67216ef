//! A threaded producer: librdkafka's callbacks run on a thread of the crate's, and leave the results for who sent.

use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use rdkafka::ClientContext;
use rdkafka::config::{ClientConfig, FromClientConfigAndContext};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{DeliveryResult, Header, Message, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Partitioner, Producer as _, ProducerContext, ThreadedProducer};
use rdkafka::types::RDKafkaErrorCode;
use serde_json::{Value, json};

use super::consumer::Consumer;
use super::{errors, offsets};
use crate::failure::{Failure, Fault};
use crate::requests::{OpenProducer, Send};
use crate::wire::{PartitionOffset, Record};

/// How long to wait before a record that found the queue full is tried again.
const QUEUE_FULL_PAUSE: Duration = Duration::from_millis(20);

/// The last partition, always.
struct Last;

impl Partitioner for Last {
    fn partition(&self, _: &str, _: Option<&[u8]>, partitions: i32, _: impl Fn(i32) -> bool) -> i32 {
        partitions - 1
    }
}

/// Where the result of the record of this index goes.
struct Report {
    index: usize,
    results: Sender<(usize, Value)>,
}

struct Context {
    partitioner: Option<Last>,
}

impl ClientContext for Context {}

impl ProducerContext<Last> for Context {
    type DeliveryOpaque = Box<Report>;

    fn delivery(&self, delivered: &DeliveryResult<'_>, report: Box<Report>) {
        let result = match delivered {
            Ok(message) => json!({
                "partition": message.partition(),
                "offset": message.offset(),
                "timestamp": message.timestamp().to_millis(),
            }),
            Err((error, _)) => json!({"error": errors::fault(error)}),
        };
        // Whoever sent it may have stopped waiting.
        let _ = report.results.send((report.index, result));
    }

    fn get_custom_partitioner(&self) -> Option<&Last> {
        self.partitioner.as_ref()
    }
}

pub struct Producer(ThreadedProducer<Context, Last>);

impl Producer {
    pub fn open(request: &OpenProducer, timeout: Duration) -> Result<Self, Failure> {
        if request.serializer.is_some() {
            return Failure::unsupported(
                "the rdkafka crate has no serializers: keys and values are what ToBytes gives",
            );
        }
        if request.interceptor.is_some() {
            return Failure::unsupported("the rdkafka crate has no interceptors: librdkafka's are plugins in C");
        }
        let partitioner = (request.partitioner.as_deref() == Some("last")).then_some(Last);
        let producer = ThreadedProducer::from_config_and_context(&config(request), Context { partitioner })?;
        if request.transactional_id.is_some() {
            producer.init_transactions(timeout)?;
        }
        Ok(Self(producer))
    }

    pub fn send(&self, request: &Send, timeout: Duration) -> Result<Value, Failure> {
        let ends = Instant::now() + timeout;
        let (sender, receiver) = mpsc::channel();
        for (index, record) in request.records.iter().enumerate() {
            let report = Box::new(Report { index, results: sender.clone() });
            if let Err(error) = self.queue(&request.topic, record, report, ends) {
                let _ = sender.send((index, json!({"error": errors::fault(&error)})));
            }
            if request.one_by_one() {
                // What is late has no result of its own, and is told below.
                let _ = self.0.flush(left(ends));
            }
        }
        let _ = self.0.flush(left(ends));
        drop(sender);
        let mut results = vec![json!({"error": Fault::timeout()}); request.records.len()];
        for (index, result) in receiver.try_iter() {
            results[index] = result;
        }
        Ok(json!({"results": results}))
    }

    /// A full queue empties while it is waited for: the crate's thread serves the callbacks.
    fn queue(&self, topic: &str, record: &Record, report: Box<Report>, ends: Instant) -> KafkaResult<()> {
        let mut queued = self.0.send(to_record(topic, record, report));
        while let Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), refused)) = queued {
            if Instant::now() >= ends {
                return Err(KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull));
            }
            std::thread::sleep(QUEUE_FULL_PAUSE);
            queued = self.0.send(refused);
        }
        queued.map_err(|(error, _)| error)
    }

    pub fn begin(&self) -> Result<Value, Failure> {
        self.0.begin_transaction()?;
        Ok(json!({}))
    }

    pub fn commit(&self, timeout: Duration) -> Result<Value, Failure> {
        self.0.commit_transaction(timeout)?;
        Ok(json!({}))
    }

    pub fn abort(&self, timeout: Duration) -> Result<Value, Failure> {
        self.0.abort_transaction(timeout)?;
        Ok(json!({}))
    }

    pub fn send_offsets(
        &self,
        rows: &[PartitionOffset],
        consumer: &Consumer,
        timeout: Duration,
    ) -> Result<Value, Failure> {
        self.0.send_offsets_to_transaction(&offsets::offsets(rows)?, &consumer.group_metadata()?, timeout)?;
        Ok(json!({}))
    }
}

fn left(ends: Instant) -> Duration {
    ends.saturating_duration_since(Instant::now())
}

fn to_record<'a>(topic: &'a str, record: &'a Record, report: Box<Report>) -> BaseRecord<'a, [u8], [u8], Box<Report>> {
    let mut message = BaseRecord::with_opaque_to(topic, report);
    message.key = record.key.0.as_deref();
    message.payload = record.value.0.as_deref();
    message.partition = record.partition;
    message.timestamp = record.timestamp;
    if !record.headers.is_empty() {
        let headers = OwnedHeaders::new_with_capacity(record.headers.len());
        message.headers =
            Some(record.headers.iter().fold(headers, |headers, (name, value)| {
                headers.insert(Header { key: name, value: value.0.as_deref() })
            }));
    }
    message
}

fn config(request: &OpenProducer) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &request.bootstrap);
    let texts = [
        ("client.id", request.client_id.as_ref()),
        ("acks", request.acks.as_ref()),
        ("transactional.id", request.transactional_id.as_ref()),
        ("compression.type", request.compression.as_ref()),
    ];
    for (name, value) in texts {
        value.map(|value| config.set(name, value));
    }
    let numbers = [
        ("transaction.timeout.ms", request.transaction_timeout_ms),
        ("linger.ms", request.linger_ms),
        ("batch.size", request.batch_bytes),
        ("queue.buffering.max.kbytes", request.buffer_bytes.map(|bytes| (bytes / 1024).max(1))),
        ("max.in.flight.requests.per.connection", request.max_in_flight),
        ("retries", request.retries),
        ("request.timeout.ms", request.request_timeout_ms),
        ("delivery.timeout.ms", request.delivery_timeout_ms),
        ("message.max.bytes", request.max_request_bytes),
    ];
    for (name, value) in numbers {
        value.map(|value| config.set(name, value.to_string()));
    }
    request.idempotent.map(|idempotent| config.set("enable.idempotence", idempotent.to_string()));
    if request.partitioner.as_deref() == Some("murmur2") {
        config.set("partitioner", "murmur2_random");
    }
    config
}
