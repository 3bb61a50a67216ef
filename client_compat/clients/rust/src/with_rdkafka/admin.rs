//! The crate's admin client, and a consumer of no group for what librdkafka asks through consumers.

use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, ConfigEntry, ConfigSource, NewPartitions, NewTopic, ResourceSpecifier,
    TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
use rdkafka::metadata::MetadataTopic;
use rdkafka::types::{RDKafkaErrorCode, RDKafkaRespErr};
use serde_json::{Map, Value, json};

use super::errors::code_fault;
use super::offsets;
use crate::failure::{Failure, Fault};
use crate::requests::{
    AlterGroupOffsets, Configs, CreatePartitions, CreateTopics, DeleteGroups, DeleteRecords, DeleteTopics, ListOffsets,
    OfGroup, OfTopic, Place,
};

pub struct Admin {
    bootstrap: String,
    admin: AdminClient<DefaultClientContext>,
    consumer: BaseConsumer,
}

/// What the crate answers for each of several things: its name, or its name and error.
type Results = Vec<Result<String, (String, RDKafkaErrorCode)>>;

impl Admin {
    pub fn open(bootstrap: &str) -> Result<Self, Failure> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", bootstrap);
        Ok(Self { bootstrap: bootstrap.to_owned(), admin: config.create()?, consumer: config.create()? })
    }

    pub async fn create_topics(&self, request: &CreateTopics, timeout: Duration) -> Result<Value, Failure> {
        let topics: Vec<NewTopic<'_>> = request
            .topics
            .iter()
            .map(|topic| {
                let replication = TopicReplication::Fixed(topic.replication.unwrap_or(1));
                let new = NewTopic::new(&topic.name, topic.partitions, replication);
                topic.configs.iter().fold(new, |new, (key, value)| new.set(key, value))
            })
            .collect();
        Ok(by_name(self.admin.create_topics(&topics, &options(timeout)).await?))
    }

    pub async fn delete_topics(&self, request: &DeleteTopics, timeout: Duration) -> Result<Value, Failure> {
        let names: Vec<&str> = request.topics.iter().map(String::as_str).collect();
        Ok(by_name(self.admin.delete_topics(&names, &options(timeout)).await?))
    }

    pub fn list_topics(&self, timeout: Duration) -> Result<Value, Failure> {
        let metadata = self.consumer.fetch_metadata(None, timeout)?;
        let names = metadata.topics().iter().map(MetadataTopic::name).filter(|name| !name.starts_with("__"));
        Ok(json!({"topics": names.collect::<Vec<_>>()}))
    }

    pub fn describe_topic(&self, request: &OfTopic, timeout: Duration) -> Result<Value, Failure> {
        let metadata = self.consumer.fetch_metadata(Some(&request.topic), timeout)?;
        let topic =
            metadata.topics().first().ok_or_else(|| Fault::new("CLIENT:NO_TOPIC", "the answer has no topic"))?;
        if let Some(error) = topic.error() {
            return Err(response_fault(error).into());
        }
        let rows = topic.partitions().iter().map(|partition| {
            json!({
                "partition": partition.id(),
                "leader": partition.leader(),
                "replicas": partition.replicas(),
                "isr": partition.isr(),
            })
        });
        Ok(json!({"partitions": rows.collect::<Vec<_>>()}))
    }

    pub async fn create_partitions(&self, request: &CreatePartitions, timeout: Duration) -> Result<Value, Failure> {
        let wanted = [NewPartitions::new(&request.topic, request.count)];
        let results = self.admin.create_partitions(&wanted, &options(timeout)).await?;
        match results.into_iter().next() {
            Some(Err((topic, code))) => Err(code_fault(code, topic).into()),
            _ => Ok(json!({})),
        }
    }

    pub async fn describe_configs(&self, request: &Configs, timeout: Duration) -> Result<Value, Failure> {
        let entries = self.config_entries(request, timeout).await?;
        let configs: Map<String, Value> = entries.into_iter().map(|entry| (entry.name, json!(entry.value))).collect();
        Ok(json!({"configs": configs}))
    }

    /// The crate has `AlterConfigs` only, which replaces all of a resource's settings: so those that are set already are read and sent again,
    /// as its users have to.
    pub async fn alter_configs(&self, request: &Configs, timeout: Duration) -> Result<Value, Failure> {
        let entries = self.config_entries(request, timeout).await?;
        let kept = entries.iter().filter(|entry| {
            matches!(entry.source, ConfigSource::DynamicTopic | ConfigSource::DynamicBroker)
                && !request.delete.contains(&entry.name)
        });
        let mut altered = AlterConfig::new(specifier(request)?);
        for entry in kept {
            altered = altered.set(&entry.name, entry.value.as_deref().unwrap_or_default());
        }
        for (name, value) in &request.set {
            altered = altered.set(name, value);
        }
        let results = self.admin.alter_configs([&altered], &options(timeout)).await?;
        match results.into_iter().next() {
            Some(Err((_, code))) => Err(code_fault(code, request.name.as_str()).into()),
            _ => Ok(json!({})),
        }
    }

    async fn config_entries(&self, request: &Configs, timeout: Duration) -> Result<Vec<ConfigEntry>, Failure> {
        let described = self.admin.describe_configs([&specifier(request)?], &options(timeout)).await?;
        match described.into_iter().next() {
            Some(Ok(resource)) => Ok(resource.entries),
            Some(Err(code)) => Err(code_fault(code, request.name.as_str()).into()),
            None => Ok(Vec::new()),
        }
    }

    pub async fn delete_records(&self, request: &DeleteRecords, timeout: Duration) -> Result<Value, Failure> {
        let before = offsets::offsets(&request.offsets)?;
        let low = self.admin.delete_records(&before, &options(timeout)).await?;
        Ok(json!({"low": offsets::rows(&low)?}))
    }

    pub fn list_offsets(&self, request: &ListOffsets, timeout: Duration) -> Result<Value, Failure> {
        let mut rows = Vec::new();
        for (topic, partition, place) in &request.offsets {
            let offset = match place {
                Place::Number(timestamp) => {
                    let times = offsets::offsets(&[(topic.clone(), *partition, *timestamp)])?;
                    offsets::rows(&self.consumer.offsets_for_times(times, timeout)?)?[0].2.unwrap_or(-1)
                }
                Place::Name(name) if name == "earliest" => {
                    self.consumer.fetch_watermarks(topic, *partition, timeout)?.0
                }
                Place::Name(name) if name == "latest" => self.consumer.fetch_watermarks(topic, *partition, timeout)?.1,
                Place::Name(name) => {
                    return Failure::unsupported(format!("the rdkafka crate lists no offsets by {name}"));
                }
            };
            rows.push((topic, partition, offset));
        }
        Ok(json!({"offsets": rows}))
    }

    /// Of classic groups: librdkafka's old call is what the crate has.
    pub fn list_groups(&self, timeout: Duration) -> Result<Value, Failure> {
        let groups = self.consumer.fetch_group_list(None, timeout)?;
        let rows = groups.groups().iter().map(|group| json!([group.name(), null, group.state()]));
        Ok(json!({"groups": rows.collect::<Vec<_>>()}))
    }

    pub fn describe_group(&self, request: &OfGroup, timeout: Duration) -> Result<Value, Failure> {
        let groups = self.consumer.fetch_group_list(Some(&request.group), timeout)?;
        let Some(group) = groups.groups().first() else {
            return Err(Fault::new("GROUP_ID_NOT_FOUND", request.group.as_str()).into());
        };
        let members = group.members().iter().map(|member| json!({"id": member.id(), "client_id": member.client_id()}));
        Ok(json!({"state": group.state(), "assignor": group.protocol(), "members": members.collect::<Vec<_>>()}))
    }

    /// The crate has no request for a group's offsets: a consumer that names the group asks about every partition.
    pub fn group_offsets(&self, request: &OfGroup, timeout: Duration) -> Result<Value, Failure> {
        let metadata = self.consumer.fetch_metadata(None, timeout)?;
        let mut partitions = TopicPartitionList::new();
        for topic in metadata.topics() {
            for partition in topic.partitions() {
                partitions.add_partition(topic.name(), partition.id());
            }
        }
        let committed = self.member_of(&request.group)?.committed_offsets(partitions, timeout)?;
        let known: Vec<_> = offsets::rows(&committed)?.into_iter().filter(|(_, _, offset)| offset.is_some()).collect();
        Ok(json!({"offsets": known}))
    }

    /// A consumer that names the group, and never joined it, commits.
    pub fn alter_group_offsets(&self, request: &AlterGroupOffsets) -> Result<Value, Failure> {
        self.member_of(&request.group)?.commit(&offsets::offsets(&request.offsets)?, CommitMode::Sync)?;
        Ok(json!({}))
    }

    fn member_of(&self, group: &str) -> Result<BaseConsumer, Failure> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap).set("group.id", group).set("enable.auto.commit", "false");
        Ok(config.create()?)
    }

    pub async fn delete_groups(&self, request: &DeleteGroups, timeout: Duration) -> Result<Value, Failure> {
        let names: Vec<&str> = request.groups.iter().map(String::as_str).collect();
        Ok(by_name(self.admin.delete_groups(&names, &options(timeout)).await?))
    }

    /// librdkafka knows the controller; the crate does not tell it.
    pub fn describe_cluster(&self, timeout: Duration) -> Result<Value, Failure> {
        let metadata = self.consumer.fetch_metadata(None, timeout)?;
        let nodes = metadata.brokers().iter().map(|broker| json!([broker.id(), broker.host(), broker.port()]));
        let nodes: Vec<_> = nodes.collect();
        Ok(json!({"cluster_id": self.consumer.client().fetch_cluster_id(timeout), "controller": null, "nodes": nodes}))
    }
}

fn options(timeout: Duration) -> AdminOptions {
    AdminOptions::new().request_timeout(Some(timeout)).operation_timeout(Some(timeout))
}

fn by_name(results: Results) -> Value {
    let rows: Map<String, Value> = results
        .into_iter()
        .map(|result| match result {
            Ok(name) => (name, Value::Null),
            Err((name, code)) => (name.clone(), json!(code_fault(code, name))),
        })
        .collect();
    json!({"results": rows})
}

fn specifier(request: &Configs) -> Result<ResourceSpecifier<'_>, Failure> {
    if request.resource == "topic" {
        return Ok(ResourceSpecifier::Topic(&request.name));
    }
    let broker = request.name.parse().map_err(|_| Fault::new("CLIENT:BAD_REQUEST", "a broker's name is its number"))?;
    Ok(ResourceSpecifier::Broker(broker))
}

fn response_fault(error: RDKafkaRespErr) -> Fault {
    code_fault(error.into(), "the topic's metadata")
}
