//! The rdkafka crate: librdkafka behind a safe interface, built from the source that the crate brings along.
//!
//! Its calls block, each for as long as it is told; nothing else waits in this program while one does.

mod admin;
mod consumer;
mod errors;
mod offsets;
mod producer;

use std::collections::HashMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::control::Client;
use crate::failure::{Failure, Fault};
use crate::requests::{self, handle_of};

#[derive(Default)]
pub struct RdKafka {
    producers: HashMap<String, producer::Producer>,
    consumers: HashMap<String, consumer::Consumer>,
    admins: HashMap<String, admin::Admin>,
}

impl Client for RdKafka {
    fn name(&self) -> &'static str {
        "rdkafka"
    }

    fn version(&self) -> String {
        let (_, librdkafka) = rdkafka::util::get_rdkafka_version();
        format!("{} (librdkafka {librdkafka})", env!("RDKAFKA_VERSION"))
    }

    async fn call(&mut self, op: &str, request: Value, timeout: Duration) -> Result<Value, Failure> {
        match op.split_once('.') {
            Some(("producer", verb)) => self.produce(verb, request, timeout),
            Some(("consumer", verb)) => self.consume(verb, request, timeout),
            Some(("admin", verb)) => self.administer(verb, request, timeout).await,
            _ => Failure::unsupported(format!("no operation {op}")),
        }
    }
}

impl RdKafka {
    fn produce(&mut self, verb: &str, request: Value, timeout: Duration) -> Result<Value, Failure> {
        let handle = handle_of(&request);
        match verb {
            "open" => {
                let opened = producer::Producer::open(&parse(request)?, timeout)?;
                self.producers.insert(handle, opened);
                return Ok(json!({}));
            }
            "close" => {
                drop(self.producers.remove(&handle));
                return Ok(json!({}));
            }
            _ => (),
        }
        let producer = found(&self.producers, &handle)?;
        match verb {
            "send" => producer.send(&parse(request)?, timeout),
            "begin" => producer.begin(),
            "commit" => producer.commit(timeout),
            "abort" => producer.abort(timeout),
            "send_offsets" => {
                let request: requests::SendOffsets = parse(request)?;
                producer.send_offsets(&request.offsets, found(&self.consumers, &request.consumer)?, timeout)
            }
            _ => Failure::unsupported(format!("no operation producer.{verb}")),
        }
    }

    fn consume(&mut self, verb: &str, request: Value, timeout: Duration) -> Result<Value, Failure> {
        let handle = handle_of(&request);
        match verb {
            "open" => {
                self.consumers.insert(handle, consumer::Consumer::open(&parse(request)?)?);
                return Ok(json!({}));
            }
            "close" => {
                drop(self.consumers.remove(&handle));
                return Ok(json!({}));
            }
            _ => (),
        }
        let consumer = self.consumers.get_mut(&handle).ok_or_else(|| no_handle(&handle))?;
        match verb {
            "subscribe" => consumer.subscribe(&parse(request)?),
            "assign" => consumer.assign(&parse(request)?),
            "poll" => consumer.poll(&parse(request)?),
            "assignment" => consumer.assignment(),
            "commit" => consumer.commit(&parse(request)?),
            "committed" => consumer.committed(&parse(request)?, timeout),
            "position" => consumer.position(&parse(request)?),
            "seek" => consumer.seek(&parse(request)?, timeout),
            "offsets_for_times" => consumer.offsets_for_times(&parse(request)?, timeout),
            "end_offsets" => consumer.end_offsets(&parse(request)?, timeout),
            "beginning_offsets" => consumer.beginning_offsets(&parse(request)?, timeout),
            "pause" => consumer.pause(&parse(request)?),
            "resume" => consumer.resume(&parse(request)?),
            _ => Failure::unsupported(format!("no operation consumer.{verb}")),
        }
    }

    async fn administer(&mut self, verb: &str, request: Value, timeout: Duration) -> Result<Value, Failure> {
        let requests::Admin { bootstrap } = parse(request.clone())?;
        if !self.admins.contains_key(&bootstrap) {
            self.admins.insert(bootstrap.clone(), admin::Admin::open(&bootstrap)?);
        }
        let admin = found(&self.admins, &bootstrap)?;
        match verb {
            "create_topics" => admin.create_topics(&parse(request)?, timeout).await,
            "delete_topics" => admin.delete_topics(&parse(request)?, timeout).await,
            "list_topics" => admin.list_topics(timeout),
            "describe_topic" => admin.describe_topic(&parse(request)?, timeout),
            "create_partitions" => admin.create_partitions(&parse(request)?, timeout).await,
            "describe_configs" => admin.describe_configs(&parse(request)?, timeout).await,
            "alter_configs" => admin.alter_configs(&parse(request)?, timeout).await,
            "delete_records" => admin.delete_records(&parse(request)?, timeout).await,
            "list_offsets" => admin.list_offsets(&parse(request)?, timeout),
            "list_groups" => admin.list_groups(timeout),
            "describe_group" => admin.describe_group(&parse(request)?, timeout),
            "group_offsets" => admin.group_offsets(&parse(request)?, timeout),
            "alter_group_offsets" => admin.alter_group_offsets(&parse(request)?),
            "delete_groups" => admin.delete_groups(&parse(request)?, timeout).await,
            "describe_cluster" => admin.describe_cluster(timeout),
            _ => Failure::unsupported(
                "the rdkafka crate's admin client has no requests about producers and transactions",
            ),
        }
    }
}

fn parse<T: DeserializeOwned>(request: Value) -> Result<T, Failure> {
    Ok(serde_json::from_value(request)?)
}

fn found<'a, T>(objects: &'a HashMap<String, T>, name: &str) -> Result<&'a T, Failure> {
    objects.get(name).ok_or_else(|| no_handle(name))
}

fn no_handle(name: &str) -> Failure {
    Fault::new("CLIENT:BAD_REQUEST", format!("no such handle: {name}")).into()
}
