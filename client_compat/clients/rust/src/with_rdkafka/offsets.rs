//! librdkafka's lists of partitions and offsets, from and to the control protocol's rows.

use rdkafka::error::KafkaResult;
use rdkafka::{Offset, TopicPartitionList};

use crate::wire::{Partition, PartitionOffset};

pub fn list(partitions: &[Partition]) -> TopicPartitionList {
    let mut list = TopicPartitionList::with_capacity(partitions.len());
    for (topic, partition) in partitions {
        list.add_partition(topic, *partition);
    }
    list
}

/// Offsets, or the timestamps that a request for offsets has in their place.
pub fn offsets(rows: &[PartitionOffset]) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::with_capacity(rows.len());
    for (topic, partition, offset) in rows {
        list.add_partition_offset(topic, *partition, Offset::Offset(*offset))?;
    }
    Ok(list)
}

/// Each partition's offset; None where there is none. The first partition that has an error fails the whole.
pub fn rows(list: &TopicPartitionList) -> KafkaResult<Vec<(String, i32, Option<i64>)>> {
    let row = |element: rdkafka::topic_partition_list::TopicPartitionListElem<'_>| {
        element.error()?;
        let offset = match element.offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        };
        Ok((element.topic().to_owned(), element.partition(), offset))
    };
    list.elements().into_iter().map(row).collect()
}
