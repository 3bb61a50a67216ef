//! The rskafka crate: pure Rust, minimal on purpose. Its unit is the partition; there are no groups, no transactions and no idempotence.

mod consumer;
mod errors;
mod producer;

use std::collections::HashMap;
use std::time::Duration;

use rskafka::client::{Client as Kafka, ClientBuilder};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::control::Client;
use crate::failure::{Failure, Fault};
use crate::requests::{self, handle_of};
use crate::wire::PartitionOffset;

#[derive(Default)]
pub struct RsKafka {
    producers: HashMap<String, producer::Producer>,
    consumers: HashMap<String, consumer::Consumer>,
    admins: HashMap<String, Kafka>,
}

impl Client for RsKafka {
    fn name(&self) -> &'static str {
        "rskafka"
    }

    fn version(&self) -> String {
        env!("RSKAFKA_VERSION").to_owned()
    }

    async fn call(&mut self, op: &str, request: Value, timeout: Duration) -> Result<Value, Failure> {
        // The crate tries for ever: the time is the request's. A poll ends by itself.
        let timeout = if op == "consumer.poll" { timeout * 2 } else { timeout };
        let outcome = tokio::time::timeout(timeout, self.perform(op, request, timeout)).await;
        outcome.unwrap_or_else(|_| Err(Fault::timeout().into()))
    }
}

impl RsKafka {
    async fn perform(&mut self, op: &str, request: Value, timeout: Duration) -> Result<Value, Failure> {
        match op.split_once('.') {
            Some(("producer", verb)) => self.produce(verb, request).await,
            Some(("consumer", verb)) => self.consume(verb, request).await,
            Some(("admin", verb)) => self.administer(verb, request, timeout).await,
            _ => Failure::unsupported(format!("no operation {op}")),
        }
    }

    async fn produce(&mut self, verb: &str, request: Value) -> Result<Value, Failure> {
        let handle = handle_of(&request);
        match verb {
            "open" => {
                let opened = producer::Producer::open(parse(request)?).await?;
                self.producers.insert(handle, opened);
                Ok(json!({}))
            }
            "send" => found(&mut self.producers, &handle)?.send(parse(request)?).await,
            "close" => {
                drop(self.producers.remove(&handle));
                Ok(json!({}))
            }
            _ => Failure::unsupported("rskafka has no transactions"),
        }
    }

    async fn consume(&mut self, verb: &str, request: Value) -> Result<Value, Failure> {
        let handle = handle_of(&request);
        match verb {
            "open" => {
                let opened = consumer::Consumer::open(parse(request)?).await?;
                self.consumers.insert(handle, opened);
                return Ok(json!({}));
            }
            "close" => {
                drop(self.consumers.remove(&handle));
                return Ok(json!({}));
            }
            _ => (),
        }
        let consumer = found(&mut self.consumers, &handle)?;
        match verb {
            "assign" => consumer.assign(parse(request)?).await,
            "poll" => consumer.poll(&parse(request)?).await,
            "assignment" => Ok(consumer.assignment()),
            "seek" => consumer.seek(&parse(request)?),
            "end_offsets" => consumer.edges(&parse(request)?, rskafka::client::partition::OffsetAt::Latest).await,
            "beginning_offsets" => {
                consumer.edges(&parse(request)?, rskafka::client::partition::OffsetAt::Earliest).await
            }
            "offsets_for_times" => consumer.offsets_for_times(&parse(request)?).await,
            "pause" => Ok(consumer.pause(&parse(request)?)),
            "resume" => Ok(consumer.resume(&parse(request)?)),
            "position" => Failure::unsupported("rskafka's stream does not tell its position"),
            _ => Failure::unsupported("rskafka has no consumer groups"),
        }
    }

    async fn administer(&mut self, verb: &str, request: Value, timeout: Duration) -> Result<Value, Failure> {
        let requests::Admin { bootstrap } = parse(request.clone())?;
        if !self.admins.contains_key(&bootstrap) {
            self.admins.insert(bootstrap.clone(), connect(&bootstrap, None).await?);
        }
        let admin = found(&mut self.admins, &bootstrap)?;
        match verb {
            "create_topics" => create_topics(admin, parse(request)?, timeout).await,
            "delete_topics" => delete_topics(admin, parse(request)?, timeout).await,
            "list_topics" => {
                let names: Vec<_> = admin.list_topics().await?.into_iter().map(|topic| topic.name).collect();
                Ok(json!({"topics": names}))
            }
            "delete_records" => delete_records(admin, parse(request)?, timeout).await,
            _ => Failure::unsupported(
                "rskafka administers topics only: it creates, deletes and lists them and deletes records",
            ),
        }
    }
}

async fn create_topics(admin: &Kafka, request: requests::CreateTopics, timeout: Duration) -> Result<Value, Failure> {
    if request.topics.iter().any(|topic| !topic.configs.is_empty()) {
        return Failure::unsupported("rskafka creates topics without settings");
    }
    let controller = admin.controller_client()?;
    let mut results = Map::new();
    for topic in request.topics {
        let replication = i16::try_from(topic.replication.unwrap_or(1)).unwrap_or(i16::MAX);
        let created = controller.create_topic(&topic.name, topic.partitions, replication, millis(timeout)).await;
        results.insert(topic.name, json!(created.err().map(|error| errors::fault(&error))));
    }
    Ok(json!({"results": results}))
}

async fn delete_topics(admin: &Kafka, request: requests::DeleteTopics, timeout: Duration) -> Result<Value, Failure> {
    let controller = admin.controller_client()?;
    let mut results = Map::new();
    for topic in request.topics {
        let deleted = controller.delete_topic(&topic, millis(timeout)).await;
        results.insert(topic, json!(deleted.err().map(|error| errors::fault(&error))));
    }
    Ok(json!({"results": results}))
}

/// The crate does not pass on the new low watermarks: they are asked for afterwards.
async fn delete_records(admin: &Kafka, request: requests::DeleteRecords, timeout: Duration) -> Result<Value, Failure> {
    use rskafka::client::partition::{OffsetAt, UnknownTopicHandling};
    let mut low: Vec<PartitionOffset> = Vec::new();
    for (topic, partition, before) in request.offsets {
        let client = admin.partition_client(&topic, partition, UnknownTopicHandling::Error).await?;
        client.delete_records(before, millis(timeout)).await?;
        low.push((topic, partition, client.get_offset(OffsetAt::Earliest).await?));
    }
    Ok(json!({"low": low}))
}

async fn connect(bootstrap: &str, client_id: Option<String>) -> Result<Kafka, Failure> {
    let builder = ClientBuilder::new(bootstrap.split(',').map(str::to_owned).collect());
    Ok(match client_id {
        Some(id) => builder.client_id(id).build().await?,
        None => builder.build().await?,
    })
}

fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

fn parse<T: DeserializeOwned>(request: Value) -> Result<T, Failure> {
    Ok(serde_json::from_value(request)?)
}

fn found<'a, T>(objects: &'a mut HashMap<String, T>, name: &str) -> Result<&'a mut T, Failure> {
    let missing = || Fault::new("CLIENT:BAD_REQUEST", format!("no such handle: {name}"));
    Ok(objects.get_mut(name).ok_or_else(missing)?)
}
